package limitertest

import (
	"fmt"
	"net/http"
	"time"

	"github.com/ratelight/ratelight/internal/discordsim"
	"github.com/ratelight/ratelight/routes"
)

func (s *suite) discovery() {
	s.add("discovery/cold burst",
		"nobody knows how many a new route allows; one request finds out, all others would be 429s", func(t *trial) {
			w := limited(t, discordsim.Fixed(20, time.Second))
			const trip = 300 * time.Millisecond
			w.setTrip(trip)
			n := w.rounds(200, 8)
			all := w.sends(n, message(1))
			t.expectGrants(1, all, "one goes first")
			w.wait(trip + w.late(1))
			within := time.Duration(n) * time.Second
			if w.throughput > 0 {
				atLeast := min(n, 20)
				w.expect(count(all) >= atLeast, "the first was answered with 19 of 20 left, so %d were expected to have gone, "+
					"but %d have", atLeast, count(all))
				within = time.Minute
			}
			w.delivered(within, all, "all")
			w.inOrder(all)
		}, Discovery)
	s.add("discovery/each major parameter counts for itself",
		"Discord counts each channel, guild and webhook for itself; a common queue would be many times slower",
		func(t *trial) {
			w := limited(t, discordsim.Fixed(3, 5*time.Second))
			for range 3 {
				for channel := range 8 {
					w.sends(1, message(channel+1))
				}
			}
			took := w.delivered(time.Minute, w.sent, "all")
			w.expect(took < 2*time.Second+w.late(1),
				"three requests in each of eight channels, three allowed in each, were expected not to wait, but took %v", took)
		}, Discovery)
	s.add("discovery/a second route joins a bucket",
		"routes whose answers name one hash share a count; each for itself they would send twice as many", func(t *trial) {
			w := limited(t, discordsim.Fixed(5, time.Second))
			w.set(history(1), discordsim.Fixed(5, time.Second), "messages")
			w.sends(2, message(1))
			w.finish(10 * time.Second)
			w.sends(4, history(1)) // the server counts the first of them in the bucket before the client can know its hash
			w.wait(100 * time.Millisecond)
			for range 5 {
				w.sends(1, message(1))
				w.sends(1, history(1))
			}
			w.delivered(20*time.Second, w.sent, "all")
		}, Discovery)
	s.add("discovery/no headers",
		"a route whose answers say nothing of limits has none that could be kept", func(t *trial) {
			for range 2 {
				t.tell(message(1), plain(http.StatusOK))
			}
			t.expectGrants(30, t.asks(30, message(1)), "the route has no limit")
		}, OneMind)
	s.add("discovery/headers after all", "a route that had no limits may get some at any time", func(t *trial) {
		t.tell(message(1), plain(http.StatusOK))
		t.tell(message(1), ok("messages", 5, 2, time.Minute))
		t.expectGrants(2, t.asks(5, message(1)), "two of five are left")
	}, OneMind)
}

// first makes f a fault of the first request only.
func first(f discordsim.Fault) discordsim.Fault {
	f.Nth = []int{1}
	return f
}

func refuses(class discordsim.Class) discordsim.Fault {
	return first(discordsim.Fault{Refuse: &discordsim.Refusal{Class: class, Wait: time.Second}})
}

