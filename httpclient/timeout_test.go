package httpclient_test

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/httpclient"
	"github.com/ratelight/ratelight/internal/discordsim"
	"github.com/ratelight/ratelight/ratelimits"
)

// url.Error asks the error that a transport returned, and none that this wraps.
func TestAnErrorForADeadlineIsATimeoutToAnHTTPClient(t *testing.T) {
	t.Parallel()
	used := answer(http.StatusOK, "", limitHeaders("X-RateLimit-Limit: 1", "X-RateLimit-Remaining: 0", "X-RateLimit-Reset-After: 60")...)
	slowly := httpclient.WithAttemptTimeout(time.Second)
	for name, c := range map[string]struct {
		answers  []func(*http.Request) (*http.Response, error)
		options  []httpclient.Option
		deadline time.Duration // of the context, 0: none
		timeout  time.Duration // of the client
		want     bool
	}{
		"a deadline before its turn":        {answers: answers(used), deadline: 10 * time.Second, want: true},
		"the client's own":                  {answers: answers(used), timeout: 10 * time.Second, want: true},
		"a deadline in a 429's wait":        {answers: answers(used, refuse("user", "60")), deadline: 70 * time.Second, want: true},
		"a deadline in the attempt":         {answers: answers(answer(http.StatusOK, ""), silence), deadline: time.Second, want: true},
		"the client's own, in the attempt":  {answers: answers(answer(http.StatusOK, ""), silence), timeout: time.Second, want: true},
		"an attempt":                        {answers: answers(answer(http.StatusOK, ""), silence), options: []httpclient.Option{slowly, httpclient.WithRetries(0)}, want: true},
		"an attempt, repeated":              {answers: answers(answer(http.StatusOK, ""), silence), options: []httpclient.Option{slowly}, want: true},
		"the max rate limit":                {answers: answers(used), options: []httpclient.Option{httpclient.WithMaxRateLimit(time.Second)}},
		"the max rate limit, before that":   {answers: answers(used), options: []httpclient.Option{httpclient.WithMaxRateLimit(time.Second)}, deadline: 10 * time.Second},
		"a connection that was lost":        {answers: answers(answer(http.StatusOK, ""), fail(lostConnection()))},
		"no connection":                     {answers: answers(answer(http.StatusOK, ""), fail(noConnection()))},
		"a refusal of the edge":             {answers: answers(answer(http.StatusOK, ""), answer(http.StatusTooManyRequests, "<html>"))},
		"a 429 that lasts longer than that": {answers: answers(answer(http.StatusOK, ""), refuse("user", "4000"))},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				transport := newTransport(t, newScript(c.answers...), c.options...)
				assertStatus(t, http.StatusOK, send(transport, getChannel(t)))
				ctx := t.Context()
				if c.deadline > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, c.deadline)
					defer cancel()
				}
				client := &http.Client{Transport: transport, Timeout: c.timeout}
				_, err := client.Do(getChannel(t).WithContext(ctx))
				var outer *url.Error
				require.ErrorAs(t, err, &outer)
				assert.Equal(t, c.want, outer.Timeout(), "%v", err)
			})
		})
	}
}

func TestADeadlineBeforeThePredictedWaitFailsAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := newDiscord(t, everything(discordsim.Fixed(1, 10*time.Second)))
		transport := newTransport(t, server.RoundTripper())
		assertStatus(t, http.StatusOK, send(transport, newMessage(t)))
		queued := send(transport, newMessage(t)) // leaves after ten seconds
		synctest.Wait()

		for _, c := range []struct {
			deadline, wait time.Duration
		}{{3 * time.Second, 20 * time.Second}, {19 * time.Second, 20 * time.Second}, {-time.Second, 0}} {
			ctx, cancel := context.WithTimeout(t.Context(), c.deadline)
			failed := send(transport, newMessage(t).WithContext(ctx)).wait()
			cancel()
			assert.Zero(t, failed.took)
			require.ErrorIs(t, failed.err, context.DeadlineExceeded)
			var tooLong *ratelimits.TooLongError
			if c.wait == 0 { // over before it began
				assert.NotErrorAs(t, failed.err, &tooLong)
				continue
			}
			require.ErrorAs(t, failed.err, &tooLong)
			assert.True(t, tooLong.Deadline)
			assert.Equal(t, c.deadline, tooLong.Max)
			assert.InDelta(t, c.wait.Seconds(), tooLong.Wait.Seconds(), 0.1, "with the one that is queued")
		}

		ctx, cancel := context.WithTimeout(t.Context(), 21*time.Second)
		defer cancel()
		assertStatus(t, http.StatusOK, queued, send(transport, newMessage(t).WithContext(ctx)))
		assert.Equal(t, 3, server.Report().Requests)
	})
}

