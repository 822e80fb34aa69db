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

// manager starts a manager, and callers that send requests for the route of the tests.
func (w *world) manager(callers int, options ...spectacles.Option) *buckets.RESTBucketManager {
	store := spectacles.New(w.engine, options...)
	m := buckets.NewRESTBucketManager(buckets.WithShared(store), buckets.WithMaxRateLimit(time.Hour))
	require.NoError(w.t, m.Start())
	w.managers = append(w.managers, m)
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
				lease.Update(w.send())
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
			inWorldOf(t, discordsim.Config{Latency: usual, Seed: 7}, func(w *world) {
				start := time.Now()
				for range 3 {
					w.manager(10)
				}
				for range seeds {
					w.seed(true).callers(10)
				}
				time.Sleep(30 * time.Second)
				report := w.end()
				assert.LessOrEqual(t, report.Refused.Total(), 2,
					"the first request of a manager is not counted, because its bucket is not known")
				for _, refused := range w.discord.Refusals() {
					assert.Less(t, refused.At.Sub(start), time.Second)
				}
				assert.Greater(t, report.Accepted, 130)
				t.Log(report.Accepted, "accepted,", w.engine.Total(), "calls")
				assert.True(t, w.engine.Redis.Exists(route+":limit"), "the key must have the route's name")
			})
		})
	}
}

// Two routes with the same bucket hash must have separate counters, as they have in other clients.
func TestManagersCountEachRouteApart(t *testing.T) {
	inWorld(t, func(w *world) {
		m := w.manager(0, spectacles.WithRoute(spectacles.ByMethodAndPath))
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

func TestTryAcquireUsesTheCounterOfTheEngine(t *testing.T) {
	inWorld(t, func(w *world) {
		m := w.manager(0)
		compiled, err := routes.CreateMessage.Compile("1")
		require.NoError(t, err)
		for i := range 7 {
			lease, err := m.TryAcquire(compiled, "")
			if i >= 5 {
				assert.ErrorAs(t, err, new(*ratelimits.TooLongError))
				continue
			}
			require.NoError(t, err, i)
			lease.Update(w.send())
		}
		time.Sleep(1100 * time.Millisecond)
		_, err = m.TryAcquire(compiled, "")
		assert.NoError(t, err, "a request must get a permit in a new window")
	})
}

func TestNilOptionsAreIgnored(t *testing.T) {
	t.Parallel()
	assert.NotPanics(t, func() { spectacles.New(&redissim.Server{}, nil, spectacles.WithPrefix("my-bot:"), nil) })
}
