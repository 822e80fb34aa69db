package httpclient_test

import (
	"context"
	"errors"
	"io"
	"math"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/httpclient"
	"github.com/ratelight/ratelight/ratelimits"
	"github.com/ratelight/ratelight/routes"
)

func TestEveryRequestFailsWithOptionsThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	type list = []httpclient.Option
	manager, other := httpclient.WithLimiter(newManager(t)), httpclient.WithLimiter(buckets.Unlimited{})
	for name, c := range map[string]struct {
		options list
		want    string
	}{
		"rate limit and manager": {list{httpclient.WithMaxRateLimit(1), manager}, "WithMaxRateLimit and WithLimiter"},
		"manager and buckets":    {list{manager, httpclient.WithBuckets(nil)}, "WithBuckets and WithLimiter"},
		"rate limit and limiter": {list{httpclient.WithMaxRateLimit(0), other}, "WithMaxRateLimit and WithLimiter"},
		"buckets and limiter":    {list{httpclient.WithBuckets(buckets.WithOrdered()), other}, "WithBuckets and WithLimiter"},
		"a limit of zero": {
			list{httpclient.WithBuckets(buckets.WithLimit(buckets.ForAll(), 0, time.Second))},
			"WithLimit(all requests 0 per 1s): a limit of 0: expected 1",
		},
		"negative retries": {list{httpclient.WithAttempts(httpclient.Attempts{Retries: -2})}, "Attempts.Retries -2"},
	} {
		t.Run(name, func(t *testing.T) {
			below := newScript(answer(http.StatusOK, "{}"))
			transport := httpclient.NewTransport(append(c.options, httpclient.WithBase(below))...)
			for _, r := range []*http.Request{newMessage(t), to(t, "https://example.com", newMessage(t)), newMessage(t)} {
				var bodies ledger
				r.Body = bodies.open(r.Body)
				_, err := transport.RoundTrip(r)
				require.ErrorIs(t, err, httpclient.ErrOptions)
				assert.ErrorContains(t, err, c.want)
				assert.ErrorContains(t, err, "expected")
				bodies.assertClosed(t)
			}
			assert.Empty(t, below.requests())
			assert.NoError(t, transport.Shutdown(t.Context()))
			assert.NoError(t, transport.Close())
		})
	}
}

func TestAttemptsOfAContextThatCannotBeUsedFailOnlyItsRequests(t *testing.T) {
	t.Parallel()
	below := newScript(answer(http.StatusOK, "{}"))
	transport := newTransport(t, below, noRetries)
	for _, bad := range []httpclient.Attempts{{Retries: -2}, {Mode: -1}, {Mode: 9}, {FirstPause: -1}, {MaxPause: -1}} {
		r := newMessage(t).WithContext(httpclient.ContextWithAttempts(t.Context(), bad))
		bodies := track(r)
		assert.ErrorIs(t, send(transport, r).wait().err, httpclient.ErrOptions, "%+v", bad)
		bodies.assertClosed(t)
	}
	assert.Empty(t, below.requests())
	assertStatus(t, http.StatusOK, send(transport, newMessage(t)))
}

func TestOptionsThatAreNothingExcludeNoOthers(t *testing.T) {
	t.Parallel()
	manager := newManager(t)
	for name, options := range map[string][]httpclient.Option{
		"manager":     {httpclient.WithMaxRateLimit(time.Second), httpclient.WithLimiter(nil)},
		"nil manager": {httpclient.WithMaxRateLimit(time.Second), httpclient.WithLimiter((*buckets.RESTBucketManager)(nil))},
		"buckets":     {httpclient.WithBuckets(), httpclient.WithLimiter(manager), httpclient.WithLogger(nil)},
		"API":         {httpclient.WithAPI(address(t, "https://discord.com/api"), "")},
	} {
		t.Run(name, func(t *testing.T) {
			transport := newTransport(t, newScript(answer(http.StatusOK, "{}")), options...)
			assertStatus(t, http.StatusOK, send(transport, newMessage(t)))
		})
	}
}

