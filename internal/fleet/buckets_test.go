package fleet_test

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/internal/discordsim"
	"github.com/ratelight/ratelight/internal/fleet"
	"github.com/ratelight/ratelight/internal/memoryengine"
)

// Every process uses a different route, and all routes have the same hash.
func TestRoutesOfOneBucketInDifferentProcesses(t *testing.T) {
	t.Parallel()
	quota := discordsim.Fixed(5, time.Second)
	inBubble(t, fleet.Config{
		Processes: 4, Discord: bucket(discordsim.Rule{Quota: quota, Hash: "channel"}), Buckets: unlimited,
	}, func(t *testing.T, f *fleet.Fleet) {
		start := time.Now()
		requests := []fleet.Request{
			fleet.Message(1), fleet.History(1), {Method: "GET", Path: "/channels/1"}, {Method: "PATCH", Path: "/channels/1", Body: "{}"},
		}
		for i, p := range f.Processes {
			callers(t, f, p, 10, 10, requests[i])
		}
		took := finish(t, f, time.Hour)
		report := f.Discord.Report()
		efficiency := float64(certain(t, quota, 400)) / float64(took)
		t.Logf("efficiency %.3f, refused %+v of %d, %.2f calls per request", efficiency, report.Refused, report.Requests, f.CallsPerRequest())
		assert.LessOrEqual(t, report.Refused.Total(), 3, "at most one for each route that turned out to belong there")
		for _, e := range f.Discord.Refusals() {
			assert.Less(t, e.SentAt.Sub(start), 100*time.Millisecond, "only before it was known: %+v", e)
		}
		assert.GreaterOrEqual(t, efficiency, 0.95)
	})
}

// In a bucket that refills permit by permit, no request is refused, and the bucket has its whole rate as soon as a
// single process uses it.
func TestSlidingBucketsOfAll(t *testing.T) {
	long(t)
	t.Parallel()
	for name, quota := range map[string]discordsim.Quota{
		"log": discordsim.Sliding(5, time.Second), "leaky": discordsim.Leaky(5, time.Second),
	} {
		inBubble(t, fleet.Config{
			Processes: 4, Discord: bucket(discordsim.Rule{Quota: quota, Hash: "messages"}), Buckets: unlimited,
		}, func(t *testing.T, f *fleet.Fleet) {
			efficiency := contended(t, f, quota, 10)
			t.Log(name, efficiency)
			assert.GreaterOrEqual(t, efficiency, 0.8)
		})
	}
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
		assert.LessOrEqual(t, report.Refused.Total(), 20, "two windows of each process at most")
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

// Ordered requests of a process arrive one after the other, even if other processes use the bucket.
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

// The other processes learn a route's hash only together with the first response's charges, even if the charges take
// longer to reach the server than the hash.
func TestHashIsToldAfterWhatItsBucketHolds(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]discordsim.Fault{
		"used up": {},
		"refused": {Nth: []int{1}, Refuse: &discordsim.Refusal{Class: discordsim.ClassUser, Wait: 2 * time.Second}},
		"shared":  {Nth: []int{1}, Refuse: &discordsim.Refusal{Class: discordsim.ClassShared, Wait: 2 * time.Second}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			config := bucket(discordsim.Rule{Quota: discordsim.Fixed(1, 2*time.Second), Hash: "messages"})
			config.Faults = []discordsim.Fault{fault}
			inBubble(t, fleet.Config{Processes: 3, Discord: config, Buckets: unlimited}, func(t *testing.T, f *fleet.Fleet) {
				var first sync.Once
				f.Engine.Decide(func(purpose string) memoryengine.Fate {
					before := time.Millisecond
					if purpose == "swap" {
						first.Do(func() { before = 30 * time.Millisecond })
					}
					return memoryengine.Fate{Before: before, After: time.Millisecond}
				})
				for _, p := range f.Processes {
					callers(t, f, p, 1, 1, fleet.Message(1))
				}
				finish(t, f, time.Minute)
				want := 0
				if fault.Refuse != nil {
					want = 1
				}
				assert.Equal(t, want, f.Discord.Report().Refused.Total(), "%+v", f.Discord.Refusals())
			})
		})
	}
}
