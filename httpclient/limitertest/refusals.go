package limitertest

import (
	"time"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/ratelimits"
)

// refusedKind is a class of 429 and the requests that it holds.
type refusedKind struct {
	name   string
	needs  Promise
	wait   time.Duration
	answer func(wait time.Duration) ratelimits.Response
	why    string

	// Whether these wait, too: requests with other fields, the bucket, the credential, all requests.
	fields, bucket, credential, address bool
}

var refusedKinds = []refusedKind{
	{
		name: "bucket", wait: 1234 * time.Millisecond, fields: true, bucket: true,
		answer: func(d time.Duration) ratelimits.Response { return refusedBy("user", "messages", 5, 0, d) },
		why:    "scope user, nothing left: this bucket is used up, and no other one",
	},
	{
		name: "resource", wait: 1234 * time.Millisecond, fields: true, bucket: true,
		answer: func(d time.Duration) ratelimits.Response { return refusedBy("shared", "messages", 5, 3, d) },
		why:    "scope shared: everybody together has used up this channel, and no other one",
	},
	{
		name: "fields", needs: SubLimits, wait: 1234 * time.Millisecond,
		answer: func(d time.Duration) ratelimits.Response { return refusedBy("user", "messages", 5, 3, d) },
		why:    "scope user although some are left: a hidden limit on what the body contains; what contains something else may go",
	},
	{
		name: "credential", wait: 1234 * time.Millisecond, fields: true, bucket: true, credential: true,
		answer: func(d time.Duration) ratelimits.Response { return refusal("global", d).parse() },
		why:    "a global 429 is about the whole authorization, except interactions, and about no other one",
	},
	{
		name: "address", needs: Edge, wait: 2 * time.Second, fields: true, bucket: true, credential: true, address: true,
		answer: func(d time.Duration) ratelimits.Response { return fromEdge(d).parse() },
		why:    "the network in front of Discord refuses an IP address, whoever sends whatever",
	},
}

func refusalCases() []testCase {
	all := []testCase{
		{
			name: "refusal/one goes first", one: true, run: oneGoesFirst,
			why: "a 429 that nobody expected says that something is not as it was known: one request finds out, at the price of one",
		},
		{
			name: "refusal/of an unknown route, global", one: true, run: globalWhileUnknown,
			why: "the hold of a credential is for routes that nobody knows, too",
		},
		{
			name: "refusal/at the edge without a time", needs: Edge, run: edgeWithoutTime,
			why: "a limiter that takes a missing time for none sends again and again, until the address is banned",
		},
		{
			name: "refusal/for thirty years", run: absurdTime,
			why: "the number is more than fits into an int32 of milliseconds; it must not turn into no wait at all",
		},
		{
			name: "refusal/leaves the count alone", run: resourceKeepsCount,
			why: "a shared 429 is not about the own bucket; when the hold is over, what was left is left",
		},
	}
	for _, k := range refusedKinds {
		all = append(all,
			testCase{name: "refusal/what waits/" + k.name, needs: k.needs, why: k.why, run: func(t *trial) { reaches(t, k, true) }},
			testCase{
				name: "refusal/how long/" + k.name, needs: k.needs, run: func(t *trial) { howLong(t, k) },
				why: "less than the time that was said draws the next 429, more than it is lost",
			})
	}
	return all
}

// prepareRefusal lets the limiter learn all routes that a refusal may hold, and refuses a message in channel 1. It
// returns the time of the refusal.
func prepareRefusal(t *trial, k refusedKind) (answered time.Time) {
	t.tell(message(1), ok("messages", 5, 4, time.Second))
	t.tell(message(2), ok("messages", 5, 4, time.Second))
	t.tell(history(1), ok("history", 5, 4, time.Second))
	t.tell(callback(1), plain(204))
	t.tell(followUp(1), ok("follow-ups", 5, 4, time.Second))
	foreign := t.call(t.ctx, fromOther(message(1)))
	t.expect(foreign.granted(), "another credential was expected to be granted at once, but %s", foreign)
	foreign.update(t, ok("messages", 5, 4, time.Second))
	refused := t.call(t.ctx, withFields(message(1), "content"))
	t.expect(refused.granted(), "a grant was expected at once, as four of five are left, but %s", refused)
	t.wait(10 * time.Millisecond)
	return refused.update(t, k.answer(k.wait))
}

