package httpclient_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/httpclient"
	"github.com/ratelight/ratelight/ratelimits"
)

// watcher is a limiter that lets all requests leave at once, and records its calls with their times.
type watcher struct {
	start time.Time
	told  []telling
}

type telling struct {
	what     string
	at       time.Duration
	class    ratelimits.Class
	wait     time.Duration
	has429   bool
	response ratelimits.Response
}

func (l *watcher) AcquireRequest(context.Context, *buckets.Request) (buckets.Lease, error) {
	return buckets.NewLease(l), nil
}

func (l *watcher) tell(what string, r ratelimits.Response) {
	l.told = append(l.told,
		telling{what, time.Since(l.start), r.Class, r.RetryAfter, r.Status == http.StatusTooManyRequests, r})
}

func (l *watcher) Refused(r ratelimits.Response)     { l.tell("refused", r) }
func (l *watcher) End(_ bool, r ratelimits.Response) { l.tell("ended", r) }

func TestA429IsToldToTheLimiterBeforeItsBodyHasCome(t *testing.T) {
	const precise = `{"retry_after":2.5,"global":false}`
	broken := errors.New("connection reset by peer")
	type story struct {
		delay   time.Duration
		content io.Reader
		life    time.Duration // time until the request's context ends
		ended   time.Duration
		wait    time.Duration
	}
	inBubbles(t, map[string]story{
		"at once": {0, strings.NewReader(precise), time.Minute, 0, 2500 * time.Millisecond},
		"late":    {3 * time.Second, strings.NewReader(precise), time.Minute, 3 * time.Second, 2500 * time.Millisecond},
		"never":   {time.Hour, strings.NewReader(precise), time.Minute, 5 * time.Second, 3 * time.Second},
		"broken off": {
			time.Second, io.MultiReader(strings.NewReader(precise[:9]), iotest.ErrReader(broken)), time.Minute, time.Second,
			3 * time.Second,
		},
		"broken off at once": {time.Second, iotest.ErrReader(broken), time.Minute, time.Second, 3 * time.Second},
		"after the deadline": {time.Hour, strings.NewReader(precise), 2 * time.Second, 2 * time.Second, 3 * time.Second},
	}, func(t *testing.T, c story) {
		refusal := answerWith(http.StatusTooManyRequests, func() io.ReadCloser { return stall(c.delay, c.content) },
			"X-RateLimit-Scope: shared", "Retry-After: 3")
		limiter := &watcher{start: time.Now()}
		transport := newTransport(t, newScript(refusal, answer(http.StatusOK, "")), httpclient.WithLimiter(limiter))
		ctx := within(t, c.life)
		sent := send(transport, newMessage(t).WithContext(ctx)).wait()
		if c.life < time.Minute {
			assert.ErrorIs(t, sent.err, context.DeadlineExceeded)
			assert.Equal(t, c.life, sent.took)
		} else {
			assertStatus(t, http.StatusOK, sent)
		}
		require.GreaterOrEqual(t, len(limiter.told), 2)
		first, last := limiter.told[0], limiter.told[1]
		assert.Equal(t, telling{"refused", 0, ratelimits.ClassShared, 3 * time.Second, true, first.response}, first)
		assert.Equal(t, telling{"ended", c.ended, ratelimits.ClassShared, c.wait, true, last.response}, last)
	})
}

func TestOnlyA429IsToldToTheLimiterBeforeItsBodyHasCome(t *testing.T) {
	bubble(t, func(t *testing.T) {
		limiter := &watcher{start: time.Now()}
		below := newScript(answer(http.StatusBadGateway, ""), fail(io.EOF), answer(http.StatusNotFound, ""))
		transport := newTransport(t, below, httpclient.WithLimiter(limiter))
		assertStatus(t, http.StatusNotFound, send(transport, getChannel(t)))
		require.Len(t, limiter.told, 3)
		for _, told := range limiter.told {
			assert.Equal(t, "ended", told.what)
		}
	})
}

