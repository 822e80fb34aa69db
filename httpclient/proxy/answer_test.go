package proxy_test

import (
	"context"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/httpclient"
	"github.com/ratelight/ratelight/httpclient/discordtest"
	"github.com/ratelight/ratelight/httpclient/proxy"
)

func TestAFullQueueIsA503(t *testing.T) {
	play(t, func(t *testing.T) {
		w := usedUp(t, 5*time.Second, proxy.WithTransport(httpclient.WithBuckets(buckets.WithMaxWaiting(1))))
		waiting := w.start(newRequest(t, "POST", messages, "{}"))
		synctest.Wait()
		got := w.send("POST", messages, "{}")
		assertOwn(t, got, 503, "queue-full")
		assert.Equal(t, "1", got.Header.Get("Retry-After"))
		assert.Equal(t, 200, (<-waiting).StatusCode)
	})
}

// Discord's own 401 passes. The proxy answers the next request itself. Its response must not be a 401, which a library
// would take for Discord's, and a header must say that it is the proxy's.
func TestARefusedAuthorizationIsNotSentAgainAndIsNo401(t *testing.T) {
	play(t, func(t *testing.T) {
		w := newWorld(t, []discordtest.Rule{
			discordtest.Answer("GET /users/@me", 401, map[string]any{"message": "401: Unauthorized", "code": 0}),
		})
		got := w.send("GET", "/users/@me", "")
		assert.Equal(t, 401, got.StatusCode)
		assert.Empty(t, got.Header.Get("X-Ratelight-Proxy"))
		got = w.send("GET", "/users/@me", "")
		assertOwn(t, got, 503, "credential")
		assert.Zero(t, *got.error(t).Code)
		assert.Len(t, w.discord.Requests(), 1)
	})
}

func TestADeadWebhookIsAnsweredAsDiscordDid(t *testing.T) {
	play(t, func(t *testing.T) {
		w := newWorld(t, []discordtest.Rule{
			discordtest.Answer("execute_webhook", 404, map[string]any{"message": "Unknown Webhook", "code": 10015}),
		})
		const path = "/api/v10/webhooks/1/webhook-token-webhook-token"
		assert.Equal(t, 404, w.send("POST", path, "{}").StatusCode)
		got := w.send("POST", path, "{}")
		assertOwn(t, got, 404, "credential")
		assert.Equal(t, 10015, *got.error(t).Code)
		assert.Len(t, w.discord.Requests(), 1)
	})
}

func TestCloudflaresRefusalIsAGlobal429ForAsLongAsItHolds(t *testing.T) {
	play(t, func(t *testing.T) {
		w := newWorldOf(t, func(rw http.ResponseWriter, _ *http.Request) {
			rw.Header().Set("Content-Type", "text/html")
			rw.WriteHeader(429)
			_, _ = io.WriteString(rw, "error code: 1015")
		})
		for _, reason := range []string{"edge", "too-long"} {
			got := w.do(upTo(newRequest(t, "GET", "/users/@me", ""), "0"))
			assertOwn(t, got, 429, reason)
			assert.True(t, *got.error(t).Global)
			assert.Positive(t, *got.error(t).RetryAfter)
			assert.Equal(t, "global", got.Header.Get("X-RateLimit-Scope"))
		}
		assert.False(t, w.handler.Upstream().OK())
		assert.Positive(t, w.handler.Upstream().Hold)
	})
}

func TestAUsedUpBudgetOfInvalidRequestsIsA429(t *testing.T) {
	play(t, func(t *testing.T) {
		w := newWorld(t, []discordtest.Rule{discordtest.Answer("GET /users/{id}", 403, nil)},
			proxy.WithTransport(httpclient.WithBuckets(buckets.WithInvalidBudget(4, time.Minute, 0))))
		for range 2 {
			assert.Equal(t, 403, w.send("GET", "/users/1", "").StatusCode)
		}
		got := w.send("GET", "/users/1", "")
		assertOwn(t, got, 429, "invalid-budget")
		assert.InDelta(t, 60, *got.error(t).RetryAfter, 2)
	})
}

func TestAMalformedStatusOfTheUpstreamIsA502(t *testing.T) {
	play(t, func(t *testing.T) {
		far := newNetwork()
		base := far.transport()
		base.DisableKeepAlives = true
		w := serve(t, proxy.WithUpstream("http://discord.com"), proxy.WithTransport(httpclient.WithBase(base)))
		go func() {
			conn, err := far.Accept()
			if !assert.NoError(t, err) {
				return
			}
			defer conn.Close()
			_, _ = conn.Read(make([]byte, 4<<10))
			_, _ = io.WriteString(conn, "HTTP/1.1 099 X\r\nContent-Length: 0\r\n\r\n")
		}()
		assertOwn(t, w.send("GET", "/users/@me", ""), 502, "unreachable")
		assert.False(t, w.handler.Upstream().OK())
	})
}

func TestAnUpstreamThatDoesNotAnswerIsA504(t *testing.T) {
	play(t, func(t *testing.T) {
		w := newWorldOf(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
		got := w.send("GET", "/users/@me", "")
		assertOwn(t, got, 504, "timeout")
		assert.Equal(t, httpclient.DefaultAttemptTimeout, got.took)
		assert.False(t, w.handler.Upstream().OK())
	})
}

func TestAnUpstreamThatBreaksOffIsA502(t *testing.T) {
	play(t, func(t *testing.T) {
		w := newWorld(t, []discordtest.Rule{discordtest.Cut("GET /users/@me").Nth(1)})
		assertOwn(t, w.send("GET", "/users/@me", ""), 502, "unreachable")
		state := w.handler.Upstream()
		assert.False(t, state.OK())
		assert.NotEmpty(t, state.Failure)
		time.Sleep(time.Second)
		assert.Equal(t, 200, w.send("GET", "/users/@me", "").StatusCode)
		assert.True(t, w.handler.Upstream().OK())
	})
}

func TestARequestWhoseOwnTimeIsOverIsA504AndNoFaultOfTheUpstream(t *testing.T) {
	play(t, func(t *testing.T) {
		w := newWorld(t, []discordtest.Rule{discordtest.Latency(time.Minute)})
		w.server.Handler = http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			ctx, cancel := context.WithTimeout(r.Context(), time.Second)
			defer cancel()
			w.handler.ServeHTTP(rw, r.WithContext(ctx))
		})
		assertOwn(t, w.send("GET", "/users/@me", ""), 504, "timeout")
		assert.True(t, w.handler.Upstream().OK())
	})
}

func TestTheAnswerToAHeadHasNoBody(t *testing.T) {
	play(t, func(t *testing.T) {
		w := newWorld(t, nil)
		got := w.send("HEAD", "/api/v10/", "")
		assert.Equal(t, 501, got.StatusCode)
		assert.Empty(t, got.text)
	})
}
