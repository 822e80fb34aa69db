package fleet_test

import (
	"log/slog"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/ratelight/ratelight/internal/discordsim"
	"github.com/ratelight/ratelight/internal/fleet"
	"github.com/ratelight/ratelight/internal/memoryengine"
)

func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.DiscardHandler)) // discard the warnings that tests cause
	goleak.VerifyTestMain(m)
}

// wide has latencies of 10 to 40 ms in each direction.
var wide = discordsim.Latency{Draw: func(r *rand.Rand) (in, out time.Duration) {
	way := func() time.Duration { return 10*time.Millisecond + time.Duration(r.Int64N(int64(30*time.Millisecond))) }
	return way(), way()
}}

// shortest is the shortest round trip with the latencies of wide. spread is the difference between the longest and the
// shortest latency in one direction.
const (
	shortest = 20 * time.Millisecond
	spread   = 30 * time.Millisecond
)

// inBubble runs a test in virtual time with a fleet.
func inBubble(t *testing.T, config fleet.Config, test func(t *testing.T, f *fleet.Fleet)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f, err := fleet.New(config)
		require.NoError(t, err)
		defer f.Close()
		nearby(f.Engine)
		test(t, f)
	})
}

// nearby makes calls to the engine take 0.2 to 1 ms in each direction. The times are random, so that no two events
// happen at the same time.
func nearby(e *memoryengine.Engine) {
	chance := rand.New(rand.NewPCG(1, 2))
	way := func() time.Duration {
		return 200*time.Microsecond + time.Duration(chance.Int64N(int64(800*time.Microsecond)))
	}
	e.Decide(func(string) memoryengine.Fate { return memoryengine.Fate{Before: way(), After: way()} })
}

// bucket returns a Discord with one rule for all requests and without a global limit.
func bucket(rule discordsim.Rule) discordsim.Config {
	rule.Path = "**"
	return discordsim.Config{Rules: []discordsim.Rule{rule}, Global: discordsim.Unlimited(), Latency: wide}
}

// finish waits until all requests have ended, and asserts that no process has a request left. It returns the time since
// the fleet was made.
func finish(t *testing.T, f *fleet.Fleet, within time.Duration) time.Duration {
	t.Helper()
	took, err := f.Wait(within)
	require.NoError(t, err)
	nothingHeld(t, f)
	return took
}

// nothingHeld asserts that no living process has a request that waits or is in flight.
func nothingHeld(t *testing.T, f *fleet.Fleet) {
	t.Helper()
	for _, p := range f.Processes {
		if p.Dead() {
			continue
		}
		stats := p.Transport.Manager().Stats()
		require.Zero(t, stats.Waiting, "waiting in process %d", p.Number)
		require.Zero(t, stats.InFlight, "in flight in process %d", p.Number)
		for b := range p.Transport.Manager().Buckets() {
			require.Zero(t, b.Waiting, "waiting in %s of process %d", b.Hash, p.Number)
			require.Zero(t, b.InFlight, "in flight in %s of process %d", b.Hash, p.Number)
		}
	}
}

// callers starts a number of callers of a process. Each of them sends n requests, one after the other.
func callers(t *testing.T, f *fleet.Fleet, p *fleet.Process, callers, n int, request fleet.Request) {
	t.Helper()
	for i := range callers {
		f.Go(func() {
			time.Sleep(time.Duration(i*len(f.Processes)+p.Number) * time.Millisecond) // no two requests arrive at the same time
			for range n {
				if o := p.Do(t.Context(), request); o.Err != nil || o.Status != 200 {
					t.Errorf("request of process %d: status %d, error %v", p.Number, o.Status, o.Err)
				}
			}
		})
	}
}

// certain returns how long an ideal client that never risks a 429 takes.
func certain(t *testing.T, quota discordsim.Quota, count int) time.Duration {
	t.Helper()
	conditions := discordsim.Conditions{RoundTrip: shortest, Global: discordsim.Unlimited()}
	plan, err := discordsim.Certain(conditions, discordsim.Work{Quota: quota, Count: count, Route: "one"})
	require.NoError(t, err)
	return plan.Makespan
}

// long skips a long test if -short is set, for example because the race detector makes tests slow.
func long(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("takes long")
	}
}
