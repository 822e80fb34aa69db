package limitertest

import (
	"fmt"
	"net/http"
	"time"

	"github.com/ratelight/ratelight/internal/discordsim"
	"github.com/ratelight/ratelight/ratelimits"
	"github.com/ratelight/ratelight/routes"
)

func discoveryCases() []testCase {
	return []testCase{
		{
			name: "discovery/cold burst", needs: Discovery, run: coldBurst,
			why: "nobody knows how many a new route allows; one request finds out, all others would be 429s",
		},
		{
			name: "discovery/each major parameter counts for itself", needs: Discovery, run: majorsApart,
			why: "Discord counts each channel, guild and webhook for itself; a common queue would be many times slower",
		},
		{
			name: "discovery/a second route joins a bucket", needs: Discovery, run: secondRouteJoins,
			why: "routes whose answers name one hash share a count; each for itself they would send twice as many",
		},
		{
			name: "discovery/no headers", one: true, run: noHeaders,
			why: "a route whose answers say nothing of limits has none that could be kept",
		},
		{
			name: "discovery/headers after all", one: true, run: headersAfterAll,
			why: "a route that had no limits may get some at any time",
		},
	}
}

func coldBurst(t *trial) {
	w := limited(t, message(1), discordsim.Fixed(20, time.Second))
	const trip = 300 * time.Millisecond
	w.setTrip(trip)
	n := 200
	if w.realTime {
		n = 8
	}
	all := w.sends(n, message(1))
	w.expect(w.granted() == 1, "one was expected to go first, but %d went", w.granted())
	w.wait(trip + w.late(1))
	within := time.Duration(n) * time.Second
	if w.throughput > 0 {
		atLeast := min(n, 20)
		w.expect(w.granted() >= atLeast, "when the first is answered with 19 of 20 left, %d were expected to have gone, but %d have", atLeast, w.granted())
		within = time.Minute
	}
	w.delivered(within, all, "all")
	w.inOrder(all)
}

// granted returns how many requests have been granted.
func (w *world) granted() int {
	n := 0
	for _, d := range w.sent {
		if _, times := d.grantedAt(); times > 0 {
			n++
		}
	}
	return n
}

func majorsApart(t *trial) {
	w := limited(t, message(1), discordsim.Fixed(3, 5*time.Second))
	for range 3 {
		for channel := range 8 {
			w.sends(1, message(channel+1))
		}
	}
	took := w.delivered(time.Minute, w.sent, "all")
	w.expect(took < 2*time.Second+w.late(1), "three requests in each of eight channels, three allowed in each, were expected not to wait, but took %v", took)
}

func secondRouteJoins(t *trial) {
	w := limited(t, message(1), discordsim.Fixed(5, time.Second))
	w.set(request(history(1)), rule{discordsim.Fixed(5, time.Second), "messages"})
	w.sends(2, message(1))
	w.finish(10 * time.Second)
	for range 4 { // the server counts the first in the bucket before the client can know
		w.sends(1, history(1))
	}
	w.wait(100 * time.Millisecond)
	for range 5 {
		w.sends(1, message(1))
		w.sends(1, history(1))
	}
	w.delivered(20*time.Second, w.sent, "all")
}

func noHeaders(t *trial) {
	for range 2 {
		c := t.must(message(1), "nothing is known of the route")
		c.update(t, ratelimits.ParseResponse(http.StatusOK, nil, nil))
		c.release(t)
	}
	all := t.asks(30, message(1))
	t.expect(count(all) == 30, "all of 30 requests were expected to go at once, but %d did", count(all))
}

func headersAfterAll(t *trial) {
	t.tell(message(1), plain(http.StatusOK))
	t.tell(message(1), ok("messages", 5, 2, time.Minute))
	all := t.asks(5, message(1))
	t.expect(count(all) == 2, "two were expected to go, as two of five are left, but %d did", count(all))
}

// firstAnswers lists the possible outcomes of the first request to a route.
var firstAnswers = []struct {
	name string
	discordsim.Fault
}{
	{"lost before it arrived", discordsim.Fault{Connection: discordsim.ConnectionLostBefore}},
	{"lost after it was counted", discordsim.Fault{Connection: discordsim.ConnectionLostAfter}},
	{"server error", discordsim.Fault{Status: http.StatusBadGateway, Uncounted: true}},
	{"server error, counted", discordsim.Fault{Status: http.StatusInternalServerError}},
	{"refused: bucket", refusedFor(discordsim.ClassUser)},
	{"refused: resource", refusedFor(discordsim.ClassShared)},
	{"refused: credential", refusedFor(discordsim.ClassGlobal)},
	{"refused: address", refusedFor(discordsim.ClassEdge)},
}

