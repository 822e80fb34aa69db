package shared_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/buckets/shared"
)

func TestStatsAndStoreSayThatTheServerIsAway(t *testing.T) {
	for _, policy := range []shared.Outage{shared.OutageWait, shared.OutageFail, shared.OutageShare, shared.OutageFull} {
		t.Run(policy.String(), func(t *testing.T) {
			inWorld(t, func(w *world) {
				f := w.both(shared.WithOutage(policy))
				defer f.close()
				pass(2 * time.Second)
				require.NoError(t, f.stores[0].Outage())
				require.Zero(t, f.managers[0].Stats().Shared.Outage)
				w.server.SetDown(true)
				pass(10 * time.Second)
				var away *shared.OutageError
				require.ErrorAs(t, f.stores[0].Outage(), &away)
				assert.Equal(t, policy, away.Policy)
				assert.InDelta(t, 9.5, f.managers[0].Stats().Shared.Outage.Seconds(), .6)
				assert.Equal(t, shared.ErrorClass(away), f.managers[0].Stats().Shared.OutageClass)
				w.server.SetDown(false)
				pass(2 * time.Second)
				require.NoError(t, f.stores[0].Outage())
				require.Zero(t, f.managers[0].Stats().Shared.Outage)
				w.server.SetDown(true)
				pass(10 * time.Second)
				require.NoError(t, f.managers[0].Close())
				require.NoError(t, f.stores[0].Outage(), "nobody uses it")
				require.Zero(t, f.managers[0].Stats().Shared.Outage)
			})
		})
	}
}

// waiting returns the snapshots of buckets in which requests wait.
func (f *fleet) waiting(manager int) []buckets.LimitSnapshot {
	return slices.DeleteFunc(slices.Collect(f.managers[manager].Buckets()), func(b buckets.LimitSnapshot) bool { return b.Waiting == 0 })
}

func TestSnapshotNamesTheOutage(t *testing.T) {
	inWorld(t, func(w *world) {
		f := w.both()
		defer f.close()
		pass(2 * time.Second)
		w.server.SetDown(true)
		ctx, cancel := context.WithCancelCause(context.Background())
		for _, channel := range []int{1, 1, 1, 2} {
			f.started(ctx, 0, channel)
		}
		f.startedRoute(ctx, 0, "/channels/1/typing")
		for at := range 10 {
			pass(time.Second)
			all := f.waiting(0)
			require.NotEmpty(t, all)
			for _, b := range all {
				assert.Equal(t, buckets.WaitsForOutage, b.WaitsFor, "after %d s: %+v", 1+at, b)
			}
		}
		cancel(errors.New("enough"))
		f.all.Wait()
	})
}

func TestAFleetThatStartsInAnOutageConnectsLater(t *testing.T) {
	inWorld(t, func(w *world) {
		w.server.SetDown(true)
		f := w.whole(2, busy())
		defer f.close()
		waits := f.started(context.Background(), 0, 1)
		pass(10 * time.Second)
		require.Negative(t, waits.took)
		all := f.waiting(0)
		require.Len(t, all, 1)
		assert.Equal(t, buckets.WaitsForOutage, all[0].WaitsFor)
		w.server.SetDown(false)
		pass(3 * time.Second)
		require.NoError(t, waits.err)
		require.Positive(t, waits.took)
	})
}
