package limitertest

import (
	"context"
	"errors"
	"time"
)

func deadlineCases() []testCase {
	return []testCase{
		{
			name: "deadline/before the predicted wait", needs: Prediction, run: deadlineTooEarly,
			why: "a caller with a second to live is to hear at once that it takes a minute, not after that second",
		},
		{
			name: "deadline/counting the queue ahead", needs: Prediction, one: true, run: deadlineBehindOthers,
			why: "the wait is not the window alone: those ahead use up windows of their own",
		},
		{
			name: "deadline/after the wait", run: deadlineLateEnough,
			why: "a limiter that refuses what could have been sent loses requests",
		},
		{
			name: "deadline/of a wait that nobody can predict", run: deadlineOfFollower,
			why: "a context's end ends the wait, whatever is waited for",
		},
		{
			name: "max wait/zero", needs: Prediction, run: maxWaitZero,
			why: "who must not wait is to get a permission at once or an error at once",
		},
		{
			name: "max wait/shorter than the wait", needs: Prediction, run: maxWaitTooShort,
			why: "an error now is worth more than one after the wait",
		},
		{
			name: "max wait/a hold makes it too long", needs: Prediction, run: strandedBySecondThoughts,
			why: "a head that is refused must not take the one behind it along",
		},
		{
			name: "max wait/of the limiter", needs: Prediction, run: maxWaitOfLimiter,
			why: "the bound is for those who set none of their own",
		},
	}
}

// refusedAtOnce expects that the call failed at once with a *ratelimits.TooLongError. deadline says whether that must
// match context.DeadlineExceeded.
func (t *trial) refusedAtOnce(c *call, deadline bool) {
	t.reporter.Helper()
	done, at, err := c.state()
	t.expect(done && err != nil, "it was expected to be refused at once, but %s", c)
	t.expect(at.Sub(c.began) <= t.late(0), "it was expected to be refused at once, but was after %v", at.Sub(c.began))
	t.expect(isTooLong(err), "a *ratelimits.TooLongError was expected, but the error is: %v", err)
	t.expect(errors.Is(err, context.DeadlineExceeded) == deadline,
		"errors.Is(err, context.DeadlineExceeded) was expected to be %v for: %v", deadline, err)
}

func deadlineTooEarly(t *trial) {
	t.tell(message(1), ok("messages", 5, 0, 20*time.Second))
	ctx, cancel := context.WithTimeout(t.ctx, 3*time.Second)
	defer cancel()
	t.refusedAtOnce(t.call(ctx, request(message(1))), true)
}

func deadlineBehindOthers(t *trial) {
	t.tell(message(1), ok("messages", 1, 0, 10*time.Second))
	ahead := t.asks(3, message(1))
	ctx, cancel := context.WithTimeout(t.ctx, 25*time.Second) // the fourth would go in the fourth window, after 30 s
	defer cancel()
	t.refusedAtOnce(t.call(ctx, request(message(1))), true)
	t.expect(count(ahead) == 0 && ahead[0].waiting() && ahead[2].waiting(), "those ahead were expected to go on waiting, but %s", ahead[0])
}

func deadlineLateEnough(t *trial) {
	answered := t.tell(message(1), ok("messages", 5, 0, time.Second))
	ctx, cancel := context.WithTimeout(t.ctx, 10*time.Second)
	defer cancel()
	t.grantedAfter(t.call(ctx, request(message(1))), answered, time.Second, "a request with a deadline after the wait")
}

func deadlineOfFollower(t *trial) {
	probe := t.must(message(1), "it is the first")
	ctx, cancel := context.WithTimeout(t.ctx, time.Second)
	defer cancel()
	c, patient := t.call(ctx, request(message(1))), t.ask(message(1))
	if c.granted() { // a limiter without a discovery rule has nothing to wait for
		return
	}
	t.wait(time.Second + t.late(1))
	_, at, err := c.state()
	t.expect(errors.Is(err, context.DeadlineExceeded), "context.DeadlineExceeded was expected after 1s, but %s", c)
	t.expect(at.Sub(c.began) <= time.Second+t.late(1), "the end was expected after 1s, but came after %v", at.Sub(c.began))
	probe.update(t, ok("messages", 5, 4, time.Second))
	t.expect(patient.granted(), "the one behind was expected to go when the first was answered, but %s", patient)
}

func maxWaitZero(t *trial) {
	none := t.withMaxWait(0)
	t.tell(message(1), ok("messages", 2, 1, time.Second))
	last := t.call(none, request(message(1)))
	t.expect(last.granted(), "one of two is left, so a grant was expected at once, but %s", last)
	t.refusedAtOnce(t.call(none, request(message(1))), false)
	last.update(t, ok("messages", 2, 0, time.Second))
	t.refusedAtOnce(t.call(none, request(message(1))), false)
	t.wait(time.Second + t.late(1))
	c := t.call(none, request(message(1)))
	t.expect(c.granted(), "the window is over, so a grant was expected at once, but %s", c)
}

func maxWaitTooShort(t *trial) {
	answered := t.tell(message(1), ok("messages", 2, 0, 2*time.Second))
	t.refusedAtOnce(t.call(t.withMaxWait(time.Second), request(message(1))), false)
	c := t.call(t.withMaxWait(3*time.Second), request(message(1)))
	t.grantedAfter(c, answered, 2*time.Second, "a request that may wait for longer")
}

func strandedBySecondThoughts(t *trial) {
	t.tell(message(1), ok("messages", 2, 1, time.Second))
	last := t.must(message(1), "one of two is left")
	head := t.call(t.withMaxWait(1500*time.Millisecond), request(message(1)))
	second := t.ask(message(1))
	t.expect(head.waiting(), "the head was expected to wait, but %s", head)
	t.wait(10 * time.Millisecond)
	refused := last.update(t, refusedBy("user", "messages", 2, 0, 4*time.Second))
	t.wait(1500*time.Millisecond + t.late(1))
	_, _, err := head.state()
	t.expect(err != nil, "the head was expected to be refused, as it may wait for 1.5s and the hold is 4s, but %s", head)
	t.expect(isTooLong(err), "a *ratelimits.TooLongError was expected, but the error is: %v", err)
	t.grantedAfter(second, refused, 4*time.Second, "the one behind the refused head")
}

func maxWaitOfLimiter(t *trial) {
	if t.maxWait == 0 {
		t.reporter.Skipf("the limiter has no bound for waits of its own")
	}
	t.tell(message(1), ok("messages", 5, 0, t.maxWait+time.Second))
	t.refusedAtOnce(t.ask(message(1)), false)
	t.tell(message(2), ok("messages", 5, 0, t.maxWait-time.Second))
	c := t.ask(message(2))
	t.expect(c.waiting(), "what takes less than the bound was expected to wait, but %s", c)
	c = t.call(t.withMaxWait(t.maxWait+time.Minute), request(message(1)))
	t.expect(c.waiting(), "the context's bound was expected to come before the limiter's, but %s", c)
}
