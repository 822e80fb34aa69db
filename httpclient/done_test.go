package httpclient_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/httpclient"
	"github.com/ratelight/ratelight/ratelimits"
)

// requestsDone records the events of the Done hook.
type requestsDone struct{ list []httpclient.DoneEvent }

func (d *requestsDone) hooks() httpclient.Hooks {
	return httpclient.Hooks{Done: func(_ context.Context, e httpclient.DoneEvent) { d.list = append(d.list, e) }}
}

func TestDoneSaysWhereTheTimeWent(t *testing.T) {
	bubble(t, func(t *testing.T) {
		refusal := answerSlowly(http.StatusTooManyRequests, `{"retry_after":2}`, 300*time.Millisecond,
			"X-RateLimit-Scope: shared", "Retry-After: 2", "Via: 1.1 google")
		below := newScript(refusal, answer(http.StatusBadGateway, ""), answer(http.StatusOK, "{}"))
		below.takes = 100 * time.Millisecond
		var done requestsDone
		transport := newTransport(t, below, httpclient.WithHooks(done.hooks()),
			httpclient.WithBackoff(time.Second, time.Second))
		r := newRequest(t, http.MethodPut, "/api/v10/channels/1/pins/2", "")
		r.Body, r.ContentLength, r.GetBody = stall(700*time.Millisecond, strings.NewReader("{}")), 2, nil
		c := send(transport, r)
		assertStatus(t, http.StatusOK, c)
		require.Len(t, done.list, 1)
		e := done.list[0]
		assert.Equal(t, "PUT /channels/{channel_id}/pins/{message_id}", e.Route)
		assert.Equal(t, "1", e.Major)
		assert.Equal(t, 3, e.Attempts)
		assert.Equal(t, http.StatusOK, e.Status)
		require.NoError(t, e.Err)
		assert.Equal(t, c.took, e.Took)
		assert.Equal(t, 3*below.takes+300*time.Millisecond, e.Sent)
		// The 429 asks for 2 s from the arrival of its headers.
		pause := e.Waited - 700*time.Millisecond - 1700*time.Millisecond
		assert.InDelta(t, time.Second, pause, float64(250*time.Millisecond+slack))
		assert.Zero(t, e.Overhead(), "nothing else takes time in virtual time")
	})
}

func TestOverheadIsTheTimeThatNobodyWaitedFor(t *testing.T) {
	bubble(t, func(t *testing.T) {
		below := newScript(answer(http.StatusOK, "{}"))
		below.takes = 100 * time.Millisecond
		var done requestsDone
		transport := newTransport(t, below, httpclient.WithHooks(done.hooks()))
		transport.AddHooks(httpclient.Hooks{
			Request: func(context.Context, httpclient.RequestEvent) { time.Sleep(30 * time.Millisecond) },
		})
		assertStatus(t, http.StatusOK, send(transport, newMessage(t)))
		require.Len(t, done.list, 1)
		assert.Equal(t, 30*time.Millisecond, done.list[0].Overhead())
		assert.Zero(t, done.list[0].Waited)
	})
}

// A limiter around a manager reports the manager's wait as its own. Done must count that wait once.
func TestWaitsBelowAnyLimiterCountOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		manager := newManager(t)
		below := newScript(answer(http.StatusOK, "{}", "X-RateLimit-Bucket: a", "X-RateLimit-Limit: 1",
			"X-RateLimit-Remaining: 0", "X-RateLimit-Reset-After: 5"))
		var done requestsDone
		transport := newTransport(t, below,
			httpclient.WithHooks(done.hooks()), httpclient.WithLimiter(struct{ httpclient.Limiter }{manager}))
		assertStatus(t, http.StatusOK, send(transport, newMessage(t)))
		assertStatus(t, http.StatusOK, send(transport, newMessage(t)))
		require.Len(t, done.list, 2)
		assertTook(t, 5*time.Second, done.list[1].Waited)
		assert.Equal(t, done.list[1].Took, done.list[1].Waited)
	})
}

func TestDoneIsAlsoCalledForRequestsThatWereNeverSent(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const token = "canary-5f0c2e"
		below := newScript(answer(http.StatusOK, "{}", "X-RateLimit-Bucket: a", "X-RateLimit-Limit: 1",
			"X-RateLimit-Remaining: 0", "X-RateLimit-Reset-After: 50"),
			fail(errors.New("cannot reach /api/webhooks/77/"+token)))
		var done requestsDone
		transport := newTransport(t, below, httpclient.WithHooks(done.hooks()), httpclient.WithMaxRateLimit(time.Second),
			httpclient.WithRetries(0))
		assertStatus(t, http.StatusOK, send(transport, newMessage(t)))
		require.Error(t, send(transport, newMessage(t)).wait().err)
		require.Len(t, done.list, 2)
		errorAs[*ratelimits.TooLongError](t, done.list[1].Err)
		assert.Zero(t, done.list[1].Attempts)
		assert.Zero(t, done.list[1].Status)

		require.Error(t, send(transport, newRequest(t, http.MethodPost, "/api/webhooks/77/"+token, "{}")).wait().err)
		require.Len(t, done.list, 3)
		require.Error(t, done.list[2].Err)
		assert.NotContains(t, done.list[2].Err.Error(), token)
		assert.Equal(t, "77:…", done.list[2].Major)
		assert.Equal(t, 1, done.list[2].Attempts)
	})
}

func TestAttemptsSayWhyTheyAreMadeAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		below := newScript(
			answer(http.StatusServiceUnavailable, ""),
			func(r *http.Request) (*http.Response, error) { <-r.Context().Done(); return nil, r.Context().Err() },
			fail(lostConnection()), refusal429(`{"retry_after":1}`, "X-RateLimit-Scope: user"), answer(http.StatusOK, "{}"))
		var reasons []httpclient.RetryReason
		transport := newTransport(t, below, httpclient.WithHooks(httpclient.Hooks{
			Response: func(_ context.Context, e httpclient.ResponseEvent) { reasons = append(reasons, e.Retry) },
		}))
		assertStatus(t, http.StatusOK, send(transport, newRequest(t, http.MethodGet, messages, "")))
		assert.Equal(t, []httpclient.RetryReason{
			httpclient.RetryNone, httpclient.RetryServerError, httpclient.RetryTimeout, httpclient.RetryConnection,
			httpclient.RetryRateLimited,
		}, reasons)
	})
}

func TestAddedHooksAreCalledAfterThoseOfTheOptions(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var called []string
		hooks := func(name string) httpclient.Hooks {
			return httpclient.Hooks{
				Request:  func(context.Context, httpclient.RequestEvent) { called = append(called, name+" request") },
				Response: func(context.Context, httpclient.ResponseEvent) { called = append(called, name+" response") },
				Done:     func(context.Context, httpclient.DoneEvent) { called = append(called, name+" done") },
			}
		}
		transport := newTransport(t, newScript(answer(http.StatusOK, "{}")), httpclient.WithHooks(hooks("a")))
		transport.AddHooks(httpclient.Hooks{})
		transport.AddHooks(hooks("b"))
		assertStatus(t, http.StatusOK, send(transport, newMessage(t)))
		assert.Equal(t, []string{"a request", "b request", "a response", "b response", "a done", "b done"}, called)
	})
}
