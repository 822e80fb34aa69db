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

// For each of these errors of the transport, the proxy must send an answer of its own. Discord's answers must pass
// unchanged.
func TestEachErrorIsAnAnswerOfTheProxysOwn(t *testing.T) {
	const hook = "/webhooks/1/webhook-token-webhook-token"
	get := func(path string) func(*testing.T) *http.Request {
		return func(t *testing.T) *http.Request { return newRequest(t, "GET", path, "") }
	}
	cloudflare := func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Content-Type", "text/html")
		rw.WriteHeader(429)
		_, _ = io.WriteString(rw, "error code: 1015")
	}
	silent := func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	withBuckets := func(option buckets.Option) proxy.Option {
		return proxy.WithTransport(httpclient.WithBuckets(option))
	}
	type story struct {
		rules    []discordtest.Rule
		instead  http.HandlerFunc // answers instead of a fake Discord with rules
		option   proxy.Option
		request  func(*testing.T) *http.Request
		passes   []int // statuses of earlier requests, which Discord answers
		status   int
		reason   string
		code     int
		retry    float64 // retry_after in seconds; 0: none
		global   bool
		upstream bool // whether the upstream counts as working afterwards
	}
	playEach(t, map[string]story{
		// The status must not be 401, because a library would take a 401 for an answer of Discord.
		"a refused Authorization": {
			rules:   []discordtest.Rule{discordtest.Answer("GET /users/@me", 401, map[string]any{"message": "401", "code": 0})},
			request: get("/users/@me"), passes: []int{401}, status: 503, reason: "credential", upstream: true,
		},
		"a dead webhook, as Discord answers": {
			rules:   []discordtest.Rule{discordtest.Answer("GET /webhooks/{id}/{token}", 404, map[string]any{"code": 10015})},
			request: get(hook), passes: []int{404}, status: 404, reason: "credential", code: 10015, upstream: true,
		},
		"a refusal by Cloudflare": {
			instead: cloudflare, request: get("/users/@me"), status: 429, reason: "edge", retry: 2, global: true,
		},
		"a used-up budget of invalid requests": {
			rules:   []discordtest.Rule{discordtest.Answer("GET /users/{id}", 403, nil)},
			option:  withBuckets(buckets.WithInvalidBudget(4, time.Minute, 0)),
			request: get("/users/1"), passes: []int{403, 403},
			status: 429, reason: "invalid-budget", retry: 60, global: true, upstream: true,
		},
		"a global wait": {
			rules:   []discordtest.Rule{discordtest.Refuse("GET /users/@me", discordtest.Global, time.Minute).Nth(1)},
			request: get("/users/@me"), status: 429, reason: "too-long", retry: 60, global: true, upstream: true,
		},
		"an upstream that breaks off": {
			rules: []discordtest.Rule{discordtest.Cut("GET /users/@me")}, request: get("/users/@me"),
			status: 502, reason: "unreachable",
		},
		"an upstream that does not answer": {
			instead: silent, request: get("/users/@me"), status: 504, reason: "timeout",
		},
	}, func(t *testing.T, c story) {
		var options []proxy.Option
		if c.option != nil {
			options = append(options, c.option)
		}
		w := newWorldOf(t, c.instead, options...)
		if c.instead == nil {
			w = newWorld(t, c.rules, options...)
		}
		for _, status := range c.passes {
			got := w.do(c.request(t))
			assert.Equal(t, status, got.StatusCode)
			assert.Empty(t, got.Header.Get("X-Ratelight-Proxy"))
		}
		got := w.do(c.request(t))
		assertOwn(t, got, c.status, c.reason)
		e := got.error(t)
		assert.Equal(t, c.code, *e.Code)
		if c.instead == nil {
			assert.Len(t, w.discord.Requests(), max(len(c.passes), 1))
		}
		assert.Equal(t, c.upstream, w.handler.Upstream().OK())
		if c.status == 504 {
			assert.Equal(t, httpclient.DefaultAttemptTimeout, got.took)
		}
		if c.status != 429 {
			return
		}
		assert.InDelta(t, c.retry, *e.RetryAfter, 2)
		assert.Positive(t, *e.RetryAfter)
		assert.Equal(t, c.global, *e.Global)
		assert.Equal(t, "global", got.Header.Get("X-RateLimit-Scope"))
		assert.Equal(t, "true", got.Header.Get("X-RateLimit-Global"))
		assert.Empty(t, got.Header.Get("X-RateLimit-Limit"))
		assert.Empty(t, got.Header.Get("X-RateLimit-Bucket"))
		if c.reason != "invalid-budget" {
			assertOwn(t, w.do(upTo(newRequest(t, "GET", "/channels/2", ""), "0")), 429, "too-long")
		}
	})
}

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

// The proxy's 429 for a shared or hidden limit must not have the bucket's headers. With these headers, a library would
// stop all requests of the bucket, although only some of them have to wait.
func TestSharedAndHiddenLimitsLeaveTheBucketOutOfThe429(t *testing.T) {
	playEach(t, map[string]discordtest.Class{"shared": discordtest.Shared, "user": discordtest.SubLimit},
		func(t *testing.T, class discordtest.Class) {
			w := newWorld(t, []discordtest.Rule{discordtest.Refuse("PATCH /channels/{id}", class, time.Minute).Nth(1)})
			got := w.send("PATCH", "/api/v10/channels/1", `{"name":"x"}`)
			assertOwn(t, got, 429, "too-long")
			assert.Equal(t, map[bool]string{true: "shared", false: "user"}[class == discordtest.Shared],
				got.Header.Get("X-RateLimit-Scope"))
			assert.False(t, *got.error(t).Global)
			assert.Empty(t, got.Header.Get("X-RateLimit-Remaining"))
			if class == discordtest.SubLimit {
				assert.Equal(t, 200, w.send("PATCH", "/api/v10/channels/1", `{"topic":"x"}`).StatusCode)
			}
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

func TestAnUpstreamIsInOrderAgainAfterAnAnswer(t *testing.T) {
	play(t, func(t *testing.T) {
		w := newWorld(t, []discordtest.Rule{discordtest.Cut("GET /users/@me").Nth(1)})
		w.send("GET", "/users/@me", "")
		assert.NotEmpty(t, w.handler.Upstream().Failure)
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
		got := newWorld(t, nil).send("HEAD", "/api/v10/", "")
		assert.Equal(t, 501, got.StatusCode)
		assert.Empty(t, got.text)
	})
}
