package limitertest

import (
	"net/http"
	"time"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/ratelimits"
	"github.com/ratelight/ratelight/routes"
)

// refusedKind is a class of 429 and the requests that it holds.
type refusedKind struct {
	name   string
	needs  []Promise
	wait   time.Duration
	answer func(wait time.Duration) ratelimits.Response
	why    string

	// Each is true if these requests wait: those with other fields, in the bucket, of the credential, all requests.
	fields, bucket, credential, address bool
}

var refusedKinds = []refusedKind{
	{
		name: "bucket", wait: 1234 * time.Millisecond, fields: true, bucket: true,
		answer: func(d time.Duration) ratelimits.Response { return refusedIn(ratelimits.ClassUser, 0, d) },
		why:    "scope user and nothing left: this bucket is used up, but no other one",
	},
	{
		name: "resource", wait: 1234 * time.Millisecond, fields: true, bucket: true,
		answer: func(d time.Duration) ratelimits.Response { return refusedIn(ratelimits.ClassShared, 3, d) },
		why:    "scope shared: all clients together have used up this channel, but no other one",
	},
	{
		name: "fields", needs: []Promise{SubLimits}, wait: 1234 * time.Millisecond,
		answer: func(d time.Duration) ratelimits.Response { return refusedIn(ratelimits.ClassSubLimit, 3, d) },
		why:    "scope user although some are left: a hidden limit of body fields; requests with other fields need not wait",
	},
	{
		name: "credential", wait: 1234 * time.Millisecond, fields: true, bucket: true, credential: true,
		answer: func(d time.Duration) ratelimits.Response { return refused(ratelimits.ClassGlobal, d) },
		why:    "a global 429 is about one authorization, except its interactions, and about no other authorization",
	},
	{
		name: "address", needs: []Promise{Edge}, wait: 2 * time.Second,
		fields: true, bucket: true, credential: true, address: true,
		answer: func(d time.Duration) ratelimits.Response { return refused(ratelimits.ClassEdge, d) },
		why:    "the network in front of Discord refuses an IP address, whatever the credential and the route",
	},
}

// prepareRefusal lets the limiter learn all routes, except the unknown one, that the function reaches checks. Then it
// answers a message in channel 1 with the 429 of k. It returns the time of that answer.
func prepareRefusal(t *trial, k refusedKind) (answered time.Time) {
	t.tell(message(1), ok("messages", 5, 4, time.Second))
	t.tell(message(2), ok("messages", 5, 4, time.Second))
	t.tell(history(1), ok("history", 5, 4, time.Second))
	t.tell(callback(1), plain(http.StatusNoContent))
	t.tell(followUp(1), ok("follow-ups", 5, 4, time.Second))
	t.granted(fromOther(message(1)), "it is another credential").update(t, ok("messages", 5, 4, time.Second))
	first := t.granted(withFields(message(1), "content"), "four of five are left")
	t.wait(10 * time.Millisecond)
	return first.update(t, k.answer(k.wait))
}

// reaches checks which requests wait after a refusal: if waits is true, the requests that must wait, otherwise the
// requests that must not wait.
func reaches(t *trial, k refusedKind, waits bool) {
	prepareRefusal(t, k)
	for _, c := range []struct {
		what    string
		request *buckets.Request
		waits   bool
	}{
		{"a request of the same kind", withFields(message(1), "content"), true},
		{"a request with other fields", withFields(message(1), "embeds"), k.fields},
		{"another channel", request(message(2)), k.credential},
		{"another route of the channel", request(history(1)), k.credential},
		{"an unknown route", request(rename(9)), k.credential},
		{"the answer to an interaction", request(callback(2)), k.address},
		{"a follow-up to an interaction", request(followUp(1)), k.address},
		{"the same route with another credential", fromOther(message(1)), k.address},
	} {
		if c.waits != waits || k.name == "resource" && c.request.Authorization == other {
			// The resource is used up for all credentials, but a limiter need not hold the other credentials' requests.
			continue
		}
		t.expectWait(c.request, c.waits, c.what)
	}
}

