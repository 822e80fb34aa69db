package limitertest

import (
	"time"

	"github.com/ratelight/ratelight/buckets"
)

func holdCases() []testCase {
	all := []testCase{{
		name: "hold/interactions have no lane in common", run: interactionsTogether,
		why: "an interaction has to be answered within three seconds; twenty of them must not stand in one queue",
	}, {
		name: "hold/credentials are apart", run: credentialsApart,
		why: "Discord counts each credential for itself; one that is used up must not stop another",
	}}
	for _, k := range refusedKinds {
		if !k.address {
			all = append(all, testCase{name: "hold/what may go/" + k.name, needs: k.needs, why: k.why, run: func(t *trial) { reaches(t, k, false) }})
		}
		all = append(all, testCase{
			name: "hold/never shortened/" + k.name, needs: k.needs, run: func(t *trial) { neverShortened(t, k) },
			why: "answers arrive in any order, and a shorter time that arrives later does not take back the longer one",
		})
	}
	return all
}

func neverShortened(t *trial, k refusedKind) {
	t.tell(message(1), ok("messages", 5, 4, time.Second))
	var flying []*call
	for n := range 2 {
		r := withFields(message(1), "content")
		if n > 0 && k.address {
			r.Authorization = other
		}
		c := t.call(t.ctx, r)
		if n > 0 && t.throughput == 0 && c.waiting() {
			c.cancel() // it sends one at a time, so no answer can arrive later
			return
		}
		t.expect(c.granted(), "a grant was expected at once, as four of five are left, but %s", c)
		flying = append(flying, c)
	}
	t.wait(10 * time.Millisecond)
	answered := flying[0].update(t, k.answer(3*time.Second))
	t.wait(10 * time.Millisecond)
	flying[1].update(t, k.answer(time.Second))
	next := t.call(t.ctx, withFields(message(1), "content"))
	t.wait(3*time.Second - time.Since(answered) - t.late(1))
	t.expect(next.waiting(), "a wait of 3s was expected, as the first answer said, but %s", next)
	t.wait(time.Second + t.late(2))
	t.expect(next.granted(), "a grant was expected after the longer of the two waits, 3s, but %s", next)
	_, at, _ := next.state()
	t.expect(at.Sub(answered) >= 3*time.Second, "a wait of 3s was expected, as the first answer said, but it was %v", at.Sub(answered))
}

func interactionsTogether(t *trial) {
	w := newWorld(t)
	w.setTrip(100 * time.Millisecond)
	w.sends(1, callback(1))
	w.wait(200 * time.Millisecond)
	for n := range 20 {
		w.sends(1, callback(n+2))
	}
	for i, d := range w.sent {
		_, times := d.grantedAt()
		w.expect(times == 1, "all answers to interactions were expected to leave at once, but number %d waits", i)
	}
	w.finish(10 * time.Second)
}

func credentialsApart(t *trial) {
	t.tell(message(1), ok("messages", 2, 0, 10*time.Second))
	c := t.call(t.ctx, fromOther(message(1)))
	t.expect(c.granted(), "another credential was expected to go at once, but %s", c)
	c.update(t, ok("messages", 2, 1, 10*time.Second))
	t.expect(!t.waits(fromOther(message(1))), "one of two is left for the other credential, so it was expected to go")
	t.expect(t.waits(request(message(1))), "the first credential has used up its bucket, so it was expected to wait")
	none := &buckets.Request{Route: message(1)}
	c = t.call(t.ctx, none)
	t.expect(c.granted(), "a request without a credential was expected to go at once, but %s", c)
}
