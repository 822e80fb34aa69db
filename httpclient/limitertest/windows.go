package limitertest

import (
	"fmt"
	"time"

	"github.com/ratelight/ratelight/internal/discordsim"
	"github.com/ratelight/ratelight/ratelimits"
)

// kinds lists the ways in which a bucket can count requests. Discord uses all of them, and its headers do not
// distinguish them.
var kinds = []discordsim.Kind{discordsim.KindFixed, discordsim.KindSliding, discordsim.KindLeaky}

// distances lists round trips, from milliseconds to more than two windows of a second.
var distances = []struct {
	trip, jitter time.Duration
	disordered   bool // responses arrive in any order, so no client can know when a window opened
}{
	{2 * time.Millisecond, time.Millisecond, false},
	{50 * time.Millisecond, 5 * time.Millisecond, false},
	{300 * time.Millisecond, 10 * time.Millisecond, false},
	{1500 * time.Millisecond, 10 * time.Millisecond, false},
	{20 * time.Millisecond, 800 * time.Millisecond, true},
	{20 * time.Millisecond, 2500 * time.Millisecond, true},
}

func (s *suite) windows() {
	s.add("window/a lower count is not raised by an older answer",
		"responses arrive in any order; within a window, the number of remaining requests never rises", func(t *trial) {
			t.tell(message(1), ok("messages", 5, 4, 2*time.Second))
			first, second := t.must(message(1), "four of five are left"), t.must(message(1), "three of five are left")
			t.wait(10 * time.Millisecond)
			second.update(t, ok("messages", 5, 1, 1990*time.Millisecond)) // another client has sent a request, too
			first.update(t, ok("messages", 5, 3, 1990*time.Millisecond))
			all := t.asks(4, message(1))
			t.expect(count(all) <= 1, "at most one was expected to be granted, because one of five is left, but %d were",
				count(all))
			t.wait(2*time.Second + t.late(1))
			t.expect(all[0].granted(), "the first in the queue was expected to be granted in the next window, but %s", all[0])
		})
	for _, k := range kinds {
		for _, d := range distances {
			var needs []Promise
			if k == discordsim.KindLeaky && d.disordered {
				needs = []Promise{SlowRefill}
			}
			s.add(fmt.Sprintf("window/%s/round trip %v to %v", k, d.trip, d.trip+d.jitter),
				"every window is to be used up without a 429, whatever the kind of the bucket and the round trip", func(t *trial) {
					const n, limit, period = 60, 5, time.Second
					w := limited(t, discordsim.Quota{Kind: k, Limit: limit, Period: period})
					w.setTrip(d.trip)
					w.jitter = d.jitter
					all := w.sends(n, message(1))
					took := w.delivered(10*time.Minute, all, "all")
					w.inOrder(all)
					if d.disordered || w.throughput == 0 {
						return
					}
					ideal := time.Duration(n/limit-1)*(period+d.trip) + d.trip
					reached := float64(ideal) / float64(took)
					w.expect(reached >= w.throughput, "%v was expected, or at least %.2f of that rate, but it took %v, which is %.2f",
						ideal, w.throughput, took, reached)
				}, needs...)
		}
		s.add(fmt.Sprintf("window/%s/one by one", k),
			"requests sent one after the other meet the same limit as requests sent together", func(t *trial) {
				w := limited(t, discordsim.Quota{Kind: k, Limit: 3, Period: 500 * time.Millisecond})
				for range 12 {
					w.sends(1, message(1))
					w.finish(20 * time.Second)
				}
				w.delivered(time.Second, w.sent, "all")
			})
	}
}

// globalWorld returns a world with a global limit for each second of the server. These seconds begin phase after a full
// second. The limiter has already got a response to a message in channel 1. The case is skipped if the limiter has no
// global limit.
func globalWorld(t *trial, phase time.Duration) *world {
	t.needsGlobal()
	w := worldWith(t, discordsim.Aligned(t.settings.global, time.Second, phase))
	w.jitter = time.Millisecond
	w.sends(1, message(1))
	w.finish(time.Second)
	w.wait(1500 * time.Millisecond)
	return w
}

