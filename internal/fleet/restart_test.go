package fleet_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/internal/discordsim"
	"github.com/ratelight/ratelight/internal/fleet"
	"github.com/ratelight/ratelight/internal/memoryengine"
)

// A process sends five requests, as many as the limit, in each of 50 buckets that are lent to it. Some time later it
// ends. Round trips take 300 ms. Then another process sends one request in each bucket at once. No request of this
// second process may get a 429.
func TestSuccessorOfAProcessKnowsItsRequests(t *testing.T) {
	long(t)
	t.Parallel()
	const channels = 50
	type process = *fleet.Process
	shutdown := func(t *testing.T, _ *fleet.Fleet, p process) { require.NoError(t, p.Shutdown()) }
	stop := func(t *testing.T, _ *fleet.Fleet, p process) { require.NoError(t, p.Close()) }
	kill := func(_ *testing.T, _ *fleet.Fleet, p process) { p.Kill() }
	// stopAfter makes the first call of Close fail.
	stopAfter := func(fate memoryengine.Fate) func(*testing.T, *fleet.Fleet, process) {
		return func(t *testing.T, f *fleet.Fleet, p process) {
			failed := false
			f.Engine.Decide(func(string) memoryengine.Fate {
				if !failed {
					failed = true
					return fate
				}
				return memoryengine.Fate{Before: time.Millisecond / 2, After: time.Millisecond / 2}
			})
			stop(t, f, p)
		}
	}
	const (
		used     = time.Second            // all requests have ended
		first    = 200 * time.Millisecond // the first request of each bucket is in flight
		inFlight = 450 * time.Millisecond // the other requests are in flight
	)
	for name, c := range map[string]struct {
		after, period time.Duration
		end           func(*testing.T, *fleet.Fleet, process)
	}{
		"closed, used up":                     {used, 4 * time.Second, stop},
		"closed, first requests in flight":    {first, 4 * time.Second, stop},
		"closed, other requests in flight":    {inFlight, 4 * time.Second, stop},
		"closed, lost call":                   {inFlight, 4 * time.Second, stopAfter(memoryengine.Fate{Lost: true})},
		"closed, lost reply":                  {inFlight, 4 * time.Second, stopAfter(memoryengine.Fate{LostReply: true})},
		"shut down, used up":                  {used, 4 * time.Second, shutdown},
		"shut down, first requests in flight": {first, 4 * time.Second, shutdown},
		"shut down, other requests in flight": {inFlight, 4 * time.Second, shutdown},
		"killed, used up":                     {used, 20 * time.Second, kill},
		"killed, all but the first in flight": {inFlight, 20 * time.Second, kill},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			config := bucket(discordsim.Rule{Quota: discordsim.Fixed(5, c.period), Hash: "messages"})
			config.Latency = discordsim.Latency{RoundTrip: 300 * time.Millisecond, Jitter: 20 * time.Millisecond}
			inBubble(t, fleet.Config{Processes: 2, Discord: config, Buckets: unlimited}, func(t *testing.T, f *fleet.Fleet) {
				ends, next := f.Processes[0], f.Processes[1]
				require.NoError(t, ends.Do(t.Context(), fleet.Message(1)).Err) // now both processes know the bucket hash
				require.NoError(t, next.Do(t.Context(), fleet.Message(1)).Err)
				time.Sleep(c.period + 6*time.Second)
				for channel := range channels {
					for range 5 {
						f.Go(func() { ends.Do(t.Context(), fleet.Message(10+channel)) })
					}
				}
				time.Sleep(c.after)
				c.end(t, f, ends)
				for channel := range channels {
					f.Go(func() {
						if o := next.Do(t.Context(), fleet.Message(10+channel)); o.Err != nil || o.Status != 200 {
							t.Errorf("request of the next process: status %d, error %v", o.Status, o.Err)
						}
					})
				}
				synctest.Wait()
				finish(t, f, time.Hour)
				assert.Zero(t, f.Discord.Report().Refused.Total(), "%+v", f.Discord.Refusals())
			})
		})
	}
}
