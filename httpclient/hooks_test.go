package httpclient_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/httpclient"
	"github.com/ratelight/ratelight/internal/discordsim"
	"github.com/ratelight/ratelight/ratelimits"
)

func TestHooksAreToldOfEveryAttempt(t *testing.T) {
	bubble(t, func(t *testing.T) {
		broken := errors.New("broken")
		below := newScript(
			answerSlowly(http.StatusTooManyRequests, `{"retry_after":2}`, 300*time.Millisecond, "X-RateLimit-Scope: shared",
				"Retry-After: 2"),
			func(*http.Request) (*http.Response, error) { return nil, broken },
			answer(http.StatusOK, "{}"),
		)
		below.takes = 100 * time.Millisecond
		var requests []httpclient.RequestEvent
		var responses []httpclient.ResponseEvent
		transport := newTransport(t, below, httpclient.WithHooks(httpclient.Hooks{
			Request:  func(_ context.Context, e httpclient.RequestEvent) { requests = append(requests, e) },
			Response: func(_ context.Context, e httpclient.ResponseEvent) { responses = append(responses, e) },
		}))
		c := send(transport, newRequest(t, http.MethodGet, messages, ""))
		assertStatus(t, http.StatusOK, c)

		const route = "GET /channels/{channel_id}/messages"
		require.Len(t, requests, 3)
		assert.Equal(t, httpclient.RequestEvent{Route: route, Major: "1", Attempt: 1}, requests[0])
		assert.Equal(t, 2, requests[1].Attempt)
		assert.Equal(t, httpclient.RetryRateLimited, requests[1].Retry)
		assert.InDelta(t, 1700*time.Millisecond, requests[1].Queued, float64(slack), "the 429's hold begins with its headers")
		assert.Zero(t, requests[2].Queued, "a pause between attempts does not count as queued")
		assert.Equal(t, []httpclient.ResponseEvent{
			{Route: route, Major: "1", Attempt: 1, Took: 100 * time.Millisecond, Status: 429, Class: ratelimits.ClassShared},
			{Route: route, Major: "1", Attempt: 2, Took: 100 * time.Millisecond, Err: broken, Retry: httpclient.RetryRateLimited},
			{Route: route, Major: "1", Attempt: 3, Took: 100 * time.Millisecond, Status: 200, Retry: httpclient.RetryConnection},
		}, responses)
	})
}

func TestFailuresAreLoggedForDebugging(t *testing.T) {
	bubble(t, func(t *testing.T) {
		below := newScript(answer(http.StatusBadGateway, ""), answer(http.StatusOK, "{}"), answer(http.StatusBadGateway, ""))
		var log bytes.Buffer
		logger := slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
		transport := newTransport(t, below, httpclient.WithLogger(logger))
		assertStatus(t, http.StatusOK, send(transport, newRequest(t, http.MethodGet, messages, "")))
		assert.Contains(t, log.String(), "pause=")
		assert.NotContains(t, log.String(), "reason=")
		assertStatus(t, http.StatusBadGateway, send(transport, newMessage(t)))
		assert.Contains(t, log.String(), "reason=")
		assert.NotContains(t, log.String(), "token")
	})
}

