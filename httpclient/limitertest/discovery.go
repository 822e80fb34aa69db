package limitertest

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/ratelight/ratelight/internal/discordsim"
)

func (s *suite) discovery() {
	s.add("discovery/cold burst",
		"the limit of a new route is unknown; one request finds it out, a burst would cause many 429s", func(t *trial) {
			n := t.rounds(200, 8)
			t.play(fmt.Sprintf("limit message1 fixed 20/1s; trip 300ms; send %d message1", n))
			t.expectGrants(t.sent, 1, "one is sent first")
			t.play("300ms+ later")
			within := time.Duration(n) * time.Second
			if t.throughput > 0 {
				within = time.Minute
				t.expect(count(t.sent) >= min(n, 20), "the first was answered with 19 of 20 left, so %d were expected to be "+
					"granted, but %d were", min(n, 20), count(t.sent))
			}
			t.end(within)
			t.play("all succeed; none refused; in order")
		}, Discovery)
	s.add("discovery/each major parameter counts for itself",
		"Discord counts each channel, guild and webhook separately; a common queue would be many times slower",
		func(t *trial) {
			t.play("limit message1 fixed 3/5s")
			for n := range 3 * 8 {
				t.post(fmt.Sprint("message", n%8+1))
				t.settle()
			}
			took := t.end(time.Minute)
			t.play("all succeed; none refused")
			t.expect(took < 2*time.Second+t.late(1),
				"three requests in each of eight channels, three allowed in each, were expected not to wait, but took %v", took)
		}, Discovery)
	s.play("discovery/a second route joins a bucket",
		"routes whose responses name the same hash share a count; two counts allow twice as many", `
			limit message1 fixed 5/1s one; limit history1 fixed 5/1s one
			send 2 message1; all end within 10s
			send 4 history1; 100ms later # the server counts the first one in the bucket before the client knows the hash
			`+strings.Repeat("send 1 message1; send 1 history1\n", 5)+`
			all succeed within 20s; none refused`, Discovery)
	s.play("discovery/no headers", "a route whose responses name no limits has no limit to wait for", `
			message1 gets 200; message1 gets 200
			30: message1 go`, OneMind)
	s.play("discovery/headers after all", "a route without limits can get limits at any time", `
			message1 gets 200; message1 gets 200 2/5 1m
			ab: message1 go; cde: message1 wait`, OneMind)
}

// faults lists what can go wrong with a request that no limit refuses.
var faults = []struct {
	name  string
	fault discordsim.Fault
}{
	{"server errors", discordsim.Fault{Status: http.StatusBadGateway, Uncounted: true}},
	{"server errors, counted", discordsim.Fault{Status: http.StatusInternalServerError}},
	{"lost before", discordsim.Fault{Connection: discordsim.ConnectionLostBefore}},
	{"lost after", discordsim.Fault{Connection: discordsim.ConnectionLostAfter}},
	{"no headers", discordsim.NoHeaders()},
}

func (s *suite) firstAnswers() {
	const why = "whatever the first response on a route is, requests that wait for it must be sent in time, without a 429"
	add := func(name string, fault discordsim.Fault, needs ...Promise) {
		s.add("first answer/"+name, why, func(t *trial) {
			fault.Nth = []int{1}
			t.discord.faults(fault)
			t.play("limit message1 fixed 10/1s; send 6 message1; all end within 10s; none refused")
			t.succeed(t.sent[1:], true)
		}, append(needs, Discovery)...)
	}
	for _, f := range faults {
		add(f.name, f.fault)
	}
	add("refused: bucket", refuses(1, "user", time.Second))
	add("refused: resource", refuses(1, "shared", time.Second))
	// A limiter with several parts may send a request before all its parts know of these two refusals.
	add("refused: credential", refuses(1, "global", time.Second), OneMind)
	add("refused: address", refuses(1, "edge", time.Second), OneMind)
	for _, l := range [][3]string{ // a name, implausible limits, and the limits of later answers
		{"nothing counted", "5/5 1s", "4/5 1s"},
		{"more left than the limit", "9/5 1s", "4/5 1s"},
		{"reset now", "4/5 0s", "4/5 1s"},
		{"used up, reset now", "0/5 0s", "4/5 1s"},
		{"no hash", "4/5 1s -", "4/5 1s -"},
	} {
		s.play("first answer/"+l[0], why, "message1 gets 200 "+l[1]+"\n"+
			strings.Repeat("a: message1; 2s+ later; a goes; a gets 200 "+l[2]+"\n", 4))
	}
}

func (s *suite) pairs() {
	for _, p := range []struct {
		name, first, second  string
		sameRoute, sameMajor bool
	}{
		{"same route, no major parameter", "user", "user", true, true},
		{"same route, same major parameter", "message1", "message1", true, true},
		{"same route, other major parameter", "message1", "message2", true, false},
		{"other route, no major parameter", "user", "regions", false, true},
		{"other route, same major parameter", "message1", "rename1", false, true},
		{"other route, other major parameter", "message1", "rename2", false, false},
		{"other method, no major parameter", "user", "edit-user", false, true},
		{"other method, same major parameter", "message1", "history1", false, true},
		{"other method, other major parameter", "message1", "history2", false, false},
	} {
		add := func(name, hash, secondHash string, shared bool, needs ...Promise) {
			left, verb := 1, "goes"
			if shared {
				left, verb = 0, "waits"
			}
			s.play("pair/"+name+"/"+p.name,
				"requests share a count only if major parameter and bucket hash (without one, route) are the same",
				fmt.Sprintf(`
					%s gets 200 1/2 5s %s # two are allowed
					%s gets 200 %d/2 5s %s
					%[1]s %[6]s; %[3]s %[6]s
					5s+ later; %[1]s goes`, p.first, hash, p.second, left, secondHash, verb), needs...)
		}
		add("without a hash", "-", "-", p.sameRoute && p.sameMajor, OneMind)
		add("same hash", "one", "one", p.sameMajor)
		if !p.sameRoute {
			add("other hash", "one", "two", false)
		}
	}
}

func (s *suite) troubles() {
	s.play("trouble/a server error neither fills nor empties",
		"a 5xx without headers says nothing about the count; it is neither a reset nor a refusal", `
			message1 gets 200 4/5 2s; message1 gets 502
			abc: message1 go; de: message1 wait # the 502 may have been counted
			de cancel
			a gets 200 2/5 2s; b gets 200 1/5 2s; c gets 200 0/5 2s
			4s+ later; message1 goes`)
	add := func(name string, fault discordsim.Fault) {
		s.add("trouble/"+name,
			"a request may have been counted even if no limits are returned; it must neither stop others nor free a place",
			func(t *trial) { t.survive(30, fault) })
	}
	for _, f := range faults {
		f.fault.Every = 4
		add(f.name, f.fault)
	}
	add("slow answers", discordsim.Fault{Every: 4, Delay: 3 * time.Second})
	add("all of the first", discordsim.Fault{Nth: []int{1, 2, 3}, Connection: discordsim.ConnectionLostBefore})
}
