package discordsim

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestZeroConfigurationWorks(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Config{})
	responses := send(w, 0, 6, with(post, "/anything/at/all"))
	assert.Equal(t, []int{200, 200, 200, 200, 200, 429}, statuses(responses))
	assert.Len(t, responses[0].Header.Get("X-RateLimit-Bucket"), 32)
	assert.NotEqual(t, responses[0].Header.Get("X-RateLimit-Bucket"),
		w.Handle(start, with(post, "/anything/else")).Header.Get("X-RateLimit-Bucket"))
}

func TestCountersAreSplitByHashMajorAndAuthorization(t *testing.T) {
	t.Parallel()
	one := Fixed(1, time.Second)
	tests := []struct {
		name  string
		other Request
		same  bool
	}{
		{"same request", post, true},
		{"other version, query", with(post, "/v9/channels/1/messages?x=1"), true},
		{"other route of that hash", by("PUT", "/channels/1/pins/5"), true},
		{"same route, other major", with(post, "/channels/2/messages"), false},
		{"other authorization", Request{Method: "POST", Path: post.Path, Authorization: "Bot b"}, false},
		{"no authorization", Request{Method: "POST", Path: post.Path}, false},
		{"other hash", by("GET", "/channels/1/messages"), false},
	}
	for _, test := range tests {
		w := newWorld(t, Config{Rules: []Rule{
			{Method: "POST", Path: "/channels/{id}/messages", Hash: "h", Quota: one},
			{Path: "/channels/{id}/pins/{id}", Hash: "h", Quota: one},
			{Method: "GET", Path: "/channels/{id}/messages", Hash: "g", Quota: one},
		}})
		w.Handle(start, post)
		status := 200
		if test.same {
			status = 429
		}
		assert.Equal(t, status, w.Handle(start, test.other).Status, test.name)
	}
}

func TestGlobalLimitCountsPerAuthorizationInPhasedSeconds(t *testing.T) {
	t.Parallel()
	w := messages(t, Rule{}, func(c *Config) { c.Global = Aligned(50, time.Second, 300*ms) })
	assert.Equal(t, 10, count(send(w, 200*ms, 60, post), ClassGlobal))
	assert.Equal(t, 1, count(send(w, 299*ms, 1, post), ClassGlobal))
	assert.Equal(t, 0, count(send(w, 300*ms, 50, post), ClassGlobal), "the window begins at its phase")
	other := Request{Method: "POST", Path: post.Path, Authorization: "Bot b"}
	assert.Equal(t, 0, count(send(w, 300*ms, 50, other), ClassGlobal))
	assert.Equal(t, 1, count(send(w, 1299*ms, 1, post), ClassGlobal))
	assert.Equal(t, 0, count(send(w, 1300*ms, 1, post), ClassGlobal))
}

func TestWhoIsExemptFromTheGlobalLimit(t *testing.T) {
	t.Parallel()
	webhook := Request{Method: "POST", Path: "/webhooks/5/token"}
	tests := []struct {
		name    string
		request Request
		first   Request
		refused bool
	}{
		{"callback", Request{Method: "POST", Path: "/interactions/1/t/callback"}, webhook, false},
		{"follow-up", Request{Method: "POST", Path: "/webhooks/5/" + interactionToken}, webhook, false},
		{"original response", with(Request{Method: "PATCH"}, "/webhooks/5/"+interactionToken+"/messages/@original"),
			webhook, false},
		{"webhooks count for the address", webhook, Request{Method: "GET", Path: "/gateway"}, true},
		{"webhooks do not count for the bot", webhook, post, false},
		{"webhooks with a credential count for the bot", by("POST", "/webhooks/5/token"), post, true},
		{"callback with a credential", by("POST", "/interactions/1/t/callback"), post, true},
	}
	for _, test := range tests {
		w := newWorld(t, Config{Global: Aligned(1, time.Second, 0), Default: &Rule{Path: "**"}})
		require.Equal(t, 200, w.Handle(start, test.first).Status)
		assert.Equal(t, test.refused, w.Handle(start, test.request).Class == ClassGlobal, test.name)
	}
}

