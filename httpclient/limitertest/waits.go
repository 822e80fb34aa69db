package limitertest

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/ratelight/ratelight/internal/discordsim"
	"github.com/ratelight/ratelight/ratelimits"
)

// gate is a limit or a hold for which requests can wait. After prepare, further messages in channel 1, which have a
// limit of five per second, wait at the gate.
type gate struct {
	name    string
	needs   []Promise
	fields  []string
	prepare func(w *world)
}

var gates = []gate{
	{name: "unknown route", prepare: func(w *world) {
		w.setTrip(time.Second)
		w.sends(1, message(1))
		w.setTrip(20 * time.Millisecond)
	}},
	{name: "used up window", prepare: func(w *world) {
		w.sends(5, message(1))
		w.wait(200 * time.Millisecond)
	}},
	{name: "everything in flight", prepare: func(w *world) {
		w.sends(1, message(1))
		w.wait(1200 * time.Millisecond)
		w.setTrip(300 * time.Millisecond)
		w.sends(1, message(1))
		w.wait(200 * time.Millisecond)
		w.sends(9, message(1))
		w.setTrip(20 * time.Millisecond)
	}},
	{name: "refused bucket", prepare: func(w *world) { w.refuse(discordsim.ClassUser) }},
	{name: "refused resource", prepare: func(w *world) { w.refuse(discordsim.ClassShared) }},
	{
		name: "refused fields", needs: []Promise{SubLimits}, fields: []string{"content"},
		prepare: func(w *world) { w.refuse(discordsim.ClassSubLimit) },
	},
	{name: "refused credential", needs: []Promise{OneMind}, prepare: func(w *world) { w.refuse(discordsim.ClassGlobal) }},
	{name: "refused address", needs: []Promise{Edge}, prepare: func(w *world) { w.refuse(discordsim.ClassEdge) }},
	{name: "global limit", prepare: func(w *world) {
		w.needsGlobal()
		w.sends(1, history(1))
		w.sends(1, message(1))
		w.wait(1200 * time.Millisecond)
		var all []*call
		// Each request has its own bucket, for limiters that send one request at a time in a bucket.
		for channel := range w.settings.global {
			all = append(all, w.post(request(history(1+channel))))
		}
		w.settle()
		if count(all) < len(all) {
			w.reporter.Skipf("the limiter does not send as many requests at once as its global limit allows")
		}
	}},
}

// needsGlobal skips the case if the limiter has no global limit.
func (t *trial) needsGlobal() {
	if t.settings.global == 0 {
		t.reporter.Skipf("the limiter has no global limit")
	}
}

// refuse sends one message, so that the limiter knows the route, and then another one that gets a 429 and waits to be
// sent again.
func (w *world) refuse(class discordsim.Class) {
	w.sends(1, message(1))
	w.wait(50 * time.Millisecond)
	w.script(discordsim.Fault{
		Nth: []int{w.tally().arrived + 1}, Refuse: &discordsim.Refusal{Class: class, Wait: 800 * time.Millisecond},
	})
	w.send(withFields(message(1), "content"))
	w.wait(50 * time.Millisecond)
}

// leavers lists which of five waiting requests are cancelled.
var leavers = []struct {
	name string
	who  []int
}{{"first", []int{0}}, {"two in the middle", []int{1, 2}}, {"last", []int{4}}, {"all", []int{0, 1, 2, 3, 4}}}

