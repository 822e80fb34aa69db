package discordtest_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/httpclient/discordtest"
)

// ask sends a request, such as "GET /users/@me", and requires a response.
func ask(t testing.TB, server *discordtest.Server, on string, header ...string) answer {
	t.Helper()
	method, path, _ := strings.Cut(on, " ")
	a := answered(t, server.Client(), method, base+path, "{}", header...)
	return a
}

// accepted sends requests until one gets a 429, but at most 100. It returns the 429, and the number of requests before
// it.
func accepted(t testing.TB, server *discordtest.Server, on string) (n int, refused answer) {
	t.Helper()
	for ; n < 100; n++ {
		if n%40 == 39 {
			time.Sleep(2 * time.Second) // so that the global limit of 50 per second refuses no requests
		}
		time.Sleep(time.Millisecond)
		if a := ask(t, server, on); a.status == http.StatusTooManyRequests {
			return n, a
		}
	}
	return n, answer{}
}

// limited returns the code, the scope and the Retry-After of a 429.
func limited(t testing.TB, refused answer) string {
	t.Helper()
	var body struct{ Code int }
	require.NoError(t, json.Unmarshal([]byte(refused.body), &body), refused.body)
	return fmt.Sprint(body.Code, " ", refused.header.Get("X-RateLimit-Scope"), " ", refused.header.Get("Retry-After"))
}

// snowflake returns the id of a message of the given age.
func snowflake(age time.Duration) string {
	created := time.Now().Add(-age).Sub(time.Date(2015, time.January, 1, 0, 0, 0, 0, time.UTC))
	return fmt.Sprint(created.Milliseconds() << 22)
}

// The headers of two consecutive requests show the kind of a limit.
func TestDiscordAnnouncesItsKindsOfLimits(t *testing.T) {
	t.Parallel()
	for on, want := range map[string]struct{ first, second string }{ // limit, remaining, reset-after
		"GET /channels/1/messages": {"5 4 1.000", "5 3 2.000"}, // a token bucket
		"PATCH /guilds/1":          {"5 4 5.000", "5 3 5.000"}, // a fixed window
		"GET /users/@me":           {"1000 999 0.001", "1000 998 0.001"},
		"GET /users/@me/guilds":    {"1 0 5.000", "1 0 5.000"},
		"GET /gateway":             {"  ", "  "},
	} {
		inBubble(t, func(t *testing.T, server *discordtest.Server) {
			for _, want := range []string{want.first, want.second} {
				header := ask(t, server, on).header
				got := header.Get("X-RateLimit-Limit") + " " + header.Get("X-RateLimit-Remaining")
				assert.Equal(t, want, got+" "+header.Get("X-RateLimit-Reset-After"), on)
			}
		}, discordtest.Discord().Punctual())
	}
}

// Routes that share a bucket have the same bucket hash, and requests to one of them count for the others.
func TestRoutesOfAFamilyShareABucketOfDiscord(t *testing.T) {
	t.Parallel()
	for name, family := range map[string][]string{
		"reactions": {
			"PUT /channels/1/messages/2/reactions/a/@me", "DELETE /channels/1/messages/3/reactions",
			"DELETE /channels/1/messages/3/reactions/b/5",
		},
		"channel": {"PUT /channels/1/permissions/2", "PATCH /channels/1", "DELETE /channels/1/permissions/2"},
		"webhook": {
			"GET /webhooks/1/secret", "PATCH /webhooks/1/secret/messages/2",
			"DELETE /webhooks/1/secret/messages/@original",
		},
		"commands": {"POST /applications/1/commands", "POST /applications/1/guilds/2/commands"},
	} {
		inBubble(t, func(t *testing.T, server *discordtest.Server) {
			hashes := make(map[string]bool)
			before := ""
			for i, on := range family {
				a := ask(t, server, on)
				hashes[a.header.Get("X-RateLimit-Bucket")] = true
				remaining := a.header.Get("X-RateLimit-Remaining")
				first := i == 0 || name == "reactions"
				assert.NotEqual(t, first, remaining < before, "%s: %s after %s", on, remaining, before)
				assert.Equal(t, i > 0 && name == "reactions", a.status == 429, on)
				before = remaining
			}
			assert.Len(t, hashes, 1, name)
		}, discordtest.Discord())
	}
}

