package fleet_test

import (
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/internal/discordsim"
	"github.com/ratelight/ratelight/internal/fleet"
)

type ending = func(t *testing.T, p *fleet.Process)

// endings are the ways in which a process ends and reports its end to the other processes.
var endings = map[string]ending{
	"Close":    func(t *testing.T, p *fleet.Process) { require.NoError(t, p.Transport.Close()) },
	"Shutdown": func(t *testing.T, p *fleet.Process) { require.NoError(t, p.Transport.Shutdown(t.Context())) },
}

// successor runs a fleet whose first process has 50 lent buckets with windows of the given length. It sends five
// requests, which is the limit, in each bucket, and ends the time after later. At once afterwards, another process
// sends one request in each bucket. Round trips take 300 ms.
func successor(t *testing.T, period, after time.Duration, endings map[string]ending) {
	const channels = 50
	for name, end := range endings {
		t.Run(name, func(t *testing.T) {
			config := bucket(discordsim.Rule{Quota: discordsim.Fixed(5, period), Hash: "messages"})
			config.Latency = discordsim.Latency{RoundTrip: 300 * time.Millisecond, Jitter: 20 * time.Millisecond}
			inBubble(t, fleet.Config{Processes: 2, Discord: config, Buckets: unlimited}, func(t *testing.T, f *fleet.Fleet) {
				first, next := f.Processes[0], f.Processes[1]
				require.NoError(t, first.Do(t.Context(), fleet.Message(1)).Err) // the bucket hash is known
				require.NoError(t, next.Do(t.Context(), fleet.Message(1)).Err)
				time.Sleep(period + 6*time.Second)
				for channel := range channels {
					for range 5 {
						f.Go(func() { first.Do(t.Context(), fleet.Message(10+channel)) })
					}
				}
				time.Sleep(after)
				end(t, first)
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

func TestEndOfAProcessTellsWhatItsLoansHaveUsed(t *testing.T) {
	t.Parallel()
	successor(t, 4*time.Second, time.Second, endings)
}

func TestEndOfAProcessTellsWhatIsInFlight(t *testing.T) {
	t.Parallel()
	successor(t, 4*time.Second, 200*time.Millisecond, endings) // the first request of each bucket
}

func TestEndOfAProcessTellsThatAllTheRestIsInFlight(t *testing.T) {
	long(t)
	t.Parallel()
	successor(t, 4*time.Second, 450*time.Millisecond, endings) // all but the first
}

// kill ends a process without a report to the other processes.
var kill = map[string]ending{"Kill": func(_ *testing.T, p *fleet.Process) { p.Kill() }}

func TestDeathOfAProcessAfterItHasUsedUpWhatWasLent(t *testing.T) {
	t.Parallel()
	successor(t, 20*time.Second, time.Second, kill)
}

func TestDeathOfAProcessWithAllThatWasLentInFlight(t *testing.T) {
	t.Parallel()
	successor(t, 20*time.Second, 450*time.Millisecond, kill)
}

// As in a deployment, each process of a fleet is replaced by a new process while all processes send.
func TestRollingRestartDrawsNoRefusals(t *testing.T) {
	long(t)
	t.Parallel()
	for name, end := range endings {
		for global, limit := range map[string]int{"": 0, " below a global limit": 50} {
			t.Run(name+global, func(t *testing.T) {
				config := bucket(discordsim.Rule{Quota: discordsim.Fixed(5, 2*time.Second), Hash: "messages"})
				if limit > 0 {
					config.Global = discordsim.Fixed(limit, time.Second)
				}
				inBubble(t, fleet.Config{Processes: 4, Discord: config, Buckets: []buckets.Option{buckets.WithGlobalLimit(limit)}}, func(t *testing.T, f *fleet.Fleet) {
					const places, channels = 4, 12
					var mu sync.Mutex
					over, at := false, f.Processes[:places:places]
					place := func(n int) *fleet.Process {
						mu.Lock()
						defer mu.Unlock()
						if over {
							return nil
						}
						return at[n]
					}
					for n := range places {
						for channel := range channels {
							for range 3 {
								f.Go(func() { // each place sends in its own channels, and the last two in the channels of all places
									id := 1 + 100*n + channel
									if channel >= channels-2 {
										id = 1000 + channel
									}
									for p := place(n); p != nil; p = place(n) {
										switch o := p.Do(t.Context(), fleet.Message(id)); {
										case errors.Is(o.Err, buckets.ErrClosed):
											time.Sleep(50 * time.Millisecond)
										case o.Err != nil || o.Status != 200:
											t.Errorf("request of process %d: status %d, error %v", p.Number, o.Status, o.Err)
										}
									}
								})
							}
						}
					}
					for n := range places {
						time.Sleep(7 * time.Second)
						old := place(n)
						p, err := f.Join()
						require.NoError(t, err)
						mu.Lock()
						at[n] = p
						mu.Unlock()
						end(t, old)
					}
					time.Sleep(7 * time.Second)
					mu.Lock()
					over = true
					mu.Unlock()
					finish(t, f, time.Hour)
					report := f.Discord.Report()
					t.Logf("%d requests", report.Requests)
					require.Greater(t, report.Accepted, 1500)
					assert.Zero(t, report.Refused.Total(), "%+v", f.Discord.Refusals())
				})
			})
		}
	}
}
