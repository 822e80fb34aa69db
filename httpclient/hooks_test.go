package httpclient_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/httpclient"
	"github.com/ratelight/ratelight/ratelimits"
)

// A hook may report errors in a channel, with the same bucket as the failed request. The request of the hook must not
// block.
func TestAHookMaySendARequestOnTheSameRoute(t *testing.T) {
	bubble(t, func(t *testing.T) {
		below := newScript(fail(lostConnection()), answer(http.StatusOK, "{}"))
		var transport *httpclient.Transport
		reported := 0
		transport = newTransport(t, below, noRetries, httpclient.WithHooks(httpclient.Hooks{
			Response: func(_ context.Context, e httpclient.ResponseEvent) {
				if e.Err != nil {
					reported++
					assertStatus(t, http.StatusOK, send(transport, newMessage(t)))
				}
			},
		}))
		assert.Error(t, send(transport, newMessage(t)).wait().err)
		assert.Equal(t, 1, reported)
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

// debugging logs everything into a buffer.
func debugging(log *bytes.Buffer) httpclient.Option {
	return httpclient.WithLogger(slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug})))
}

func TestHooksAreToldOfEveryAttemptAndWhyItIsMade(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const ms = time.Millisecond
		lost := lostConnection()
		below := newScript(
			answerSlowly(http.StatusTooManyRequests, `{"retry_after":2}`, 300*ms, "X-RateLimit-Scope: shared", "Retry-After: 2"),
			fail(lost), answer(http.StatusServiceUnavailable, ""), silence, answer(http.StatusOK, "{}"))
		below.takes = 100 * ms
		var requests []httpclient.RequestEvent
		var responses []httpclient.ResponseEvent
		transport := newTransport(t, below, httpclient.WithHooks(httpclient.Hooks{
			Request:  func(_ context.Context, e httpclient.RequestEvent) { requests = append(requests, e) },
			Response: func(_ context.Context, e httpclient.ResponseEvent) { responses = append(responses, e) },
		}))
		assertStatus(t, http.StatusOK, send(transport, newRequest(t, http.MethodGet, messages, "")))

		const route = "GET /channels/{channel_id}/messages"
		require.Len(t, requests, 5)
		assert.InDelta(t, 1700*ms, requests[1].Queued, float64(slack), "the hold of a 429 begins when its headers arrive")
		requests[1].Queued = 0
		require.ErrorAs(t, responses[3].Err, new(*httpclient.AttemptTimeoutError))
		responses[3].Err = nil
		assert.Equal(t, []httpclient.ResponseEvent{
			{Attempt: 1, Took: 100 * ms, Status: 429, Class: ratelimits.ClassShared, Route: route, Major: "1"},
			{Attempt: 2, Took: 100 * ms, Err: lost, Retry: httpclient.RetryRateLimited, Route: route, Major: "1"},
			{Attempt: 3, Took: 100 * ms, Status: 503, Retry: httpclient.RetryConnection, Route: route, Major: "1"},
			{Attempt: 4, Took: httpclient.DefaultAttemptTimeout, Retry: httpclient.RetryServerError, Route: route, Major: "1"},
			{Attempt: 5, Took: 100 * ms, Status: 200, Retry: httpclient.RetryTimeout, Route: route, Major: "1"},
		}, responses)
		for i, e := range requests { // a pause between attempts does not count as queued
			assert.Equal(t, httpclient.RequestEvent{Route: route, Major: "1", Attempt: i + 1, Retry: responses[i].Retry}, e)
		}
	})
}

// recordDone records the events of the Done hook.
func recordDone(events *[]httpclient.DoneEvent) httpclient.Option {
	return httpclient.WithHooks(httpclient.Hooks{
		Done: func(_ context.Context, e httpclient.DoneEvent) { *events = append(*events, e) },
	})
}

func TestDoneSaysWhereTheTimeWent(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const ms = time.Millisecond
		below := newScript(answerSlowly(http.StatusTooManyRequests, `{"retry_after":2}`, 300*ms,
			"X-RateLimit-Scope: shared", "Retry-After: 2", "Via: 1.1 google"),
			answer(http.StatusBadGateway, ""), answer(http.StatusOK, "{}"))
		below.takes = 100 * ms
		var done []httpclient.DoneEvent
		transport := newTransport(t, below, recordDone(&done),
			httpclient.WithAttempts(httpclient.Attempts{FirstPause: time.Second, MaxPause: time.Second}))
		r := unreplayable(newRequest(t, http.MethodPut, channel+"/pins/2", ""), nil, 2)
		r.Body = stall(700*ms, strings.NewReader("{}"))
		c := send(transport, r)
		assertStatus(t, http.StatusOK, c)
		require.Len(t, done, 1)
		e := done[0]
		// The 429 asks for 2 s from the arrival of its headers.
		assert.InDelta(t, 700*ms+1700*ms+time.Second, e.Waited, float64(250*ms+slack))
		assert.Equal(t, httpclient.DoneEvent{
			Route: "PUT /channels/{channel_id}/pins/{message_id}", Major: "1", Attempts: 3, Status: http.StatusOK,
			Took: c.took, Sent: 3*below.takes + 300*ms, Waited: e.Waited,
		}, e)
		assert.Zero(t, e.Overhead(), "nothing else takes time in virtual time")

		t.Log("# the time that a hook takes is overhead")
		transport.AddHooks(httpclient.Hooks{
			Request: func(context.Context, httpclient.RequestEvent) { time.Sleep(30 * ms) },
		})
		assertStatus(t, http.StatusOK, send(transport, newMessage(t)))
		require.Len(t, done, 2)
		assert.Equal(t, 30*ms, done[1].Overhead())
		assert.Zero(t, done[1].Waited)
	})
}

