package httpclient_test

import (
	"context"
	"io"
	"math"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/httpclient"
	"github.com/ratelight/ratelight/ratelimits"
)

// assertPauses asserts that the times between the requests that were sent differ from want by at most jitter.
func assertPauses(t *testing.T, want []time.Duration, jitter time.Duration, s *script) {
	t.Helper()
	requests := s.requests()
	require.Len(t, requests, len(want)+1)
	for i := range want {
		got := requests[i+1].at.Sub(requests[i].at)
		assert.InDelta(t, want[i].Seconds(), got.Seconds(), jitter.Seconds()+1e-6, "pause %d", i)
	}
}

func TestPausesDoubleUpToTheMaximum(t *testing.T) {
	const s = time.Second
	type story struct {
		first, longest time.Duration
		want           []time.Duration
		jitter         time.Duration
	}
	inBubbles(t, map[string]story{
		"by default":            {0, 0, []time.Duration{s / 2, s, 2 * s, 4 * s, 8 * s, 16 * s, 16 * s}, s / 8},
		"as set":                {2 * s, 5 * s, []time.Duration{2 * s, 4 * s, 5 * s, 5 * s}, s / 2},
		"only the first":        {6 * s, 0, []time.Duration{6 * s, 12 * s, 16 * s}, 3 * s / 2},
		"only the longest":      {0, s, []time.Duration{s / 2, s, s}, s / 8},
		"the longest too short": {20 * s, s, []time.Duration{20 * s, 20 * s, 20 * s}, 5 * s},
	}, func(t *testing.T, c story) {
		attempts := httpclient.Attempts{Retries: len(c.want), FirstPause: c.first, MaxPause: c.longest}
		for _, failure := range answers(answer(http.StatusBadGateway, ""), fail(lostConnection())) {
			below := newScript(failure)
			send(newTransport(t, below, httpclient.WithAttempts(attempts)), getChannel(t)).wait()
			assertPauses(t, c.want, c.jitter, below)
		}
	})
}

// Each request times out, so that a timeout and a pause lie between two attempts.
func TestEachFieldOfAttemptsIsOverriddenAlone(t *testing.T) {
	const s = time.Second
	earlier := httpclient.Attempts{
		Retries: 2, Mode: httpclient.UnsafeRetries, Timeout: 5 * s, FirstPause: 8 * s, MaxPause: 8 * s,
	}
	type story struct {
		later httpclient.Attempts
		want  []time.Duration // the times between the attempts
	}
	inBubbles(t, map[string]story{
		"no field":        {httpclient.Attempts{}, []time.Duration{13 * s, 13 * s}},
		"retries":         {httpclient.Attempts{Retries: 1}, []time.Duration{13 * s}},
		"mode":            {httpclient.Attempts{Mode: httpclient.SafeRetries}, nil},
		"timeout":         {httpclient.Attempts{Timeout: s}, []time.Duration{9 * s, 9 * s}},
		"no timeout":      {httpclient.Attempts{Timeout: -1}, nil},
		"endless timeout": {httpclient.Attempts{Timeout: math.MaxInt64}, nil},
		"first pause":     {httpclient.Attempts{FirstPause: 4 * s}, []time.Duration{9 * s, 13 * s}},
		"no longer pause": {httpclient.Attempts{MaxPause: 4 * s}, []time.Duration{9 * s, 9 * s}},
		"longest pause":   {httpclient.Attempts{MaxPause: 16 * s}, []time.Duration{13 * s, 21 * s}},
	}, func(t *testing.T, c story) {
		for ofTransport := range 3 { // so many of the two are options of the transport, the others are options of the context
			options, ctx := []httpclient.Option{noRetries}, within(t, time.Hour)
			for i, a := range []httpclient.Attempts{earlier, c.later} {
				if i < ofTransport {
					options = append(options, httpclient.WithAttempts(a))
				} else {
					ctx = httpclient.ContextWithAttempts(ctx, a)
				}
			}
			below := newScript(silence)
			assert.Error(t, send(newTransport(t, below, options...), newMessage(t).WithContext(ctx)).wait().err)
			assertPauses(t, c.want, 2*s, below)
		}
	})
}