func (s *suite) global() {
	for _, phase := range []time.Duration{0, 300 * time.Millisecond, 999 * time.Millisecond} {
		s.add(fmt.Sprintf("global limit/seconds that begin at %v", phase),
			"a limiter does not know when the server's seconds begin, and a global 429 stops all requests", func(t *trial) {
				w := globalWorld(t, phase)
				n := w.settings.global*2 + w.settings.global/2
				for i := range n {
					w.post(request(message(i%7 + 1)))
				}
				took := w.delivered(time.Minute, w.sent, "all")
				most := 2500*time.Millisecond + w.late(2)
				w.expect(took < most || w.throughput == 0, "%d requests at %d per second were expected to take less than %v, "+
					"but took %v", n, w.settings.global, most, took)
			})
	}
	s.add("global limit/each credential for itself", "Discord counts each credential separately", func(t *trial) {
		w := globalWorld(t, 0)
		w.burst(w.settings.global)
		t.expectGrants(len(w.sent), w.sent, "as many as the global limit allows")
		w.expectWait(request(message(1)), true, "the credential, which has used up its second,")
		w.expectWait(fromOther(message(1)), false, "another credential")
		w.finish(10 * time.Second)
		w.refusedNone()
	})
	s.add("global limit/interactions do not count",
		"an interaction has to be answered within three seconds, and the global limit does not count it", func(t *trial) {
			w := globalWorld(t, 0)
			w.tell(callback(1), plain(204))
			w.tell(followUp(1), ok("follow-ups", 5, 4, time.Second))
			w.burst(w.settings.global)
			w.expectWait(request(callback(2)), false, "the answer to an interaction, although the second is used up,")
			w.expectWait(request(followUp(1)), false, "a follow-up, although the second is used up,")
			w.finish(10 * time.Second)
			w.refusedNone()
		})
}

func (s *suite) foreign() {
	s.add("foreign/a lower count is adopted",
		"if fewer requests are left than the limiter's own count says, another client uses the bucket, too", func(t *trial) {
			t.tell(message(1), ok("messages", 10, 9, 2*time.Second))
			answered := t.must(message(1), "nine of ten are left").update(t, ok("messages", 10, 2, 2*time.Second))
			all := t.asks(4, message(1))
			t.expectGrants(2, all, "the answer says that two are left")
			for _, c := range all[:2] {
				c.update(t, ok("messages", 10, 0, 2*time.Second-time.Since(answered)))
			}
			t.expectGrants(2, all, "the window is used up")
			t.grantedAfter(all[2], answered, 2*time.Second, "the third")
		})
	s.add("foreign/costs one refusal",
		"only a 429 can show that other clients with the credential have sent requests; a second 429 is avoidable",
		func(t *trial) {
			w := limited(t, discordsim.Fixed(5, time.Second))
			w.sends(1, message(1))
			w.finish(10 * time.Second)
			w.discord.foreign(request(message(1)), 5)
			w.sends(1, message(1))
			w.wait(100 * time.Millisecond)
			w.sends(12, message(1))
			w.finish(20 * time.Second)
			w.acceptedAll(w.sent, "all")
			refused := w.tally().refused
			w.expect(refused <= 1, "at most one 429 was expected, but there were %d", refused)
		})
	s.add("foreign/steady",
		"another client that sends all the time must neither stop this client nor cause one 429 after another",
		func(t *trial) {
			w := limited(t, discordsim.Fixed(5, time.Second))
			all := w.sends(40, message(1))
			for range 100 { // for a minute at most
				if all[len(all)-1].now().done {
					break
				}
				w.wait(600 * time.Millisecond)
				w.discord.foreign(request(message(1)), 1)
			}
			w.finish(20 * time.Second)
			w.acceptedAll(all, "all")
			refused := w.tally().refused
			w.expect(refused <= 10, "at most 10 429s were expected for 40 requests, but there were %d", refused)
		})
}

