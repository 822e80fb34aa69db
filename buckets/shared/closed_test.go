package shared_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets/shared"
)

func TestAClosedClientFailsAtOnce(t *testing.T) {
	for _, policy := range []shared.Outage{shared.OutageWait, shared.OutageFail, shared.OutageShare, shared.OutageFull} {
		t.Run(policy.String(), func(t *testing.T) {
			inWorld(t, func(w *world) {
				f := w.both(shared.WithOutage(policy))
				defer f.close()
				pass(5 * time.Second) // no loans
				f.links[0].close()
				for _, channel := range []int{1, 1, 2, 1, 2, 3} {
					r := f.acquire(context.Background(), 0, channel)
					require.ErrorIs(t, r.err, shared.ErrClosed)
					assert.Contains(t, r.err.Error(), "link: ")
					assert.LessOrEqual(t, r.took, 5*ms)
				}
				r := f.acquireRoute(context.Background(), 0, "/channels/9/typing") // a route that it does not know
				require.ErrorIs(t, r.err, shared.ErrClosed)
				assert.LessOrEqual(t, r.took, 5*ms)
				for range 6 {
					assert.NoError(t, f.post(context.Background(), 1, 1), "the other process goes on")
				}
			})
		})
	}
}

func TestAManagerOnAClosedClientFailsAtOnce(t *testing.T) {
	inWorld(t, func(w *world) {
		f := w.whole(1, busy())
		defer f.close()
		f.links[0].close()
		for range 3 {
			r := f.acquire(context.Background(), 0, 1)
			require.ErrorIs(t, r.err, shared.ErrClosed)
			assert.LessOrEqual(t, r.took, 5*ms)
		}
	})
}

func TestClosingTheClientEndsAnOutage(t *testing.T) {
	for _, policy := range []shared.Outage{shared.OutageWait, shared.OutageShare, shared.OutageFull} {
		t.Run(policy.String(), func(t *testing.T) {
			inWorld(t, func(w *world) {
				f := w.both(shared.WithOutage(policy))
				defer f.close()
				w.server.SetDown(true)
				pass(5 * time.Second)
				waits := f.started(context.Background(), 0, 1)
				pass(2 * time.Second)
				f.links[0].close()
				pass(1100 * ms) // the next call finds out
				if policy == shared.OutageWait {
					require.ErrorIs(t, waits.err, shared.ErrClosed)
				}
				r := f.acquire(context.Background(), 0, 1)
				require.ErrorIs(t, r.err, shared.ErrClosed)
				assert.LessOrEqual(t, r.took, 5*ms)
				calls := f.links[0].called()
				pass(time.Minute)
				assert.Equal(t, calls, f.links[0].called())
			})
		})
	}
}
