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
	"github.com/ratelight/ratelight/internal/discordsim"
)

// shutdown is a call of Shutdown with its result.
type shutdown struct {
	over atomic.Bool
	err  error
}

func shutDown(ctx context.Context, transport *httpclient.Transport) *shutdown {
	s := &shutdown{}
	go func() {
		s.err = transport.Shutdown(ctx)
		s.over.Store(true)
	}()
	synctest.Wait()
	return s
}

func (s *shutdown) assertOver(t *testing.T, err error) {
	t.Helper()
	synctest.Wait()
	require.True(t, s.over.Load())
	assert.Equal(t, err, s.err)
}

func TestShutdownSendsWhatWaitsAndNothingElse(t *testing.T) {
	bubble(t, func(t *testing.T) {
		server := newDiscord(t,
			discordsim.Config{Default: &discordsim.Rule{Path: "**", Quota: discordsim.Fixed(1, time.Minute)}})
		transport := newTransport(t, server.RoundTripper())
		var waiting []*call
		for range 3 {
			waiting = append(waiting, send(transport, newMessage(t)))
			synctest.Wait() // so that the requests wait in this order
		}
		s := shutDown(context.Background(), transport)

		var bodies ledger
		r := newMessage(t)
		r.Body = bodies.open(strings.NewReader("{}"))
		_, err := transport.RoundTrip(r)
		require.ErrorIs(t, err, buckets.ErrClosed)
		assert.ErrorContains(t, err, "shutting down")
		bodies.assertClosed(t)

		for _, c := range waiting {
			require.False(t, s.over.Load())
			assertStatus(t, http.StatusOK, c)
		}
		s.assertOver(t, nil)
		assert.Equal(t, 3, server.Report().Requests)
		_, err = transport.RoundTrip(newMessage(t))
		assert.Equal(t, buckets.ErrClosed, err)
		assert.False(t, transport.Manager().IsAlive())
	})
}

// Between two attempts, a request neither waits in the manager nor is in flight. Even so, Shutdown must wait for it.
func TestShutdownWaitsForARequestBetweenTwoAttempts(t *testing.T) {
	t.Parallel()
	for name, first := range map[string]responder{
		"failed": answer(http.StatusBadGateway, ""), "lost": fail(lostConnection()),
		"refused": refusal429(`{"retry_after":20}`, "X-RateLimit-Scope: shared"),
	} {
		for _, limiter := range []string{"manager", "own manager", "other limiter"} {
			inBubble(t, name+" "+limiter, func(t *testing.T) {
				options := []httpclient.Option{
					httpclient.WithBase(newScript(first, answer(http.StatusOK, "{}"))),
					httpclient.WithAttempts(httpclient.Attempts{FirstPause: 20 * time.Second}),
				}
				m := newManager(t)
				switch limiter {
				case "own manager":
					options = append(options, httpclient.WithLimiter(m))
				case "other limiter":
					options = append(options, httpclient.WithLimiter(buckets.Unlimited{}))
				}
				transport := httpclient.NewTransport(options...)
				c := send(transport, newRequest(t, http.MethodGet, messages, ""))
				time.Sleep(5 * time.Second)
				s := shutDown(context.Background(), transport)
				time.Sleep(5 * time.Second)
				require.False(t, c.over())
				require.False(t, s.over.Load())
				assertStatus(t, http.StatusOK, c)
				s.assertOver(t, nil)
				assert.True(t, m.IsAlive(), "the caller's manager must stay open")
			})
		}
	}
}

func TestShutdownWhoseContextEndsCutsOffWhatWaits(t *testing.T) {
	bubble(t, func(t *testing.T) {
		below := newScript(answer(http.StatusBadGateway, ""))
		transport := newTransport(t, below, httpclient.WithAttempts(httpclient.Attempts{FirstPause: time.Minute}))
		c := send(transport, newRequest(t, http.MethodGet, messages, ""))
		synctest.Wait()
		ctx := within(t, 10*time.Second)
		s, other := shutDown(ctx, transport), shutDown(context.Background(), transport)
		time.Sleep(10 * time.Second)
		s.assertOver(t, context.DeadlineExceeded)
		other.assertOver(t, buckets.ErrClosed)
		assert.ErrorIs(t, c.wait().err, buckets.ErrClosed)
		assertTook(t, 10*time.Second, c.took)
		shutDown(ctx, transport).assertOver(t, nil) // no request is left
	})
}

