package httpclient_test

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/httpclient"
)

// pauses returns the times between the requests that were sent.
func pauses(s *script) []time.Duration {
	var between []time.Duration
	requests := s.requests()
	for i := 1; i < len(requests); i++ {
		between = append(between, requests[i].at.Sub(requests[i-1].at))
	}
	return between
}

func assertPauses(t *testing.T, want []time.Duration, jitter time.Duration, s *script) {
	t.Helper()
	got := pauses(s)
	require.Len(t, got, len(want))
	for i := range want {
		assert.InDelta(t, want[i].Seconds(), got[i].Seconds(), jitter.Seconds()+1e-6, "pause %d", i)
	}
}

func TestPausesDoubleUpToTheMaximum(t *testing.T) {
	const s = time.Second
	type story struct {
		options []httpclient.Option
		want    []time.Duration
		jitter  time.Duration
	}
	inBubbles(t, map[string]story{
		"by default": {
			[]httpclient.Option{httpclient.WithRetries(7)},
			[]time.Duration{s / 2, s, 2 * s, 4 * s, 8 * s, 16 * s, 16 * s}, s / 8,
		},
		"as set": {
			[]httpclient.Option{httpclient.WithRetries(4), httpclient.WithBackoff(2*s, 5*s)},
			[]time.Duration{2 * s, 4 * s, 5 * s, 5 * s}, s / 2,
		},
		"nonsense": {
			[]httpclient.Option{httpclient.WithRetries(2), httpclient.WithBackoff(-1, -1)}, []time.Duration{s / 2, s}, s / 8,
		},
		"only the first":        {[]httpclient.Option{httpclient.WithBackoff(6*s, 0)}, []time.Duration{6 * s, 12 * s, 16 * s}, 3 * s / 2},
		"only the longest":      {[]httpclient.Option{httpclient.WithBackoff(0, s)}, []time.Duration{s / 2, s, s}, s / 8},
		"the longest too short": {[]httpclient.Option{httpclient.WithBackoff(20*s, s)}, []time.Duration{20 * s, 20 * s, 20 * s}, 5 * s},
	}, func(t *testing.T, c story) {
		below := newScript(answer(http.StatusBadGateway, ""))
		assertStatus(t, http.StatusBadGateway, send(newTransport(t, below, c.options...), getChannel(t)))
		assertPauses(t, c.want, c.jitter, below)

		below = newScript(fail(lostConnection()))
		assert.Error(t, send(newTransport(t, below, c.options...), getChannel(t)).wait().err)
		assertPauses(t, c.want, c.jitter, below)
	})
}

func TestPausesVarySoThatNotEverybodyComesBackAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		firsts := make(map[time.Duration]bool)
		shortest, longest := time.Hour, time.Duration(0)
		for range 200 {
			below := newScript(answer(http.StatusBadGateway, ""), answer(http.StatusOK, ""))
			assertStatus(t, http.StatusOK, send(newTransport(t, below), getChannel(t)))
			pause := pauses(below)[0]
			firsts[pause] = true
			shortest, longest = min(shortest, pause), max(longest, pause)
		}
		assert.Greater(t, len(firsts), 150)
		assert.Less(t, shortest, 400*time.Millisecond)
		assert.Greater(t, longest, 600*time.Millisecond)
	})
}

func TestRetryAfterOfAFailureIsObeyedUpToTheLongestPause(t *testing.T) {
	type story struct {
		status      int
		after, date string // Retry-After and Date
		least, most time.Duration
	}
	inBubbles(t, map[string]story{
		"some seconds":           {503, "5", "", 5 * time.Second, 5 * time.Second},
		"another status":         {502, "5", "", 5 * time.Second, 5 * time.Second},
		"an hour":                {503, "3600", "", 16 * time.Second, 16 * time.Second},
		"a billion":              {503, "1000000000", "", 16 * time.Second, 16 * time.Second},
		"less than the pause":    {503, "0", "", 375 * time.Millisecond, 625 * time.Millisecond},
		"negative":               {503, "-3", "", 375 * time.Millisecond, 625 * time.Millisecond},
		"a date, no Date header": {503, "Wed, 21 Oct 2026 07:28:00 GMT", "", 375 * time.Millisecond, 625 * time.Millisecond},
		"a date":                 {503, "Tue, 02 Aug 2016 21:23:46 GMT", "Tue, 02 Aug 2016 21:23:43 GMT", 4 * time.Second, 4 * time.Second},
	}, func(t *testing.T, c story) {
		below := newScript(answer(c.status, "", "Retry-After: "+c.after, "Date: "+c.date), answer(http.StatusOK, ""))
		sent := send(newTransport(t, below), getChannel(t))
		assertStatus(t, http.StatusOK, sent)
		assert.GreaterOrEqual(t, sent.took, c.least)
		assert.LessOrEqual(t, sent.took, c.most)
	})
}

