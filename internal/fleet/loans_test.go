package fleet_test

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/internal/discordsim"
	"github.com/ratelight/ratelight/internal/fleet"
)

// users makes each process send about three requests a second to each of its own ten buckets. A part of the requests,
// foreign percent, goes to random buckets of all processes instead.
func users(t *testing.T, f *fleet.Fleet, foreign int) {
	t.Helper()
	const own, pace, length = 10, 300 * time.Millisecond, 20 * time.Second
	for _, p := range f.Processes {
		for channel := range own {
			chance := rand.New(rand.NewPCG(uint64(p.Number), uint64(channel)))
			f.Go(func() {
				for f.Now() < length {
					time.Sleep(time.Duration(chance.ExpFloat64() * float64(pace)))
					of := p.Number*own + channel
					if chance.IntN(100) < foreign {
						of = chance.IntN(own * len(f.Processes))
					}
					f.Go(func() {
						if o := p.Do(t.Context(), fleet.Message(1+of)); o.Err != nil || o.Status != 200 {
							t.Errorf("request of process %d: status %d, error %v", p.Number, o.Status, o.Err)
						}
					})
				}
			})
		}
	}
	finish(t, f, time.Hour)
	report := f.Discord.Report()
	calls := map[string]int{}
	for _, p := range f.Processes {
		for name, n := range p.Calls() {
			calls[name] += n
		}
	}
	t.Logf("%d %% foreign: %d requests, %d refused, %.3f calls per request: %v",
		foreign, report.Requests, report.Refused.Total(), f.CallsPerRequest(), calls)
	require.Greater(t, report.Accepted, 2000)
	assert.Zero(t, report.Refused.Total(), "%+v", f.Discord.Refusals())
}

// A bucket that only one process uses must be lent to that process: with such a loan, the process needs few calls to
// the engine.
func TestOwnBucketsCostFewCalls(t *testing.T) {
	long(t)
	t.Parallel()
	for foreign, most := range map[int]float64{0: 0.1, 2: 0.35, 20: 2} {
		inBubble(t, fleet.Config{
			Processes: 4, Discord: bucket(discordsim.Rule{Quota: discordsim.Fixed(5, time.Second), Hash: "messages"}),
			Buckets: unlimited,
		}, func(t *testing.T, f *fleet.Fleet) {
			users(t, f, foreign)
			assert.LessOrEqual(t, f.CallsPerRequest(), most)
		})
	}
}

// A process uses a lent bucket for so long that, without calls, the engine would delete the bucket's key. The bucket
// must not be lent to a second process.
func TestLoanOutlastsItsKey(t *testing.T) {
	long(t)
	t.Parallel()
	lentTwice(t, 700, 0, func(*fleet.Fleet) {})
}

// The engine has lost the key of a lent bucket, and lends the bucket to a second process. The first process must notice
// this, so that the double use ends within one window.
func TestProcessNoticesThatItsLoanWasLentAgain(t *testing.T) {
	t.Parallel()
	lentTwice(t, 3, 5, func(f *fleet.Fleet) {
		for _, key := range f.Engine.Keys() {
			if strings.HasSuffix(key, "/1") {
				f.Engine.Evict(key)
			}
		}
	})
}

// lentTwice makes a process use a bucket alone for some seconds. Then it calls event, and both processes use the
// bucket. The two processes may get a limited number of 429s (refused).
func lentTwice(t *testing.T, seconds, refused int, event func(f *fleet.Fleet)) {
	t.Helper()
	config := bucket(discordsim.Rule{Quota: discordsim.Fixed(5, time.Second), Hash: "messages"})
	inBubble(t, fleet.Config{Processes: 2, Discord: config, Buckets: unlimited}, func(t *testing.T, f *fleet.Fleet) {
		for i, p := range f.Processes {
			require.NoError(t, p.Do(t.Context(), fleet.Message(1+i)).Err)
			time.Sleep(2 * time.Second)
		}
		for range seconds {
			require.NoError(t, f.Processes[0].Do(t.Context(), fleet.Message(1)).Err)
			time.Sleep(time.Second)
		}
		event(f)
		for _, p := range f.Processes {
			callers(t, f, p, 5, 5, fleet.Message(1))
		}
		finish(t, f, time.Hour)
		assert.LessOrEqual(t, f.Discord.Report().Refused.Total(), refused, "%+v", f.Discord.Refusals())
	})
}

// A bucket that only one process uses must stay lent to that process, even if each burst shows a longer period than the
// single requests before the burst: the engine already knows the longer period.
func TestBucketWhosePeriodSeemsToChangeStaysLent(t *testing.T) {
	t.Parallel()
	for name, quota := range map[string]discordsim.Quota{
		"leaky": discordsim.Leaky(5, 5*time.Second), "aligned": discordsim.Aligned(5, 5*time.Second, 0),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			config := bucket(discordsim.Rule{Quota: quota, Hash: "messages"})
			inBubble(t, fleet.Config{Processes: 1, Discord: config, Buckets: unlimited}, func(t *testing.T, f *fleet.Fleet) {
				send := func(n int) {
					callers(t, f, f.Processes[0], n, 1, fleet.Message(1))
					finish(t, f, 24*time.Hour)
					time.Sleep(6 * time.Second)
				}
				send(1)
				time.Sleep(30 * time.Second)
				before, sent := f.Processes[0].Calls()["swap"], 0
				for range 20 {
					for range 4 {
						send(1)
					}
					send(quota.Limit)
					sent += 4 + quota.Limit
				}
				assert.Less(t, 10*(f.Processes[0].Calls()["swap"]-before), sent, "calls, times ten, for %d requests", sent)
				assert.Zero(t, f.Discord.Report().Refused.Total())
			})
		})
	}
}
