package discordtest_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/httpclient/discordtest"
)

// inBubble runs f in a bubble with a new server.
func inBubble(t *testing.T, f func(t *testing.T, server *discordtest.Server), rules ...discordtest.Rule) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(t, discordtest.NewServer(t, rules...)) })
}

func TestLimitsWithoutAnyRule(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, server *discordtest.Server) {
		client := server.Client()
		assert.Equal(t, []int{200, 200, 200, 200, 200, 429}, post(t, client, 6))
		for n := range 6 {
			assert.Equal(t, map[bool]int{true: 200, false: 429}[n < 5], get(t, client, "/guilds/7").status)
			a := answered(t, client, http.MethodPost, base+"/interactions/1/token/callback", "{}")
			assert.Equal(t, 200, a.status)
			assert.Empty(t, a.header.Get("X-RateLimit-Limit"))
		}
		reaction := base + messages + "/2/reactions/%F0%9F%91%8D/@me"
		for _, want := range []struct {
			method string
			status int
		}{{http.MethodPut, 200}, {http.MethodDelete, 429}} {
			assert.Equal(t, want.status, answered(t, client, want.method, reaction, "").status, "reactions are counted together")
		}
		for _, body := range []string{`{"name":"a"}`, `{"topic":"b"}`, `{"nsfw":true}`} {
			assert.Equal(t, 200, answered(t, client, http.MethodPatch, base+"/channels/1", body).status)
		}
		a := answered(t, client, http.MethodPatch, base+"/channels/1", `{"name":"c"}`)
		assert.Equal(t, 429, a.status)
		assert.NotEqual(t, "0", a.header.Get("X-RateLimit-Remaining"), "a sub-limit")
	})
}

// When a limit has room again depends on its kind: for all requests at once, for each one period after it, or at a
// steady rate.
func TestKindsOfLimits(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		rule discordtest.Rule
		// at has the free places at 1 s and at 1.5 s. The first request is sent at 0, the second at 500 ms.
		at []int
	}{
		{"Window", discordtest.Window(create, 2, time.Second), []int{0, 2}},
		{"Sliding", discordtest.Sliding(create, 2, time.Second), []int{0, 1}},
		{"Leaky", discordtest.Leaky(create, 2, 2*time.Second), []int{0, 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T, server *discordtest.Server) {
				post(t, server.Client(), 1)
				time.Sleep(500 * time.Millisecond)
				post(t, server.Client(), 1)
				for _, want := range c.at {
					statuses := post(t, server.Client(), want+1)
					assert.Equal(t, append(slices.Repeat([]int{200}, want), 429), statuses)
					time.Sleep(500 * time.Millisecond)
				}
			}, c.rule)
		})
	}
}

func TestLimitsAreCountedByMajorParameterAndAuthorization(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, server *discordtest.Server) {
		client := server.Client()
		assert.Equal(t, []int{200, 429}, post(t, client, 2))
		assert.Equal(t, []int{200}, post(t, client, 1, "Authorization", "Bot b"))
		a := answered(t, client, http.MethodPost, base+"/channels/2/messages", "")
		assert.Equal(t, 200, a.status)
		for _, want := range []int{200, 200, 200, 429} { // the first rule that matches counts, so this channel allows three
			assert.Equal(t, want, answered(t, client, http.MethodPost, base+"/channels/9/messages", "").status)
		}
	}, discordtest.Window("POST /channels/9/messages", 3, time.Second),
		discordtest.Window("create_message", 1, time.Second))
}

// A rule for "*" applies to operations without a rule of their own, whatever the order of the rules.
func TestLimitOfEverythingIsForTheRest(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, server *discordtest.Server) {
		assert.Equal(t, []int{200, 200, 429}, post(t, server.Client(), 3))
		assert.Equal(t, 200, get(t, server.Client(), "/guilds/1").status)
		assert.Equal(t, 429, get(t, server.Client(), "/guilds/1").status)
		assert.Equal(t, 200, get(t, server.Client(), messages).status, "each operation has its own limit")
	}, discordtest.Window("*", 1, time.Minute), discordtest.Window(create, 2, time.Minute))
}

func TestHiddenLimitIsInNoHeader(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, server *discordtest.Server) {
		first := get(t, server.Client(), "/guilds/1")
		second := get(t, server.Client(), "/guilds/1")
		third := get(t, server.Client(), "/guilds/1")
		assert.Equal(t, []int{200, 429, 429}, []int{first.status, second.status, third.status})
		for _, a := range []answer{first, second} {
			assert.Empty(t, a.header.Get("X-RateLimit-Limit"))
			assert.Empty(t, a.header.Get("X-RateLimit-Bucket"))
		}
		assert.Equal(t, "60", second.header.Get("Retry-After"))
		require.Len(t, server.Refused(), 2)
		assert.Equal(t, server.Refused()[1:], server.Avoidable(), "nothing could warn of the first refusal")
	}, discordtest.Unlimited("GET /guilds/{id}"), discordtest.Window("GET /guilds/{id}", 1, time.Minute).Hidden())
}

// A hidden limit applies in addition to the limit in the headers, so a request may be refused although the headers show
// room.
func TestHiddenLimitComesOnTopOfTheOrdinaryOne(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, server *discordtest.Server) {
		assert.Equal(t, []int{200, 200, 429}, post(t, server.Client(), 3))
		assert.Equal(t, discordtest.SubLimit, server.Refused()[0].Refused)
		a := get(t, server.Client(), messages)
		assert.Equal(t, "4", a.header.Get("X-RateLimit-Remaining"))
		time.Sleep(time.Minute)
		assert.Equal(t, []int{200}, post(t, server.Client(), 1))
	}, discordtest.Window(create, 2, time.Minute).Hidden())
}

