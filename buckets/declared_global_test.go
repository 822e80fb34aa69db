package buckets_test

import (
	"context"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/ratelimits"
	"github.com/ratelight/ratelight/routes"
)

// Where the wait for the global limit is much longer than the period of a declared limit, those to whom both apply
// leave all the same: they do not keep the one from each other while they wait for the other, nor lose their turn.
func TestWhoNeedsADeclaredLimitAndTheBusyGlobalOneLeaves(t *testing.T) {
	t.Parallel()
	for _, grouped := range []bool{false, true} {
		bubble(t, func(t *testing.T) {
			m := started(t, buckets.WithMaxRateLimit(24*time.Hour), buckets.WithGlobalLimit(50),
				buckets.WithLimit(buckets.ForRoute(routes.UpdateChannel), 1, 250*time.Millisecond))
			discover(t, m, message(1), plain(200))
			discover(t, m, compile(routes.UpdateChannel, "1"), plain(200))
			wait(5 * time.Second)
			start := time.Now()
			send := func(route routes.CompiledRoute, sent func()) {
				r := request(route)
				if grouped {
					r.Group = r.Route.Path()
				}
				buckets.AcquireFunc(context.Background(), m, r, func(lease buckets.Lease, err error) {
					time.AfterFunc(50*time.Millisecond, func() { lease.Update(ratelimits.Response{Status: 200}) })
					sent()
				})
			}
			for i := range 500 { // so there are ten seconds to wait
				var next func()
				next = func() {
					if time.Since(start) < 2*time.Minute {
						send(message(i+10), next)
					}
				}
				next()
			}
			synctest.Wait()
			both := 0
			for i := range 50 {
				send(compile(routes.UpdateChannel, strconv.Itoa(i+10)), func() { both++ })
			}
			wait(90 * time.Second)
			assert.Equal(t, 50, both)
			wait(2 * time.Minute)
			require.Zero(t, m.Stats().Waiting)
		})
	}
}
