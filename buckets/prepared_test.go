package buckets_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets"
)

// Where a prepared request belongs may be forgotten, and then it has to be found out again, one request first.
func TestPreparedFollowsItsBucket(t *testing.T) {
	t.Parallel()
	for name, forget := range map[string]func(t *testing.T, m *buckets.RESTBucketManager){
		"collected": func(*testing.T, *buckets.RESTBucketManager) { time.Sleep(2 * time.Hour) },
		"restarted": func(t *testing.T, m *buckets.RESTBucketManager) {
			require.NoError(t, m.Close())
			require.NoError(t, m.Start())
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubble(t, func(t *testing.T) {
				m := started(t)
				p := m.Prepare(message(1), "Bot a")
				now := buckets.ContextWithMaxWait(t.Context(), 0)
				for range 3 {
					for i := range 2 {
						lease, err := p.Acquire(now)
						require.NoError(t, err)
						other, err := p.Acquire(now)
						require.Equal(t, i == 0, err != nil, "the first one goes alone, the second one does not")
						other.Return()
						lease.Update(limited("messages", 5, 4-i, time.Second))
					}
					forget(t, m)
				}
				require.NoError(t, m.Close())
				_, err := p.Acquire(now)
				assert.ErrorIs(t, err, buckets.ErrClosed)
			})
		})
	}
}

func TestPreparedAsksForWhatItsContextDoes(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		m := started(t)
		p := m.Prepare(message(1), "Bot a")
		for range 2 { // then it is known where it belongs
			lease, err := p.Acquire(t.Context())
			require.NoError(t, err)
			lease.Update(limited("messages", 5, 4, time.Minute))
		}
		cancelled, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := p.Acquire(cancelled)
		require.ErrorIs(t, err, context.Canceled)

		ordered := buckets.ContextWithOrdered(buckets.ContextWithMaxWait(t.Context(), 0))
		first, err := p.Acquire(ordered)
		require.NoError(t, err)
		_, err = p.Acquire(ordered)
		require.Error(t, err, "one ordered request at a time")
		first.Return()
	})
}

// A route that is used stays known for longer than its buckets.
func TestPreparedUseIsUse(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		m := started(t)
		p := m.Prepare(message(1), "Bot a")
		for i := range 3000 { // four hours
			lease, err := p.Acquire(t.Context())
			require.NoError(t, err)
			for b := range m.Buckets() {
				require.True(t, i < 20 || b.Hash == "messages", "%v", b) // by then UNKNOWN has been collected
			}
			lease.Update(limited("messages", 5, 4, time.Second))
			time.Sleep(5 * time.Second)
		}
	})
}