// If a limiter wraps a manager, both the transport and the manager measure the time of the wait. Done must count this
// wait only once.
func TestWaitsBelowAnyLimiterCountOnce(t *testing.T) {
	inBubbles(t, map[string]func(*buckets.RESTBucketManager) httpclient.Limiter{
		"a manager":        func(m *buckets.RESTBucketManager) httpclient.Limiter { return m },
		"around a manager": func(m *buckets.RESTBucketManager) httpclient.Limiter { return struct{ httpclient.Limiter }{m} },
	}, func(t *testing.T, limiter func(*buckets.RESTBucketManager) httpclient.Limiter) {
		var done []httpclient.DoneEvent
		transport := newTransport(t, newScript(usedUp(1, 5*time.Second)), recordDone(&done),
			httpclient.WithLimiter(limiter(newManager(t))))
		assertStatus(t, http.StatusOK, send(transport, newMessage(t)))
		assertStatus(t, http.StatusOK, send(transport, newMessage(t)))
		require.Len(t, done, 2)
		assertTook(t, 5*time.Second, done[1].Waited)
		assert.Equal(t, done[1].Took, done[1].Waited)
	})
}

func TestDoneIsAlsoCalledForRequestsThatWereNeverSent(t *testing.T) {
	bubble(t, func(t *testing.T) {
		below := newScript(usedUp(1, 50*time.Second), fail(errors.New("cannot reach "+webhook)))
		var done []httpclient.DoneEvent
		transport := newTransport(t, below, recordDone(&done), httpclient.WithMaxRateLimit(time.Second), noRetries)
		assertStatus(t, http.StatusOK, send(transport, newMessage(t)))
		require.Error(t, send(transport, newMessage(t)).wait().err)
		require.Error(t, send(transport, toHook(t)).wait().err)
		require.Len(t, done, 3)
		errorAs[*ratelimits.TooLongError](t, done[1].Err)
		assert.Zero(t, done[1].Attempts)
		assert.Zero(t, done[1].Status)
		assert.Zero(t, done[1].TokenHash)

		require.Error(t, done[2].Err)
		assertNoSecretIn(t, done[2])
		assert.Equal(t, "1:…", done[2].Major)
		assert.Equal(t, 1, done[2].Attempts)
		assert.NotZero(t, done[2].TokenHash)
	})
}

// A panic in a caller's function must reach the caller. After it, no permit may be taken and no body may be open.
func TestPanicsOfTheCallersFunctionsGiveEverythingBack(t *testing.T) {
	refused := http.StatusTooManyRequests
	type story struct {
		hooks   httpclient.Hooks
		getBody func() (io.ReadCloser, error)
		status  int
		sent    int
	}
	request := httpclient.Hooks{Request: func(context.Context, httpclient.RequestEvent) { panic("boom") }}
	response := httpclient.Hooks{Response: func(context.Context, httpclient.ResponseEvent) { panic("boom") }}
	done := httpclient.Hooks{Done: func(context.Context, httpclient.DoneEvent) { panic("boom") }}
	inBubbles(t, map[string]story{
		"request hook":            {hooks: request, status: 200, sent: 0},
		"response hook":           {hooks: response, status: 200, sent: 1},
		"response hook, refused":  {hooks: response, status: refused, sent: 1},
		"done hook":               {hooks: done, status: 200, sent: 1},
		"GetBody before a repeat": {getBody: func() (io.ReadCloser, error) { panic("boom") }, status: refused, sent: 1},
	}, func(t *testing.T, c story) {
		var responses ledger
		below := newScript(answerWith(c.status, func() io.ReadCloser { return responses.open(strings.NewReader("{}")) },
			"X-RateLimit-Scope: user", "Retry-After: 1"))
		// newTransport checks at the end that nothing is held.
		transport := newTransport(t, below, httpclient.WithHooks(c.hooks))
		r := newMessage(t)
		requests := track(r)
		if c.getBody != nil {
			r.GetBody = c.getBody
		}
		assert.PanicsWithValue(t, "boom", func() { _, _ = transport.RoundTrip(r) })
		assert.Len(t, below.requests(), c.sent)
		assert.Zero(t, transport.Manager().Stats().Lost)
		requests.assertClosed(t)
		if c.sent > 0 {
			responses.assertClosed(t)
		}
	})
}

