package shared_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets/shared"
	"github.com/ratelight/ratelight/internal/discordsim"
)

// lateFive is a bucket of five requests in five seconds that opens 0.3 s late, and the rate that is possible in it.
var (
	lateFive  = discordsim.Rule{Hash: "h", Quota: discordsim.Fixed(5, 5*time.Second).Late(300*ms, 0)}
	lateIdeal = 5 / 5.32
)

// The lateness that one process has learnt is known to the next process that uses the bucket, and to all processes that
// use other buckets with the same hash.
func TestLatenessIsKnownToOtherProcesses(t *testing.T) {
	inWorld(t, func(w *world) {
		f := w.fleet(2, oneRule(lateFive, discordsim.RoundTrip(50*ms)))
		defer f.close()
		send := func(manager, channel, n int) {
			for range n {
				f.all.Go(func() { assert.NoError(t, f.post(context.Background(), manager, channel)) })
				synctest.Wait()
			}
			f.all.Wait()
			pass(10 * time.Second)
		}
		send(0, 1, 20)
		require.Equal(t, 1, f.refused())
		send(1, 1, 20) // it is lent to this one now
		send(0, 1, 20)
		send(1, 2, 20)
		send(0, 3, 20)
		assert.Equal(t, 1, f.refused())
	})
}

func TestFleetOnOneBucketThatOpensLate(t *testing.T) {
	inWorld(t, func(w *world) {
		f := w.fleet(3, oneRule(lateFive, near))
		defer f.close()
		f.warm(one)
		rate := f.saturate(5, 2*time.Minute, one)
		assert.LessOrEqual(t, f.refused(), 2)
		assert.Zero(t, f.discord.Report().Avoidable.Total())
		assert.Greater(t, rate, .96*lateIdeal)

		before := f.refused()
		rate = f.saturate(5, 2*time.Minute, func(int) int { return 2 })
		assert.Equal(t, before, f.refused(), "another bucket of the hash")
		assert.Greater(t, rate, .96*lateIdeal)
	})
}

// The server loses its state, or cannot be reached. A process must keep the lateness that it knows.
func TestLatenessIsKnownAfterALoss(t *testing.T) {
	for name, lose := range map[string]func(f *fleet){
		"lost": func(f *fleet) { f.server.Flush() },
		"away": func(f *fleet) {
			for _, l := range f.links {
				l.kill(true)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				f := w.fleet(2, oneRule(lateFive, near), shared.WithOutage(shared.OutageShare))
				defer f.close()
				f.warm(one)
				f.saturate(5, time.Minute, one)
				before := f.refused()
				lose(f)
				f.saturate(5, time.Minute, one)
				assert.Equal(t, before, f.refused())
			})
		})
	}
}