func TestEdgeBanHitsEverybodyAtTheAddress(t *testing.T) {
	t.Parallel()
	config := Config{Edge: []EdgeBan{{From: time.Second, Until: 3 * time.Second}}}
	callback := Request{Method: "POST", Path: "/interactions/1/t/callback"}
	other := Request{Method: "GET", Path: "/gateway", Authorization: "Bot b"}
	elsewhere := Request{Method: "GET", Path: "/gateway", Address: "10.0.0.1"}
	for moment, class := range map[time.Duration]Class{
		999 * ms: ClassNone, 1000 * ms: ClassEdge, 2999 * ms: ClassEdge, 3000 * ms: ClassNone,
	} {
		w := newWorld(t, config)
		for _, request := range []Request{callback, other, elsewhere} {
			assert.Equal(t, class, w.Handle(at(moment), request).Class, "%v %s", moment, request.Path)
		}
	}
}

func TestInvalidRequestsEndInABan(t *testing.T) {
	t.Parallel()
	config := Config{
		Rules: []Rule{
			{Path: "/forbidden", Status: 403},
			{Path: "/unauthorized", Status: 401},
			{Path: "/missing", Status: 404},
			{Path: "/shared", Shared: &SharedLimit{Quota: Fixed(1, time.Hour)}},
		},
		Default: &Rule{Path: "**", Quota: Fixed(1, time.Hour)},
		Global:  Unlimited(),
		Invalid: InvalidLimit{Limit: 6, Period: 10 * time.Minute, Ban: time.Hour},
	}
	get := func(path string) Request { return by("GET", path) }
	w := newWorld(t, config)
	send(w, 0, 3, get("/shared")) // the shared limit accepts one and refuses two
	send(w, 0, 3, get("/missing"))
	assert.Zero(t, w.Report().Invalid, "shared refusals and 404 do not count")
	send(w, 0, 2, get("/forbidden"))
	send(w, 0, 1, get("/unauthorized"))
	send(w, 0, 3, get("/limited"))
	assert.Equal(t, 5, w.Report().Invalid)
	assert.Equal(t, 404, w.Handle(at(9*time.Minute), get("/missing")).Status)
	w.Handle(at(9*time.Minute), get("/forbidden")) // the sixth invalid request
	assert.Equal(t, ClassEdge, w.Handle(at(9*time.Minute), get("/missing")).Class)
	assert.Equal(t, ClassEdge, w.Handle(at(69*time.Minute-1), get("/missing")).Class)
	assert.Equal(t, ClassNone, w.Handle(at(69*time.Minute), get("/missing")).Class)
	assert.Equal(t, 1, w.Report().Bans)

	spread := newWorld(t, config)
	for i := range 100 {
		spread.Handle(at(time.Duration(i)*2*time.Minute), get("/forbidden"))
	}
	assert.Zero(t, spread.Report().Bans, "five invalid requests in ten minutes are within the limit")
}

func TestSubLimitTakesTheOrdinaryPlaceToo(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Config{Rules: []Rule{{
		Method: "PATCH", Path: "/channels/{id}", Quota: Fixed(5, 10*time.Second),
		SubLimits: []SubLimit{{Fields: []string{"name", "topic"}, Quota: Fixed(2, 10*time.Minute)}},
	}}})
	rename, plain := by("PATCH", "/channels/1", "nsfw", "topic"), by("PATCH", "/channels/1", "nsfw")
	responses := send(w, 0, 3, rename)
	assert.Equal(t, []int{200, 200, 429}, statuses(responses))
	assert.Equal(t, ClassSubLimit, responses[2].Class)
	assert.Equal(t, "2", responses[2].Header.Get("X-RateLimit-Remaining"))
	assert.Equal(t, []int{200, 200, 429}, statuses(send(w, 0, 3, plain)), "the refused rename took a place")
	assert.Equal(t, []int{200, 200, 429}, statuses(send(w, 0, 3, with(rename, "/channels/2"))),
		"the sub-limit is counted for each major parameter")
	assert.Equal(t, 200, w.Handle(at(11*time.Second), plain).Status)
	assert.Equal(t, 429, w.Handle(at(11*time.Second), rename).Status)
	assert.Equal(t, 200, w.Handle(at(10*time.Minute), rename).Status)
}

