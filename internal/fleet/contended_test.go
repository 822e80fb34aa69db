package fleet_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/internal/discordsim"
	"github.com/ratelight/ratelight/internal/fleet"
	"github.com/ratelight/ratelight/internal/memoryengine"
)

// unlimited has the options of managers without a global limit.
var unlimited = []buckets.Option{buckets.WithGlobalLimit(0)}

// contended makes ten callers of each process send requests to one bucket, and asserts that none is refused. efficiency
// is the time of the ideal client, divided by the time of the fleet.
func contended(t *testing.T, f *fleet.Fleet, quota discordsim.Quota, each int) (efficiency float64) {
	t.Helper()
	for _, p := range f.Processes {
		callers(t, f, p, 10, each, fleet.Message(1))
	}
	took := finish(t, f, time.Hour)
	count := len(f.Processes) * 10 * each
	report := f.Discord.Report()
	require.Equal(t, count, report.Accepted)
	pairs, inverted := f.Inversions(5*time.Millisecond, spread+2*time.Millisecond)
	efficiency = float64(certain(t, quota, count)) / float64(took)
	t.Logf("efficiency %.3f, %d of %d refused, %.2f calls per request, %d of %d pairs inverted",
		efficiency, report.Refused.Total(), report.Requests, f.CallsPerRequest(), inverted, pairs)
	assert.Zero(t, report.Refused.Total(), "%+v", f.Discord.Refusals())
	// The process that discovers the bucket uses up the rest of the first window, at most four requests, before other
	// processes know the bucket. Each of these requests overtakes the few requests that have already arrived at other
	// processes.
	assert.LessOrEqual(t, inverted, 30+pairs/1000)
	return efficiency
}

// Processes that send requests as fast as they can must use up their bucket and get no 429s.
func TestBucketOfAllProcessesIsUsedUpAndNotOverrun(t *testing.T) {
	long(t)
	t.Parallel()
	five := discordsim.Fixed(5, time.Second)
	for name, c := range map[string]struct {
		quota      discordsim.Quota
		processes  int
		each       int // number of requests of each caller
		efficiency float64
		fate       memoryengine.Fate // the fate of 7 % of the calls; zero: all calls are normal
	}{
		"one process":   {five, 1, 60, 0.97, memoryengine.Fate{}},
		"two processes": {five, 2, 30, 0.97, memoryengine.Fate{}},
		"fixed window":  {five, 4, 15, 0.97, memoryengine.Fate{}},
		"aligned":       {discordsim.Aligned(5, time.Second, 0), 4, 4, 0.85, memoryengine.Fate{}},
		"large limit":   {discordsim.Fixed(50, time.Second), 4, 30, 0.9, memoryengine.Fate{}},
		"long period":   {discordsim.Fixed(2, 5*time.Second), 4, 2, 0.9, memoryengine.Fate{}},
		"sliding log":   {discordsim.Sliding(5, time.Second), 4, 10, 0.8, memoryengine.Fate{}},
		"leaky":         {discordsim.Leaky(5, time.Second), 4, 10, 0.8, memoryengine.Fate{}},
		"lost calls":    {five, 4, 10, 0.9, memoryengine.Fate{Lost: true}},
		"lost replies":  {five, 4, 10, 0.9, memoryengine.Fate{LostReply: true}},
		"late calls":    {five, 4, 10, 0.9, memoryengine.Fate{Before: 3 * time.Second}},
		"slow calls":    {five, 4, 10, 0.9, memoryengine.Fate{Before: 300 * time.Millisecond, After: 300 * time.Millisecond}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			config := fleet.Config{
				Processes: c.processes, Discord: bucket(discordsim.Rule{Quota: c.quota, Hash: "messages"}), Buckets: unlimited,
			}
			inBubble(t, config, func(t *testing.T, f *fleet.Fleet) {
				if c.fate != (memoryengine.Fate{}) {
					sometimes(f.Engine, c.fate)
				}
				assert.GreaterOrEqual(t, contended(t, f, c.quota, c.each), c.efficiency)
				if c.quota == five {
					assert.Less(t, f.CallsPerRequest(), 4.0)
				}
			})
		})
	}
}

// sometimes gives a fate to 7 % of the calls. Each other call takes a millisecond.
func sometimes(e *memoryengine.Engine, fate memoryengine.Fate) {
	chance := rand.New(rand.NewPCG(1, 2))
	e.Decide(func(string) memoryengine.Fate {
		if chance.Float64() < .07 {
			return fate
		}
		return memoryengine.Fate{Before: time.Millisecond / 2, After: time.Millisecond / 2}
	})
}

// With the option Ordered, a process must send its requests one after the other, even if other processes use the same
// bucket.
func TestOrderedRequestsOfManyProcesses(t *testing.T) {
	t.Parallel()
	quota := discordsim.Fixed(5, time.Second)
	inBubble(t, fleet.Config{
		Processes: 4, Discord: bucket(discordsim.Rule{Quota: quota, Hash: "messages"}),
		Buckets: append(unlimited, buckets.WithOrdered()),
	}, func(t *testing.T, f *fleet.Fleet) {
		efficiency := contended(t, f, quota, 5)
		assert.Zero(t, f.Overtaken())
		assert.LessOrEqual(t, f.Discord.Report().MaxInFlight, 4)
		assert.GreaterOrEqual(t, efficiency, 0.9)
	})
}

// Processes that share nothing must get 429s. Otherwise the other tests would prove nothing.
func TestProcessesThatShareNothingOverrunTheBucket(t *testing.T) {
	t.Parallel()
	inBubble(t, fleet.Config{
		Processes: 4, Discord: bucket(discordsim.Rule{Quota: discordsim.Fixed(5, time.Second), Hash: "messages"}),
		Buckets: unlimited, Apart: true,
	}, func(t *testing.T, f *fleet.Fleet) {
		for _, p := range f.Processes {
			callers(t, f, p, 10, 5, fleet.Message(1))
		}
		finish(t, f, time.Hour)
		assert.Greater(t, f.Discord.Report().Refused.User, 20)
		_, inverted := f.Inversions(5*time.Millisecond, spread)
		assert.Positive(t, inverted)
	})
}
