package shared_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/buckets/shared"
	"github.com/ratelight/ratelight/internal/discordsim"
	"github.com/ratelight/ratelight/internal/memoryengine"
)

// whole is a fleet whose processes share everything.
func (w *world) whole(n int, config discordsim.Config, options ...shared.Option) *fleet {
	w.t.Helper()
	discord, err := discordsim.New(config)
	require.NoError(w.t, err)
	f := &fleet{world: w, discord: discord}
	for range n {
		l := &link{server: w.server}
		store, err := shared.New(l, options...)
		require.NoError(w.t, err)
		m := buckets.NewRESTBucketManager(buckets.WithShared(store), buckets.WithMaxRateLimit(time.Hour))
		require.NoError(w.t, m.Start())
		f.managers = append(f.managers, m)
		f.links, f.stores = append(f.links, l), append(f.stores, store)
	}
	return f
}

// busy is a Discord where only the global limit matters.
func busy() discordsim.Config {
	config := oneRule(discordsim.Rule{Hash: "h", Quota: discordsim.Fixed(1000, time.Second)}, near)
	config.Global = discordsim.Fixed(50, time.Second)
	return config
}

// work makes each manager send n requests on channels of its own, with the given number of callers, and returns how
// long that took.
func (f *fleet) work(n, channels, callers int) time.Duration {
	start := time.Now()
	for m := range f.managers {
		jobs := make(chan int, n)
		for i := range n {
			jobs <- 100*m + i%channels
		}
		close(jobs)
		for range callers {
			f.all.Go(func() {
				for channel := range jobs {
					if err := f.post(context.Background(), m, channel); err != nil {
						f.t.Error(err)
						return
					}
				}
			})
		}
	}
	f.all.Wait()
	return time.Since(start)
}

func TestFleetOnTheGlobalLimit(t *testing.T) {
	inWorld(t, func(w *world) {
		f := w.whole(4, busy())
		defer f.close()
		took := f.work(300, 10, 300)
		assert.Zero(t, f.refused())
		assert.LessOrEqual(t, took, 27*time.Second, "24 s are the least")
	})
}

func TestFleetOnTheGlobalLimitInTrouble(t *testing.T) {
	long(t)
	now := func(fate memoryengine.Fate) func(w *world) {
		return func(w *world) {
			chance := rand.New(rand.NewPCG(1, 2))
			var mu sync.Mutex
			w.server.Decide(func(string) memoryengine.Fate {
				mu.Lock()
				defer mu.Unlock()
				if chance.Float64() < .07 {
					return fate
				}
				return memoryengine.Fate{Before: ms / 2, After: ms / 2}
			})
		}
	}
	away := func(empty bool) func(w *world) {
		return func(w *world) {
			time.Sleep(4*time.Second + 123*ms)
			w.server.SetDown(true)
			time.Sleep(6 * time.Second)
			if empty {
				w.server.Flush()
			}
			w.server.SetDown(false)
		}
	}
	for name, test := range map[string]struct {
		policy  shared.Outage
		trouble func(w *world)
		longest time.Duration
	}{
		"lost calls":   {0, now(memoryengine.Fate{Lost: true}), 16 * time.Second},
		"lost replies": {0, now(memoryengine.Fate{LostReply: true}), 16 * time.Second},
		"late calls":   {0, now(memoryengine.Fate{Before: 3 * time.Second}), 16 * time.Second},
		"slow calls":   {0, now(memoryengine.Fate{Before: 300 * ms, After: 100 * ms}), 16 * time.Second},
		"state lost": {0, func(w *world) {
			for range 4 {
				time.Sleep(2*time.Second + 123*ms)
				w.server.Flush()
			}
		}, 16 * time.Second},
		"away, wait":            {shared.OutageWait, away(false), 21 * time.Second},
		"away and empty, wait":  {shared.OutageWait, away(true), 22 * time.Second},
		"away, share":           {shared.OutageShare, away(false), 17 * time.Second},
		"away and empty, share": {shared.OutageShare, away(true), 17 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				f := w.whole(4, busy(), shared.WithOutage(test.policy))
				defer f.close()
				f.all.Go(func() { test.trouble(w) })
				took := f.work(150, 10, 50)
				t.Logf("it took %v", took)
				assert.Zero(t, f.refused())
				assert.LessOrEqual(t, took, test.longest, "12 s are the least")
			})
		})
	}
}