func (s *suite) refusals() {
	for _, k := range refusedKinds {
		s.add("refusal/what waits/"+k.name, k.why, func(t *trial) { reaches(t, k, true) }, k.needs...)
		s.add("refusal/how long/"+k.name,
			"a wait shorter than the 429 says causes the next 429, a longer wait loses time", func(t *trial) {
				answered := prepareRefusal(t, k)
				next := t.call(t.ctx, withFields(message(1), "content"))
				t.grantedAfter(next, answered, k.wait, "the next request")
				next.update(t, ok("messages", 5, 4, time.Second))
				t.must(message(1), "the hold is over and four of five are left").giveBack(t)
			}, k.needs...)
	}
	s.add("refusal/one goes first",
		"an unexpected 429 shows that the limiter's data is wrong; one request finds out more, and risks only one 429",
		func(t *trial) {
			answered := t.refuse(refusedIn(ratelimits.ClassUser, 0, time.Second))
			all := t.asks(4, message(1))
			t.grantedAfter(all[0], answered, time.Second, "the first in the queue")
			t.expectGrants(1, all, "one is sent first")
			all[0].update(t, ok("messages", 5, 4, time.Second))
			t.wait(t.late(1))
			t.expectGrants(4, all, "the first was accepted with four left")
		}, OneMind)
	s.add("refusal/of an unknown route, global",
		"the hold of a credential is for unknown routes, too", func(t *trial) {
			probe := t.must(message(1), "it is the first")
			waiting := t.asks(3, message(1))
			if count(waiting) > 0 {
				t.expect(t.without[Discovery], "the requests behind the first were expected to wait, but %s", waiting[0])
				return
			}
			answered := probe.update(t, refused(ratelimits.ClassGlobal, 2*time.Second))
			t.expectWait(request(history(1)), true, "another route of the credential")
			t.wait(2*time.Second - t.late(1))
			t.expectGrants(0, waiting, "the hold lasts for two seconds")
			t.grantedAfter(waiting[0], answered, 2*time.Second, "the first in the queue")
			t.expectGrants(1, waiting, "one is sent first, because the route is still unknown")
			waiting[0].update(t, ok("messages", 5, 4, time.Second))
			t.expectGrants(3, waiting, "the first was accepted with four left")
		}, OneMind)
	s.add("refusal/at the edge without a time",
		"a limiter that takes a missing time for zero sends again and again, until the address is banned", func(t *trial) {
			answered := t.refuse(refused(ratelimits.ClassEdge, 0))
			for _, r := range []*buckets.Request{request(message(1)), request(callback(1)), fromOther(message(1))} {
				t.expectWait(r, true, r.Route.String())
			}
			c := t.ask(message(1))
			t.wait(500 * time.Millisecond)
			t.expect(c.waiting(), "a wait of at least half a second was expected, but %s", c)
			t.wait(time.Until(answered.Add(time.Minute)))
			t.expect(c.granted(), "a grant within a minute was expected, but %s", c)
		}, Edge)
	s.add("refusal/for thirty years",
		"in milliseconds, the wait does not fit into an int32; it must not turn into no wait at all", func(t *trial) {
			t.refuse(refusedIn(ratelimits.ClassUser, 0, 1e9*time.Second))
			t.wait(3 * time.Second)
			t.expectWait(request(message(1)), true, "the refused bucket")
			t.must(message(2), "the refusal is not about another channel").giveBack(t)
		})
	s.add("refusal/leaves the count alone",
		"a shared 429 is not about the client's bucket; after the hold, as many requests are left as before", func(t *trial) {
			t.tell(message(1), ok("messages", 5, 4, time.Minute))
			c := t.must(message(1), "four of five are left")
			t.wait(10 * time.Millisecond)
			answered := c.update(t, in(refused(ratelimits.ClassShared, time.Second), "messages", 5, 3, time.Minute))
			next := t.ask(message(1))
			t.grantedAfter(next, answered, time.Second, "the next request")
			// One request is sent at a time, because the resource, whose count no header names, may have few places.
			for left := 2; left >= 0; left-- {
				next.update(t, ok("messages", 5, left, 59*time.Second))
				next = t.ask(message(1))
				t.expect(next.granted() == (left > 0), "with %d of five left: %s", left, next)
			}
		})
}

