package ratelimits

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// After any sequence of changes, the sums of a ledger must be those of its charges, and the charges must be in order.
func TestLedgerKeepsItsSums(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(seed, 1))
		duration := func(most time.Duration) time.Duration { return time.Duration(random.Int64N(int64(most))) }
		var l ledger
		now := time.Duration(0)
		for range 2_000 {
			now += duration(100 * time.Millisecond)
			reset := now + duration(20*time.Second)
			c := charge{received: now, reset: interval{reset, reset + duration(time.Second)}, n: 1 + random.Int32N(3)}
			c.sure = random.Int32N(c.n + 1)
			switch random.IntN(20) {
			case 0:
				l.dropUnsure(now, random.Int32N(10))
			case 1:
				l.makeUnsure(now-duration(10*time.Second), reset)
			case 2:
				l.lift(now + duration(time.Second))
			case 3:
				l.occupy(duration(10*time.Second), random.IntN(2) == 0)
			case 4:
				l.window(&c, 10*time.Second)
			case 5:
				if random.IntN(10) == 0 {
					l.clear()
				}
			case 6, 7, 8:
				l.expire(now)
			default:
				l.add(&c)
			}
			total, unsure, before := int32(0), int32(0), time.Duration(0)
			for _, c := range l.list() {
				require.LessOrEqual(t, before, c.reset.high)
				total, unsure, before = total+c.n, unsure+c.n-c.sure, c.reset.high
			}
			require.Equal(t, total, l.total)
			require.Equal(t, unsure, l.unsure)
		}
	}
}

// The ledger must not grow with each request, even if the server contradicts itself, or if the client was stopped for
// some milliseconds.
func TestLedgerStaysSmallWhateverResponsesSay(t *testing.T) {
	t.Parallel()
	for seed := range uint64(5) {
		random := rand.New(rand.NewPCG(seed, 2))
		var w Window
		now, after, longest := time.Duration(0), 24*time.Hour, 0
		for spent := range 20_000 {
			now += time.Duration(random.Int64N(int64(40 * time.Microsecond)))
			switch random.IntN(300) {
			case 0:
				now += time.Duration(random.Int64N(int64(30 * time.Millisecond))) // the client was stopped: the same reset-after
			case 1:
				after = 24*time.Hour - now.Truncate(time.Millisecond)
			}
			p, ok := w.Take(now)
			require.True(t, ok)
			w.Report(now, p, says(mostCounted, mostCounted-spent/1000*1000-1000, after))
			longest = max(longest, len(w.ledger.list()))
		}
		require.Less(t, longest, 4*finest)
	}
}

// One charge expires much later than the others. The others must be joined all the same.
func TestLedgerStaysSmallBesideAFarReset(t *testing.T) {
	t.Parallel()
	var l ledger
	l.add(&charge{n: 1, reset: interval{time.Hour, time.Hour}})
	for i := range time.Duration(5_000) {
		reset := 10*time.Minute + i*time.Millisecond
		l.add(&charge{n: 1, reset: interval{reset, reset}})
	}
	require.Equal(t, int32(5_001), l.total)
	require.LessOrEqual(t, len(l.list()), 2*finest)
}