func TestRetriesEndWithTheirTime(t *testing.T) {
	type story struct {
		options []httpclient.Option
		takes   time.Duration
		sent    int
	}
	inBubbles(t, map[string]story{
		"two minutes":               {nil, 0, 12},
		"less than the first pause": {[]httpclient.Option{httpclient.WithBackoff(3*time.Minute, 0)}, 0, 1},
		"attempts count": {
			[]httpclient.Option{httpclient.WithBackoff(time.Second, time.Second)}, 13500 * time.Millisecond, 9,
		},
		"the last one may overshoot": {[]httpclient.Option{
			httpclient.WithBackoff(time.Second, time.Second), httpclient.WithAttemptTimeout(0),
		}, 118 * time.Second, 2},
	}, func(t *testing.T, c story) {
		below := newScript(answer(http.StatusBadGateway, "last"))
		below.takes = c.takes
		sent := send(newTransport(t, below, append(c.options, httpclient.WithRetries(20))...), getChannel(t))
		assertStatus(t, http.StatusBadGateway, sent)
		assert.Equal(t, "last", sent.body)
		assert.Len(t, below.requests(), c.sent)
	})
}

func TestTheTimeForRetriesBeginsWithTheFirstAttemptThatFails(t *testing.T) {
	bubble(t, func(t *testing.T) {
		below := newScript(answer(http.StatusOK, "",
			limitHeaders("X-RateLimit-Remaining: 0", "X-RateLimit-Limit: 2", "X-RateLimit-Reset-After: 180")...),
			answer(http.StatusBadGateway, ""), answer(http.StatusOK, "done"))
		transport := newTransport(t, below)
		assertStatus(t, http.StatusOK, send(transport, getChannel(t)))
		queued := send(transport, getChannel(t))
		assertStatus(t, http.StatusOK, queued)
		assert.Greater(t, queued.took, 3*time.Minute)
		assert.Len(t, below.requests(), 3)
	})
}

func TestAPauseThatEndsAfterTheDeadlineIsNotBegun(t *testing.T) {
	bubble(t, func(t *testing.T) {
		below := newScript(answer(http.StatusBadGateway, "sorry"))
		transport := newTransport(t, below, httpclient.WithBackoff(10*time.Second, 0))
		ctx := within(t, 3*time.Second)
		sent := send(transport, getChannel(t).WithContext(ctx))
		assertStatus(t, http.StatusBadGateway, sent)
		assert.Equal(t, "sorry", sent.body)
		assert.Zero(t, sent.took)
	})
}

func TestAPauseEndsWithTheContextAndWithTheTransport(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		end  func(t *testing.T, r *http.Request, transport *httpclient.Transport) *http.Request
		want error
	}{
		"cancelled": {func(t *testing.T, r *http.Request, _ *httpclient.Transport) *http.Request {
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(3*time.Second, cancel)
			return r.WithContext(ctx)
		}, context.Canceled},
		"closed": {func(_ *testing.T, r *http.Request, transport *httpclient.Transport) *http.Request {
			time.AfterFunc(3*time.Second, func() { transport.Close() })
			return r
		}, buckets.ErrClosed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for failure, below := range map[string]*script{
				"server error": newScript(answer(http.StatusBadGateway, "")), "lost": newScript(fail(lostConnection())),
			} {
				synctest.Test(t, func(t *testing.T) {
					transport := newTransport(t, below, httpclient.WithBackoff(10*time.Second, 0))
					paused := send(transport, c.end(t, getChannel(t), transport)).wait()
					assert.ErrorIs(t, paused.err, c.want, failure)
					assert.Equal(t, 3*time.Second, paused.took)
					time.Sleep(time.Minute)
					assert.Len(t, below.requests(), 1)
				})
			}
		})
	}
}

// A request must not be repeated if its failure came from the caller's context or from Close.
func TestARequestThatWasGivenUpIsNotRepeated(t *testing.T) {
	bubble(t, func(t *testing.T) {
		below := newScript(answer(http.StatusOK, ""))
		below.takes = 10 * time.Second
		transport := newTransport(t, below)
		ctx := within(t, time.Second)
		late := send(transport, getChannel(t).WithContext(ctx)).wait()
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

// The time that a retry spends in the queue counts toward the time for retries.
func TestNoAttemptIsBegunAfterTheTimeForRetries(t *testing.T) {
	bubble(t, func(t *testing.T) {
		full := answer(http.StatusOK, "",
			limitHeaders("X-RateLimit-Remaining: 0", "X-RateLimit-Limit: 1", "X-RateLimit-Reset-After: 180")...)
		below := newScript(full, answer(http.StatusBadGateway, ""), full)
		transport := newTransport(t, below)
		assertStatus(t, http.StatusOK, send(transport, getChannel(t)))
		send(transport, getChannel(t)).wait()
		sent := below.requests()
		assert.LessOrEqual(t, sent[len(sent)-1].at.Sub(sent[1].at), 2*time.Minute)
	})
}
