package proxy_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/httpclient"
	"github.com/ratelight/ratelight/httpclient/discordtest"
	"github.com/ratelight/ratelight/httpclient/proxy"
	"github.com/ratelight/ratelight/ratelimits"
)

// authorize answers as Discord does, but accepts only the token of one bot and all tokens that begin with "Bot valid".
func authorize(rw http.ResponseWriter, r *http.Request) {
	rw.Header().Set("Content-Type", "application/json")
	if a := r.Header.Get("Authorization"); a != token && !strings.HasPrefix(a, "Bot valid") {
		rw.WriteHeader(http.StatusUnauthorized)
		_, _ = io.WriteString(rw, `{"message":"401: Unauthorized","code":0}`)
		return
	}
	_, _ = io.WriteString(rw, "{}")
}

func discordThatAuthorizes(t *testing.T) *world {
	return newWorld(t, []discordtest.Rule{
		discordtest.Unlimited("*"), discordtest.GlobalLimit(1_000_000),
		discordtest.Handle("GET /users/@me", authorize), discordtest.Answer("GET /gateway", 200, map[string]any{}),
	})
}

// as sends a request with the given Authorization directly to the handler.
func (w *world) as(authorization, path string) response {
	r := (&http.Request{
		Method: "GET", URL: &url.URL{Path: path}, Header: http.Header{"Authorization": {authorization}},
	}).WithContext(w.t.Context())
	recorder, start := httptest.NewRecorder(), time.Now()
	w.handler.ServeHTTP(recorder, r)
	return response{Response: recorder.Result(), took: time.Since(start)}
}

// flood sends the given number of requests, and counts the responses by status and reason.
func (w *world) flood(requests int, path string, authorization func(i int) string) map[string]int {
	statuses := make(map[string]int)
	for i := range requests {
		got := w.as(authorization(i), path)
		statuses[fmt.Sprint(got.StatusCode, got.Header.Get("X-Ratelight-Proxy"))]++
	}
	return statuses
}

func heap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

func TestAFloodOfInventedTokensIsBoundedAndDisturbsNobody(t *testing.T) {
	const flood = 100_000
	synctest.Test(t, func(t *testing.T) { // not in parallel, because it measures the program's memory
		w := discordThatAuthorizes(t)
		require.Equal(t, 200, w.as(token, "/users/@me").StatusCode)
		before := heap()
		statuses := w.flood(flood, "/users/@me", func(i int) string {
			if i%(flood/40) == 0 { // the flood takes no virtual time, so these must be few enough for the global limit
				got := w.as(token, "/users/@me")
				assert.Equal(t, 200, got.StatusCode)
				assert.Zero(t, got.took.Round(time.Millisecond), "the known bot must not wait")
			}
			return fmt.Sprint("Bot invented-", i)
		})
		assert.Equal(t, map[string]int{"401": 1000, "429unverified": flood - 1000}, statuses)
		stats := w.handler.Transport().Manager().Stats()
		assert.LessOrEqual(t, stats.Authentications, 1002)
		assert.LessOrEqual(t, stats.Invalid, stats.InvalidLimit/4, "most of the budget is left for others")
		assert.Less(t, int64(heap())-int64(before), int64(16<<20))

		time.Sleep(10 * time.Minute)
		assert.Equal(t, 401, w.as("Bot invented later", "/users/@me").StatusCode)
	})
}

// The number of bots behind a proxy may exceed maxUnverified. All must be let through, because the first success of a
// bot verifies its token.
func TestManyBotsThatWorkAreAllLetThrough(t *testing.T) {
	play(t, func(t *testing.T) {
		valid := func(i int) string { return fmt.Sprint("Bot valid-", i) }
		statuses := discordThatAuthorizes(t).flood(1200, "/users/@me", valid)
		assert.Equal(t, map[string]int{"200": 1200}, statuses)
	})
}

// A success on a route that needs no credential must not verify a token, because a caller could verify invented tokens
// with such a route. If the path has a token, a bot's Authorization is not sent. But a Basic Authorization (for another
// proxy) is sent and takes memory, so the number of Basic Authorizations must also be bounded.
func TestSuccessOnAPublicRouteProvesNothing(t *testing.T) {
	const hook = "/webhooks/1/webhook-token-webhook-token"
	bounded := map[string]int{"200": 1000, "429unverified": 100}
	type story struct {
		scheme, path string
		want         map[string]int
	}
	playEach(t, map[string]story{
		"public":             {"Bot ", "/gateway", bounded},
		"not documented":     {"Bot ", "/not/documented", bounded},
		"a webhook":          {"Bot ", hook, map[string]int{"200": 1100}},
		"a webhook, a proxy": {"Basic ", hook, bounded},
	}, func(t *testing.T, c story) {
		w := discordThatAuthorizes(t)
		assert.Equal(t, c.want, w.flood(1100, c.path, func(i int) string { return fmt.Sprint(c.scheme, i) }))
		assert.Equal(t, 200, w.as(c.scheme+"1", c.path).StatusCode, "one of the thousand")
		assert.LessOrEqual(t, w.handler.Transport().Manager().Stats().Authentications, 1002)
	})
}

