package fleet_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/ratelight/ratelight/internal/discordsim"
	"github.com/ratelight/ratelight/internal/fleet"
)

func TestNothingLeavesASuspendedProcess(t *testing.T) {
	t.Parallel()
	for name, clockStands := range map[string]bool{"suspended": true, "stopped": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var sent []time.Duration
			var start time.Time
			config := bucket(discordsim.Rule{Quota: discordsim.Fixed(5, time.Second), Hash: "messages"})
			config.Observe = func(e discordsim.Event) { sent = append(sent, e.SentAt.Sub(start)) }
			inBubble(t, fleet.Config{Processes: 1, Discord: config, Buckets: unlimited, Clocks: true}, func(t *testing.T, f *fleet.Fleet) {
				start = time.Now()
				p := f.Processes[0]
				callers(t, f, p, 3, 20, fleet.Message(1))
				time.Sleep(3010 * time.Millisecond) // in the middle of a burst
				p.Suspend(clockStands)
				calls := f.Calls()
				time.Sleep(20 * time.Second)
				assert.True(t, p.Suspended())
				assert.Equal(t, calls, f.Calls(), "nor does it call the engine")
				p.Resume()
				finish(t, f, time.Minute)
				before, after := 0, 0
				for _, at := range sent {
					switch {
					case at < 3010*time.Millisecond:
						before++
					case at < 23010*time.Millisecond:
						t.Errorf("a request left after %v", at)
					default:
						after++
					}
				}
				assert.Greater(t, before, 10)
				assert.Equal(t, 60, before+after)
			})
		})
	}
}

// lentAndStopped runs a fleet of two processes with a bucket of 5 in 20 s. The bucket is lent to the first process,
// which has used one place. Then the first process is suspended for the given time, the other process uses up the
// bucket, and the first process continues.
func lentAndStopped(t *testing.T, clockStands bool, length time.Duration) {
	t.Parallel()
	config := bucket(discordsim.Rule{Quota: discordsim.Fixed(5, 20*time.Second), Hash: "messages"})
	inBubble(t, fleet.Config{Processes: 2, Discord: config, Buckets: unlimited, Clocks: true}, func(t *testing.T, f *fleet.Fleet) {
		first, other := f.Processes[0], f.Processes[1]
		callers(t, f, other, 1, 1, fleet.Message(2)) // it knows the bucket hash
		time.Sleep(time.Second)
		callers(t, f, first, 1, 1, fleet.Message(1))
		time.Sleep(2 * time.Second)
		first.Suspend(clockStands)
		callers(t, f, other, 4, 1, fleet.Message(1))
		time.Sleep(length)
		callers(t, f, first, 4, 1, fleet.Message(1))
		first.Resume()
		finish(t, f, 2*time.Minute)
		if n := f.Discord.Report().Refused.Total(); n > 0 {
			t.Errorf("%d refused\n%s", n, f.Story("/channels/1/messages", 0, f.Now()))
		}
	})
}

func TestProcessWhoseClockStoodStillDoesNotTrustItsLoan(t *testing.T) {
	lentAndStopped(t, true, 10*time.Second)
}

func TestProcessThatStoodStillDoesNotTrustItsLoan(t *testing.T) {
	lentAndStopped(t, false, 10*time.Second)
}

// TestAShortSuspensionIsNobodyElsesConcern tests that a process whose clock stood still for less than a second does not
// mistake this for a step of the engine's clock, which would hold all other processes.
func TestAShortSuspensionIsNobodyElsesConcern(t *testing.T) {
	t.Parallel()
	config := bucket(discordsim.Rule{Quota: discordsim.Fixed(5, time.Second), Hash: "messages"})
	inBubble(t, fleet.Config{Processes: 2, Discord: config, Buckets: unlimited, Clocks: true}, func(t *testing.T, f *fleet.Fleet) {
		first, other := f.Processes[0], f.Processes[1]
		callers(t, f, first, 2, 20, fleet.Message(1))
		callers(t, f, other, 2, 20, fleet.Message(2))
		time.Sleep(2500 * time.Millisecond)
		first.Suspend(true)
		time.Sleep(600 * time.Millisecond)
		first.Resume()
		finish(t, f, time.Minute)
		assert.Zero(t, other.Transport.Manager().Stats().Shared.Losses)
	})
}
