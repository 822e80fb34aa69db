package fleet_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets/shared"
	"github.com/ratelight/ratelight/internal/discordsim"
	"github.com/ratelight/ratelight/internal/fleet"
)

// late is the quota of a bucket that opens 0.3 s later than responses announce.
var late = discordsim.Fixed(5, 5*time.Second).Late(300*time.Millisecond, 0)

// When one process has learnt how late a bucket opens, other processes must also know this lateness, for the same
// bucket and for other buckets with the same hash.
func TestLatenessIsKnownToOtherProcesses(t *testing.T) {
	t.Parallel()
	config := bucket(discordsim.Rule{Quota: late, Hash: "messages"})
	inBubble(t, fleet.Config{Processes: 2, Discord: config, Buckets: unlimited}, func(t *testing.T, f *fleet.Fleet) {
		send := func(process, channel int) (refused int) {
			callers(t, f, f.Processes[process], 20, 1, fleet.Message(channel))
			finish(t, f, time.Hour)
			time.Sleep(10 * time.Second)
			return f.Discord.Report().Refused.Total()
		}
		require.Equal(t, 1, send(0, 1))
		send(1, 1)
		send(0, 1)
		send(1, 2)
		assert.Equal(t, 1, send(0, 3))
	})
}

// A process must know how late a bucket opens even after the engine has lost its state, and while the process cannot
// reach the engine.
func TestLatenessIsKnownAfterALoss(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(f *fleet.Fleet){
		"lost": func(f *fleet.Fleet) { f.Engine.Flush() },
		"away": func(f *fleet.Fleet) { f.Engine.SetDown(true) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			config := fleet.Config{
				Processes: 2, Discord: bucket(discordsim.Rule{Quota: late, Hash: "messages"}), Buckets: unlimited,
				Store: []shared.Option{shared.WithOutage(shared.OutageShare)},
			}
			inBubble(t, config, func(t *testing.T, f *fleet.Fleet) {
				use := func() (refused int) {
					for _, p := range f.Processes {
						callers(t, f, p, 5, 6, fleet.Message(1))
					}
					finish(t, f, time.Hour)
					return f.Discord.Report().Refused.Total()
				}
				before := use()
				require.LessOrEqual(t, before, 2)
				require.Zero(t, f.Discord.Report().Avoidable.Total())
				time.Sleep(10 * time.Second) // no window is open
				lose(f)
				assert.Equal(t, before, use())
			})
		})
	}
}