func (s *suite) holds() {
	for _, k := range refusedKinds {
		if !k.address {
			s.add("hold/what may go/"+k.name, k.why, func(t *trial) { reaches(t, k, false) }, k.needs...)
		}
		s.add("hold/never shortened/"+k.name,
			"responses arrive in any order; a shorter wait that arrives later must not replace the longer one",
			func(t *trial) { neverShortened(t, k) }, k.needs...)
	}
	s.add("hold/interactions do not share a queue",
		"an interaction has to be answered within three seconds; twenty of them must not wait in one queue",
		func(t *trial) {
			w := newWorld(t)
			w.setTrip(100 * time.Millisecond)
			w.sends(1, callback(1))
			w.wait(200 * time.Millisecond)
			for n := range 20 {
				w.sends(1, callback(n+2))
			}
			t.expectGrants(21, w.sent, "each is the answer to an interaction of its own")
			w.finish(10 * time.Second)
		})
	s.add("hold/credentials are apart",
		"Discord counts each credential separately; a credential that is used up must not stop another", func(t *trial) {
			t.tell(message(1), ok("messages", 2, 0, 10*time.Second))
			t.granted(fromOther(message(1)), "it is another credential").update(t, ok("messages", 2, 1, 10*time.Second))
			t.expectWait(fromOther(message(1)), false, "the other credential, with one of two left,")
			t.expectWait(request(message(1)), true, "the first credential, which has used up its bucket,")
			t.granted(&buckets.Request{Route: message(1)}, "it has no credential")
		})
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
			c.cancel() // the limiter sends one request at a time, so no two responses can arrive in the wrong order
			return
		}
		t.expect(t.soon(c.granted), "a grant was expected at once, because four of five are left, but %s", c)
		flying = append(flying, c)
	}
	t.wait(10 * time.Millisecond)
	answered := flying[0].update(t, k.answer(3*time.Second))
	t.wait(10 * time.Millisecond)
	flying[1].update(t, k.answer(time.Second))
	next := t.call(t.ctx, withFields(message(1), "content"))
	t.wait(3*time.Second - time.Since(answered) - t.late(1))
	t.expect(next.waiting(), "a wait of 3s was expected, because the first answer said so, but %s", next)
	t.wait(time.Second + t.late(2))
	t.expect(next.granted(), "a grant was expected after the longer of the two waits, 3s, but %s", next)
	waited := next.now().at.Sub(answered)
	t.expect(waited >= 3*time.Second, "a wait of 3s was expected, because the first answer said so, but it was %v", waited)
}

// elsewhere is a server that is not Discord.
const elsewhere = "compatible.example"

func (s *suite) servers() {
	const why = "servers share no limits: requests to another server must neither lift Discord's limits nor use them up"
	theirs := func() *buckets.Request { return at(elsewhere, request(message(1))) }
	s.add("server/buckets are apart", why, func(t *trial) {
		t.tell(message(1), ok("messages", 2, 0, 10*time.Second))
		t.granted(theirs(), "only Discord's bucket is used up").update(t, ok("messages", 2, 1, 10*time.Second))
		t.expectWait(theirs(), false, "the other server, with one of two left,")
		t.expectWait(request(message(1)), true, "Discord, where the bucket is used up, whatever the other server says,")
		t.granted(theirs(), "one is left").update(t, ok("messages", 2, 0, 10*time.Second))
		t.expectWait(theirs(), true, "the other server, where the bucket is used up as well,")
	})
	s.add("server/without a hash, too", why, func(t *trial) {
		t.tell(message(1), ok("", 1, 0, 10*time.Second))
		t.granted(theirs(), "only Discord's route is used up").update(t, plain(http.StatusOK))
		t.expectWait(request(message(1)), true, "Discord, where the route is used up,")
	}, OneMind)
	s.add("server/the global limit is each one's own", why, func(t *trial) { // the route has no limit
		t.needsGlobal()
		for _, server := range []string{"", elsewhere} {
			t.call(t.ctx, at(server, request(message(1)))).update(t, plain(http.StatusOK))
		}
		t.wait(4 * time.Second)
		for _, server := range []string{"", elsewhere} {
			var all []*call
			for range t.settings.global + 1 {
				all = append(all, t.call(t.ctx, at(server, request(message(1)))))
			}
			t.expectGrants(t.settings.global, all, "in the first second of server "+server)
		}
	})
	for _, k := range refusedKinds {
		s.add("server/refusals hold nothing elsewhere/"+k.name, why, func(t *trial) {
			for _, route := range []routes.CompiledRoute{message(1), message(2)} {
				c := t.granted(at(elsewhere, request(route)), "no limit is known yet")
				c.update(t, ok("messages", 5, 4, time.Second))
			}
			prepareRefusal(t, k)
			for _, r := range []*buckets.Request{
				withFields(message(1), "content"), request(message(2)), request(history(1)), request(callback(2)),
			} {
				t.granted(at(elsewhere, r), "the refusal was Discord's").giveBack(t)
			}
			t.expectWait(withFields(message(1), "content"), true, "a request of the same kind at Discord")
		}, k.needs...)
	}
}
