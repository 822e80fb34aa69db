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
	slog.SetDefault(slog.New(slog.DiscardHandler)) // what the tests provoke is not worth a warning
	goleak.VerifyTestMain(m)
}

// wide latencies are 10 to 40 ms each way.
var wide = discordsim.Latency{Draw: func(r *rand.Rand) (in, out time.Duration) {
	way := func() time.Duration { return 10*time.Millisecond + time.Duration(r.Int64N(int64(30*time.Millisecond))) }
	return way(), way()
}}

// shortest round trip of wide latencies, and how much one way may differ from another.
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

// nearby makes calls to the server of shared limits take 0.2 to 1 ms each way, so that no two events happen at one
// moment.
func nearby(e *memoryengine.Engine) {
	chance := rand.New(rand.NewPCG(1, 2))
	way := func() time.Duration {
		return 200*time.Microsecond + time.Duration(chance.Int64N(int64(800*time.Microsecond)))
	}
	e.Decide(func(string) memoryengine.Fate { return memoryengine.Fate{Before: way(), After: way()} })
}

// bucket is a server with one rule for everything and no global limit.
func bucket(rule discordsim.Rule) discordsim.Config {
	rule.Path = "**"
	return discordsim.Config{Rules: []discordsim.Rule{rule}, Global: discordsim.Unlimited(), Latency: wide}
}

// finish waits for the whole load. Everything must have been given back.
func finish(t *testing.T, f *fleet.Fleet, within time.Duration) time.Duration {
	t.Helper()
	took, err := f.Wait(within)
	require.NoError(t, err)
	nothingHeld(t, f)
	return took
}

// nothingHeld asserts that in no living process anybody waits or anything is in flight.
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

// callers runs callers of a process, each of which sends n requests, one after the other.
func callers(t *testing.T, f *fleet.Fleet, p *fleet.Process, callers, n int, request fleet.Request) {
	t.Helper()
	for i := range callers {
		f.Go(func() {
			time.Sleep(time.Duration(i*len(f.Processes)+p.Number) * time.Millisecond) // nobody arrives at the same moment
			for range n {
				if o := p.Do(t.Context(), request); o.Err != nil || o.Status != 200 {
					t.Errorf("request of process %d: status %d, error %v", p.Number, o.Status, o.Err)
				}
			}
		})
	}
}

// certain returns how long the ideal client takes that never risks a refusal.
func certain(t *testing.T, quota discordsim.Quota, count int) time.Duration {
	t.Helper()
	conditions := discordsim.Conditions{RoundTrip: shortest, Global: discordsim.Unlimited()}
	plan, err := discordsim.Certain(conditions, discordsim.Work{Quota: quota, Count: count, Route: "one"})
	require.NoError(t, err)
	return plan.Makespan
}

// long skips a test that takes long with the race detector, where -short asks for that.
func long(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("takes long")
	}
}
