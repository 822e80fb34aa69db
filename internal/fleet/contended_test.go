package fleet_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/internal/discordsim"
	"github.com/ratelight/ratelight/internal/fleet"
)

// unlimited leaves the global limit out.
var unlimited = []buckets.Option{buckets.WithGlobalLimit(0)}

// contended makes all processes use one bucket as much as they can.
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
	// The process that discovers the bucket uses the rest of its first window before the other processes can know the
	// bucket: at most four requests, each ahead of the few earlier requests of other processes.
	assert.LessOrEqual(t, inverted, 30)
	return efficiency
}

func TestOneBucketOfAllIsUsedUpAndNotOverrun(t *testing.T) {
	long(t)
	t.Parallel()
	quota := discordsim.Fixed(5, time.Second)
	for _, processes := range []int{1, 2, 4} {
		inBubble(t, fleet.Config{
			Processes: processes, Discord: bucket(discordsim.Rule{Quota: quota, Hash: "messages"}), Buckets: unlimited,
		}, func(t *testing.T, f *fleet.Fleet) {
			assert.GreaterOrEqual(t, contended(t, f, quota, 60/processes), 0.97)
			assert.Less(t, f.CallsPerRequest(), 4.0)
		})
	}
}

// Processes that share nothing must get 429s; otherwise the other tests would prove nothing.
func TestProcessesApartOverrunTheBucket(t *testing.T) {
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
