package limitertest

import (
	"fmt"
	"strings"
)

// usualWait is how long most refusals of the cases ask to wait.
const usualWait = "1234ms"

// refusals lists the classes of 429s.
var refusals = []struct {
	name   string
	answer string // see the function answer; T is the time that the 429 asks to wait
	reach  int    // how many of probes wait
	needs  []Promise
	why    string
}{
	{"bucket", "429 user T 0/5 T", 2, nil, "scope user and nothing left: this bucket is used up, but no other one"},
	{"resource", "429 shared T 3/5 T", 2, nil,
		"scope shared: all clients together have used up this channel, but no other one"},
	{"fields", "429 sub-limit T 3/5 T", 1, []Promise{SubLimits},
		"scope user although some are left: a hidden limit of body fields; requests with other fields need not wait"},
	{"credential", "429 global T", 5, nil,
		"a global 429 is about one authorization, except its interactions, and about no other authorization"},
	{"address", "429 edge T", everyProbe, []Promise{Edge},
		"the network in front of Discord refuses an IP address, whatever the credential and the route"},
}

// everyProbe is the number of probes.
const everyProbe = 8

// probes lists requests, from what every 429 holds to what only a refusal of the address holds.
var probes = [everyProbe]struct{ spec, what string }{
	{"message1+content", "a request of the same kind"},
	{"message1+embeds", "a request with other fields"},
	{"message2", "another channel"},
	{"history1", "another route of the channel"},
	{"rename9", "an unknown route"},
	{"callback2", "the answer to an interaction"},
	{"followup1", "a follow-up to an interaction"},
	{"message1+other", "the same route with another credential"},
}

// refused is a script in which the second message, a, gets this answer.
func refused(answer string) string {
	return "message1 gets 200 4/5 1s; a: message1 goes; 10ms later; a gets " + answer + "\n"
}

func (s *suite) refusals() {
	for _, k := range refusals {
		refusal := " gets " + strings.ReplaceAll(k.answer, "T", usualWait) + "\n"
		answered := `
			message1 gets 200 4/5 1s; message2 gets 200 4/5 1s; history1 gets 200 4/5 1s
			callback1 gets 204; followup1 gets 200 4/5 1s; message1+other gets 200 4/5 1s
			a: message1+content goes
			10ms later; a` + refusal
		waits, goes := answered, answered
		for i, p := range probes {
			if i < k.reach {
				waits += p.spec + " waits # " + p.what + "\n"
			} else if k.name != "resource" || i != everyProbe-1 { // it may be held, as it is used up for all credentials
				goes += p.spec + " goes # " + p.what + "\n"
			}
		}
		s.play("refusal/what waits/"+k.name, k.why, waits, k.needs...)
		s.play("refusal/how long/"+k.name,
			"a wait shorter than the 429 says causes the next 429, a longer wait loses time", answered+
				strings.Repeat("b: message1+content goes after "+usualWait+"; b"+refusal, 3)+` # each time
				b: message1+content goes after `+usualWait+`; b gets 200 4/5 1s
				message1 goes`, k.needs...)
		if k.reach < everyProbe {
			s.play("hold/what may go/"+k.name, k.why, goes, k.needs...)
		}
		second := map[bool]string{false: "message1+content", true: "message1+content+other"}[k.reach == everyProbe]
		s.play("hold/never shortened/"+k.name,
			"responses arrive in any order; a shorter wait that arrives later must not replace the longer one", `
				message1 gets 200 4/5 1s
				a: message1+content goes; b: `+second+` goes if fast
				10ms later; a gets `+strings.ReplaceAll(k.answer, "T", "3s")+`
				10ms later; b gets `+strings.ReplaceAll(k.answer, "T", "1s")+`
				c: message1+content goes after 3s to 4s from a`, k.needs...)
		s.play("server/refusals hold nothing elsewhere/"+k.name, apart, `
			message1+elsewhere gets 200 4/5 1s; message2+elsewhere gets 200 4/5 1s`+answered+`
			message1+content+elsewhere goes; message2+elsewhere goes; history1+elsewhere goes; callback2+elsewhere goes
			message1+content waits`, k.needs...)
	}
	s.play("refusal/one goes first",
		"an unexpected 429 shows that the limiter's data is wrong; one request finds out more, and risks only one 429",
		refused("429 user 1s 0/5 1s")+`
			bcde: message1 wait
			b goes after 1s; cde wait
			b gets 200 4/5 1s; 0s+ later; cde go`, OneMind)
	s.play("refusal/of an unknown route, global",
		"the hold of a credential is for unknown routes, too", `
			a: message1 goes; bcd: message1 wait
			a gets 429 global 2s; history1 waits
			b goes after 2s; cd wait # the route is still unknown
			b gets 200 4/5 1s; cd go`, OneMind, Discovery)
	s.play("refusal/at the edge without a time",
		"a limiter that takes a missing time for zero sends again and again, until the address is banned",
		refused("429 edge")+`
			message1 waits; callback1 waits; message1+other waits
			b: message1 waits; 500ms later; b waits
			b goes within 1m`, Edge)
	s.play("refusal/for thirty years",
		"in milliseconds, the wait does not fit into an int32; it must not turn into no wait at all",
		refused("429 user 1000000000s 0/5 1000000000s")+`
			3s later
			message1 waits or fails; message2 goes`)
	s.play("refusal/leaves the count alone",
		"a shared 429 is not about the client's bucket; after the hold, as many requests are left as before", `
			message1 gets 200 4/5 1m; a: message1 goes; 10ms later; a gets 429 shared 1s 3/5 1m
			b: message1 goes after 1s; b gets 200 2/5 59s # one at a time, because no header counts the resource
			message1 gets 200 1/5 59s; message1 gets 200 0/5 59s
			message1 waits`)
}

func (s *suite) holds() {
	var interactions strings.Builder
	for n := range 20 {
		fmt.Fprintf(&interactions, "send 1 callback%d\n", n+2)
	}
	s.add("hold/interactions do not share a queue",
		"an interaction has to be answered within three seconds; twenty of them must not wait in one queue",
		func(t *trial) {
			t.play("trip 100ms; send 1 callback1; 200ms later\n" + interactions.String())
			t.expectGrants(t.sent, 21, "each is the answer to an interaction of its own")
			t.play("all end within 10s")
		})
	s.play("hold/credentials are apart",
		"Discord counts each credential separately; a credential that is used up must not stop another", `
			message1 gets 200 0/2 10s
			message1+other gets 200 1/2 10s
			message1+other goes; message1 waits
			message1+nobody goes`)
}

// apart says why servers must be apart.
const apart = "servers share no limits: requests to another server must neither lift Discord's limits nor use them up"

func (s *suite) servers() {
	s.play("server/buckets are apart", apart, `
		message1 gets 200 0/2 10s
		message1+elsewhere gets 200 1/2 10s # only Discord's bucket is used up
		message1+elsewhere goes; message1 waits
		message1+elsewhere gets 200 0/2 10s; message1+elsewhere waits`)
	s.play("server/without a hash, too", apart, `
		message1 gets 200 0/1 10s -
		message1+elsewhere gets 200; message1 waits`, OneMind)
	s.add("server/the global limit is each one's own", apart, func(t *trial) {
		t.play("message1 gets 200; message1+elsewhere gets 200; 4s later")
		for _, spec := range []string{"message1", "message1+elsewhere"} {
			var all []*call
			for range t.global + 1 {
				all = append(all, t.ask(t.newCall(spec)))
			}
			t.expectGrants(all, t.global, "in the first second of a server")
		}
	}, globalLimit)
}