func TestPausesVarySoThatNotEverybodyComesBackAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var pauses []time.Duration
		for range 200 {
			c := send(newTransport(t, newScript(answer(http.StatusBadGateway, ""), answer(http.StatusOK, ""))), getChannel(t))
			assertStatus(t, http.StatusOK, c)
			pauses = append(pauses, c.took)
		}
		slices.Sort(pauses)
		assert.Less(t, pauses[0], 400*time.Millisecond)
		assert.Greater(t, pauses[199], 600*time.Millisecond)
		assert.Greater(t, len(slices.Compact(pauses)), 150)
	})
}

func TestRetryAfterOfAFailureIsObeyedUpToTheLongestPause(t *testing.T) {
	const date = "Date: Tue, 02 Aug 2016 21:23:43 GMT"
	type story struct {
		status int
		header []string
		want   time.Duration // 0: the usual pause
	}
	inBubbles(t, map[string]story{
		"some seconds":           {503, []string{"Retry-After: 5"}, 5 * time.Second},
		"another status":         {502, []string{"Retry-After: 5"}, 5 * time.Second},
		"an hour":                {503, []string{"Retry-After: 3600"}, 16 * time.Second},
		"a billion":              {503, []string{"Retry-After: 1000000000"}, 16 * time.Second},
		"less than the pause":    {503, []string{"Retry-After: 0"}, 0},
		"negative":               {503, []string{"Retry-After: -3"}, 0},
		"a date, no Date header": {503, []string{"Retry-After: Wed, 21 Oct 2026 07:28:00 GMT"}, 0},
		"a date":                 {503, []string{"Retry-After: Tue, 02 Aug 2016 21:23:46 GMT", date}, 4 * time.Second},
	}, func(t *testing.T, c story) {
		below := newScript(answer(c.status, "", c.header...), answer(http.StatusOK, ""))
		sent := send(newTransport(t, below), getChannel(t))
		assertStatus(t, http.StatusOK, sent)
		if c.want == 0 {
			assert.InDelta(t, 0.5, sent.took.Seconds(), 0.125)
		} else {
			assert.Equal(t, c.want, sent.took)
		}
	})
}

func TestRetriesEndWithTheirTime(t *testing.T) {
	const s = time.Second
	type story struct {
		attempts httpclient.Attempts
		takes    time.Duration
		sent     int
	}
	inBubbles(t, map[string]story{
		"two minutes":                {httpclient.Attempts{}, 0, 12},
		"less than the first pause":  {httpclient.Attempts{FirstPause: 3 * time.Minute}, 0, 1},
		"attempts count":             {httpclient.Attempts{FirstPause: s, MaxPause: s}, 13500 * time.Millisecond, 9},
		"the last one may overshoot": {httpclient.Attempts{FirstPause: s, MaxPause: s, Timeout: -1}, 118 * s, 2},
	}, func(t *testing.T, c story) {
		below := newScript(answer(http.StatusBadGateway, "last"))
		below.takes = c.takes
		c.attempts.Retries = 20
		sent := send(newTransport(t, below, httpclient.WithAttempts(c.attempts)), getChannel(t))
		assertStatus(t, http.StatusBadGateway, sent)
		assert.Equal(t, "last", sent.body)
		assert.Len(t, below.requests(), c.sent)
	})
}