// A hook that reports errors into a channel may use the same bucket as the failed request.
func TestAHookMaySendARequestOnTheSameRoute(t *testing.T) {
	bubble(t, func(t *testing.T) {
		below := newScript(fail(lostConnection()), answer(http.StatusOK, "{}"))
		var transport *httpclient.Transport
		reported := 0
		transport = newTransport(t, below, httpclient.WithRetries(0), httpclient.WithHooks(httpclient.Hooks{
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

// A panic in a caller's function must reach the caller and leave no permit or body behind.
func TestPanicsOfTheCallersFunctionsGiveEverythingBack(t *testing.T) {
	t.Parallel()
	boom := func() { panic("boom") }
	for name, c := range map[string]struct {
		hooks   httpclient.Hooks
		getBody func() (io.ReadCloser, error)
		sent    int
		lost    uint64
	}{
		"request hook":  {httpclient.Hooks{Request: func(context.Context, httpclient.RequestEvent) { boom() }}, nil, 0, 0},
		"response hook": {httpclient.Hooks{Response: func(context.Context, httpclient.ResponseEvent) { boom() }}, nil, 1, 0},
		"done hook":     {httpclient.Hooks{Done: func(context.Context, httpclient.DoneEvent) { boom() }}, nil, 1, 0},
		"GetBody":       {httpclient.Hooks{}, func() (io.ReadCloser, error) { panic("boom") }, 1, 0},
	} {
		for _, status := range []int{http.StatusOK, http.StatusTooManyRequests} {
			if name == "GetBody" && status == http.StatusOK || name == "done hook" && status != http.StatusOK {
				continue // GetBody is called only before a retry, the hook only without one
			}
			inBubble(t, name+" "+http.StatusText(status), func(t *testing.T) {
				var requests, responses ledger
				below := newScript(answerWith(status, func() io.ReadCloser { return responses.open(strings.NewReader("{}")) },
					"X-RateLimit-Scope: user", "Retry-After: 1"))
				// newTransport checks at the end that nothing is held.
				transport := newTransport(t, below, httpclient.WithHooks(c.hooks))
				r := newMessage(t)
				r.Body = requests.open(r.Body)
				if c.getBody != nil {
					r.GetBody = c.getBody
				}
				assert.PanicsWithValue(t, "boom", func() { _, _ = transport.RoundTrip(r) })
				assert.Len(t, below.requests(), c.sent)
				assert.Equal(t, c.lost, transport.Manager().Stats().Lost)
				if c.sent == 0 {
					requests.assertClosed(t)
				} else {
					responses.assertClosed(t)
				}
			})
		}
	}
}

type contextKey struct{}

// contexts is a log handler that records which request each line belongs to.
type contexts struct {
	slog.Handler
	mu    sync.Mutex
	lines []string
}

func (c *contexts) Enabled(context.Context, slog.Level) bool { return true }

func (c *contexts) Handle(ctx context.Context, r slog.Record) error {
	c.tell(r.Message, ctx)
	return nil
}

func (c *contexts) tell(what string, ctx context.Context) {
	c.mu.Lock()
	defer c.mu.Unlock()
	name, _ := ctx.Value(contextKey{}).(string)
	c.lines = append(c.lines, what+" of "+name)
}

// The manager derives its own context for each wait; its hooks and logs must have the request's values, too.
func TestHooksAndLogsHaveTheContextOfTheRequest(t *testing.T) {
	bubble(t, func(t *testing.T) {
		below := newScript(refusal429(`{"retry_after":2}`, "X-RateLimit-Scope: shared"), answer(http.StatusBadGateway, ""),
			answer(http.StatusOK, "{}"))
		var c contexts
		transport := newTransport(t, below, httpclient.WithLogger(slog.New(&c)),
			httpclient.WithBuckets(buckets.WithHooks(buckets.Hooks{
				Waiting: func(ctx context.Context, _ buckets.Waiting) { c.tell("waiting", ctx) },
				Held:    func(ctx context.Context, _ buckets.Held) { c.tell("held", ctx) },
			})),
			httpclient.WithHooks(httpclient.Hooks{
				Request:  func(ctx context.Context, e httpclient.RequestEvent) { c.tell("request "+strconv.Itoa(e.Attempt), ctx) },
				Response: func(ctx context.Context, e httpclient.ResponseEvent) { c.tell("response "+strconv.Itoa(e.Status), ctx) },
			}))
		r := newRequest(t, http.MethodGet, messages, "")
		assertStatus(t, http.StatusOK, send(transport, r.WithContext(context.WithValue(r.Context(), contextKey{}, "one"))))
		var got []string
		for _, line := range c.lines {
			what, of, _ := strings.Cut(line, " of ")
			assert.Equal(t, "one", of, what)
			got = append(got, what)
		}
		assert.Equal(t, []string{
			"request 1", "requests are held", "held", "response 429", "request waits", "waiting",
			"request 2", "response 502", "request failed", "request 3", "response 200",
		}, got)
	})
}

func TestManyFailuresAreOneLineInHalfAMinute(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const canary = "canary-5f0c2e"
		below := newScript(fail(fmt.Errorf("post %s: %w", canary, lostConnection())))
		var log bytes.Buffer
		transport := newTransport(t, below,
			httpclient.WithLogger(slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))))
		for range 600 {
			assert.Error(t, send(transport, newRequest(t, http.MethodPost, "/api/webhooks/77/"+canary, `{}`)).wait().err)
			time.Sleep(20 * time.Millisecond)
		}
		assert.Equal(t, 1, strings.Count(log.String(), `msg="request failed"`))
		assert.Contains(t, log.String(),
			`route="POST /webhooks/{webhook_id}/{webhook_token}" major=77:… attempt=1 status=0 error=`)
		require.NoError(t, transport.Close())
		assert.Equal(t, 2, strings.Count(log.String(), `msg="request failed"`))
		assert.Contains(t, log.String(), "repeated=598")
		assert.NotContains(t, log.String(), canary)
	})
}

// One callback fails, is slow or is refused. Other callbacks must not wait for it.
func TestACallbackInTroubleDoesNotHoldTheOthers(t *testing.T) {
	first := []int{1}
	type story struct {
		fault  discordsim.Fault
		rule   discordsim.Rule
		status int
		took   time.Duration
	}
	inBubbles(t, map[string]story{
		"not found": {fault: discordsim.Fault{Nth: first, Status: http.StatusNotFound}, status: http.StatusNotFound},
		"slow":      {fault: discordsim.Fault{Nth: first, Delay: 10 * time.Second}, status: http.StatusOK, took: 10 * time.Second},
		"outage":    {fault: discordsim.Fault{Nth: first, Status: http.StatusBadGateway}, status: http.StatusBadGateway},
		"slow outage": {
			fault:  discordsim.Fault{Nth: first, Status: http.StatusGatewayTimeout, Delay: 12 * time.Second},
			status: http.StatusGatewayTimeout, took: 12 * time.Second,
		},
		"refused": {
			fault: discordsim.Fault{Nth: first, Edit: func(_ discordsim.Call, response *discordsim.Response) {
				response.Status, response.Body = http.StatusTooManyRequests, []byte(`{"retry_after":3}`)
				response.Header.Set("X-RateLimit-Scope", "shared")
			}},
			status: http.StatusOK, took: 3 * time.Second,
		},
	}, func(t *testing.T, c story) {
		server := newDiscord(t,
			discordsim.Config{Rules: []discordsim.Rule{{Path: "/interactions/**", Faults: []discordsim.Fault{c.fault}}}})
		transport := newTransport(t, server.RoundTripper())
		troubled := send(transport, newCallback(t, 0))
		time.Sleep(2 * time.Millisecond)
		for i := range 20 {
			if i == 10 {
				time.Sleep(100 * time.Millisecond) // by then the first callback's failure is known
			}
			other := send(transport, newCallback(t, i+1))
			assertStatus(t, http.StatusOK, other)
			assert.Less(t, other.took, slack)
		}
		assertStatus(t, c.status, troubled)
		assertTook(t, c.took, troubled.took)
	})
}

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