// Hidden limits have the sizes, codes and scopes that were measured or reported.
func TestHiddenLimitsOfDiscord(t *testing.T) {
	t.Parallel()
	day := 24 * time.Hour
	for _, c := range []struct {
		on      func() string // a function, because snowflakes depend on the bubble's time
		n       int
		refused string // code, scope, Retry-After
		says    string // limit and remaining in the headers
	}{
		{func() string { return "PATCH /channels/1/messages/" + snowflake(2*time.Hour) }, 3, "30046 user 6", "5 1"},
		{func() string { return "PATCH /channels/1/messages/" + snowflake(time.Minute) }, 5, "0 user 1", "5 0"},
		{func() string { return "DELETE /channels/1/messages/" + snowflake(time.Second) }, 5, "0 user 1", "5 0"},
		{func() string { return "DELETE /channels/1/messages/" + snowflake(day) }, 3, "0 user 1", "3 0"},
		{func() string { return "DELETE /channels/1/messages/" + snowflake(15*day) }, 30, "0 user 1", "30 0"},
		{func() string { return "POST /guilds/1/prune" }, 1, "30040 shared 900", "1000 999"},
		{func() string { return "POST /channels/1/webhooks" }, 50, "0 shared 70", "1000 999"},
	} {
		inBubble(t, func(t *testing.T, server *discordtest.Server) {
			time.Sleep(20 * 365 * day) // the bubble's clock starts in 2000, before Discord's first snowflakes
			on := c.on()
			n, refused := accepted(t, server, on)
			assert.Equal(t, c.n, n, on)
			assert.Equal(t, c.refused, limited(t, refused), on)
			header := refused.header
			assert.Equal(t, c.says, header.Get("X-RateLimit-Limit")+" "+header.Get("X-RateLimit-Remaining"), on)
		}, discordtest.Discord())
	}
}

// All webhooks of a channel share one limit. Messages of webhooks of other channels do not count against it.
func TestWebhooksOfAChannelOfDiscord(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, server *discordtest.Server) {
		var statuses []int
		for n := range 31 {
			time.Sleep(500 * time.Millisecond) // so that the webhooks do not exceed their own limits
			a := ask(t, server, fmt.Sprintf("POST /webhooks/%d/secret", 1+n%2))
			statuses = append(statuses, a.status)
			if a.status == 429 {
				assert.Equal(t, "0 shared 45", limited(t, a))
				assert.NotEqual(t, "0", a.header.Get("X-RateLimit-Remaining"))
			}
		}
		assert.Equal(t, append(slices.Repeat([]int{200}, 30), 429), statuses)
		assert.Equal(t, 200, ask(t, server, "POST /webhooks/3/secret").status,
			"a webhook of another channel has its own limit")
		assert.Equal(t, 200, ask(t, server, "GET /webhooks/1/secret").status, "only messages count")
		assert.Equal(t, 429, ask(t, server, "POST /webhooks/2/secret/slack").status)
	}, discordtest.Discord().WebhooksIn("9", "1").WebhooksIn("9", "2"))
}

// A bucket of one request opens later than its headers say. The 429 says how much later.
func TestBucketsOfDiscordAreLate(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	for _, c := range []struct {
		on           string
		period, late time.Duration
		rules        []discordtest.Rule
	}{
		{"GET /users/@me/guilds", 5 * time.Second, 300 * ms, []discordtest.Rule{discordtest.Discord()}},
		{"PUT /channels/1/messages/2/reactions/a/@me", 250 * ms, 200 * ms, []discordtest.Rule{discordtest.Discord()}},
		{"GET /users/@me/guilds", 5 * time.Second, 0, []discordtest.Rule{discordtest.Discord().Punctual()}},
		{"GET /users/@me", time.Second, 40 * ms, []discordtest.Rule{
			discordtest.Discord().Punctual(), discordtest.Window("GET /users/@me", 1, time.Second).Late(40*ms, 40*ms),
		}},
		{"GET /users/@me", time.Second, 40 * ms, []discordtest.Rule{
			discordtest.Leaky("GET /users/@me", 1, time.Second).Late(40*ms, 40*ms),
		}},
	} {
		inBubble(t, func(t *testing.T, server *discordtest.Server) {
			first := ask(t, server, c.on)
			assert.Equal(t, fmt.Sprintf("%.3f", c.period.Seconds()), first.header.Get("X-RateLimit-Reset-After"), c.on)
			time.Sleep(c.period)
			second := ask(t, server, c.on)
			if c.late == 0 {
				assert.Equal(t, 200, second.status, c.on)
				return
			}
			require.Equal(t, 429, second.status, c.on)
			var body struct {
				RetryAfter float64 `json:"retry_after"`
			}
			require.NoError(t, json.Unmarshal([]byte(second.body), &body))
			assert.InDelta(t, c.late.Seconds(), body.RetryAfter, 0.001, c.on)
			assert.False(t, server.Refused()[0].Avoidable, c.on)
			time.Sleep(c.late)
			assert.Equal(t, 200, ask(t, server, c.on).status, c.on)
		}, c.rules...)
	}
}

func BenchmarkNewServerOfDiscord(b *testing.B) {
	for b.Loop() {
		discordtest.NewServer(nil, discordtest.Discord()).Close()
	}
}