// A retry must also wait for its limits. This wait must end within the two minutes for retries. A wait that a 429 asks
// for may end later, except after the failure of a message with a nonce. The bounds that the caller sets apply to every
// wait.
func TestARetryWaitsForItsLimits(t *testing.T) {
	bad, ok := answer(http.StatusBadGateway, ""), answer(http.StatusOK, "done")
	oneLeft := answer(http.StatusOK, "",
		limitHeaders("X-RateLimit-Remaining: 1", "X-RateLimit-Limit: 2", "X-RateLimit-Reset-After: 60")...)
	nonce := func(t *testing.T) *http.Request {
		return newRequest(t, http.MethodPost, messages, `{"content":"hello","nonce":"1","enforce_nonce":true}`)
	}
	type story struct {
		before   responder // answers a request that is sent first; nil: no such request
		request  func(t *testing.T) *http.Request
		answers  []responder
		options  []httpclient.Option
		deadline time.Duration
		sent     int // attempts of the request
		is       error
		tooLong  bool
		most     time.Duration // the longest time that the request may take; 0: any
	}
	inBubbles(t, map[string]story{
		"the first failure begins the time": {
			before: usedUp(2, 3*time.Minute), request: getChannel, answers: answers(bad, ok), sent: 2,
		},
		"the time passes in the queue": {
			before: usedUp(1, 3*time.Minute), request: getChannel, answers: answers(bad, usedUp(1, 3*time.Minute)),
			sent: 1, is: httpclient.ErrMaxRetryDuration, tooLong: true,
		},
		"a 429 after a failure": {request: getChannel, answers: answers(bad, refuse("user", "150"), ok), sent: 3},
		"Discord remembers a nonce for minutes only": {
			request: nonce, answers: answers(bad, refuse("shared", "150"), ok), sent: 2, is: httpclient.ErrMaxRetryDuration,
			tooLong: true,
		},
		"a 429 before the failure: the message was not created": {
			request: newMessage, answers: answers(refuse("user", "150"), fail(lostConnection()), ok),
			options: []httpclient.Option{httpclient.WithAttempts(httpclient.Attempts{Nonce: true})}, sent: 3,
		},
		"longer than the max rate limit": {
			before: oneLeft, request: getChannel, answers: answers(bad, ok),
			options: []httpclient.Option{httpclient.WithMaxRateLimit(10 * time.Second)}, sent: 1, tooLong: true,
			most: 2 * time.Second,
		},
		"longer than the caller's deadline": {
			before: oneLeft, request: getChannel, answers: answers(bad, ok), deadline: 20 * time.Second,
			sent: 1, is: context.DeadlineExceeded, tooLong: true,
		},
	}, func(t *testing.T, c story) {
		below := newScript(c.answers...)
		if c.before != nil {
			below = newScript(append(answers(c.before), c.answers...)...)
		}
		transport := newTransport(t, below, c.options...)
		if c.before != nil {
			assertStatus(t, http.StatusOK, send(transport, getChannel(t)))
			c.sent++
		}
		r := c.request(t)
		if c.deadline > 0 {
			r = r.WithContext(within(t, c.deadline))
		}
		sent := send(transport, r).wait()
		assert.Len(t, below.requests(), c.sent)
		if !c.tooLong {
			assertStatus(t, http.StatusOK, sent)
			assert.Equal(t, "done", sent.body)
			return
		}
		errorAs[*ratelimits.TooLongError](t, sent.err)
		if c.is != nil {
			assert.ErrorIs(t, sent.err, c.is)
		}
		if c.is != httpclient.ErrMaxRetryDuration {
			assert.NotErrorIs(t, sent.err, httpclient.ErrMaxRetryDuration)
		}
		if c.most > 0 {
			assert.Less(t, sent.took, c.most)
		}
	})
}

// slow is a limiter that lets the second request wait for three minutes but does not predict this wait.
type slow struct{ turnstile }

func (l *slow) AcquireRequest(ctx context.Context, r *buckets.Request) (buckets.Lease, error) {
	if len(l.asked) == 1 {
		time.Sleep(3 * time.Minute)
	}
	return l.turnstile.AcquireRequest(context.WithoutCancel(ctx), r)
}

