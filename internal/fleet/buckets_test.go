package fleet_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/ratelight/ratelight/internal/discordsim"
	"github.com/ratelight/ratelight/internal/fleet"
)

// Each process uses a different route, and all routes belong to one bucket. Once the processes know the bucket's hash,
// they must get no 429s, and together they must use up the bucket.
func TestRoutesOfOneBucketInDifferentProcesses(t *testing.T) {
	t.Parallel()
	quota := discordsim.Fixed(5, time.Second)
	inBubble(t, fleet.Config{
		Processes: 4, Discord: bucket(discordsim.Rule{Quota: quota, Hash: "channel"}), Buckets: unlimited,
	}, func(t *testing.T, f *fleet.Fleet) {
		start := time.Now()
		requests := []fleet.Request{
			fleet.Message(1), fleet.History(1),
			{Method: "GET", Path: "/channels/1"}, {Method: "PATCH", Path: "/channels/1", Body: "{}"},
		}
		for i, p := range f.Processes {
			callers(t, f, p, 10, 10, requests[i])
		}
		took := finish(t, f, time.Hour)
		report := f.Discord.Report()
		efficiency := float64(certain(t, quota, 400)) / float64(took)
		t.Logf("efficiency %.3f, refused %+v of %d, %.2f calls per request",
			efficiency, report.Refused, report.Requests, f.CallsPerRequest())
		assert.LessOrEqual(t, report.Refused.Total(), 3, "at most one 429 for each route whose hash is not known yet")
		for _, e := range f.Discord.Refusals() {
			assert.Less(t, e.SentAt.Sub(start), 100*time.Millisecond, "429 after the hash was known: %+v", e)
		}
		assert.GreaterOrEqual(t, efficiency, 0.95)
	})
}

func TestHashThatChangesWhileAllWait(t *testing.T) {
	t.Parallel()
	quota := discordsim.Fixed(5, time.Second)
	inBubble(t, fleet.Config{
		Processes: 4, Buckets: unlimited,
		Discord: bucket(discordsim.Rule{
			Quota: quota, Hash: "messages",
			Changes: []discordsim.Change{{At: 4500 * time.Millisecond, Hash: "other"}, {At: 12 * time.Second, Hash: "messages"}},
		}),
	}, func(t *testing.T, f *fleet.Fleet) {
		for _, p := range f.Processes {
			callers(t, f, p, 10, 5, fleet.Message(1))
		}
		took := finish(t, f, time.Hour)
		report := f.Discord.Report()
		efficiency := float64(certain(t, quota, 200)) / float64(took)
		t.Logf("efficiency %.3f, refused %+v, avoidable %+v", efficiency, report.Refused, report.Avoidable)
		assert.LessOrEqual(t, report.Refused.Total(), 20, "at most as many as two windows hold, for each process")
		assert.GreaterOrEqual(t, efficiency, 0.85)
	})
}

func TestLimitThatChangesWhileAllWait(t *testing.T) {
	t.Parallel()
	inBubble(t, fleet.Config{
		Processes: 4, Buckets: unlimited,
		Discord: bucket(discordsim.Rule{
			Quota: discordsim.Fixed(5, time.Second), Hash: "messages", Changes: []discordsim.Change{
				{At: 5 * time.Second, Quota: discordsim.Fixed(2, 2*time.Second)},
				{At: 20 * time.Second, Quota: discordsim.Fixed(20, time.Second)},
			},
		}),
	}, func(t *testing.T, f *fleet.Fleet) {
		for _, p := range f.Processes {
			callers(t, f, p, 10, 10, fleet.Message(1))
		}
		took := finish(t, f, time.Hour)
		report := f.Discord.Report()
		t.Logf("took %v, refused %+v, avoidable %+v", took, report.Refused, report.Avoidable)
		assert.Zero(t, report.Avoidable.Total(), "%+v", f.Discord.Refusals())
		assert.Less(t, took, 45*time.Second)
	})
}