func refusedFor(class discordsim.Class) discordsim.Fault {
	return discordsim.Fault{Refuse: &discordsim.Refusal{Class: class, Wait: time.Second}}
}

// oddHeaders lists implausible limits in first answers.
var oddHeaders = []struct {
	name string
	limits
}{
	{"nothing counted", limits{"messages", 5, 5, time.Second}},
	{"more left than the limit", limits{"messages", 5, 9, time.Second}},
	{"reset now", limits{"messages", 5, 4, 0}},
	{"used up, reset now", limits{"messages", 5, 0, 0}},
	{"no hash", limits{"", 5, 4, time.Second}},
}

func firstAnswerCases() []testCase {
	var all []testCase
	const why = "whatever the first answer on a route is, those who wait for it must go on, in time and without a 429"
	for _, f := range firstAnswers {
		// A part of the limiter that learns of such a refusal a moment later may send on another route meanwhile.
		one := f.Refuse != nil && (f.Refuse.Class == discordsim.ClassGlobal || f.Refuse.Class == discordsim.ClassEdge)
		all = append(all, testCase{name: "first answer/" + f.name, why: why, needs: Discovery, one: one, run: func(t *trial) {
			w := limited(t, message(1), discordsim.Fixed(10, time.Second))
			first := f.Fault
			first.Nth = []int{1}
			w.script(first)
			w.sends(6, message(1))
			w.delivered(10*time.Second, w.sent[1:], "all those behind the first")
		}})
	}
	for _, l := range oddHeaders {
		all = append(all, testCase{name: "first answer/" + l.name, why: why, run: func(t *trial) {
			t.tell(message(1), fromAPI(http.StatusOK).in(l.limits).parse())
			for n := range 4 {
				c := t.ask(message(1))
				t.wait(2*time.Second + t.late(1))
				t.expect(c.granted(), "number %d after it was expected to go within 2s, but %s", n+1, c)
				c.update(t, ok(l.hash, 5, 4, time.Second))
			}
		}})
	}
	return all
}

// pair is a first and a second request.
type pair struct {
	name                 string
	first, second        routes.CompiledRoute
	sameRoute, sameMajor bool
}

var pairs = []pair{
	{"same route, no major parameter", match("GET", "/users/@me"), match("GET", "/users/@me"), true, true},
	{"same route, same major parameter", message(1), message(1), true, true},
	{"same route, other major parameter", message(1), message(2), true, false},
	{"other route, no major parameter", match("GET", "/users/@me"), match("GET", "/voice/regions"), false, true},
	{"other route, same major parameter", message(1), rename(1), false, true},
	{"other route, other major parameter", message(1), rename(2), false, false},
	{"other method, no major parameter", match("GET", "/users/@me"), match("PATCH", "/users/@me"), false, true},
	{"other method, same major parameter", message(1), history(1), false, true},
	{"other method, other major parameter", message(1), history(2), false, false},
}

func pairCases() []testCase {
	var all []testCase
	add := func(p pair, name, first, second string, shared bool) {
		all = append(all, testCase{
			name: "pair/" + name + "/" + p.name, one: first == "", run: func(t *trial) { pairShares(t, p, first, second, shared) },
			why: "two requests share a count if their bucket hash (without one, their route) and their major parameter are the same, and only then",
		})
	}
	for _, p := range pairs {
		add(p, "without a hash", "", "", p.sameRoute && p.sameMajor)
		add(p, "same hash", "one", "one", p.sameMajor)
		if !p.sameRoute {
			add(p, "other hash", "one", "two", false)
		}
	}
	return all
}

// pairShares sends both requests of a pair, of which a shared bucket allows two, and checks whether a third has to
// wait.
func pairShares(t *trial, p pair, first, second string, shared bool) {
	w := newWorld(t)
	w.set(request(p.first), rule{discordsim.Fixed(2, 5*time.Second), first})
	if !p.sameRoute {
		w.set(request(p.second), rule{discordsim.Fixed(2, 5*time.Second), second})
	}
	for _, route := range []routes.CompiledRoute{p.first, p.second} {
		t.tell(route, answered(w.process(request(route))).parse())
	}
	for _, route := range []routes.CompiledRoute{p.first, p.second} {
		what := fmt.Sprintf("after %v and %v, where two are allowed, %v", p.first, p.second, route)
		t.expectWait(request(route), shared, what)
	}
	t.wait(5*time.Second + t.late(1))
	t.must(p.first, "the window is over").giveBack(t)
}
