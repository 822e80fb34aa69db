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
		"the limit of a new route is unknown; one request finds it out, a burst would cause many 429s", func(t *trial) {
			w := limited(t, discordsim.Fixed(20, time.Second))
			const trip = 300 * time.Millisecond
			w.setTrip(trip)
			n := w.rounds(200, 8)
			all := w.sends(n, message(1))
			t.expectGrants(1, all, "one is sent first")
			w.wait(trip + w.late(1))
			within := time.Duration(n) * time.Second
			if w.throughput > 0 {
				atLeast := min(n, 20)
				w.expect(count(all) >= atLeast, "the first was answered with 19 of 20 left, so %d were expected to be granted, "+
					"but %d were", atLeast, count(all))
				within = time.Minute
			}
			w.delivered(within, all, "all")
			w.inOrder(all)
		}, Discovery)
	s.add("discovery/each major parameter counts for itself",
		"Discord counts each channel, guild and webhook separately; a common queue would be many times slower",
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
		"routes whose responses name the same hash share a count; two counts allow twice as many", func(t *trial) {
			w := limited(t, discordsim.Fixed(5, time.Second))
			w.set(history(1), discordsim.Fixed(5, time.Second), "messages")
			w.sends(2, message(1))
			w.finish(10 * time.Second)
			w.sends(4, history(1)) // the server counts the first one in the bucket before the client can know the hash
			w.wait(100 * time.Millisecond)
			for range 5 {
				w.sends(1, message(1))
				w.sends(1, history(1))
			}
			w.delivered(20*time.Second, w.sent, "all")
		}, Discovery)
	s.add("discovery/no headers",
		"a route whose responses name no limits has no limit to wait for", func(t *trial) {
			for range 2 {
				t.tell(message(1), plain(http.StatusOK))
			}
			t.expectGrants(30, t.asks(30, message(1)), "the route has no limit")
		}, OneMind)
	s.add("discovery/headers after all", "a route without limits can get limits at any time", func(t *trial) {
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
	const why = "whatever the first response on a route is, requests that wait for it must be sent in time, without a 429"
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
		// A limiter with several parts may send a request before all its parts know of these two refusals.
		{"refused: credential", refuses(discordsim.ClassGlobal), []Promise{OneMind}},
		{"refused: address", refuses(discordsim.ClassEdge), []Promise{OneMind}},
	} {
		s.add("first answer/"+f.name, why, func(t *trial) {
			w := limited(t, discordsim.Fixed(10, time.Second))
			w.script(f.fault)
			w.sends(6, message(1))
			w.delivered(10*time.Second, w.sent[1:], "all requests behind the first")
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
				t.expect(c.granted(), "number %d after it was expected to be granted within 2s, but %s", n+1, c)
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
			"requests share a count only if major parameter and bucket hash (without one, route) are the same",
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

// pairShares sends both requests of a pair, and then asks for each route whether a third request would wait. A bucket
// allows two requests in 5 s, so the third must wait only if the first two share a bucket.
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
		"a 5xx without headers says nothing about the count; it is neither a reset nor a refusal", func(t *trial) {
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
			"a request may have been counted even if no limits are returned; it must neither stop others nor free a place",
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
