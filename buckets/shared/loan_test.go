package shared_test

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/buckets/shared"
	"github.com/ratelight/ratelight/internal/memoryengine"
	"github.com/ratelight/ratelight/ratelimits"
	"github.com/ratelight/ratelight/routes"
)

func TestFirstProcessGetsALoanWithOneCall(t *testing.T) {
	inWorld(t, func(w *world) {
		a := w.process().use(someKey)
		a.join(3)
		pass(10 * ms)
		require.True(t, a.lent)
		assert.Equal(t, ratelimits.State{}, a.window.State(w.now()))
		assert.Equal(t, map[string]int{"swap": 1, "beat": 1}, w.server.Calls())
		assert.Greater(t, a.until(), w.now()+2500*ms)
		pass(10 * time.Second)
		assert.Greater(t, a.until(), w.now()+1500*ms, "the beat renews the loan")
		assert.Equal(t, map[string]int{"swap": 1, "beat": 11}, w.server.Calls())
	})
}

func TestBucketThatOneProcessUsesIsLentAgain(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.limited()
		pass(2 * time.Second)
		a.join(3)
		pass(10 * ms)
		require.True(t, a.lent, "no other process has used the bucket recently")
		assert.Equal(t, 5, a.window.Limit())
		assert.Zero(t, a.window.State(w.now()).Used)
		assert.False(t, b.lent)
	})
}

func TestLoanIsReturnedWhenAnotherProcessNeedsTheBucket(t *testing.T) {
	for name, quiet := range map[string]bool{"with messages": false, "without": true} {
		t.Run(name, func(t *testing.T) {
			notices := 40 * ms
			if quiet {
				notices = 255 * ms // the longest time between two calls for a lent bucket
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
				assert.Equal(t, 2, b.leaves(), "two permits were used, and one request is in flight")
				pass(260*ms - notices)
				a.bucket.Report(w.now(), permits[0], headers(5, 0, 240*ms, 1000))
				pass(400 * ms)
				require.Equal(t, 2+1, b.leaves(), "one request must be sent first when the bucket opens")
				b.answerNumber(2, headers(5, 4, time.Second, 2000))
				pass(10 * ms)
				assert.Equal(t, 2+5-2, b.leaves(), "two earlier requests of b are still in flight")
			})
		})
	}
}

func TestRequestsOfALoansHolderKeepTheirPlaces(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.lent()
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

func TestLoanThatIsRenewedIsNotLentToAnotherProcess(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.process().use(someKey), w.process().use(someKey)
		a.join(1)
		pass(10 * time.Second)
		require.True(t, a.lent)
		b.join(1)
		pass(2 * time.Second)
		assert.True(t, a.wanted())
		assert.True(t, b.served(0) && !b.lent)
	})
}

func TestLoanIsReturnedWithTheBeatIfNoRequestWaits(t *testing.T) {
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
		assert.Equal(t, calls, w.server.Calls(), "there is nothing to report")
		b := w.process().use(someKey)
		b.join(10)
		pass(10 * ms)
		assert.Equal(t, 7, b.leaves())
	})
}

func TestBucketThatIsOpenedAgainReturnsItsLoanFirst(t *testing.T) {
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

func TestReturnThatWaitsForTheBeatIsMadeAtOnceIfABucketIsNeeded(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.lent()
		a.giveBack(ratelimits.State{Limit: 5, Used: 1, Reset: time.Second, Period: time.Second})
		b.join(1)
		pass(10 * ms)
		assert.True(t, b.served(1))
	})
}

func TestReturnOfAUsedUpBucketWakesAProcessThatWaits(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.lent()
		b.join(1)
		pass(2 * time.Second) // until process b asks only seldom
		a.giveBack(ratelimits.State{Limit: 5, Used: 5, Reset: 80 * ms, Period: time.Second})
		pass(79 * ms)
		assert.Zero(t, b.leaves())
		pass(10 * ms)
		assert.True(t, b.served(1))
	})
}

// If a loan arrives after its bucket was closed, the loan must be returned.
func TestLoanThatArrivesAfterItsBucketWasClosed(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.process().use(someKey), w.process().use(someKey)
		w.fates("swap", memoryengine.Fate{After: 200 * ms})
		a.join(1)
		pass(100 * ms)
		a.leave(1)
		a.bucket.Close()
		pass(200 * ms)
		b.join(1)
		pass(1500 * ms)
		assert.True(t, b.served(1))
	})
}

