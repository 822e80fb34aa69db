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
	"github.com/ratelight/ratelight/internal/discordsim"
	"github.com/ratelight/ratelight/ratelimits"
)

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