// Each case sets one option to an extreme value. The first attempt of the request fails. The request must end within a
// bounded time, with a response or with an error that says why.
func TestEveryOptionOfATransportWorksAtItsExtremes(t *testing.T) {
	t.Parallel()
	options := map[string]httpclient.Option{
		"no base": httpclient.WithBase(nil), "no limiter": httpclient.WithLimiter(nil),
		"no logger": httpclient.WithLogger(nil), "no hosts": httpclient.WithHosts(nil),
		"no hooks": httpclient.WithHooks(httpclient.Hooks{}), "nothing": nil,
	}
	for _, d := range []time.Duration{math.MinInt64, -1, 0, 1, math.MaxInt64 - 1, math.MaxInt64} {
		options["max rate limit "+d.String()] = httpclient.WithMaxRateLimit(d)
		options["attempt timeout "+d.String()] = httpclient.WithAttempts(httpclient.Attempts{Timeout: d})
		for _, other := range []time.Duration{0, 1, math.MaxInt64} {
			pauses := httpclient.Attempts{FirstPause: max(d, 0), MaxPause: other}
			options["pauses "+d.String()+" "+other.String()] = httpclient.WithAttempts(pauses)
		}
	}
	for _, n := range []int64{math.MinInt64, -1, 0, 1, 1 << 40, math.MaxInt64 - 1, math.MaxInt64} {
		options["max replay "+strconv.FormatInt(n, 10)] = eachBody(n)
		options["max buffered "+strconv.FormatInt(n, 10)] = allBodies(n)
		options["retries "+strconv.FormatInt(n, 10)] = httpclient.WithAttempts(httpclient.Attempts{Retries: int(max(n, 0))})
	}
	for name, option := range options {
		inBubble(t, name, func(t *testing.T) {
			below := newScript(fail(io.ErrUnexpectedEOF), refuse("user", "1"), answer(http.StatusOK, "done"))
			transport := newTransport(t, below, option)
			for range 2 {
				ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
				r := unreplayable(newRequest(t, http.MethodPut, messages, "hello").WithContext(ctx), strings.NewReader("hello"), -1)
				c := send(transport, r).wait()
				cancel()
				assert.Less(t, c.took, time.Hour)
				if c.err == nil {
					assert.Contains(t, []int{http.StatusOK, http.StatusTooManyRequests}, c.status)
				}
			}
			assertNothingHeld(t, transport)
		})
	}
}

func TestWithoutALimiterEverythingGoesAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		full := answer(http.StatusOK, "", limitHeaders("X-RateLimit-Remaining: 0", "X-RateLimit-Reset-After: 60")...)
		transport := httpclient.NewTransport(httpclient.WithBase(newScript(full)),
			httpclient.WithLimiter(buckets.Unlimited{}))
		assert.Nil(t, transport.Manager())
		var calls []*call
		for range 100 {
			calls = append(calls, send(transport, newMessage(t)))
		}
		assertStatus(t, http.StatusOK, calls...)
		for _, c := range calls {
			assert.Zero(t, c.took)
		}
		require.NoError(t, transport.Close())
		assert.ErrorIs(t, send(transport, newMessage(t)).wait().err, buckets.ErrClosed)
	})
}

// turnstile is a limiter that grants one request each second, and records its calls.
type turnstile struct {
	mu    sync.Mutex
	asked []buckets.Request
	ended []ending
	err   error
}

type ending struct {
	sent     bool
	response ratelimits.Response
}

func (l *turnstile) AcquireRequest(ctx context.Context, r *buckets.Request) (buckets.Lease, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asked = append(l.asked, *r)
	if l.err != nil {
		return buckets.Lease{}, l.err
	}
	if len(l.asked) > 1 {
		time.Sleep(time.Second)
	}
	return buckets.NewLease(l), ctx.Err()
}

func (l *turnstile) End(sent bool, r ratelimits.Response) { l.ended = append(l.ended, ending{sent, r}) }