func (s *suite) cancelling() {
	for _, g := range gates {
		for _, l := range leavers {
			s.add("cancel/"+g.name+"/"+l.name, "a cancelled request gives back all that it took, and wakes the next one",
				func(t *trial) { leave(t, g, l.who) }, g.needs...)
		}
	}
	const lost = "a grant to a cancelled request has to be given back; otherwise the bucket loses a place each time"
	s.add("cancel/while the window opens", lost, func(t *trial) {
		w := limited(t, discordsim.Fixed(5, time.Second))
		for round := range w.rounds(40, 4) {
			w.sends(5, message(1))
			opens := time.Now().Add(time.Second)
			w.wait(100 * time.Millisecond)
			head := w.send(request(message(1)))
			rest := w.sends(4, message(1))
			time.AfterFunc(time.Until(opens)+time.Duration(round)*time.Millisecond, head.cancel)
			w.finish(20 * time.Second)
			w.acceptedAll(rest, "the requests behind the cancelled one")
			w.wait(1500 * time.Millisecond)
		}
		w.refusedNone()
		w.fullRate()
	})
	s.add("cancel/while a place is given back", lost, func(t *trial) {
		for range t.rounds(50, 5) {
			last := lastOfTwo(t)
			waiting := t.waiter(message(1), "it is behind the last")
			t.background(waiting.cancel)
			t.background(last.held().Return)
			t.settle()
			t.expect(!waiting.waiting(), "the cancelled request was expected to end, but it waits")
			waiting.giveBack(t)
			next := t.must(message(1), "one of two is left, because nothing was sent")
			t.expectWait(request(message(1)), true, "a second one, because one of two is left,")
			next.giveBack(t)
			t.wait(4 * time.Second)
		}
	})
	s.add("cancel/while in flight",
		"a caller that gets no response ends its lease with Release, and the other requests are still sent", func(t *trial) {
			w := limited(t, discordsim.Fixed(5, time.Second))
			odd := func(c discordsim.Call) bool { return c.N%2 == 1 }
			w.script(discordsim.Fault{When: odd, Connection: discordsim.ConnectionLostAfter})
			w.sends(12, message(1))
			w.finish(30 * time.Second)
			w.allGranted()
			w.refusedNone()
			w.script()
			w.fullRate()
		})
}

// allGranted expects that all requests were granted, whatever their responses.
func (w *world) allGranted() {
	w.reporter.Helper()
	for i, c := range w.sent {
		o := c.now()
		w.expect(o.done && o.err == nil, "number %d was expected to be granted, but its error is %v", i+1, o.err)
	}
}

func leave(t *trial, g gate, leaving []int) {
	w := limited(t, discordsim.Fixed(5, time.Second))
	g.prepare(w)
	var waiting, staying []*call
	for range 5 {
		waiting = append(waiting, w.send(withFields(message(1), g.fields...)))
	}
	t.expectGrants(0, waiting, g.name)
	for _, i := range leaving {
		waiting[i].cancel()
	}
	w.settle()
	for i, c := range waiting {
		if !slices.Contains(leaving, i) {
			staying = append(staying, c)
			continue
		}
		o := c.now()
		w.expect(o.done && errors.Is(o.err, context.Canceled),
			"number %d was expected to end with context.Canceled at once, but it has ended: %v, error: %v", i+1, o.done, o.err)
	}
	w.delivered(20*time.Second, staying, "all that were not cancelled")
	w.inOrder(staying)
	w.fullRate()
}

// rejected expects that a call fails at once with a *ratelimits.TooLongError. If deadline is true, the error must match
// context.DeadlineExceeded; if not, it must not.
func (t *trial) rejected(c *call, deadline bool) {
	t.reporter.Helper()
	o := c.now()
	t.expect(o.done && o.err != nil, "it was expected to be rejected at once, but %s", c)
	after := o.at.Sub(c.began)
	t.expect(after <= t.late(0), "it was expected to be rejected at once, but was rejected after %v", after)
	t.expect(isTooLong(o.err), "a *ratelimits.TooLongError was expected, but the error is: %v", o.err)
	t.expect(errors.Is(o.err, context.DeadlineExceeded) == deadline,
		"errors.Is(err, context.DeadlineExceeded) was expected to be %v for: %v", deadline, o.err)
}

// withDeadline acquires a message with a deadline after d.
func (t *trial) withDeadline(d time.Duration) *call {
	ctx, cancel := context.WithTimeout(t.ctx, d)
	c := t.call(ctx, request(message(1)))
	context.AfterFunc(t.ctx, cancel)
	return c
}