func TestSharedLimitIsSharedByEverybody(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Config{Rules: []Rule{{
		Method: "POST", Path: "/webhooks/{id}/{token}", Quota: Fixed(5, 2*time.Second),
		Shared: &SharedLimit{Name: "channel", Quota: Fixed(3, time.Minute), Key: func(Call) string { return "channel 9" }},
	}}})
	for i := range 3 {
		require.Equal(t, 200, w.Handle(start, Request{Method: "POST", Path: fmt.Sprintf("/webhooks/%d/t", i)}).Status)
	}
	response := w.Handle(at(time.Second), Request{Method: "POST", Path: "/webhooks/7/t", Authorization: "Bot z"})
	assert.Equal(t, ClassShared, response.Class)
	assert.Equal(t, "59", response.Header.Get("Retry-After"))
	assert.Equal(t, "4", response.Header.Get("X-RateLimit-Remaining"))
}

func TestEdgeLimitOfARuleBlocksThatRuleOnly(t *testing.T) {
	t.Parallel()
	limit := &EdgeLimit{Quota: Fixed(2, 10*time.Minute), Ban: time.Hour}
	w := newWorld(t, Config{Rules: []Rule{{Path: "/invites/{code}", Edge: limit}}})
	invite := Request{Method: "GET", Path: "/invites/x"}
	assert.Equal(t, 1, count(send(w, 0, 3, invite), ClassEdge))
	assert.Equal(t, 200, w.Handle(start, post).Status)
	assert.Equal(t, ClassEdge, w.Handle(at(time.Hour-1), invite).Class)
	assert.Equal(t, 0, count(send(w, time.Hour, 2, invite), ClassEdge))
}

func TestLimitsAndHashesChangeAtTheirTime(t *testing.T) {
	t.Parallel()
	w := messages(t, Rule{Hash: "a", Quota: Fixed(5, time.Second), Changes: []Change{
		{At: 10 * time.Second, Quota: Fixed(2, time.Second)},
		{At: 20 * time.Second, Hash: "b"},
		{At: 30 * time.Second, Quota: Sliding(4, time.Second)},
		{At: 40 * time.Second, Quota: Unlimited()},
	}})
	for _, test := range []struct {
		at    time.Duration
		hash  string
		limit int
	}{
		{9999 * ms, "a", 5}, {11 * time.Second, "a", 2}, {20 * time.Second, "b", 2}, {31 * time.Second, "b", 4},
		{40 * time.Second, "", 6},
	} {
		responses := send(w, test.at, 6, post)
		assert.Equal(t, 6-test.limit, count(responses, ClassUser), test.at)
		assert.Equal(t, test.hash, responses[0].Header.Get("X-RateLimit-Bucket"))
	}
}

func TestHashesThatMove(t *testing.T) {
	t.Parallel()
	names := func(vary func(Call) Variant) []string {
		return hashes(send(messages(t, Rule{Quota: Fixed(2, second), Vary: vary}), 0, 4, post))
	}
	assert.Equal(t, []string{"a", "b", "a", "b"}, names(Alternate("a", "b")))
	assert.Equal(t, []string{"x1", "x2", "x3", "x4"}, names(EachTime("x")))

	twins := newWorld(t, Config{Rules: []Rule{
		{Path: "/channels/{id}/pins", Hash: "p", Announce: "same", Quota: Fixed(1, time.Second)},
		{Path: "/channels/{id}/invites", Hash: "q", Announce: "same", Quota: Fixed(3, time.Second)},
	}})
	pins := send(twins, 0, 2, with(post, "/channels/1/pins"))
	invites := send(twins, 0, 3, with(post, "/channels/1/invites"))
	assert.Equal(t, []int{200, 429}, statuses(pins))
	assert.Equal(t, []int{200, 200, 200}, statuses(invites), "the rules announce one hash and have two counters")
	assert.Equal(t, pins[0].Header.Get("X-RateLimit-Bucket"), invites[0].Header.Get("X-RateLimit-Bucket"))
}

func TestForeignUseTakesPlaces(t *testing.T) {
	t.Parallel()
	w := messages(t, Rule{Quota: Fixed(5, time.Second)}, func(c *Config) {
		c.Foreign = []ForeignUse{
			{Request: post, At: []time.Duration{time.Second, 0}, Count: 3},
			{Request: post, Every: 100 * ms, From: 2 * time.Second, Until: 2300 * ms},
		}
	})
	assert.Equal(t, []int{200, 200, 429}, statuses(send(w, 0, 3, post)), "at the same moment other clients come first")
	assert.Equal(t, "1", w.Handle(at(1100*ms), post).Header.Get("X-RateLimit-Remaining"))
	assert.Equal(t, "1", w.Handle(at(2950*ms), post).Header.Get("X-RateLimit-Remaining"),
		"three foreign requests came before")
	assert.Equal(t, 9, w.Report().Foreign)
	assert.Equal(t, 1, w.Consume(at(2960*ms), post, 4))
}