func TestALeaseThatComesAfterTheTimeForRetriesIsGivenBack(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var bodies ledger
		limiter := new(slow)
		below := newScript(answer(http.StatusBadGateway, ""))
		transport := newTransport(t, below, httpclient.WithLimiter(limiter))
		r := newRequest(t, http.MethodPut, channel, "")
		r.GetBody = func() (io.ReadCloser, error) { return bodies.open(strings.NewReader("{}")), nil }
		r.Body, _ = r.GetBody()
		require.ErrorIs(t, send(transport, r).wait().err, httpclient.ErrMaxRetryDuration)
		assert.Len(t, below.requests(), 1)
		require.Len(t, limiter.ended, 2)
		assert.False(t, limiter.ended[1].sent)
		bodies.assertClosed(t)
	})
}

func TestAPauseThatEndsAfterTheDeadlineIsNotBegun(t *testing.T) {
	bubble(t, func(t *testing.T) {
		transport := newTransport(t, newScript(answer(http.StatusBadGateway, "sorry")),
			httpclient.WithAttempts(httpclient.Attempts{FirstPause: 10 * time.Second}))
		sent := send(transport, getChannel(t).WithContext(within(t, 3*time.Second)))
		assertStatus(t, http.StatusBadGateway, sent)
		assert.Equal(t, "sorry", sent.body)
		assert.Zero(t, sent.took)
	})
}

func TestAPauseEndsWithTheContextAndWithTheTransport(t *testing.T) {
	ends := map[string]error{"cancelled": context.Canceled, "closed": buckets.ErrClosed}
	inBubbles(t, ends, func(t *testing.T, want error) {
		for _, failure := range answers(answer(http.StatusBadGateway, ""), fail(lostConnection())) {
			below := newScript(failure)
			transport := newTransport(t, below, httpclient.WithAttempts(httpclient.Attempts{FirstPause: 10 * time.Second}))
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			end := cancel
			if want == buckets.ErrClosed {
				end = func() { transport.Close() }
			}
			time.AfterFunc(3*time.Second, end)
			paused := send(transport, getChannel(t).WithContext(ctx)).wait()
			assert.ErrorIs(t, paused.err, want)
			assert.Equal(t, 3*time.Second, paused.took)
			time.Sleep(time.Minute)
			assert.Len(t, below.requests(), 1)
		}
	})
}

// If a request fails because of the caller's context or because of Close, it must not be repeated.
func TestARequestThatWasGivenUpIsNotRepeated(t *testing.T) {
	bubble(t, func(t *testing.T) {
		below := newScript(answer(http.StatusOK, ""))
		below.takes = 10 * time.Second
		transport := newTransport(t, below)
		late := send(transport, getChannel(t).WithContext(within(t, time.Second))).wait()
		assert.ErrorIs(t, late.err, context.DeadlineExceeded)
		assert.NotErrorAs(t, late.err, new(*httpclient.RetryError))
		assert.Equal(t, time.Second, late.took)

		below.answers = answers(answer(http.StatusBadGateway, "last"))
		last := send(transport, getChannel(t))
		time.Sleep(time.Second)
		require.NoError(t, transport.Close())
		assertStatus(t, http.StatusBadGateway, last) // Close does not cut off a request in flight
		assert.Equal(t, "last", last.body)
		assert.Len(t, below.requests(), 2)
	})
}

// Each request that fails has taken the bucket's last permit. Only a request that was never sent must give its permit
// back.
func TestOnlyARequestThatNeverLeftGivesItsPermitBack(t *testing.T) {
	type story struct {
		failure responder
		method  string
		waits   bool // whether the retry has to wait for the next window
		lost    uint64
	}
	inBubbles(t, map[string]story{
		"no connection": {fail(noConnection()), http.MethodPatch, false, 0},
		// Before the GET that failed with this error, net/http may have sent the same GET on another connection.
		"no connection, a GET": {fail(noConnection()), http.MethodGet, true, 1},
		"lost":                 {fail(lostConnection()), http.MethodGet, true, 1},
		"server error":         {answer(http.StatusBadGateway, ""), http.MethodGet, true, 0},
	}, func(t *testing.T, c story) {
		oneLeft := limitHeaders("X-RateLimit-Remaining: 1", "X-RateLimit-Limit: 2", "X-RateLimit-Reset-After: 60")
		transport := newTransport(t, newScript(answer(http.StatusOK, "", oneLeft...), c.failure, answer(http.StatusOK, "")))
		request := func() *http.Request {
			unsafe := httpclient.Attempts{Mode: httpclient.UnsafeRetries}
			return newRequest(t, c.method, channel, "").WithContext(httpclient.ContextWithAttempts(t.Context(), unsafe))
		}
		assertStatus(t, http.StatusOK, send(transport, request()))
		sent := send(transport, request())
		assertStatus(t, http.StatusOK, sent)
		if c.waits {
			assert.InDelta(t, 60, sent.took.Seconds(), 1)
		} else {
			assert.InDelta(t, 0.5, sent.took.Seconds(), 0.126)
		}
		assert.Equal(t, c.lost, transport.Manager().Stats().Lost)
	})
}

