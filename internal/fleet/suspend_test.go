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
			set := fleet.Config{Processes: 1, Discord: config, Buckets: unlimited, Clocks: true}
			inBubble(t, set, func(t *testing.T, f *fleet.Fleet) {
				start = time.Now()
				p := f.Processes[0]
				callers(t, f, p, 3, 20, fleet.Message(1))
				time.Sleep(3010 * time.Millisecond) // in the middle of a burst
				p.Suspend(clockStands)
				calls := f.Calls()
				time.Sleep(20 * time.Second)
				assert.True(t, p.Suspended())
				assert.Equal(t, calls, f.Calls(), "a suspended process makes no calls")
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

// If a process's clock stood still for less than a second, the process must not conclude that the engine's clock was
// set. If it concluded this, the buckets of all processes would be held.
func TestShortSuspensionDoesNotAffectOtherProcesses(t *testing.T) {
	t.Parallel()
	config := bucket(discordsim.Rule{Quota: discordsim.Fixed(5, time.Second), Hash: "messages"})
	set := fleet.Config{Processes: 2, Discord: config, Buckets: unlimited, Clocks: true}
	inBubble(t, set, func(t *testing.T, f *fleet.Fleet) {
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
