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
)

// authorize is a Discord that knows one bot and all tokens that begin with "Bot valid".
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
		discordtest.Handle("GET /users/@me", authorize), discordtest.Handle("GET /gateway", func(rw http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(rw, "{}")
		}),
	})
}

// as sends a request with this Authorization directly to the handler.
func (w *world) as(authorization, path string) response {
	r := (&http.Request{
		Method: "GET", URL: &url.URL{Path: path}, Header: http.Header{"Authorization": {authorization}},
	}).WithContext(w.t.Context())
	recorder, start := httptest.NewRecorder(), time.Now()
	w.handler.ServeHTTP(recorder, r)
	return response{Response: recorder.Result(), took: time.Since(start)}
}

func heap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

func TestAFloodOfInventedTokensIsBoundedAndDisturbsNobody(t *testing.T) {
	const flood = 100_000
	synctest.Test(t, func(t *testing.T) { // no parallel tests, whose memory the test would measure
		w := discordThatAuthorizes(t)
		require.Equal(t, 200, w.as(token, "/users/@me").StatusCode)
		before, statuses := heap(), make(map[string]int)
		for i := range flood {
			got := w.as(fmt.Sprintf("Bot invented-%d", i), "/users/@me")
			statuses[fmt.Sprint(got.StatusCode, got.Header.Get("X-Ratelight-Proxy"))]++
			if i%(flood/40) == 0 { // few enough for the bot's global limit, because the flood takes no virtual time
				got := w.as(token, "/users/@me")
				assert.Equal(t, 200, got.StatusCode)
				assert.Zero(t, got.took.Round(time.Millisecond), "the known bot must not wait")
			}
		}
		assert.Equal(t, map[string]int{"401": 1000, "429unverified": flood - 1000}, statuses)
		stats := w.handler.Transport().Manager().Stats()
		assert.LessOrEqual(t, stats.Authentications, 1002)
		assert.LessOrEqual(t, stats.Invalid, stats.InvalidLimit/4, "most of the budget is left for others")
		assert.Less(t, int64(heap())-int64(before), int64(16<<20))

		time.Sleep(10 * time.Minute)
		assert.Equal(t, 401, w.as("Bot invented later", "/users/@me").StatusCode)
	})
}

// There may be more bots behind a proxy than unverified tokens are allowed. Each bot is verified by its first success.
func TestManyBotsThatWorkAreAllLetThrough(t *testing.T) {
	play(t, func(t *testing.T) {
		w := discordThatAuthorizes(t)
		for i := range 1200 {
			require.Equal(t, 200, w.as(fmt.Sprintf("Bot valid-%d", i), "/users/@me").StatusCode)
		}
	})
}

// If a success on a route without a credential verified a token, a caller could verify invented tokens there.
func TestSuccessOnAPublicRouteProvesNothing(t *testing.T) {
	play(t, func(t *testing.T) {
		w := discordThatAuthorizes(t)
		for _, path := range []string{"/gateway", "/webhooks/1/webhook-token-webhook-token", "/not/documented"} {
			statuses := make(map[int]int)
			for i := range 1100 {
				statuses[w.as(fmt.Sprintf("Bot %s-%d", path, i), path).StatusCode]++
			}
			if strings.HasPrefix(path, "/webhooks") { // on these routes no bot's Authorization is sent
				assert.Equal(t, map[int]int{200: 1100}, statuses, path)
			} else {
				assert.Equal(t, 100, statuses[429], path)
			}
			time.Sleep(11 * time.Minute)
		}
	})
}

// Discord counts an invalid request even if its client does not wait for the response, so the proxy must count it, too.
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
			proxy.WithTransport(httpclient.WithAttemptTimeout(0)))
		r, cancel := withCancel(newRequest(t, "GET", "/users/@me", ""))
		time.AfterFunc(time.Second, cancel)
		w.try(r)
		time.Sleep(10 * time.Second)
		assert.Equal(t, 1, w.handler.Transport().Manager().Stats().InFlight)
		time.Sleep(6 * time.Second)
		w.assertNoneLeft()
	})
}

// A Basic Authorization for another proxy is passed on where a bot's is not. It takes memory, too, so it needs a bound.
func TestBasicAuthorizationsBesideATokenInThePathAreBounded(t *testing.T) {
	play(t, func(t *testing.T) {
		w := discordThatAuthorizes(t)
		statuses := make(map[string]int)
		for i := range 1100 {
			got := w.as(fmt.Sprint("Basic ", i), "/webhooks/1/webhook-token-webhook-token")
			statuses[fmt.Sprint(got.StatusCode, got.Header.Get("X-Ratelight-Proxy"))]++
		}
		assert.Equal(t, map[string]int{"200": 1000, "429unverified": 100}, statuses)
		assert.Equal(t, 200, w.as("Basic 1", "/webhooks/2/webhook-token-webhook-token").StatusCode)
		assert.LessOrEqual(t, w.handler.Transport().Manager().Stats().Authentications, 1002)
	})
}

func TestWithoutAnAuthorizationNothingIsUnverified(t *testing.T) {
	play(t, func(t *testing.T) {
		w := newWorld(t, []discordtest.Rule{discordtest.Unlimited("*"), discordtest.GlobalLimit(1_000_000)})
		for range 2 * buckets.DefaultGlobalLimit {
			assert.Equal(t, 200, w.as("", "/gateway").StatusCode)
		}
	})
}
