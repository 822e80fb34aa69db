package shared_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets/shared"
	"github.com/ratelight/ratelight/internal/memoryengine"
	"github.com/ratelight/ratelight/ratelimits"
)

func TestTheFirstUserGetsALoanWithOneCall(t *testing.T) {
	inWorld(t, func(w *world) {
		a := w.process().use(someKey)
		a.join(3)
		pass(10 * ms)
		require.True(t, a.lent)
		assert.Equal(t, ratelimits.State{}, a.window.State(w.now()))
		assert.Equal(t, map[string]int{"swap": 1, "beat": 1}, w.server.Calls())
		assert.Greater(t, a.until(), w.now()+2500*ms)
		pass(10 * time.Second)
		assert.Greater(t, a.until(), w.now()+1500*ms, "it is renewed")
		assert.Equal(t, map[string]int{"swap": 1, "beat": 11}, w.server.Calls())
	})
}

func TestOneCallRenewsAllLoans(t *testing.T) {
	long(t)
	inWorld(t, func(w *world) {
		p := w.process()
		var users []*user
		for i := range 600 {
			key := someKey
			key.Major = string(rune('1'+i%9)) + string(rune('0'+i/9%10)) + string(rune('0'+i/90))
			users = append(users, p.use(key))
			users[i].join(1)
		}
		pass(5*time.Second + 500*ms)
		for _, u := range users {
			require.True(t, u.lent)
			require.Greater(t, u.until(), w.now())
		}
		assert.Equal(t, map[string]int{"swap": 600, "beat": 6}, w.server.Calls())
	})
}

func TestALoanIsWantedAtOnceAndReturnedAsItIs(t *testing.T) {
	for name, quiet := range map[string]bool{"with messages": false, "without": true} {
		t.Run(name, func(t *testing.T) {
			notices := 40 * ms
			if quiet {
				notices = 255 * ms // the longest time between two calls
			}
			inWorld(t, func(w *world) {
				w.server.SetQuiet(quiet)
				a, b := w.process().use(someKey), w.process().use(someKey)
				a.join(1)
				pass(100 * ms)
				require.True(t, a.lent)
				b.join(10)
				pass(10 * ms)
				assert.Equal(t, !quiet, a.wanted())
				pass(time.Second)
				require.True(t, a.wanted())
				require.Zero(t, b.leaves())
				permits := a.giveBack(ratelimits.State{Limit: 5, Used: 2, Reset: 500 * ms, Period: time.Second}, w.now())
				require.Len(t, permits, 1)
				pass(notices)
				assert.Equal(t, 2, b.leaves(), "two were used and one is on its way")
				pass(260*ms - notices)
				a.bucket.Report(w.now(), permits[0], headers(5, 0, 240*ms, 1000))
				pass(400 * ms)
				require.Equal(t, 2+1, b.leaves(), "one goes first at the first opening")
				b.answerNumber(2, headers(5, 4, time.Second, 2000))
				pass(10 * ms)
				assert.Equal(t, 2+5-2, b.leaves(), "those of b are still in flight")
			})
		})
	}
}

func TestWhoWaitedForALoanStandsAheadOfThoseWhoWantIt(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.process().use(someKey), w.process().use(someKey)
		a.join(1)
		pass(10 * ms)
		b.join(3)
		pass(10 * ms)
		a.mu.Lock()
		a.arrivals = make([]time.Duration, 4)
		a.mu.Unlock()
		a.giveBack(ratelimits.State{Limit: 5, Period: time.Second})
		pass(100 * ms)
		assert.Equal(t, 4, a.leaves())
		assert.Equal(t, 1, b.leaves())
	})
}

func TestABucketThatOneProcessUsesAgainIsLentAgain(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.limited()
		pass(2 * time.Second)
		a.join(3)
		pass(10 * ms)
		require.True(t, a.lent, "the other has not been here for long")
		assert.Equal(t, 5, a.window.Limit())
		assert.Zero(t, a.window.State(w.now()).Used)
		assert.False(t, b.lent)
	})
}

func TestALoanThatWasNotReturnedInTimeEnds(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.process().use(someKey), w.process().use(someKey)
		a.join(1)
		pass(10 * ms)
		require.True(t, a.lent)
		a.link.kill(true)
		b.join(1)
		pass(2900 * ms)
		assert.Zero(t, b.leaves())
		assert.False(t, b.lent)
		assert.Less(t, a.until(), w.now(), "it stops before others start")
		pass(10200 * ms) // nobody knows of how long a window
		require.True(t, b.leaves() == 1 || b.lent)
		// What it knows when it comes back adds to what was found out meanwhile.
		if b.leaves() == 1 {
			b.answer(headers(5, 2, time.Second, 5000))
		}
		a.link.kill(false)
		a.giveBack(ratelimits.State{Limit: 5, Used: 1, Reset: 300 * ms, Period: time.Second}, w.now())
		pass(time.Second)
	})
}