func (s *suite) changes() {
	s.add("change/of the hash while many wait",
		"a hash can change at any time; waiting requests move to the new bucket in order, and each is sent exactly once",
		func(t *trial) {
			w := limited(t, discordsim.Fixed(10, time.Second))
			n := w.rounds(110, 40)
			all := w.sends(n, message(1))
			w.wait(1500 * time.Millisecond)
			w.set(message(1), discordsim.Fixed(10, time.Second), "renamed")
			w.delivered(time.Minute, all, "all")
			tally := w.tally()
			w.expect(tally.accepted == n, "each of %d requests was expected to be sent once, but Discord saw %+v", n, tally)
			w.inOrder(all)
		}, OneMind)
	s.add("change/of the hash of one of two routes",
		"when the responses of one of two routes of a bucket name another hash, only that route moves", func(t *trial) {
			t.tell(message(1), ok("one", 5, 4, 2*time.Second))
			t.tell(history(1), ok("one", 5, 3, 2*time.Second))
			t.must(history(1), "three of five are left").update(t, ok("two", 5, 0, 10*time.Second))
			t.expectWait(request(history(1)), true, "the route that names another hash, whose bucket is used up,")
			t.must(message(1), "the other route stays where it was, with three of five left").giveBack(t)
		}, OneMind)
	s.add("change/of the limit",
		"limits change without notice; a lower limit applies from the first response that names it", func(t *trial) {
			w := limited(t, discordsim.Fixed(10, time.Second))
			w.sends(10, message(1))
			w.finish(10 * time.Second)
			w.wait(2 * time.Second)
			w.set(message(1), discordsim.Fixed(3, time.Second), "messages")
			w.sends(1, message(1))
			w.wait(100 * time.Millisecond)
			w.sends(9, message(1))
			w.delivered(20*time.Second, w.sent, "all")
		})
}

func (s *suite) memory() {
	const why = "a limiter that forgets a used-up bucket sends requests to it, and causes an avoidable 429"
	s.add("memory/while somebody waits", why, func(t *trial) {
		answered := t.tell(message(1), ok("messages", 5, 0, 100*time.Second))
		first := t.ask(message(1))
		for range 9 {
			t.wait(10 * time.Second)
			t.expect(first.waiting(), "it was expected to wait for 100s, but %s", first)
			t.expectWait(request(message(1)), true, "a request that comes later")
		}
		t.grantedAfter(first, answered, 100*time.Second, "the waiting request")
	}, virtualTime)
	s.add("memory/while nobody does", why, func(t *trial) {
		answered := t.tell(message(1), ok("messages", 5, 0, 100*time.Second))
		t.wait(90 * time.Second)
		t.grantedAfter(t.ask(message(1)), answered, 100*time.Second, "a request that comes after 90s")
	}, virtualTime)
	s.add("memory/while a request is in flight", why, func(t *trial) {
		t.tell(message(1), ok("messages", 1, 0, time.Second))
		t.wait(2 * time.Second)
		c := t.must(message(1), "the window is over")
		t.wait(90 * time.Second)
		t.expectWait(request(message(1)), true, "the next, because the only one that is allowed is in flight,")
		c.update(t, ok("messages", 1, 0, time.Second))
		t.expectWait(request(message(1)), true, "the next, because the only one that is allowed has just been counted,")
	}, virtualTime)
	s.add("memory/of a hold", why, func(t *trial) {
		answered := t.refuse(refusedIn(ratelimits.ClassShared, 3, 100*time.Second))
		t.wait(90 * time.Second)
		t.grantedAfter(t.ask(message(1)), answered, 100*time.Second, "a request that comes after 90s")
	}, virtualTime)
}
