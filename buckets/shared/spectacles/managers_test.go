package spectacles_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/buckets/shared/spectacles"
	"github.com/ratelight/ratelight/internal/discordsim"
	"github.com/ratelight/ratelight/internal/redissim"
	"github.com/ratelight/ratelight/ratelimits"
	"github.com/ratelight/ratelight/routes"
)

// manager starts a manager with the given number of callers on the route.
func (w *world) manager(callers int, options ...spectacles.Option) *buckets.RESTBucketManager {
	m := buckets.NewRESTBucketManager(buckets.WithShared(spectacles.New(w.engine, options...)), buckets.WithMaxRateLimit(time.Hour))
	require.NoError(w.t, m.Start())
	compiled, err := routes.CreateMessage.Compile("1")
	require.NoError(w.t, err)
	for range callers {
		w.work.Go(func() {
			for w.context.Err() == nil {
				lease, err := m.Acquire(w.context, compiled, "")
				if err != nil {
					assert.ErrorIs(w.t, err, context.Canceled)
					return
				}
				response, _ := w.send()
				lease.Update(response)
			}
		})
	}
	return m
}

func TestManagersShareWithClientsOfSpectacles(t *testing.T) {
	t.Parallel()
	for name, seeds := range map[string]int{"alone": 0, "beside others": 2} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, discordsim.Config{
					Default: &discordsim.Rule{Path: "**", Quota: discordsim.Fixed(5, time.Second)}, Latency: usual, Seed: 7,
				})
				defer w.close()
				start := time.Now()
				for range 3 {
					defer w.manager(10).Close()
				}
				for range seeds {
					w.seed(true).callers(10)
				}
				time.Sleep(30 * time.Second)
				report := w.discord.Report()
				assert.LessOrEqual(t, report.Refused.Total(), 2, "the first request of a manager is not counted, as it does not know its bucket")
				for _, refused := range w.discord.Refusals() {
					assert.Less(t, refused.At.Sub(start), time.Second)
				}
				assert.Greater(t, report.Accepted, 130)
				t.Log(report.Accepted, "accepted,", w.engine.Total(), "calls")
				assert.True(t, w.engine.Redis.Exists(route+":limit"), "that is the name of the route")
				w.cancel()
				w.work.Wait()
			})
		})
	}
}

// Two routes that name the same hash have counters of their own, as they have for the other clients.
func TestManagersCountEachRouteApart(t *testing.T) {
	inWorld(t, func(w *world) {
		m := w.manager(0, spectacles.WithRoute(spectacles.ByMethodAndPath))
		defer m.Close()
		for _, r := range []routes.Route{routes.CreateMessage, routes.ListMessages} {
			compiled, err := r.Compile("1")
			require.NoError(t, err)
			for remaining := range 2 {
				lease, err := m.Acquire(w.context, compiled, "Bot x")
				require.NoError(t, err)
				lease.Update(ratelimits.Response{
					Status: http.StatusOK, Bucket: "same", Limited: true, Limit: 5, Remaining: 4 - remaining, ResetAfter: time.Second,
				})
			}
		}
		synctest.Wait()
		var names []string
		for _, key := range w.engine.Redis.Keys() {
			if name, ok := strings.CutSuffix(key, ":limit"); ok {
				names = append(names, name)
			}
		}
		assert.ElementsMatch(t, []string{"POST /channels/1/messages", "GET /channels/1/messages"}, names)
	})
}

func TestWhoDoesNotWaitIsToldWhatTheEngineSays(t *testing.T) {
	inWorld(t, func(w *world) {
		m := w.manager(0)
		defer m.Close()
		compiled, err := routes.CreateMessage.Compile("1")
		require.NoError(t, err)
		for i := range 7 {
			lease, err := m.TryAcquire(compiled, "")
			if i >= 5 {
				assert.ErrorAs(t, err, new(*ratelimits.TooLongError))
				continue
			}
			require.NoError(t, err, i)
			response, _ := w.send()
			lease.Update(response)
		}
		time.Sleep(1100 * time.Millisecond)
		_, err = m.TryAcquire(compiled, "")
		assert.NoError(t, err, "the first one of a window that nobody has opened yet")
	})
}

func TestNilOptionsAreIgnored(t *testing.T) {
	t.Parallel()
	assert.NotPanics(t, func() { spectacles.New(&redissim.Server{}, nil, spectacles.WithPrefix("my-bot:"), nil) })
}