func TestAnyLimiterIsAskedAndToldForEachAttempt(t *testing.T) {
	bubble(t, func(t *testing.T) {
		below := newScript(refuse("shared", "1"), answer(http.StatusBadGateway, ""), fail(lostConnection()),
			fail(noConnection()), answer(http.StatusOK, "{}"))
		limiter := new(turnstile)
		transport := newTransport(t, below, httpclient.WithLimiter(limiter),
			httpclient.WithAttempts(httpclient.Attempts{Retries: 9}))
		assert.Nil(t, transport.Manager())
		sent := send(transport, newRequest(t, http.MethodPut, channel, `{"name":"a","topic":"b"}`))
		assertStatus(t, http.StatusOK, sent)
		assert.InDelta(t, 1+4+0.5+1+2, sent.took.Seconds(), 0.4)
		require.Len(t, limiter.asked, 5)
		for _, r := range limiter.asked {
			assert.Equal(t, authorization, r.Authorization)
			assert.Equal(t, "PUT /channels/{channel_id}", r.Route.Route().String())
			assert.ElementsMatch(t, []string{"name", "topic"}, r.Fields())
		}
		require.Len(t, limiter.ended, 5)
		for i, want := range []struct {
			sent   bool
			status int
		}{{true, 429}, {true, 502}, {true, 0}, {false, 0}, {true, 200}} {
			assert.Equal(t, want.sent, limiter.ended[i].sent, "attempt %d", i)
			assert.Equal(t, want.status, limiter.ended[i].response.Status, "attempt %d", i)
		}
		assert.Equal(t, ratelimits.ClassShared, limiter.ended[0].response.Class)

		limiter.err = errors.New("the store is down")
		assert.ErrorIs(t, send(transport, getChannel(t)).wait().err, limiter.err)
		assert.Len(t, below.requests(), 5)
	})
}

// The limiter must get the value of X-RateLimit-Reset, a time of the server's clock. Processes that share a limit
// compare the values of several responses to find the latest response.
func TestALimiterIsToldWhenAResponseSaysThatTheWindowEnds(t *testing.T) {
	bubble(t, func(t *testing.T) {
		below := newScript(answer(http.StatusOK, "", limitHeaders("X-RateLimit-Reset: 1470173023.123")...))
		limiter := new(turnstile)
		transport := newTransport(t, below, httpclient.WithLimiter(limiter))
		assertStatus(t, http.StatusOK, send(transport, getChannel(t)))
		require.Len(t, limiter.ended, 1)
		assert.EqualValues(t, 1470173023123, limiter.ended[0].response.Stamp)
	})
}

// Even if the limiter never waits, the transport must wait after a refusal before it sends the request again, because
// Discord bans an IP address after ten thousand refusals.
func TestWithoutALimiterARefusalIsWaitedForAllTheSame(t *testing.T) {
	bubble(t, func(t *testing.T) {
		below := newScript(refuse("user", "1"))
		transport := newTransport(t, below, httpclient.WithLimiter(buckets.Unlimited{}))
		ctx := within(t, time.Minute)
		_, err := transport.RoundTrip(newMessage(t).WithContext(ctx))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorAs(t, err, new(*ratelimits.TooLongError))
		assert.Less(t, len(below.requests()), 15)
		assert.Greater(t, len(below.requests()), 5)

		_, err = transport.RoundTrip(newMessage(t).WithContext(buckets.ContextWithMaxWait(t.Context(), 0)))
		require.ErrorAs(t, err, new(*ratelimits.TooLongError))
	})
}