func TestFailuresAreLoggedForDebuggingAndManyAreOneLineInHalfAMinute(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var log bytes.Buffer
		below := newScript(answer(http.StatusBadGateway, ""), answer(http.StatusOK, "{}"), answer(http.StatusBadGateway, ""))
		transport := newTransport(t, below, debugging(&log))
		assertStatus(t, http.StatusOK, send(transport, newRequest(t, http.MethodGet, messages, "")))
		assert.Contains(t, log.String(), "pause=")
		assert.NotContains(t, log.String(), "reason=")
		assertStatus(t, http.StatusBadGateway, send(transport, newMessage(t)))
		assert.Contains(t, log.String(), "reason=")
		assert.NotContains(t, log.String(), "token")

		log.Reset()
		transport = newTransport(t, newScript(fail(fmt.Errorf("post %s: %w", webhook, lostConnection()))), debugging(&log))
		for range 600 {
			assert.Error(t, send(transport, toHook(t)).wait().err)
			time.Sleep(20 * time.Millisecond)
		}
		assert.Equal(t, 1, strings.Count(log.String(), `msg="request failed"`))
		assert.Contains(t, log.String(),
			`route="POST /webhooks/{webhook_id}/{webhook_token}" major=1:… attempt=1 status=0 error=`)
		require.NoError(t, transport.Close())
		assert.Equal(t, 2, strings.Count(log.String(), `msg="request failed"`))
		assert.Contains(t, log.String(), "repeated=598")
		assertNoSecret(t, log.String())
	})
}

type contextKey struct{}

// contexts is a log handler that records to which request each line belongs.
type contexts struct {
	slog.Handler
	lines []string
}

func (c *contexts) Enabled(context.Context, slog.Level) bool { return true }

func (c *contexts) Handle(ctx context.Context, r slog.Record) error {
	c.tell(r.Message, ctx)
	return nil
}

func (c *contexts) tell(what string, ctx context.Context) {
	c.lines = append(c.lines, fmt.Sprint(what, " of ", ctx.Value(contextKey{})))
}

// The manager derives its own context for each wait. Its hooks and logs must have the values of the request's context,
// too.
func TestHooksAndLogsHaveTheContextOfTheRequest(t *testing.T) {
	bubble(t, func(t *testing.T) {
		below := newScript(refuse("shared", "2"), answer(http.StatusBadGateway, ""), answer(http.StatusOK, "{}"))
		var c contexts
		transport := newTransport(t, below, httpclient.WithLogger(slog.New(&c)),
			httpclient.WithBuckets(buckets.WithHooks(buckets.Hooks{
				Waiting: func(ctx context.Context, _ buckets.Waiting) { c.tell("waiting", ctx) },
				Held:    func(ctx context.Context, _ buckets.Held) { c.tell("held", ctx) },
			})),
			httpclient.WithHooks(httpclient.Hooks{
				Request:  func(ctx context.Context, _ httpclient.RequestEvent) { c.tell("request", ctx) },
				Response: func(ctx context.Context, _ httpclient.ResponseEvent) { c.tell("response", ctx) },
			}))
		r := newRequest(t, http.MethodGet, messages, "")
		assertStatus(t, http.StatusOK, send(transport, r.WithContext(context.WithValue(t.Context(), contextKey{}, "one"))))
		assert.Equal(t, []string{
			"request of one", "requests are held of one", "held of one", "response of one", "request waits of one",
			"waiting of one", "request of one", "response of one", "request failed of one", "request of one", "response of one",
		}, c.lines)
	})
}

// One callback to an interaction fails, is slow or is refused. Callbacks to other interactions must not wait for that
// callback.
func TestACallbackInTroubleDoesNotHoldTheOthers(t *testing.T) {
	type story struct {
		first  responder
		takes  time.Duration
		status int
		took   time.Duration
	}
	inBubbles(t, map[string]story{
		"not found":   {answer(http.StatusNotFound, ""), 0, 404, 0},
		"slow":        {answer(http.StatusOK, ""), 10 * time.Second, 200, 10 * time.Second},
		"outage":      {answer(http.StatusBadGateway, ""), 0, 502, 0},
		"slow outage": {answer(http.StatusGatewayTimeout, ""), 12 * time.Second, 504, 12 * time.Second},
		"refused":     {refuse("shared", "3"), 0, 200, 3 * time.Second},
	}, func(t *testing.T, c story) {
		transport := newTransport(t, newScript(func(r *http.Request) (*http.Response, error) {
			time.Sleep(c.takes)
			return c.first(r)
		}, answer(http.StatusOK, "")))
		troubled := send(transport, newCallback(t, 0))
		time.Sleep(2 * time.Millisecond)
		for i := range 20 {
			if i == 10 {
				time.Sleep(100 * time.Millisecond) // so that the first callback has failed
			}
			other := send(transport, newCallback(t, i+1))
			assertStatus(t, http.StatusOK, other)
			assert.Less(t, other.took, slack)
		}
		assertStatus(t, c.status, troubled)
		assertTook(t, c.took, troubled.took)
	})
}