// Discord counts an invalid request even if its client does not wait for the response, so the proxy must count such a
// request, too.
func TestARequestWhoseClientHasGoneCountsForTheBudget(t *testing.T) {
	play(t, func(t *testing.T) {
		sent := 0
		w := newWorldOf(t, func(rw http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/api/v10/users/@me" {
				sent++
				time.Sleep(100 * time.Millisecond)
			}
			rw.Header().Set("Via", "1.1 google")
			authorize(rw, r)
		}, proxy.WithTransport(httpclient.WithBuckets(buckets.WithInvalidBudget(100, 10*time.Minute, 0))))
		require.Equal(t, 200, w.as(token, "/users/@me").StatusCode)
		for i := range 200 {
			r := newRequest(t, "POST", fmt.Sprintf("/interactions/%d/aW50ZXJhY3Rpb246%d/callback", i, i), "{}")
			r.Header.Del("Authorization")
			r, cancel := withCancel(r)
			time.AfterFunc(10*time.Millisecond, cancel)
			w.try(r)
			time.Sleep(100 * time.Millisecond)
		}
		assert.Equal(t, 50, sent)
		assert.Equal(t, 50, w.handler.Transport().Manager().Stats().Invalid)
		assert.Equal(t, 200, w.as(token, "/users/@me").StatusCode)
	})
}

// If the upstream does not answer, the proxy must not wait for ever after the client has gone.
func TestTheAnswerForAClientThatHasGoneIsAwaitedForABoundedTime(t *testing.T) {
	play(t, func(t *testing.T) {
		w := newWorldOf(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
			proxy.WithTransport(httpclient.WithAttempts(httpclient.Attempts{Timeout: -1})))
		r, cancel := withCancel(newRequest(t, "GET", "/users/@me", ""))
		time.AfterFunc(time.Second, cancel)
		w.try(r)
		time.Sleep(httpclient.DefaultAttemptTimeout - 5*time.Second)
		assert.Equal(t, 1, w.handler.Transport().Manager().Stats().InFlight)
		time.Sleep(6 * time.Second)
		w.assertNoneLeft()
	})
}

func TestWithoutAnAuthorizationNothingIsUnverified(t *testing.T) {
	play(t, func(t *testing.T) {
		w := newWorld(t, []discordtest.Rule{discordtest.Unlimited("*"), discordtest.GlobalLimit(1_000_000)})
		none := func(int) string { return "" }
		assert.Equal(t, map[string]int{"200": 100}, w.flood(2*buckets.DefaultGlobalLimit, "/gateway", none))
	})
}

// Requests without a credential must not get the address banned, and must not use up the budget of the bots. The same
// must be true after a start without a state, when no bot has had a success yet.
func TestInventedInteractionsStopNoBot(t *testing.T) {
	playEach(t, map[string]bool{"that has worked": true, "that comes later": false}, func(t *testing.T, worked bool) {
		w := newWorld(t, []discordtest.Rule{
			discordtest.Unlimited("*"), discordtest.GlobalLimit(1_000_000), discordtest.Handle("GET /users/@me", authorize),
			discordtest.Handle("GET /webhooks/{id}/{token}/messages/@original", func(rw http.ResponseWriter, _ *http.Request) {
				rw.Header().Set("Via", "1.1 google")
				rw.WriteHeader(http.StatusUnauthorized)
			}),
		})
		if worked {
			require.Equal(t, 200, w.as(token, "/users/@me").StatusCode)
		}
		statuses := make(map[string]int)
		for i := range ratelimits.DefaultInvalidLimit - buckets.DefaultInvalidMargin {
			got := w.as("", fmt.Sprintf("/webhooks/%d/aW50ZXJhY3Rpb246%d/messages/@original", i, i))
			statuses[fmt.Sprint(got.StatusCode, got.Header.Get("X-Ratelight-Proxy"))]++
		}
		assert.Equal(t, map[string]int{"401": 4750, "429invalid-budget": 4750}, statuses)
		assert.Equal(t, 200, w.as(token, "/users/@me").StatusCode)
	})
}