// The body of a 429 may come after the wait that it asks for.
func TestA429ThatIsReturnedHasItsWholeBodyHoweverLateThatComes(t *testing.T) {
	const precise = `{"message":"You are being rate limited.","retry_after":9,"global":false}`
	type story struct {
		delay time.Duration
		text  string
	}
	inBubbles(t, map[string]story{
		"at once":        {0, precise},
		"late":           {time.Second, precise},
		"too late":       {6 * time.Second, precise},
		"large":          {0, strings.Repeat("a", 200<<10)},
		"large and late": {6 * time.Second, strings.Repeat("a", 200<<10)},
	}, func(t *testing.T, c story) {
		below := newScript(answerSlowly(http.StatusTooManyRequests, c.text, c.delay,
			"X-RateLimit-Scope: user", "Retry-After: 9", "Via: 1.1 google"))
		r := newMessage(t)
		r.GetBody = nil // the body can be sent only once
		sent := send(newTransport(t, below, httpclient.WithMaxBufferedBody(0)), r)
		assertStatus(t, http.StatusTooManyRequests, sent)
		assert.Equal(t, c.text, sent.body)
		assert.Equal(t, min(c.delay, 5*time.Second), sent.took)
	})
}

// The transport reads the body in the background. Closing the body must end that.
func TestA429ThatIsReturnedCanBeClosedBeforeItsBodyHasCome(t *testing.T) {
	t.Parallel()
	for _, read := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			below := newScript(answerWith(http.StatusTooManyRequests,
				func() io.ReadCloser { return stall(time.Hour, strings.NewReader("{}")) },
				"X-RateLimit-Scope: user", "Retry-After: 9"))
			r := newMessage(t)
			r.GetBody = nil
			response := roundTrip(t, newTransport(t, below, httpclient.WithMaxBufferedBody(0)), r)
			done := make(chan error, 1)
			if read {
				go func() {
					_, err := io.ReadAll(response.Body)
					done <- err
				}()
				time.Sleep(time.Second)
			}
			start := time.Now()
			require.NoError(t, response.Body.Close())
			if read {
				assert.Error(t, <-done)
			}
			synctest.Wait()
			assert.Zero(t, time.Since(start))
		})
	}
}

// limiting is a limiter of another type, without holds of its own.
type limiting struct{ buckets.Unlimited }

func TestLiftHoldsEndsWaitsAfter429sAlsoWithAnotherLimiter(t *testing.T) {
	bubble(t, func(t *testing.T) {
		below := newScript(refuse("user", "120"), refuse("user", "3"), answer(http.StatusOK, "{}"))
		transport := newTransport(t, below, httpclient.WithLimiter(limiting{}))
		transport.LiftHolds() // nothing is held yet
		waiting := send(transport, newMessage(t))
		time.Sleep(time.Second)
		transport.LiftHolds()
		assertStatus(t, http.StatusOK, waiting)
		assert.InDelta(t, 4*time.Second, waiting.took, float64(slack), "later 429s count again")
	})
}

// A 429 before LiftHolds and one after it must not count as consecutive.
func TestLiftHoldsEndsTheRowOf429sWithAnotherLimiter(t *testing.T) {
	bubble(t, func(t *testing.T) {
		again := refuse("user", "0")
		below := newScript(again, again, again, again, refuse("user", "120"), again, answer(http.StatusOK, "{}"))
		transport := newTransport(t, below, httpclient.WithLimiter(limiting{}))
		waiting := send(transport, newMessage(t))
		time.Sleep(2 * time.Second)
		transport.LiftHolds()
		assertStatus(t, http.StatusOK, waiting)
		assert.InDelta(t, 2*time.Second, waiting.took, float64(slack))
	})
}

// A body may come long after its headers. Retry-After counts from the headers.
func TestTheWaitAfterA429CountsFromItsHeaderWhateverTheLimiter(t *testing.T) {
	inBubbles(t, map[string][]httpclient.Option{
		"manager": nil, "another limiter": {httpclient.WithLimiter(limiting{})},
	}, func(t *testing.T, options []httpclient.Option) {
		late := answerSlowly(http.StatusTooManyRequests, `{"retry_after":8}`, 3*time.Second,
			"X-RateLimit-Scope: user", "Retry-After: 8", "Via: 1.1 google")
		transport := httpclient.NewTransport(append(options,
			httpclient.WithBase(newScript(late, answer(http.StatusOK, "{}"))))...)
		defer transport.Close()
		c := send(transport, newMessage(t))
		assertStatus(t, http.StatusOK, c)
		assert.InDelta(t, 8*time.Second, c.took, float64(slack))
	})
}