// reaches checks the requests that must wait after a refusal, or those that must not.
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
		{"a route that nobody knows", request(rename(9)), k.credential},
		{"the answer to an interaction", request(callback(2)), k.address},
		{"a follow-up to an interaction", request(followUp(1)), k.address},
		{"the same route with another credential", fromOther(message(1)), k.address},
	} {
		if c.waits != waits || k.name == "resource" && c.request.Authorization == other {
			// A resource is used up for all credentials, but not every limiter shares that among credentials.
			continue
		}
		t.expectWait(c.request, c.waits, c.what)
	}
}

func howLong(t *trial, k refusedKind) {
	answered := prepareRefusal(t, k)
	next := t.call(t.ctx, withFields(message(1), "content"))
	t.grantedAfter(next, answered, k.wait, "the next request")
	next.update(t, ok("messages", 5, 4, time.Second))
	t.must(message(1), "the hold is over and four of five are left").giveBack(t)
}

func oneGoesFirst(t *trial) {
	t.tell(message(1), ok("messages", 5, 4, time.Second))
	c := t.must(message(1), "four of five are left")
	t.wait(10 * time.Millisecond)
	answered := c.update(t, refusedBy("user", "messages", 5, 0, time.Second))
	all := t.asks(4, message(1))
	t.grantedAfter(all[0], answered, time.Second, "the first in line")
	t.expect(count(all) == 1, "one was expected to go first, but %d went", count(all))
	all[0].update(t, ok("messages", 5, 4, time.Second))
	t.wait(t.late(1))
	t.expect(count(all) == 4, "the others were expected to follow when it was accepted with four left, but %d have gone", count(all)-1)
}

func globalWhileUnknown(t *trial) {
	probe := t.must(message(1), "it is the first")
	waiting := t.asks(3, message(1))
	if count(waiting) > 0 {
		t.expect(t.without[Discovery], "those behind the first on an unknown route were expected to wait, but %s", waiting[0])
		return
	}
	answered := probe.update(t, refusal("global", 2*time.Second).parse())
	t.expect(t.waits(request(history(1))), "another route of the credential was expected to wait")
	t.wait(2*time.Second - t.late(1))
	t.expect(count(waiting) == 0, "nobody was expected to go in the first two seconds, but %d did", count(waiting))
	t.grantedAfter(waiting[0], answered, 2*time.Second, "the first in line")
	t.expect(count(waiting) == 1, "one was expected to go first, as the route is as unknown as before, but %d did", count(waiting))
	waiting[0].update(t, ok("messages", 5, 4, time.Second))
	t.expect(count(waiting) == 3, "the others were expected to follow, but %d of 3 have gone", count(waiting))
}

func edgeWithoutTime(t *trial) {
	t.tell(message(1), ok("messages", 5, 4, time.Second))
	answered := t.must(message(1), "four of five are left").update(t, fromEdge(0).parse())
	for _, r := range []*buckets.Request{request(message(1)), request(callback(1)), fromOther(message(1))} {
		t.expect(t.waits(r), "%v was expected to wait", r.Route)
	}
	c := t.ask(message(1))
	t.wait(500 * time.Millisecond)
	t.expect(c.waiting(), "a wait of half a second, at the least, was expected, but %s", c)
	t.wait(time.Until(answered.Add(time.Minute)))
	t.expect(c.granted(), "a try within a minute was expected, but %s", c)
}

func absurdTime(t *trial) {
	t.tell(message(1), ok("messages", 5, 4, time.Second))
	c := t.must(message(1), "four of five are left")
	c.update(t, refusedBy("user", "messages", 5, 0, 1e9*time.Second))
	t.wait(3 * time.Second)
	t.expect(t.waits(request(message(1))), "the refused bucket was expected to wait")
	t.must(message(2), "another channel has nothing to do with it").giveBack(t)
}

func resourceKeepsCount(t *trial) {
	t.tell(message(1), ok("messages", 5, 4, time.Minute))
	c := t.must(message(1), "four of five are left")
	t.wait(10 * time.Millisecond)
	answered := c.update(t, refusal("shared", time.Second).in(limits{"messages", 5, 3, time.Minute}).parse())
	next := t.ask(message(1))
	t.grantedAfter(next, answered, time.Second, "the next request")
	// One after the other, because the resource may still be short.
	for left := 2; left >= 0; left-- {
		next.update(t, ok("messages", 5, left, 59*time.Second))
		next = t.ask(message(1))
		t.expect(next.granted() == (left > 0), "with %d of five left, the next was expected to go if there is one, but %s", left, next)
	}
}