// The bucket allows one request in ten seconds. The second request fails or is refused. After that it must wait for the
// next window, and must be sent before the requests that came after it.
func TestARequestThatFailedKeepsItsPlaceInTheQueue(t *testing.T) {
	inBubbles(t, map[string]responder{
		"server error": answer(http.StatusBadGateway, ""), "lost": fail(lostConnection()), "refused": refuse("user", "10"),
	}, func(t *testing.T, failure responder) {
		full := usedUp(1, 10*time.Second)
		below := newScript(full, failure, full)
		below.takes = 10 * time.Millisecond
		transport := newTransport(t, below)
		var calls []*call
		for i := range 6 {
			calls = append(calls, send(transport, newRequest(t, http.MethodPut, channel, strconv.Itoa(i+1))))
			synctest.Wait()
		}
		assertStatus(t, http.StatusOK, calls...)
		order := ""
		for _, s := range below.requests() {
			order += s.body
		}
		assert.Equal(t, "1223456", order)
	})
}

func TestNothingIsHeldDuringAPause(t *testing.T) {
	bubble(t, func(t *testing.T) {
		below := responder(func(r *http.Request) (*http.Response, error) {
			return answer(map[string]int{http.MethodPut: http.StatusBadGateway, http.MethodGet: http.StatusOK}[r.Method], "")(r)
		})
		transport := newTransport(t, below, httpclient.WithAttempts(httpclient.Attempts{FirstPause: 10 * time.Second}))
		paused := send(transport, newRequest(t, http.MethodPut, channel, "failed"))
		synctest.Wait()
		assertNothingHeld(t, transport)
		other := send(transport, getChannel(t))
		assertStatus(t, http.StatusOK, other)
		assert.Zero(t, other.took)
		assertStatus(t, http.StatusBadGateway, paused)
	})
}

func TestADeadlineWhileConnectingIsTheCallers(t *testing.T) {
	bubble(t, func(t *testing.T) {
		transport := newTransport(t, responder(func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, &net.OpError{Op: "dial", Err: r.Context().Err()}
		}))
		err := send(transport, newMessage(t).WithContext(within(t, time.Second))).wait().err
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		assert.NotErrorAs(t, err, new(*httpclient.RetryError))
		assert.Zero(t, transport.Manager().Stats().Lost)
	})
}

// The transport must not wait for the body of a response that it does not return, such as a 502 before a retry.
func TestAFailureWhoseBodyNeverComesIsRepeatedAllTheSame(t *testing.T) {
	inBubbles(t, map[string]time.Duration{"by default": httpclient.DefaultAttemptTimeout, "without a bound": -1},
		func(t *testing.T, timeout time.Duration) {
			below := newScript(answerSlowly(http.StatusBadGateway, "", time.Hour), answer(http.StatusOK, "done"))
			transport := newTransport(t, below, httpclient.WithAttempts(httpclient.Attempts{Timeout: timeout}))
			sent := send(transport, getChannel(t).WithContext(within(t, time.Minute))).wait()
			assertStatus(t, http.StatusOK, sent)
			assert.LessOrEqual(t, sent.took, 16*time.Second)
		})
}