func TestALoanIsReturnedWithTheBeatIfNobodyWaits(t *testing.T) {
	inWorld(t, func(w *world) {
		p := w.process()
		a := p.use(someKey)
		a.join(1)
		pass(10 * ms)
		a.giveBack(ratelimits.State{Limit: 7, Period: time.Second})
		a.bucket.Close()
		pass(2 * time.Second)
		calls := w.server.Calls()
		assert.Equal(t, 2, calls["swap"], "%v", calls)
		pass(5 * time.Second)
		assert.Equal(t, calls, w.server.Calls(), "then there is nothing more to say")
		b := w.process().use(someKey)
		b.join(10)
		pass(10 * ms)
		assert.Equal(t, 7, b.leaves())
	})
}

func TestABucketThatIsOpenedAgainReturnsItsLoanFirst(t *testing.T) {
	inWorld(t, func(w *world) {
		p := w.process()
		a := p.use(someKey)
		a.join(1)
		pass(10 * ms)
		a.giveBack(ratelimits.State{Limit: 7, Used: 7, Reset: 10 * time.Second, Period: 20 * time.Second})
		a.bucket.Close()
		again := p.use(someKey)
		again.join(1)
		pass(10 * ms)
		assert.False(t, again.lent)
		assert.InDelta(t, 10*time.Second, again.forecast(0).Wait, float64(100*ms))
	})
}

func TestRequestsThatEndBeforeALoanIsAcceptedAreHandedOver(t *testing.T) {
	inWorld(t, func(w *world) {
		a, _ := w.limited()
		a.join(1)
		pass(10 * ms)
		require.Len(t, a.flying, 1)
		pass(1500 * ms)
		a.asleep = true // the loan is offered, and not yet accepted
		a.join(1)
		pass(5 * ms)
		a.bucket.Report(w.now(), a.flying[0], headers(5, 4, time.Second, 3000))
		require.True(t, a.forecast(0).Own)
		assert.Zero(t, a.window.InFlight())
		assert.Equal(t, 1, a.window.State(w.now()).Used)
	})
}

func TestALoanThatIsReturnedTwiceIsReturnedOnce(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.process().use(someKey), w.process().use(someKey)
		a.join(1)
		pass(10 * ms)
		b.join(2)
		pass(10 * ms)
		require.True(t, a.wanted())
		w.fates("swap", memoryengine.Fate{LostReply: true})
		a.giveBack(ratelimits.State{Limit: 5, Used: 1, Reset: 2 * time.Second, Period: 3 * time.Second}, w.now())
		pass(100 * ms)
		require.Equal(t, 2, b.leaves(), "it got there")
		pass(time.Second)
		b.join(10)
		pass(10 * ms)
		assert.Equal(t, 3, b.leaves(), "one was left")
	})
}

func TestALoanThatIsRenewedIsNotLentToOthers(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.process().use(someKey), w.process().use(someKey)
		a.join(1)
		pass(10 * time.Second)
		require.True(t, a.lent)
		b.join(1)
		pass(2 * time.Second)
		assert.True(t, a.wanted())
		assert.True(t, b.served(0) && !b.lent, "not as long as it is renewed")
	})
}

func TestAfterALoanThatWasNotReturnedOneGoesFirst(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.limited()
		pass(2 * time.Second)
		a.join(3)
		pass(10 * ms)
		require.True(t, a.lent)
		a.link.kill(true)
		b.join(5)
		pass(3200 * ms)
		assert.Zero(t, b.leaves(), "a whole window is waited out")
		pass(time.Second)
		assert.True(t, b.leaves() == 1 || b.lent && b.window.Probing())
	})
}

// After a 429, the rest of a window is mistaken for the whole period. If the holder that learns the longer period dies,
// the other processes must know it.
func TestALongerPeriodOutlivesTheHolderOfALoan(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.limited()
		pass(2 * time.Second)
		a.join(1)
		pass(10 * ms)
		require.True(t, a.lent)
		var sent []shared.Permit
		for range 5 {
			permit, ok := a.bucket.Take(a.now())
			require.True(t, ok)
			sent = append(sent, permit)
		}
		learnt := a.now()
		for i, permit := range sent {
			a.bucket.Report(learnt, permit, headers(5, 4-i, 30*time.Second, 4000))
		}
		pass(50 * ms)
		a.link.kill(true)
		pass(5 * time.Second)
		b.join(1)
		for w.now()-learnt < 29*time.Second {
			require.False(t, b.mayOrOwns(), "it may send after %v", w.now()-learnt)
			require.Zero(t, b.leaves(), "sent after %v", w.now()-learnt)
			pass(500 * ms)
		}
	})
}