func (s *suite) deadlines() {
	s.add("deadline/before the predicted wait",
		"a caller whose deadline is too early is to learn that at once, not at the deadline", func(t *trial) {
			t.tell(message(1), ok("messages", 5, 0, 20*time.Second))
			t.rejected(t.withDeadline(3*time.Second), true)
		}, Prediction)
	s.add("deadline/counting the queue ahead",
		"the wait is longer than the current window, because the requests ahead use up windows, too", func(t *trial) {
			t.tell(message(1), ok("messages", 1, 0, 10*time.Second))
			ahead := t.asks(3, message(1))
			t.rejected(t.withDeadline(25*time.Second), true) // the fourth would be sent in the fourth window, after 30 s
			for _, c := range ahead {
				t.expect(c.waiting(), "the requests ahead were expected to go on waiting, but %s", c)
			}
		}, Prediction, OneMind)
	s.add("deadline/after the wait", "a limiter must not reject a request that can be sent in time", func(t *trial) {
		answered := t.tell(message(1), ok("messages", 5, 0, time.Second))
		t.grantedAfter(t.withDeadline(10*time.Second), answered, time.Second, "a request with a deadline after the wait")
	})
	s.add("deadline/of a wait that nobody can predict",
		"the end of its context ends a wait, whatever the request waits for", func(t *trial) {
			probe := t.must(message(1), "it is the first")
			c, patient := t.withDeadline(time.Second), t.ask(message(1))
			if c.granted() { // without Discovery, no request waits
				return
			}
			t.wait(time.Second + t.late(1))
			o := c.now()
			t.expect(errors.Is(o.err, context.DeadlineExceeded), "context.DeadlineExceeded was expected after 1s, but %s", c)
			took := o.at.Sub(c.began)
			t.expect(took <= time.Second+t.late(1), "the end was expected after 1s, but came after %v", took)
			probe.update(t, ok("messages", 5, 4, time.Second))
			t.expect(t.soon(patient.granted), "the last request was expected to be granted after the response, but %s", patient)
		})
	s.add("max wait/zero", "a request with a max wait of 0 gets a grant or an error at once", func(t *trial) {
		none := t.withMaxWait(0)
		t.tell(message(1), ok("messages", 2, 1, time.Second))
		last := t.call(none, request(message(1)))
		t.expect(last.granted(), "one of two is left, so a grant was expected at once, but %s", last)
		t.rejected(t.call(none, request(message(1))), false)
		last.update(t, ok("messages", 2, 0, time.Second))
		t.rejected(t.call(none, request(message(1))), false)
		t.wait(time.Second + t.late(1))
		c := t.call(none, request(message(1)))
		t.expect(c.granted(), "the window is over, so a grant was expected at once, but %s", c)
	}, Prediction)
	s.add("max wait/shorter than the wait", "an error at once is worth more than an error after the wait", func(t *trial) {
		answered := t.tell(message(1), ok("messages", 2, 0, 2*time.Second))
		t.rejected(t.call(t.withMaxWait(time.Second), request(message(1))), false)
		c := t.call(t.withMaxWait(3*time.Second), request(message(1)))
		t.grantedAfter(c, answered, 2*time.Second, "a request with a longer max wait")
	}, Prediction)
	s.add("max wait/a hold makes it too long",
		"when the head of a queue is rejected, the request behind it must still be sent", func(t *trial) {
			t.tell(message(1), ok("messages", 2, 1, time.Second))
			last := t.must(message(1), "one of two is left")
			head := t.call(t.withMaxWait(1500*time.Millisecond), request(message(1)))
			second := t.ask(message(1))
			t.expect(head.waiting(), "the head was expected to wait, but %s", head)
			t.wait(10 * time.Millisecond)
			answered := last.update(t, in(refused(ratelimits.ClassUser, 4*time.Second), "messages", 2, 0, 4*time.Second))
			t.wait(1500*time.Millisecond + t.late(1))
			err := head.now().err
			t.expect(err != nil, "the head was expected to be rejected, because its max wait is 1.5s and the hold lasts 4s, "+
				"but %s", head)
			t.expect(isTooLong(err), "a *ratelimits.TooLongError was expected, but the error is: %v", err)
			t.grantedAfter(second, answered, 4*time.Second, "the request behind the rejected head")
		}, Prediction)
	s.add("max wait/of the limiter", "the limiter's bound is for requests that set none of their own", func(t *trial) {
		if t.maxWait == 0 {
			t.reporter.Skipf("the limiter has no bound of its own for waits")
		}
		t.tell(message(1), ok("messages", 5, 0, t.maxWait+time.Second))
		t.rejected(t.ask(message(1)), false)
		t.tell(message(2), ok("messages", 5, 0, t.maxWait-time.Second))
		t.waiter(message(2), "it takes less than the bound")
		c := t.call(t.withMaxWait(t.maxWait+time.Minute), request(message(1)))
		t.expect(c.waiting(), "the context's bound was expected to replace the limiter's, but %s", c)
	}, Prediction)
}