// WithoutRateLimitHeaders must also remove the Retry-After of a 429 that could not be repeated. The Retry-After of a
// 503 is not about limits and must stay, because the caller needs it.
func TestRateLimitHeadersCanBeRemoved(t *testing.T) {
	lines := limitHeaders("X-RateLimit-Remaining: 0", "X-RateLimit-Scope: user", "X-RateLimit-Global: true",
		"X-RateLimit-Reset: 1", "Retry-After: 2", "Anything: else")
	inBubbles(t, map[string]bool{"removed": true, "passed on": false}, func(t *testing.T, hidden bool) {
		for _, status := range []int{http.StatusOK, http.StatusTooManyRequests, http.StatusServiceUnavailable} {
			options := []httpclient.Option{eachBody(0)}
			if hidden {
				options = append(options, httpclient.WithoutRateLimitHeaders())
			}
			r := newMessage(t)
			r.GetBody = nil
			transport := newTransport(t, newScript(answer(status, "{}", lines...)), options...)
			response := roundTrip(t, transport, r)
			require.NoError(t, response.Body.Close())
			assert.Equal(t, status, response.StatusCode)
			for _, name := range []string{"Limit", "Remaining", "Reset", "Reset-After", "Bucket", "Global", "Scope"} {
				assert.Equal(t, hidden, response.Header.Get("X-RateLimit-"+name) == "", name)
			}
			assert.Equal(t, hidden && status == http.StatusTooManyRequests, response.Header.Get("Retry-After") == "")
			assert.Equal(t, "else", response.Header.Get("Anything"))
			assert.NotZero(t, transport.Predict(newMessage(t)).Wait, "the transport must obey the headers that it hides")
		}
	})
}

func TestTransportsShareTheLimitsOfAManager(t *testing.T) {
	bubble(t, func(t *testing.T) {
		below, manager := newScript(usedUp(1, time.Second)), newManager(t)
		one := newTransport(t, below, httpclient.WithLimiter(manager), httpclient.WithLimiter(nil)) // nil is ignored
		other := newTransport(t, below, httpclient.WithLimiter(manager))
		assert.Same(t, manager, one.Manager())
		assert.Same(t, manager, other.Manager())
		assert.NotNil(t, newTransport(t, nil, httpclient.WithLimiter(nil)).Manager())

		assertStatus(t, http.StatusOK, send(one, newMessage(t)))
		second := send(other, newMessage(t))
		assertStatus(t, http.StatusOK, second)
		assertTook(t, time.Second, second.took)

		require.NoError(t, one.Close())
		assert.True(t, manager.IsAlive(), "a transport must not close a manager that it does not own")
		assert.ErrorIs(t, send(one, newMessage(t)).wait().err, buckets.ErrClosed)
		assertStatus(t, http.StatusOK, send(other, newMessage(t)))
	})
}

func TestAnotherLimiterCanBeRefusedByTheEdge(t *testing.T) {
	t.Parallel()
	transport := newTransport(t, newScript(answer(http.StatusTooManyRequests, "<html>")),
		httpclient.WithLimiter(buckets.Unlimited{}))
	_, err := transport.RoundTrip(newMessage(t))
	assert.Zero(t, errorAs[*ratelimits.EdgeError](t, err).Hold, "the limiter does not know the hold")
}

// The limiter lets a message wait for a second. During that second, Discord refuses the message's credential. Then the
// limiter grants the request, or waits until the context ends. In neither case may the message be sent.
func TestACredentialThatIsRefusedMeanwhileIsNotSentWhateverTheLimiterDoes(t *testing.T) {
	inBubbles(t, map[string]bool{"leaves": true, "waits": false}, func(t *testing.T, leaves bool) {
		below := newScript(unauthorized)
		transport := newTransport(t, below, httpclient.WithLimiter(limiterFunc(
			func(ctx context.Context, r *buckets.Request) (buckets.Lease, error) {
				if r.Route.Route() == routes.CreateMessage {
					time.Sleep(time.Second)
					if !leaves {
						<-ctx.Done()
					}
				}
				return buckets.Lease{}, ctx.Err()
			})))
		waiting := send(transport, posting(t, 1))
		synctest.Wait()
		for _, path := range []string{"/users/@me", "/gateway/bot"} {
			assertStatus(t, http.StatusUnauthorized, send(transport, getting(t, path)))
		}
		errorAs[*httpclient.CredentialError](t, waiting.wait().err)
		assertTook(t, time.Second, waiting.took)
		assert.Len(t, below.requests(), 2)
	})
}
