package fleet_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/internal/discordsim"
	"github.com/ratelight/ratelight/internal/fleet"
)

// users makes each process use ten buckets of its own, each a little over three times a second. Of its requests,
// foreign percent go to buckets of other processes.
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

// Buckets that only one process uses are lent to it, and need hardly any calls.
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
