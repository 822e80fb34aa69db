package httpclient_test

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/httpclient"
	"github.com/ratelight/ratelight/ratelimits"
)

func TestPredictSaysWhyARequestWaits(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const bot = "Bot canary"
		var sent atomic.Int32
		transport := newTransport(t, responder(func(r *http.Request) (*http.Response, error) {
			sent.Add(1)
			return answer(http.StatusOK, "{}", "X-RateLimit-Bucket: a", "X-RateLimit-Limit: 1", "X-RateLimit-Remaining: 0",
				"X-RateLimit-Reset-After: 4")(r)
		}), httpclient.WithMaxRateLimit(10*time.Second))
		message := func() *http.Request { return as(getting(t, "/channels/1/messages"), bot) }
		p := transport.Predict(message())
		assert.Equal(t, httpclient.Prediction{Route: "GET /channels/{channel_id}/messages"}, p)
		assert.Equal(t, "GET /channels/{channel_id}/messages would be sent at once, as far as is known", p.String())

		assertStatus(t, http.StatusOK, send(transport, message()))
		p = transport.Predict(message())
		assert.Equal(t, buckets.WaitsForWindow, p.Reason)
		assert.InDelta(t, 4, p.Wait.Seconds(), .1)
		assert.NoError(t, p.Err)
		assert.Regexp(t, `^GET /channels/\{channel_id\}/messages would wait 4(\.\d+)?s: `+
			`its bucket is used up, or held after a 429$`, p)

		for name, ctx := range map[string]func() (context.Context, context.CancelFunc){
			"max wait": func() (context.Context, context.CancelFunc) {
				return buckets.ContextWithMaxWait(t.Context(), time.Second), func() {}
			},
			"deadline": func() (context.Context, context.CancelFunc) {
				return context.WithTimeout(t.Context(), time.Second)
			},
		} {
			ctx, cancel := ctx()
			defer cancel()
			p := transport.Predict(message().WithContext(ctx))
			var tooLong *ratelimits.TooLongError
			require.ErrorAs(t, p.Err, &tooLong, name)
			assert.Equal(t, name == "deadline", tooLong.Deadline)
			assert.Contains(t, p.String(), "would be rejected: rate limit too long")
		}

		again := send(transport, message())
		synctest.Wait()
		p = transport.Predict(message())
		assert.InDelta(t, 8, p.Wait.Seconds(), .5, "the request would be sent after the one that waits")
		assert.EqualValues(t, 1, sent.Load(), "Predict sends nothing")
		assertStatus(t, http.StatusOK, again)
	})
}

func TestPredictSaysWhatIsWrongWithARequest(t *testing.T) {
	bubble(t, func(t *testing.T) {
		transport := newTransport(t, responder(unauthorized))
		p := transport.Predict(as(getting(t, "/users/@me"), "canary.canary.canary"))
		assert.NoError(t, p.Err)
		assert.Contains(t, p.String(), `; the Authorization has no scheme: Discord expects "Bot " before the token of a bot`)
		assert.NotContains(t, p.String(), "canary")
		for _, authorization := range []string{"Bot canary", "Bearer canary", "Basic canary", ""} {
			assert.Empty(t, transport.Predict(as(getting(t, "/users/@me"), authorization)).Hint, authorization)
		}

		elsewhere, err := http.NewRequest(http.MethodGet, "https://example.com/canary", nil)
		require.NoError(t, err)
		p = transport.Predict(elsewhere)
		assert.Equal(t, "the request would be sent at once; the host is not one that this transport limits", p.String())

		p = transport.Predict(&http.Request{Method: http.MethodGet})
		assert.Equal(t, "the request would be rejected: httpclient: the request has no URL", p.String())

		bad := httpclient.ContextWithAttempts(t.Context(), httpclient.Attempts{Retries: -2})
		assert.ErrorIs(t, transport.Predict(getting(t, "/users/@me").WithContext(bad)).Err, httpclient.ErrOptions)

		malformed := getting(t, "/users/@me")
		malformed.Method = "GET /"
		p = transport.Predict(malformed)
		assert.Error(t, p.Err)
		assert.True(t, strings.HasPrefix(p.String(), "the request would be rejected: "), p)

		assertStatus(t, http.StatusUnauthorized, send(transport, as(getting(t, "/users/@me"), "Bot canary")))
		p = transport.Predict(as(getting(t, "/users/@me"), "Bot canary"))
		assert.ErrorAs(t, p.Err, new(*httpclient.CredentialError))
		require.NoError(t, transport.Close())
		assert.ErrorIs(t, transport.Predict(getting(t, "/users/@me")).Err, buckets.ErrClosed)
	})
}

func TestPredictSaysThatAShutdownRejectsRequests(t *testing.T) {
	bubble(t, func(t *testing.T) {
		transport := newTransport(t, responder(func(r *http.Request) (*http.Response, error) {
			time.Sleep(time.Second)
			return answer(http.StatusOK, "{}")(r)
		}))
		slow := send(transport, getting(t, "/users/@me"))
		synctest.Wait()
		go transport.Shutdown(t.Context())
		synctest.Wait()
		assert.ErrorIs(t, transport.Predict(getting(t, "/users/@me")).Err, buckets.ErrClosed)
		assertStatus(t, http.StatusOK, slow)
	})
}

func TestPredictFindsLimitsOnFieldsAndLeavesTheBody(t *testing.T) {
	bubble(t, func(t *testing.T) {
		transport := newTransport(t, responder(answer(http.StatusOK, "{}")),
			httpclient.WithBuckets(buckets.WithKnownLimits(buckets.ChannelNameAndTopic)))
		rename := func(body string) *http.Request {
			r, err := http.NewRequest(http.MethodPatch, "https://discord.com/api/v10/channels/1", strings.NewReader(body))
			require.NoError(t, err)
			return as(r, "Bot canary")
		}
		for range 2 {
			assertStatus(t, http.StatusOK, send(transport, rename(`{"name":"a"}`)))
		}
		r := rename(`{"name":"a"}`)
		p := transport.Predict(r)
		assert.Equal(t, buckets.WaitsForDeclared, p.Reason)
		assert.Greater(t, p.Wait, time.Minute)
		assert.Zero(t, transport.Predict(rename(`{"nsfw":true}`)).Wait)
		assert.EqualValues(t, len(`{"name":"a"}`), r.ContentLength)
		text := make([]byte, 20)
		n, err := r.Body.Read(text)
		require.NoError(t, err)
		assert.Equal(t, `{"name":"a"}`, string(text[:n]))
	})
}

func TestALimiterOfTheCallersMayPredictNothing(t *testing.T) {
	t.Parallel()
	transport := httpclient.NewTransport(httpclient.WithLimiter(buckets.Unlimited{}))
	defer transport.Close()
	p := transport.Predict(getting(t, "/users/@me"))
	assert.NoError(t, p.Err)
	assert.Contains(t, p.String(), "predicts nothing")
}