func TestResponseBeforeALoanIsAcceptedCountsInTheLoan(t *testing.T) {
	inWorld(t, func(w *world) {
		a, _ := w.limited()
		a.join(1)
		pass(10 * ms)
		require.Len(t, a.flying, 1)
		pass(1500 * ms)
		a.asleep = true // so that the loan stays on offer
		a.join(1)
		pass(5 * ms)
		a.bucket.Report(w.now(), a.flying[0], headers(5, 4, time.Second, 3000))
		require.True(t, a.forecast(0).Own)
		assert.Zero(t, a.window.InFlight())
		assert.Equal(t, 1, a.window.State(w.now()).Used)
	})
}

// A request was sent without a permit. Its response arrives while the call that brings the loan is in progress. The
// request must be charged in the loan's window.
func TestResponseDuringTheCallForALoanCountsInTheLoan(t *testing.T) {
	inWorld(t, func(w *world) {
		a, _ := w.limited()
		pass(3 * time.Second)
		a.join(1)
		pass(ms / 4) // the call is in progress
		a.adopt()
		a.answer(headers(5, 2, time.Second, 5000))
		pass(10 * ms)
		require.True(t, a.lent)
		assert.Equal(t, 3, a.window.State(a.now()).Used)
	})
}

// In a leaky bucket, the later Discord counts a request, the later is the reset in its response. If responses arrive in
// another order, an earlier reset must not allow a further request.
func TestResponsesOfALoanThatComeInAnotherOrder(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.lent()
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

// A response in another process names the limit of a lent bucket. The holder of the loan does not know this limit when
// it returns the loan. The limit must still be known after the return.
func TestLimitThatAnotherProcessLearnsOfALentBucketIsKept(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.lent()
		b.adopt()
		b.answer(headers(5, 4, time.Second, 1000))
		b.join(5)
		pass(10 * ms)
		require.True(t, a.wanted())
		a.giveBack(ratelimits.State{}, a.now()) // with one request in flight
		pass(500 * ms)
		assert.Equal(t, 3, b.leaves())
	})
}

// A bucket is lent to one process, the holder. Another process, in which no request waits for the bucket, learns from a
// response or from its manager that the bucket is held or used up. The holder must learn of this within two seconds,
// and must then send nothing until the hold or the window has ended.
func TestHolderHearsWhatAnotherProcessLearnsOfTheBucket(t *testing.T) {
	const wait = 6 * time.Second
	inBucket := func(r ratelimits.Response) ratelimits.Response {
		r.Limited, r.Limit, r.Remaining, r.ResetAfter, r.Stamp = true, 5, 0, wait, 9000
		return r
	}
	for name, learn := range map[string]func(u *user){
		"429":         func(u *user) { u.adopt(); u.answer(inBucket(refusal(ratelimits.ClassUser, wait))) },
		"shared 429":  func(u *user) { u.adopt(); u.answer(refusal(ratelimits.ClassShared, wait)) },
		"remaining 0": func(u *user) { u.adopt(); u.answer(headers(5, 0, wait, 9000)) },
		"hold":        func(u *user) { u.bucket.Hold(u.now(), wait, ratelimits.ClassShared) },
	} {
		for way, how := range map[string]struct {
			begin func(w *world, b *user)
			end   func(w *world, b *user)
		}{
			"with messages":    {},
			"without":          {begin: func(w *world, _ *user) { w.server.SetQuiet(true) }},
			"reply is lost":    {begin: func(w *world, _ *user) { w.fates("swap", memoryengine.Fate{LostReply: true}) }},
			"call is lost":     {begin: func(w *world, _ *user) { w.fates("swap", memoryengine.Fate{Lost: true}) }},
			"bucket is closed": {end: func(_ *world, b *user) { b.bucket.Close() }},
			"session closes":   {end: func(_ *world, b *user) { go b.session.Close() }},
		} {
			eachWorld(t, name+", "+way, func(t *testing.T, w *world) {
				a, b := w.limited()
				pass(5 * time.Second)
				a.join(1)
				pass(10 * ms)
				require.True(t, a.lent)
				if how.begin != nil {
					how.begin(w, b)
				}
				start := w.now()
				learn(b)
				if how.end != nil {
					how.end(w, b)
				}
				for !a.wanted() {
					require.Less(t, w.now()-start, 2*time.Second)
					pass(50 * ms)
				}
				a.giveBack(ratelimits.State{Limit: 5, Used: 1, Reset: ms, Period: time.Second})
				pass(1500 * ms)
				before := a.leaves()
				a.join(1)
				for w.now()-start < wait-50*ms {
					require.False(t, a.mayOrOwns(), "may send after %v", w.now()-start)
					require.Equal(t, before, a.leaves(), "sent after %v", w.now()-start)
					pass(50 * ms)
				}
				pass(3 * time.Second)
				assert.True(t, a.leaves() > before || a.lent)
			})
		}
	}
}

