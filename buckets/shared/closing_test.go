package shared_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets/shared"
	"github.com/ratelight/ratelight/internal/discordsim"
	"github.com/ratelight/ratelight/internal/memoryengine"
)

// closedInFlight closes a process that has a loan of a bucket, while five requests are in flight, as many as the bucket
// allows. Then another process sends ten requests. before is called before the first process is closed.
func closedInFlight(t *testing.T, before func(w *world)) {
	t.Helper()
	inWorld(t, func(w *world) {
		f := w.fleet(2, oneRule(five, discordsim.Latency{RoundTrip: 400 * ms, Jitter: 80 * ms}))
		defer f.close()
		f.warm(one)
		pass(10 * time.Second) // nobody uses it
		for range 5 {
			f.all.Go(func() { _ = f.post(context.Background(), 0, 1) })
		}
		pass(100 * ms)
		before(w)
		start := time.Now()
		require.NoError(t, f.managers[0].Close())
		assert.Less(t, time.Since(start), time.Second)
		start = time.Now()
		for range 10 {
			f.all.Go(func() { assert.NoError(t, f.post(context.Background(), 1, 1)) })
		}
		f.all.Wait()
		assert.Zero(t, f.refused(), "%+v", f.discord.Refusals())
		assert.Less(t, time.Since(start), 6*time.Second)
	})
}

func TestCloseTellsWhatIsInFlight(t *testing.T) {
	closedInFlight(t, func(*world) {})
}

func TestCloseSaysAgainWhatWasLost(t *testing.T) {
	for name, fate := range map[string]memoryengine.Fate{"call": {Lost: true}, "reply": {LostReply: true}} {
		t.Run(name, func(t *testing.T) {
			closedInFlight(t, func(w *world) {
				lost := false
				w.server.Decide(func(string) memoryengine.Fate {
					if !lost {
						lost = true
						return fate
					}
					return memoryengine.Fate{Before: ms / 2, After: ms / 2}
				})
			})
		})
	}
}

func TestCloseTakesLessThanASecondWhateverTheServerDoes(t *testing.T) {
	for name, breaks := range map[string]func(w *world){
		"frozen": func(w *world) { w.server.SetFrozen(true) },
		"down":   func(w *world) { w.server.SetDown(true) },
		"slow": func(w *world) {
			w.server.Decide(func(string) memoryengine.Fate { return memoryengine.Fate{Before: 400 * ms, After: 400 * ms} })
		},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				f := w.both(shared.WithCallTimeout(5 * time.Second))
				defer f.close()
				f.started(context.Background(), 0, 1)
				pass(20 * ms)
				breaks(w)
				start := time.Now()
				require.NoError(t, f.managers[0].Close())
				assert.Less(t, time.Since(start), time.Second)
			})
		})
	}
}