func TestTimeNeverGoesBackwards(t *testing.T) {
	t.Parallel()
	w := messages(t, Rule{Quota: Fixed(1, time.Second)})
	w.Handle(at(5*time.Second), post)
	assert.Equal(t, "1.000", w.Handle(at(time.Second), post).Header.Get("X-RateLimit-Reset-After"))
}

// With any sequence of requests, no limit may be exceeded, and the sums of the report must be right.
func TestBooksAddUp(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		quota := drawQuota(t)
		config := Config{
			Rules: []Rule{{
				Path: "/channels/**", Quota: quota, Hash: "h",
				SubLimits: []SubLimit{{Fields: []string{"name"}, Quota: Sliding(2, 3*time.Second)}},
				Shared:    &SharedLimit{Quota: Fixed(6, 2*time.Second)},
				Faults: []Fault{
					{Probability: 0.1, Status: 502}, {Probability: 0.1, Status: 403, Uncounted: true},
					{Probability: 0.1, Connection: ConnectionLostBefore}, {Probability: 0.1, Connection: ConnectionLostAfter},
				},
			}},
			Global:  Aligned(9, time.Second, 0),
			Edge:    []EdgeBan{{From: 5 * time.Second, Until: 6 * time.Second}},
			Foreign: []ForeignUse{{Request: post, Every: 700 * ms}},
			Seed:    rapid.Uint64().Draw(t, "seed"),
			FullLog: true,
		}
		w, err := NewWorld(start, config)
		require.NoError(t, err)
		now := start
		n := rapid.IntRange(0, 200).Draw(t, "requests")
		for range n {
			now = now.Add(time.Duration(rapid.IntRange(0, 300).Draw(t, "step")) * ms)
			request := post
			request.Path = rapid.SampledFrom([]string{"/channels/1", "/channels/2", "/gateway"}).Draw(t, "path")
			request.Fields = rapid.SampledFrom([][]string{nil, {"name"}}).Draw(t, "fields")
			response := w.Handle(now, request)
			if rapid.Bool().Draw(t, "delivered") {
				w.Deliver(response, now.Add(80*ms))
			}
		}
		report := w.Report()
		require.Equal(t, n, report.Requests)
		require.Equal(t, n, report.Accepted+report.Failed+report.Refused.Total()+report.Lost)
		require.LessOrEqual(t, report.Avoidable.Total()+report.Excused.Total(), report.Refused.Total())
		require.Len(t, w.Events(), n)
		require.Len(t, w.Refusals(), report.Refused.Total())

		var accepted int
		counted := make(map[string]int) // for each aligned window of the global limit
		for _, event := range w.Events() {
			if event.Accepted > 0 {
				accepted++
				require.Equal(t, accepted, event.Accepted)
				key := fmt.Sprint(event.At.Sub(start).Truncate(time.Second))
				counted[key]++
				require.LessOrEqual(t, counted[key], 9)
			}
			require.Equal(t, event.Class != ClassNone, event.Verdict != VerdictNone)
		}
		var buckets Tally
		for _, bucket := range report.Buckets {
			buckets.add(bucket.Tally)
		}
		require.Equal(t, report.Accepted, buckets.Accepted)
		require.Equal(t, report.Refused.User, buckets.Refused.User)
	})
}

// Discord counts the requests with a webhook's token in one bucket, whether they have an authorization or not.
func TestOneBucketForAllAuthorizations(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Config{Rules: []Rule{{
		Path: "/webhooks/{id}/{token}", Hash: "h", Quota: Fixed(2, second),
		SubLimits: []SubLimit{{Quota: Fixed(1, 10*second)}},
	}}})
	anonymous := Request{Method: "POST", Path: "/webhooks/1/token"}
	for _, want := range []struct {
		request Request
		class   Class
	}{{by("POST", anonymous.Path), ClassNone}, {anonymous, ClassSubLimit}, {anonymous, ClassUser}} {
		assert.Equal(t, want.class, w.Handle(start, want.request).Class)
	}
}