// Hidden and shared limits leave the ordinary limit of an operation as it is: the next rule that names the operation,
// or else the default.
func TestOrdinaryLimitBelowOthers(t *testing.T) {
	t.Parallel()
	const callback = "POST /interactions/{id}/{token}/callback"
	hidden := func(on string) discordtest.Rule { return discordtest.Window(on, 100, time.Hour).Hidden() }
	shared := func(on string) discordtest.Rule { return discordtest.Window(on, 100, time.Hour).Shared() }
	for _, c := range []struct {
		name, operation, limit, after string
		rules                         []discordtest.Rule
	}{
		{"usual", create, "5", "5.000", []discordtest.Rule{hidden(create)}},
		{"usual, for one channel", create, "5", "5.000", []discordtest.Rule{shared("POST /channels/1/messages")}},
		{"usual, below all", create, "5", "5.000", []discordtest.Rule{hidden("*"), shared("*")}},
		{"none", callback, "", "", []discordtest.Rule{shared(callback)}},
		{"none, below all", callback, "", "", []discordtest.Rule{hidden("*")}},
		{"of all", create, "7", "60.000", []discordtest.Rule{discordtest.Window("*", 7, time.Minute), hidden(create)}},
		{
			"of the template", create, "7", "60.000",
			[]discordtest.Rule{hidden("POST /channels/1/messages"), discordtest.Window(create, 7, time.Minute)},
		},
		{
			"of the same by another name", create, "7", "60.000",
			[]discordtest.Rule{hidden("create_message"), discordtest.Window(create, 7, time.Minute)},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T, server *discordtest.Server) {
				path := strings.NewReplacer("{id}", "1", "{token}", "token").Replace(strings.TrimPrefix(c.operation, "POST "))
				a := answered(t, server.Client(), http.MethodPost, base+path, "{}")
				assert.Equal(t, []string{c.limit, c.after},
					[]string{a.header.Get("X-RateLimit-Limit"), a.header.Get("X-RateLimit-Reset-After")})
			}, c.rules...)
		})
	}
}

// A limit on all requests applies in addition to all other limits, hidden ones included.
func TestLimitsOnTopOfAllOperations(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, server *discordtest.Server) {
		for n, want := range []int{200, 200, 429} {
			assert.Equal(t, want, answered(t, server.Client(), http.MethodPatch, base+"/channels/1", `{"name":"a"}`).status, n)
		}
		assert.Equal(t, discordtest.SubLimit, server.Refused()[0].Refused)
		assert.Equal(t, []int{200, 200, 429}, post(t, server.Client(), 3),
			"the two accepted requests count here, too")
		assert.Equal(t, discordtest.Shared, server.Refused()[1].Refused)
	}, discordtest.Window("*", 4, time.Minute).Shared())
}

func TestSharedLimitIsEverybodys(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, server *discordtest.Server) {
		assert.Equal(t, []int{200, 200}, post(t, server.Client(), 2))
		assert.Equal(t, []int{200, 429}, post(t, server.Client(), 2, "Authorization", "Bot b"))
		require.Len(t, server.Refused(), 1)
		assert.Equal(t, discordtest.Shared, server.Refused()[0].Refused)
		assert.Empty(t, server.Avoidable())
	}, discordtest.Window(create, 3, time.Minute).Shared(), discordtest.Window(create, 10, time.Second))
}

func TestBucketIsSharedByOperations(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, server *discordtest.Server) {
		assert.Equal(t, []int{200}, post(t, server.Client(), 1))
		a := get(t, server.Client(), messages)
		assert.Equal(t, "both", a.header.Get("X-RateLimit-Bucket"))
		assert.Equal(t, "0", a.header.Get("X-RateLimit-Remaining"))
	}, discordtest.Window(create, 2, time.Second).Bucket("both"),
		discordtest.Window("list_messages", 2, time.Second).Bucket("both"))
}

func TestGlobalLimitIsOfTheAuthorization(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, server *discordtest.Server) {
		assert.Equal(t, []int{200, 200, 200, 429}, post(t, server.Client(), 4))
		assert.Equal(t, []int{200}, post(t, server.Client(), 1, "Authorization", "Bot b"))
		assert.Equal(t, discordtest.Global, server.Refused()[0].Refused)
	}, discordtest.GlobalLimit(3), discordtest.Unlimited("*"))
}

// Invalid responses count whether the server or a handler gives them.
func TestInvalidRequestsBanTheAddress(t *testing.T) {
	t.Parallel()
	for _, rule := range []discordtest.Rule{
		discordtest.Answer("GET /users/@me", 401, nil),
		discordtest.Handle("GET /users/@me",
			func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) }),
	} {
		inBubble(t, func(t *testing.T, server *discordtest.Server) {
			for range 3 {
				get(t, server.Client(), "/users/@me")
			}
			assert.Equal(t, []int{429}, post(t, server.Client(), 1, "Authorization", "Bot b"))
			assert.Equal(t, discordtest.Edge, server.Refused()[0].Refused)
			time.Sleep(time.Minute)
			assert.Equal(t, []int{200}, post(t, server.Client(), 1))
		}, rule, discordtest.InvalidLimit(3, time.Minute, time.Minute))
	}
}