// A request of another route turns out to have been counted in a bucket that is lent to another process.
func TestWhatOthersSentIntoALentBucketIsCounted(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.limited()
		pass(5 * time.Second)
		a.join(1)
		pass(10 * ms)
		require.True(t, a.lent)
		for range 2 { // one that has ended, one that has not
			b.adopt()
		}
		b.answer(headers(5, 2, time.Second, 7000))
		pass(10 * ms)
		before := b.leaves()
		b.join(5)
		pass(10 * ms)
		require.True(t, a.wanted())
		a.giveBack(ratelimits.State{Limit: 5, Used: 1, Reset: time.Second, Period: time.Second})
		pass(500 * ms)
		assert.Equal(t, 2, b.leaves()-before, "five less one of its owner's and two of others")
	})
}

// The knowledge from that request must be kept, if the owner of the loan knows nothing.
func TestWhatOthersFoundOutOfALentBucketIsKept(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.process().use(someKey), w.process().use(someKey)
		a.join(1)
		pass(10 * ms)
		require.True(t, a.lent)
		b.adopt()
		b.answer(headers(5, 4, time.Second, 1000))
		b.join(5)
		pass(10 * ms)
		require.True(t, a.wanted())
		a.giveBack(ratelimits.State{}, a.now()) // its own is on its way
		pass(500 * ms)
		assert.Equal(t, 3, b.leaves())
	})
}

// In a leaky bucket, a request that is counted later gets a later reset. If a request of the loan was counted before
// the request that was answered first, its answer frees no place.
func TestAnswersOfALoanThatComeInAnotherOrder(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.process().use(someKey), w.process().use(someKey)
		a.join(1)
		pass(10 * ms)
		b.join(20)
		pass(10 * ms)
		require.True(t, a.wanted())
		permits := a.giveBack(ratelimits.State{Limit: 10, Used: 1, Reset: 300 * ms, Period: 300 * ms}, w.now(), w.now())
		pass(10 * ms)
		require.Equal(t, 7, b.leaves())
		a.bucket.Report(w.now(), permits[0], headers(10, 9, 100*ms, 5100))
		a.bucket.Report(w.now(), permits[1], headers(10, 8, 200*ms, 5200))
		pass(50 * ms)
		assert.Equal(t, 7, b.leaves())
		pass(2 * time.Second)
		assert.Greater(t, b.leaves(), 7)
	})
}

// A request that has ended turns out to belong to a bucket while the bucket is being lent.
func TestWhatTheServerHasNotHeardOfIsHandedOverToALoan(t *testing.T) {
	inWorld(t, func(w *world) {
		a, _ := w.limited()
		pass(3 * time.Second)
		a.join(1)
		pass(ms / 4) // the call is on its way
		a.adopt()
		a.answer(headers(5, 2, time.Second, 5000))
		pass(10 * ms)
		require.True(t, a.lent)
		assert.Equal(t, 3, a.window.State(a.now()).Used)
	})
}

// The server loses its state while an unreachable process has a bucket on loan. A waiting process knows of that loan,
// and must not forget it.
func TestAfterALossTheOneWhoWaitsDoesNotForgetThatABucketIsLent(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.process().use(someKey), w.process().use(someKey)
		a.join(1)
		pass(10 * ms)
		require.True(t, a.lent)
		a.link.kill(true)
		b.join(1)
		pass(100 * ms)
		w.server.Flush()
		for a.until() > w.now() {
			require.Zero(t, b.leaves())
			require.False(t, b.lent)
			pass(100 * ms)
		}
		pass(time.Second)
		assert.True(t, b.served(1))
	})
}

// The server returns to a state in which a bucket was lent to a session that has since returned it, or no longer uses
// it. No other session can end that loan while this session is alive.
func TestLoanThatTheServerRemembersWronglyIsEnded(t *testing.T) {
	const key = "rl2:{default}:b:0123456789abcdef/hash/1"
	for name, closes := range map[string]bool{"returned": false, "closed": true} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				a := w.process().use(someKey)
				keeps := a.process.use(shared.Key{Hash: "other"}) // for which the session stays alive
				keeps.join(1)
				a.join(1)
				pass(10 * ms)
				require.True(t, a.lent)
				before := w.server.Value(key)
				a.giveBack(ratelimits.State{Limit: 5, Period: time.Second})
				pass(5 * time.Second)
				if closes {
					a.bucket.Close()
				}
				pass(5 * time.Second)
				w.server.Set(key, before)
				b := w.process().use(someKey)
				b.join(1)
				pass(15 * time.Second)
				assert.True(t, b.lent || b.leaves() == 1)
			})
		})
	}
}