func TestCloseEndsAShutdown(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m := newManager(t)
		for range 40 { // repeated, because each of the goroutines that Close wakes may be the first to run
			transport := newTransport(t, newScript(answer(http.StatusBadGateway, "")), httpclient.WithLimiter(m),
				httpclient.WithAttempts(httpclient.Attempts{FirstPause: time.Minute}))
			c := send(transport, newRequest(t, http.MethodGet, messages, ""))
			synctest.Wait()
			s := shutDown(context.Background(), transport)
			require.NoError(t, transport.Close())
			s.assertOver(t, buckets.ErrClosed)
			assert.ErrorIs(t, c.wait().err, buckets.ErrClosed)
		}
	})
}

func TestShutdownOfATransportWithNothingToDoReturnsAtOnce(t *testing.T) {
	t.Parallel()
	over, cancel := context.WithCancel(context.Background())
	cancel()
	transport := newTransport(t, newScript(answer(http.StatusOK, "{}")))
	var none context.Context
	assert.ErrorIs(t, transport.Shutdown(none), buckets.ErrNoContext)
	assertStatus(t, http.StatusOK, send(transport, newMessage(t)))
	assert.NoError(t, transport.Shutdown(over))
	assert.NoError(t, transport.Shutdown(over))
}

// A panic in a caller's function ends its request, so Shutdown must not wait for that request.
func TestShutdownDoesNotWaitForARequestThatPanicked(t *testing.T) {
	bubble(t, func(t *testing.T) {
		transport := newTransport(t, newScript(answer(http.StatusOK, "{}")), httpclient.WithHooks(httpclient.Hooks{
			Request: func(context.Context, httpclient.RequestEvent) { panic("boom") },
		}))
		assert.Panics(t, func() { _, _ = transport.RoundTrip(newMessage(t)) })
		s := shutDown(context.Background(), transport)
		time.Sleep(2 * time.Second)
		s.assertOver(t, nil)
	})
}

func TestCloseEndsWhatWaitsAndLeavesWhatIsUnderWay(t *testing.T) {
	bubble(t, func(t *testing.T) {
		server := newDiscord(t, discordsim.Config{
			Default: &discordsim.Rule{
				Path: "**", Quota: discordsim.Fixed(1, time.Minute), Faults: []discordsim.Fault{{Delay: 5 * time.Second}},
			},
		})
		transport := newTransport(t, server.RoundTripper())
		underWay := send(transport, newMessage(t))
		synctest.Wait()
		var waiting []*call
		for range 3 { // these requests wait for the first response on the route
			waiting = append(waiting, send(transport, newMessage(t)))
		}
		time.Sleep(time.Second)

		require.NoError(t, transport.Close())
		synctest.Wait()
		for _, c := range waiting {
			require.True(t, c.over())
			assert.ErrorIs(t, c.err, buckets.ErrClosed)
			assertTook(t, time.Second, c.took)
		}
		assert.False(t, underWay.over(), "Close cut off a request in flight")
		assertStatus(t, http.StatusOK, underWay)
		assert.Equal(t, 1, server.Report().Requests)
	})
}

func TestAManagerThatIsNotStartedIsToldOf(t *testing.T) {
	t.Parallel()
	transport := newTransport(t, newScript(answer(http.StatusOK, "{}")),
		httpclient.WithLimiter(buckets.NewRESTBucketManager()))
	_, err := transport.RoundTrip(newMessage(t))
	assert.ErrorIs(t, err, buckets.ErrNotStarted)
}

func TestCloseIdleConnectionsReachesTheTransportBelow(t *testing.T) {
	t.Parallel()
	below := &idler{}
	(&http.Client{Transport: newTransport(t, below)}).CloseIdleConnections()
	assert.Equal(t, 1, below.closed)
	assert.NotPanics(t, newTransport(t, newScript()).CloseIdleConnections, "the base has no CloseIdleConnections")
}

type idler struct {
	http.RoundTripper
	closed int
}

func (i *idler) CloseIdleConnections() { i.closed++ }