func TestA429ThatEndsAfterTheDeadlineFailsAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		below := newScript(refuse("user", "10"), answer(http.StatusOK, "{}"))
		below.takes = time.Second
		transport := newTransport(t, below)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		refused := send(transport, newMessage(t).WithContext(ctx))
		synctest.Wait()
		behind := send(transport, newMessage(t).WithContext(ctx))
		patient := send(transport, newMessage(t))
		for _, c := range []*call{refused, behind} {
			var tooLong *ratelimits.TooLongError
			require.ErrorAs(t, c.wait().err, &tooLong)
			assert.ErrorIs(t, c.err, context.DeadlineExceeded)
			assert.Equal(t, time.Second, c.took, "when the 429 came")
		}
		assertStatus(t, http.StatusOK, patient)
		assertTook(t, 12*time.Second, patient.took)
		assert.Len(t, below.requests(), 2)
	})
}

// ContextWithMaxWait bounds single requests, in either direction.
func TestARequestsOwnMaxWaitCounts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := newDiscord(t, everything(discordsim.Fixed(1, 10*time.Minute))) // the maximum is five
		transport := newTransport(t, server.RoundTripper())
		assertStatus(t, http.StatusOK, send(transport, newMessage(t)))
		for _, most := range []time.Duration{0, -1, time.Minute} {
			ctx := buckets.ContextWithMaxWait(t.Context(), most)
			c := send(transport, newMessage(t).WithContext(ctx)).wait()
			var tooLong *ratelimits.TooLongError
			require.ErrorAs(t, c.err, &tooLong)
			assert.NotErrorIs(t, c.err, context.DeadlineExceeded)
			assert.Zero(t, c.took)
		}
		patient := send(transport, newMessage(t).WithContext(buckets.ContextWithMaxWait(t.Context(), time.Hour)))
		assertStatus(t, http.StatusOK, patient)
		assertTook(t, 10*time.Minute, patient.took)
	})
}

func TestTheClientsTimeoutEndsTheWaitInTheQueue(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		config   discordsim.Config
		tooLong  bool // foreseen, so that it does not wait at all
		returned time.Duration
	}{
		"nobody knows how long it will take": {
			config:   everything(discordsim.Fixed(5, time.Second), discordsim.Fault{Nth: []int{1}, Delay: 10 * time.Second}),
			returned: 2 * time.Second,
		},
		"foreseen": {config: everything(discordsim.Fixed(1, 10*time.Second)), tooLong: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				server := newDiscord(t, c.config)
				transport := newTransport(t, server.RoundTripper())
				client := &http.Client{Transport: transport, Timeout: 2 * time.Second}
				first := send(transport, newMessage(t))
				time.Sleep(100 * time.Millisecond)

				start := time.Now()
				_, err := client.Do(newMessage(t))
				assert.Equal(t, c.returned, time.Since(start))
				require.ErrorIs(t, err, context.DeadlineExceeded)
				var tooLong *ratelimits.TooLongError
				assert.Equal(t, c.tooLong, errors.As(err, &tooLong), "%v", err)
				if !c.tooLong {
					var outer *url.Error
					require.ErrorAs(t, err, &outer)
					assert.True(t, outer.Timeout())
				}
				assert.Zero(t, transport.Manager().Stats().Waiting)
				assertStatus(t, http.StatusOK, first, send(transport, newMessage(t)))
				assert.Equal(t, 2, server.Report().Requests, "it was not sent")
			})
		})
	}
}
