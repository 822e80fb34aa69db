package limitertest

import (
	"fmt"
	"strings"
	"time"

	"github.com/ratelight/ratelight/internal/discordsim"
)

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
	s.play("window/a lower count is not raised by an older answer",
		"responses arrive in any order; within a window, the number of remaining requests never rises", `
			message1 gets 200 4/5 2s
			ab: message1 go; 10ms later
			b gets 200 1/5 1990ms # another client has also sent a request
			a gets 200 3/5 1990ms
			c: message1; def: message1 wait
			2s+ later; c goes`)
	// Discord uses all kinds of buckets, and its headers do not distinguish them.
	for _, k := range []string{"fixed", "sliding", "leaky"} {
		for _, d := range distances {
			var needs []Promise
			if k == "leaky" && d.disordered {
				needs = []Promise{SlowRefill}
			}
			s.add(fmt.Sprintf("window/%s/round trip %v to %v", k, d.trip, d.trip+d.jitter),
				"every window is to be used up without a 429, whatever the kind of the bucket and the round trip", func(t *trial) {
					const n, limit, period = 60, 5, time.Second
					t.play(fmt.Sprintf("limit message1 %s 5/1s; trip %v to %v; send %d message1", k, d.trip, d.trip+d.jitter, n))
					took := t.end(10 * time.Minute)
					t.play("all succeed; none refused; in order")
					if d.disordered || t.throughput == 0 {
						return
					}
					ideal := time.Duration(n/limit-1)*(period+d.trip) + d.trip
					reached := float64(ideal) / float64(took)
					t.expect(reached >= t.throughput, "%v was expected, or at least %.2f of that rate, but it took %v, which is %.2f",
						ideal, t.throughput, took, reached)
				}, needs...)
		}
		s.play("window/"+k+"/one by one",
			"requests sent one after the other meet the same limit as requests sent together",
			"limit message1 "+k+" 3/500ms\n"+strings.Repeat("send 1 message1; all end within 20s\n", 12)+
				"all succeed; none refused")
	}
}

// alignGlobal sets a global limit for each second of the server. These seconds begin phase after a full second. The
// limiter gets a response to a message in channel 1.
func (t *trial) alignGlobal(phase time.Duration) {
	t.discord = newDiscord(discordsim.Aligned(t.global, time.Second, phase))
	t.play("trip 20ms to 21ms; send 1 message1; all end within 1s; 1.5s later")
}

func (s *suite) global() {
	for _, phase := range []time.Duration{0, 300 * time.Millisecond, 999 * time.Millisecond} {
		s.add(fmt.Sprintf("global limit/seconds that begin at %v", phase),
			"a limiter does not know when the server's seconds begin, and a global 429 stops all requests", func(t *trial) {
				t.alignGlobal(phase)
				n := t.global*2 + t.global/2
				t.burst(n, 7)
				took := t.end(time.Minute)
				t.play("all succeed; none refused")
				most := 2500*time.Millisecond + t.late(2)
				t.expect(took < most || t.throughput == 0, "%d requests at %d per second were expected to take less than %v, "+
					"but took %v", n, t.global, most, took)
			}, globalLimit)
	}
	s.add("global limit/each credential for itself", "Discord counts each credential separately", func(t *trial) {
		t.alignGlobal(0)
		t.burst(t.global, 1)
		t.expectGrants(t.sent, len(t.sent), "as many as the global limit allows")
		t.play("message1 waits; message1+other goes; all end within 10s; none refused")
	}, globalLimit)
	s.add("global limit/interactions do not count",
		"an interaction has to be answered within three seconds, and the global limit does not count it", func(t *trial) {
			t.alignGlobal(0)
			t.play("callback1 gets 204; followup1 gets 200 4/5 1s")
			t.burst(t.global, 1)
			t.play("callback2 goes; followup1 goes; all end within 10s; none refused")
		}, globalLimit)
}

func (s *suite) foreign() {
	s.add("foreign/a lower count is adopted",
		"if fewer requests are left than the limiter's own count says, another client uses the bucket, too",
		func(t *trial) {
			t.play(`
				message1 gets 200 9/10 2s
				a: message1 goes; a gets 200 2/10 2s
				bc: message1 go; de: message1 wait`)
			left := 2*time.Second - time.Since(t.named["a"].answered) // less than 2 s in real time
			t.play(fmt.Sprintf(`
				b gets 200 0/10 %[1]v; c gets 200 0/10 %[1]v
				de wait; d goes after 2s from a`, left))
		})
	s.play("foreign/costs one refusal",
		"only a 429 can show that other clients with the credential have sent requests; a second 429 is avoidable", `
			limit message1 fixed 5/1s
			send 1 message1; all end within 10s
			others send 5 message1
			send 1 message1; 100ms later; send 12 message1
			all succeed within 20s; at most 1 refused`)
	s.add("foreign/steady",
		"another client that sends all the time must neither stop this client nor cause one 429 after another",
		func(t *trial) {
			t.play("limit message1 fixed 5/1s; send 39 message1; send a message1")
			for range 100 { // for a minute at most
				if t.named["a"].now().status > 0 {
					break
				}
				t.play("600ms later; others send 1 message1")
			}
			t.play("all succeed within 20s; at most 10 refused")
		})
}

func (s *suite) changes() {
	s.add("change/of the hash while many wait",
		"a hash can change at any time; waiting requests move to the new bucket in order, and each is sent exactly once",
		func(t *trial) {
			n := t.rounds(110, 40)
			t.play(fmt.Sprintf(`
				limit message1 fixed 10/1s; send %d message1; 1.5s later
				limit message1 fixed 10/1s renamed
				all succeed within 1m; none refused; in order`, n))
			tally := t.discord.tally()
			t.expect(tally.accepted == n, "each of %d requests was expected to be sent once, but Discord saw %+v", n, tally)
		}, OneMind)
	s.play("change/of the hash of one of two routes",
		"when the responses of one of two routes of a bucket name another hash, only that route moves", `
			message1 gets 200 4/5 2s one; history1 gets 200 3/5 2s one
			history1 gets 200 0/5 10s two; history1 waits
			message1 goes # with three of five left`, OneMind)
	s.play("change/of the limit",
		"limits change without notice; a lower limit applies from the first response that names it", `
			limit message1 fixed 10/1s; send 10 message1; all end within 10s; 2s later
			limit message1 fixed 3/1s; send 1 message1; 100ms later
			send 9 message1; all succeed within 20s; none refused`)
}

func (s *suite) memory() {
	const why = "a limiter that forgets a used-up bucket sends requests to it, and causes an avoidable 429"
	s.play("memory/while somebody waits", why, `
		message1 gets 200 0/5 100s
		a: message1 waits
		`+strings.Repeat("10s later; a waits; message1 waits\n", 9)+`
		a goes after 100s`, virtualTime)
	s.play("memory/while nobody does", why, `
		message1 gets 200 0/5 100s; 90s later
		message1 goes after 100s`, virtualTime)
	s.play("memory/while a request is in flight", why, `
		message1 gets 200 0/1 1s; 2s later
		a: message1 goes; 90s later
		message1 waits # the only one that is allowed is in flight
		a gets 200 0/1 1s; message1 waits`, virtualTime)
	s.play("memory/of a hold", why, refused("429 shared 100s 3/5 100s")+`
		90s later; message1 goes after 100s`, virtualTime)
}
