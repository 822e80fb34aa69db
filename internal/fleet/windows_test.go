package fleet_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/internal/discordsim"
	"github.com/ratelight/ratelight/internal/fleet"
)

// For twenty windows, four processes use one bucket as much as they can, and three buckets that other processes seldom
// use. Three disturbances happen meanwhile.
func TestTwentyWindows(t *testing.T) {
	t.Parallel()
	const window = time.Second
	for _, c := range []struct {
		name    string
		most    int // avoidable 429s
		happens func(t *testing.T, f *fleet.Fleet, place *atomic.Pointer[fleet.Process])
	}{
		{"rolling restart", 0, func(t *testing.T, f *fleet.Fleet, place *atomic.Pointer[fleet.Process]) {
			require.NoError(t, replace(t, f, place).Shutdown())
		}},
		{"kill", 0, func(t *testing.T, f *fleet.Fleet, place *atomic.Pointer[fleet.Process]) {
			place.Load().Kill()
			replace(t, f, place)
		}},
		{"fail-over to a replica that is behind", 1, func(_ *testing.T, f *fleet.Fleet, _ *atomic.Pointer[fleet.Process]) {
			replica := f.Engine.Save()
			time.Sleep(200 * time.Millisecond)
			f.Engine.Restore(replica)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			config := bucket(discordsim.Rule{Quota: discordsim.Fixed(5, window), Hash: "messages"})
			inBubble(t, fleet.Config{Processes: 4, Discord: config, Buckets: unlimited}, func(t *testing.T, f *fleet.Fleet) {
				var places [4]atomic.Pointer[fleet.Process]
				for i := range places {
					places[i].Store(f.Processes[i])
				}
				send := func(place, channel int, pause time.Duration) {
					f.Go(func() {
						time.Sleep(time.Duration(channel*4+place) * time.Millisecond)
						for f.Now() < 22*window {
							if o := places[place].Load().Do(t.Context(), fleet.Message(channel)); o.Err != nil {
								time.Sleep(100 * time.Millisecond) // its process ends
							}
							time.Sleep(pause)
						}
					})
				}
				for place := range places {
					send(place, 1, 0)
					send(place, 1, 0)
					send(place, 2+place, 0)
					send(place, 2+(place+1)%4, 3*window)
				}
				for n := range 3 {
					time.Sleep(5 * window)
					c.happens(t, f, &places[n])
				}
				finish(t, f, time.Minute)
				r := f.Discord.Report()
				t.Logf("%d requests, %d avoidable 429s", r.Requests, r.Avoidable.Total())
				assert.LessOrEqual(t, r.Avoidable.Total(), c.most, "%+v", f.Discord.Refusals())
			})
		})
	}
}

// replace puts a new process in a place, and returns the process that was there.
func replace(t *testing.T, f *fleet.Fleet, place *atomic.Pointer[fleet.Process]) *fleet.Process {
	t.Helper()
	p, err := f.Join()
	require.NoError(t, err)
	return place.Swap(p)
}
