package limitertest

import (
	"fmt"
	"time"

	"github.com/ratelight/ratelight/internal/discordsim"
)

// kinds lists the ways in which a bucket may count. Discord has all of them, and its headers do not distinguish them.
var kinds = []discordsim.Kind{discordsim.KindFixed, discordsim.KindSliding, discordsim.KindLeaky}

// distances lists round trips, from milliseconds to several windows.
var distances = []struct {
	trip, jitter time.Duration
	disordered   bool // answers arrive in any order, so nobody can know when a window opened
}{
	{2 * time.Millisecond, time.Millisecond, false},
	{50 * time.Millisecond, 5 * time.Millisecond, false},
	{300 * time.Millisecond, 10 * time.Millisecond, false},
	{1500 * time.Millisecond, 10 * time.Millisecond, false},
	{20 * time.Millisecond, 800 * time.Millisecond, true},
	{20 * time.Millisecond, 2500 * time.Millisecond, true},
}

func windowCases() []testCase {
	all := []testCase{{
		name: "window/a lower count is not raised by an older answer", run: olderAnswer,
		why: "answers arrive in any order; what is left never rises within a window",
	}}
	for _, k := range kinds {
		for _, d := range distances {
			var needs Promise
			if k == discordsim.KindLeaky && d.jitter >= 800*time.Millisecond {
				needs = SlowRefill
			}
			all = append(all, testCase{
				name: fmt.Sprintf("window/%s/round trip %v to %v", k, d.trip, d.trip+d.jitter), needs: needs,
				run: func(t *trial) {
					w := limited(t, message(1), discordsim.Quota{Kind: k, Limit: 5, Period: time.Second})
					w.setTrip(d.trip)
					w.jitter = d.jitter
					usedUp(w, d.trip, d.disordered)
				},
				why: "as many as allowed in every window, whatever the kind of the bucket and the distance, and no 429",
			})
		}
		all = append(all, testCase{
			name: fmt.Sprintf("window/%s/one by one", k), run: func(t *trial) { oneByOne(t, k) },
			why: "who sends one after the other meets the same limit as who sends many together",
		})
	}
	return all
}

// usedUp sends many requests at once. It expects that none is refused, and that they do not take too long.
func usedUp(w *world, trip time.Duration, disordered bool) {
	n, q := 60, w.rules[message(1).Route().String()].quota
	all := w.sends(n, message(1))
	took := w.delivered(10*time.Minute, all, "all")
	w.inOrder(all)
	if disordered || w.throughput == 0 {
		return
	}
	ideal := time.Duration(n/q.Limit-1)*(q.Period+trip) + trip
	reached := float64(ideal) / float64(took)
	w.expect(reached >= w.throughput, "%v was expected, or at least %.2f of that rate, but it took %v, which is %.2f", ideal, w.throughput, took, reached)
}

func oneByOne(t *trial, k discordsim.Kind) {
	w := limited(t, message(1), discordsim.Quota{Kind: k, Limit: 3, Period: 500 * time.Millisecond})
	for range 12 {
		w.sends(1, message(1))
		w.finish(20 * time.Second)
	}
	w.acceptedAll(w.sent, "all")
	w.refusedNone()
}

func olderAnswer(t *trial) {
	t.tell(message(1), ok("messages", 5, 4, 2*time.Second))
	first, second := t.must(message(1), "four of five are left"), t.must(message(1), "three of five are left")
	t.wait(10 * time.Millisecond)
	second.update(t, ok("messages", 5, 1, 1990*time.Millisecond)) // another client has sent one, too
	first.update(t, ok("messages", 5, 3, 1990*time.Millisecond))
	all := t.asks(4, message(1))
	t.expect(count(all) <= 1, "one was expected to go at the most, as the lowest count says that one of five is left, but %d did", count(all))
	t.wait(2*time.Second + t.late(1))
	t.expect(all[0].granted(), "the first in line was expected to go in the next window, but %s", all[0])
}

func globalCases() []testCase {
	all := []testCase{
		{
			name: "global limit/each credential for itself", run: globalApart,
			why: "Discord counts each credential for itself",
		},
		{
			name: "global limit/interactions do not count", run: globalExempt,
			why: "an interaction has to be answered within three seconds, and is not counted",
		},
	}
	for _, phase := range []time.Duration{0, 300 * time.Millisecond, 999 * time.Millisecond} {
		all = append(all, testCase{
			name: fmt.Sprintf("global limit/seconds that begin at %v", phase), run: func(t *trial) { globalPaced(t, phase) },
			why: "the server's seconds begin when they do, and a global 429 stops everything",
		})
	}
	return all
}

// globalWorld returns a world whose global limit counts seconds that begin at phase. The limiter knows the limit of the
// route. It skips the case if the limiter has no global limit.
func globalWorld(t *trial, phase time.Duration) *world {
	if t.global == 0 {
		t.reporter.Skipf("the limiter has no global limit")
	}
	w := worldWith(t, discordsim.Aligned(t.global, time.Second, phase))
	w.jitter = time.Millisecond
	w.sends(1, message(1))
	w.finish(time.Second)
	w.wait(1500 * time.Millisecond)
	return w
}

func globalPaced(t *trial, phase time.Duration) {
	w := globalWorld(t, phase)
	n := t.global*2 + t.global/2
	for i := range n {
		w.post(w.ctx, request(message(i%7+1)))
	}
	took := w.delivered(time.Minute, w.sent, "all")
	most := 2500*time.Millisecond + w.late(2)
	w.expect(took < most || w.throughput == 0, "%d requests at %d in a second were expected to take less than %v, but took %v", n, t.global, most, took)
}

func globalApart(t *trial) {
	w := globalWorld(t, 0)
	w.burst(t.global, message(1))
	w.expect(w.granted() == t.global+1, "%d were expected to go at once, but %d did", t.global, w.granted()-1)
	w.expect(w.waits(request(message(1))), "the credential has used up its second, so it was expected to wait")
	w.expect(!w.waits(fromOther(message(1))), "another credential was expected to go at once")
	w.finish(10 * time.Second)
	w.refusedNone()
}

func globalExempt(t *trial) {
	w := globalWorld(t, 0)
	w.tell(callback(1), plain(204))
	w.tell(followUp(1), ok("follow-ups", 5, 4, time.Second))
	w.burst(t.global, message(1))
	w.expect(!w.waits(request(callback(2))), "the answer to an interaction was expected to go at once, although the second is used up")
	w.expect(!w.waits(request(followUp(1))), "a follow-up was expected to go at once, although the second is used up")
	w.finish(10 * time.Second)
	w.refusedNone()
}
