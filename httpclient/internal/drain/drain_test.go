package drain_test

import (
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/httpclient/internal/drain"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// If no request is inside when Closing is called, Wait must not report that requests were cut off, even if Enter
// rejects requests at the same time.
func TestWhoIsRefusedMeanwhileIsNotCutOff(t *testing.T) {
	t.Parallel()
	for range 300 {
		d, closed, over := drain.New(), make(chan struct{}), make(chan error)
		require.True(t, d.Enter())
		go func() { over <- d.Wait(t.Context(), closed) }()
		for d.Enter() { // until Wait lets no request enter any more
			d.Leave()
		}
		var refused sync.WaitGroup
		for range 3 {
			refused.Go(func() {
				for range 100 {
					d.Enter()
				}
			})
		}
		d.Leave()
		d.Closing()
		close(closed)
		require.NoError(t, <-over)
		refused.Wait()
	}
}

// A request leaves because it was cut off after Closing. Wait must report that requests were cut off.
func TestWhoIsInsideIsCutOff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d, over := drain.New(), make(chan error)
		require.True(t, d.Enter())
		go func() { over <- d.Wait(t.Context(), nil) }()
		synctest.Wait()
		d.Closing()
		d.Leave()
		require.ErrorIs(t, <-over, buckets.ErrClosed)
	})
}