func TestLostReplyWithALoanIsRepeated(t *testing.T) {
	inWorld(t, func(w *world) {
		w.fates("swap", memoryengine.Fate{LostReply: true})
		a := w.process().use(someKey)
		a.join(2)
		pass(600 * ms)
		require.True(t, a.lent)
		pass(5 * time.Second)
		assert.Greater(t, a.until(), w.now())
	})
}

func TestLostReplyToTheReturnOfALoanChangesNothing(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.lent()
		b.join(2)
		pass(10 * ms)
		require.True(t, a.wanted())
		w.fates("swap", memoryengine.Fate{LostReply: true})
		a.giveBack(ratelimits.State{Limit: 5, Used: 1, Reset: 2 * time.Second, Period: 3 * time.Second}, w.now())
		pass(100 * ms)
		require.Equal(t, 2, b.leaves(), "the server must have the returned loan")
		pass(time.Second)
		b.join(10)
		pass(10 * ms)
		assert.Equal(t, 3, b.leaves())
	})
}

// The replies to the first two calls after a long pause arrive in reverse order. The loans that they bring must both be
// valid.
func TestLoansThatArriveInAnotherOrderAreValid(t *testing.T) {
	inWorld(t, func(w *world) {
		p := w.process()
		a, b := p.use(someKey), p.use(elsewhere)
		pass(10 * time.Second)
		p.use(shared.Key{Hash: "third"}).bucket.Hold(w.now(), ms, 0) // so that the session knows the server's clock
		pass(9 * time.Second)
		slow := true
		w.server.Decide(func(script string) memoryengine.Fate {
			fate := near(script)
			if script == "swap" && slow {
				fate.After, slow = 200*ms, false
			}
			if script == "beat" {
				fate.Lost = true
			}
			return fate
		})
		a.join(1)
		pass(20 * ms)
		b.join(1)
		pass(300 * ms)
		for _, u := range []*user{a, b} {
			require.True(t, u.lent)
			assert.Greater(t, u.until(), w.now())
		}
	})
}

// lateReplies returns a switch. While the switch is set, replies arrive 10 ms late. Otherwise calls take no time.
func lateReplies(w *world) *atomic.Bool {
	late := new(atomic.Bool)
	w.server.Decide(func(string) (f memoryengine.Fate) {
		if late.Load() {
			f.After = 10 * ms
		}
		return f
	})
	return late
}

// A call is sent at the moment at which another process replaces the state. The message with the newer state arrives
// before the reply to the call. This order must not count as a loss.
func TestMessageThatOvertakesAReplyIsNoLoss(t *testing.T) {
	inWorld(t, func(w *world) {
		late := lateReplies(w)
		p, q := w.process(), w.process()
		a, b := p.use(someKey), q.use(someKey)
		a.join(1)
		pass(100 * ms)
		b.join(1)
		pass(100 * ms)
		a.giveBack(ratelimits.State{Limit: 5, Used: 5, Reset: 10 * time.Second, Period: 10 * time.Second})
		pass(time.Second)
		a.join(1)
		pass(time.Second)

		w.server.SetQuiet(true)
		b.join(1)
		synctest.Wait()
		w.server.SetQuiet(false)
		late.Store(true)
		a.join(1) // the reply shows that process b was faster
		synctest.Wait()
		late.Store(false)
		b.join(1)
		pass(10 * time.Second)
		assert.Zero(t, p.stats().Losses)
	})
}

// BenchmarkLentBucket measures one request in a bucket that is lent to the request's process.
func BenchmarkLentBucket(b *testing.B) {
	memory := newServer()
	defer memory.Close()
	store, err := shared.New(memory)
	require.NoError(b, err)
	m := buckets.NewRESTBucketManager(buckets.WithShared(store), buckets.WithGlobalLimit(0))
	require.NoError(b, m.Start())
	defer m.Close()
	route, err := routes.Match("POST", "/channels/1/messages")
	require.NoError(b, err)
	send := func() {
		lease, err := m.Acquire(b.Context(), route, "Bot a")
		if err != nil {
			b.Fatal(err)
		}
		r := headers(1<<26, 1<<26-1, time.Second, 0)
		r.Bucket = "h"
		lease.Update(r)
	}
	for range 3 {
		send()
	}
	time.Sleep(2 * time.Second)
	send()
	require.Equal(b, 1, m.Stats().Shared.Loans)
	b.ReportAllocs()
	for b.Loop() {
		send()
	}
}