func (s *suite) firstAnswers() {
	const why = "whatever the first answer on a route is, those who wait for it must go on, in time and without a 429"
	for _, f := range []struct {
		name  string
		fault discordsim.Fault
		needs []Promise
	}{
		{"lost before it arrived", first(discordsim.Fault{Connection: discordsim.ConnectionLostBefore}), nil},
		{"lost after it was counted", first(discordsim.Fault{Connection: discordsim.ConnectionLostAfter}), nil},
		{"server error", first(discordsim.Fault{Status: http.StatusBadGateway, Uncounted: true}), nil},
		{"server error, counted", first(discordsim.Fault{Status: http.StatusInternalServerError}), nil},
		{"refused: bucket", refuses(discordsim.ClassUser), nil},
		{"refused: resource", refuses(discordsim.ClassShared), nil},
		// A limiter with several parts may send a request on another route before all parts know of this refusal.
		{"refused: credential", refuses(discordsim.ClassGlobal), []Promise{OneMind}},
		{"refused: address", refuses(discordsim.ClassEdge), []Promise{OneMind}},
	} {
		s.add("first answer/"+f.name, why, func(t *trial) {
			w := limited(t, discordsim.Fixed(10, time.Second))
			w.script(f.fault)
			w.sends(6, message(1))
			w.delivered(10*time.Second, w.sent[1:], "all those behind the first")
		}, append(f.needs, Discovery)...)
	}
	for _, l := range []struct { // implausible limits
		name, hash string
		remaining  int
		after      time.Duration
	}{
		{"nothing counted", "messages", 5, time.Second},
		{"more left than the limit", "messages", 9, time.Second},
		{"reset now", "messages", 4, 0},
		{"used up, reset now", "messages", 0, 0},
		{"no hash", "", 4, time.Second},
	} {
		s.add("first answer/"+l.name, why, func(t *trial) {
			t.tell(message(1), ok(l.hash, 5, l.remaining, l.after))
			for n := range 4 {
				c := t.ask(message(1))
				t.wait(2*time.Second + t.late(1))
				t.expect(c.granted(), "number %d after it was expected to go within 2s, but %s", n+1, c)
				c.update(t, ok(l.hash, 5, 4, time.Second))
			}
		})
	}
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

func (s *suite) pairs() {
	add := func(p pair, name, first, second string, shared bool, needs ...Promise) {
		s.add("pair/"+name+"/"+p.name,
			"requests share a count if bucket hash (without one, route) and major parameter are the same, and only then",
			func(t *trial) { pairShares(t, p, first, second, shared) }, needs...)
	}
	for _, p := range pairs {
		add(p, "without a hash", "", "", p.sameRoute && p.sameMajor, OneMind)
		add(p, "same hash", "one", "one", p.sameMajor)
		if !p.sameRoute {
			add(p, "other hash", "one", "two", false)
		}
	}
}

// pairShares sends both requests of a pair and then a third one. The bucket allows two requests in 5 s, so the third
// must wait only if both requests share the bucket.
func pairShares(t *trial, p pair, first, second string, shared bool) {
	w := newWorld(t)
	w.set(p.second, discordsim.Fixed(2, 5*time.Second), second)
	w.set(p.first, discordsim.Fixed(2, 5*time.Second), first)
	for _, route := range []routes.CompiledRoute{p.first, p.second} {
		t.tell(route, parse(w.process(request(route))))
	}
	for _, route := range []routes.CompiledRoute{p.first, p.second} {
		what := fmt.Sprintf("after %v and %v, where two are allowed, %v", p.first, p.second, route)
		t.expectWait(request(route), shared, what)
	}
	t.wait(5*time.Second + t.late(1))
	t.must(p.first, "the window is over").giveBack(t)
}

func (s *suite) troubles() {
	s.add("trouble/a server error neither fills nor empties",
		"a 5xx carries no headers and says nothing of the count; it is neither a reset nor a refusal", func(t *trial) {
			t.tell(message(1), ok("messages", 5, 4, 2*time.Second))
			t.must(message(1), "four of five are left").update(t, plain(http.StatusBadGateway))
			all := t.asks(5, message(1))
			t.expectGrants(3, all, "four of five were left and the 502 may have been counted")
			t.cancelAll(all)
			for i, c := range all[:3] {
				c.update(t, ok("messages", 5, 2-i, 2*time.Second))
			}
			t.wait(4*time.Second + t.late(1))
			t.must(message(1), "the window is over").giveBack(t)
		})
	noHeaders := discordsim.NoHeaders()
	noHeaders.Every = 4
	for _, trouble := range []struct {
		name  string
		fault discordsim.Fault
	}{
		{"server errors", discordsim.Fault{Every: 4, Status: http.StatusBadGateway, Uncounted: true}},
		{"server errors, counted", discordsim.Fault{Every: 4, Status: http.StatusInternalServerError}},
		{"lost before", discordsim.Fault{Every: 4, Connection: discordsim.ConnectionLostBefore}},
		{"lost after", discordsim.Fault{Every: 4, Connection: discordsim.ConnectionLostAfter}},
		{"no headers", noHeaders},
		{"slow answers", discordsim.Fault{Every: 4, Delay: 3 * time.Second}},
		{"all of the first", discordsim.Fault{Nth: []int{1, 2, 3}, Connection: discordsim.ConnectionLostBefore}},
	} {
		s.add("trouble/"+trouble.name,
			"what was not answered, or without limits, may have been counted; it must neither stop others nor let more go",
			func(t *trial) {
				w := limited(t, discordsim.Fixed(5, time.Second))
				w.script(trouble.fault)
				w.sends(30, message(1))
				w.finish(40 * time.Second)
				w.allGranted()
				w.refusedNone()
				w.script()
				w.wait(4 * time.Second)
				w.fullRate()
			})
	}
}
