package fleet_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/internal/discordsim"
	"github.com/ratelight/ratelight/internal/fleet"
)

// sessionTime is how long the others believe in a process that says nothing, and how long a loan lasts.
const sessionTime = 3 * time.Second

// dying runs a fleet of two processes with a bucket of 5 in a second, and round trips of about 300 ms, so that requests
// are in flight. At most the given number of 429s is allowed.
func dying(t *testing.T, refusals int, test func(t *testing.T, f *fleet.Fleet, victim, survivor *fleet.Process)) {
	t.Helper()
	config := bucket(discordsim.Rule{Quota: discordsim.Fixed(5, time.Second), Hash: "messages"})
	config.Latency = discordsim.Latency{RoundTrip: 300 * time.Millisecond, Jitter: 20 * time.Millisecond}
	inBubble(t, fleet.Config{Processes: 2, Discord: config, Buckets: unlimited}, func(t *testing.T, f *fleet.Fleet) {
		test(t, f, f.Processes[0], f.Processes[1])
		assert.LessOrEqual(t, f.Discord.Report().Refused.Total(), refusals, "%+v", f.Discord.Refusals())
	})
}

// serves asserts that n requests of the survivor succeed within the given time.
func serves(t *testing.T, f *fleet.Fleet, survivor *fleet.Process, n int, within time.Duration) {
	t.Helper()
	start := f.Now()
	for range n {
		f.Go(func() {
			if o := survivor.Do(t.Context(), fleet.Message(1)); o.Err != nil || o.Status != 200 {
				t.Errorf("request of the survivor: status %d, error %v", o.Status, o.Err)
			}
		})
		synctest.Wait()
	}
	took := finish(t, f, time.Hour) - start
	t.Logf("%d requests of the survivor took %v", n, took)
	assert.LessOrEqual(t, took, within)
}

func TestDeathWithPermitsInFlight(t *testing.T) {
	t.Parallel()
	dying(t, 0, func(t *testing.T, f *fleet.Fleet, victim, survivor *fleet.Process) {
		serves(t, f, survivor, 6, 3*time.Second) // so it is known that the bucket opens when it says so
		require.NoError(t, victim.Do(t.Context(), fleet.Message(1)).Err)
		time.Sleep(2 * time.Second)
		for range 20 {
			f.Go(func() { victim.Do(t.Context(), fleet.Message(1)) })
			f.Go(func() { survivor.Do(t.Context(), fleet.Message(1)) })
		}
		time.Sleep(2100 * time.Millisecond)
		victim.Kill()
		serves(t, f, survivor, 20, 7*1300*time.Millisecond+sessionTime+time.Second)
	})
}

func TestDeathWithManyWaiting(t *testing.T) {
	t.Parallel()
	dying(t, 0, func(t *testing.T, f *fleet.Fleet, victim, survivor *fleet.Process) {
		require.NoError(t, survivor.Do(t.Context(), fleet.Message(1)).Err)
		require.NoError(t, victim.Do(t.Context(), fleet.Message(1)).Err)
		for range 100 {
			f.Go(func() { victim.Do(t.Context(), fleet.Message(1)) })
		}
		time.Sleep(1500 * time.Millisecond)
		victim.Kill()
		serves(t, f, survivor, 10, 2*1300*time.Millisecond+sessionTime+500*time.Millisecond)
	})
}

func TestDeathOfTheOwnerOfALoan(t *testing.T) {
	t.Parallel()
	dying(t, 0, func(t *testing.T, f *fleet.Fleet, victim, survivor *fleet.Process) {
		for range 12 {
			f.Go(func() { victim.Do(t.Context(), fleet.Message(1)) })
		}
		time.Sleep(1800 * time.Millisecond)
		victim.Kill()
		serves(t, f, survivor, 10, 2*1300*time.Millisecond+sessionTime+500*time.Millisecond)
	})
}

func TestDeathWhileFindingOut(t *testing.T) {
	t.Parallel()
	dying(t, 0, func(t *testing.T, f *fleet.Fleet, victim, survivor *fleet.Process) {
		f.Go(func() { victim.Do(t.Context(), fleet.Message(1)) })
		time.Sleep(50 * time.Millisecond)
		victim.Kill()
		serves(t, f, survivor, 5, 600*time.Millisecond+sessionTime+1200*time.Millisecond)
	})
}

// A process whose connection to the server of shared limits is broken for longer than its loans last must continue
// afterwards. The process that then gets the bucket does not know the latest requests of the first process: it sends
// one request first, which may get a 429.
func TestOwnerOfALoanIsCutOff(t *testing.T) {
	t.Parallel()
	dying(t, 1, func(t *testing.T, f *fleet.Fleet, victim, survivor *fleet.Process) {
		callers(t, f, victim, 5, 10, fleet.Message(1))
		time.Sleep(2 * time.Second)
		victim.Cut(true)
		callers(t, f, survivor, 5, 10, fleet.Message(1))
		time.Sleep(10 * time.Second)
		victim.Cut(false)
		took := finish(t, f, time.Hour)
		t.Logf("took %v", took)
		assert.Less(t, took, 40*time.Second)
	})
}
