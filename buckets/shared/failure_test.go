package shared_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets/shared"
	"github.com/ratelight/ratelight/internal/memoryengine"
	"github.com/ratelight/ratelight/ratelimits"
)

func TestADeadProcessAheadCostsASessionTime(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.limited()
		b.asleep = true
		b.join(100)
		pass(10 * ms)
		b.link.kill(true)
		a.join(5)
		pass(2 * time.Second)
		require.Equal(t, 1, a.leaves(), "those of the dead are ahead")
		pass(3 * time.Second)
		assert.True(t, a.leaves() > 1 || a.lent)
	})
}

func TestADeadProcessThatFindsOutTheLimitCostsASessionTime(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.contested()
		a.link.kill(true)
		b.join(3)
		pass(2500 * ms)
		require.Zero(t, b.leaves())
		pass(700 * ms)
		assert.True(t, b.served(1))
	})
}

func TestARequestWithoutOutcomeEndsWithItsLease(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.contested(shared.WithLease(5 * time.Second))
		b.join(3)
		pass(4500 * ms)
		require.Zero(t, b.leaves())
		pass(1500 * ms)
		assert.True(t, b.served(1), "the next one finds out")
		assert.Equal(t, 1, a.leaves())
	})
}

func TestAProcessIsQuietWhenNothingIsLeft(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.contested()
		pass(40 * time.Second)
		calls := w.server.Total()
		pass(time.Minute)
		assert.Equal(t, calls, w.server.Total(), "the lease is over")
		assert.Equal(t, 1, a.leaves()+b.leaves())
	})
}

func TestAPermitIsVoidWhenTheOthersHoldItsProcessForDead(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.limited()
		a.asleep = true
		a.join(1)
		pass(10 * ms)
		require.True(t, a.may())
		a.link.kill(true)
		b.join(1)
		pass(4 * time.Second)
		assert.False(t, a.may())
	})
}

// It stays so when the process is back.
func TestAPermitThatBecameVoidStaysVoid(t *testing.T) {
	inWorld(t, func(w *world) {
		a, _ := w.limited()
		a.asleep = true
		a.join(1)
		pass(10 * ms)
		require.True(t, a.may())
		a.link.kill(true)
		pass(4 * time.Second)
		a.link.kill(false)
		pass(2 * time.Second) // it has been heard of again
		assert.False(t, a.may(), "somebody else may have it")
		pass(100 * ms)
		assert.True(t, a.mayOrOwns(), "it was asked for again")
	})
}

// fates gives the calls of one script these fates, one after the other. Later calls have no fault.
func (w *world) fates(script string, fates ...memoryengine.Fate) {
	w.server.Decide(func(name string) memoryengine.Fate {
		if name != script || len(fates) == 0 {
			return memoryengine.Fate{}
		}
		fate := fates[0]
		fates = fates[1:]
		return fate
	})
}

func TestAGrantWhoseReplyIsLostIsGrantedAgain(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.limited()
		w.fates("swap", memoryengine.Fate{LostReply: true})
		a.join(2)
		pass(600 * ms)
		assert.Equal(t, 3, a.leaves())
		b.join(5)
		pass(10 * ms)
		assert.Equal(t, 2, b.leaves(), "they were charged once")
	})
}

func TestARequestFromElsewhereIsChargedAlsoIfTheCallIsLost(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.limited()
		w.fates("swap", memoryengine.Fate{Lost: true})
		a.bucket.Adopt(w.now(), w.now())
		pass(600 * ms)
		b.join(10)
		pass(10 * ms)
		assert.Equal(t, 3, b.leaves())
	})
}

func TestRequestsThatLeaveWhileTheReplyIsLostCostNothing(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.limited()
		w.fates("swap", memoryengine.Fate{LostReply: true})
		a.join(2)
		pass(100 * ms)
		a.leave(2)
		pass(600 * ms)
		b.join(5)
		pass(10 * ms)
		assert.Equal(t, 1, a.leaves())
		assert.Equal(t, 4, b.leaves())
	})
}

func TestALateCallDoesNothing(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.limited()
		w.fates("swap", memoryengine.Fate{Before: 3 * time.Second})
		a.join(1)
		pass(100 * ms)
		a.leave(1)
		pass(3 * time.Second)
		require.Equal(t, 1, a.leaves())
		b.join(5)
		pass(10 * ms)
		assert.Equal(t, 5, b.leaves(), "nothing is in flight")
	})
}

func TestALoanWhoseReplyIsLostIsLentAgain(t *testing.T) {
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

func TestAReportIsRepeatedUntilItIsKnown(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.contested()
		b.join(5)
		pass(10 * ms)
		w.fates("swap", memoryengine.Fate{Lost: true})
		a.answer(headers(5, 4, 2*time.Second, 1000))
		pass(600 * ms)
		assert.Equal(t, 4, b.leaves())
		pass(1300 * ms)
		assert.Equal(t, 4, b.leaves())
	})
}

func TestALostStateIsKnownAgainFromThoseWhoUseIt(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.limited()
		a.join(4)
		pass(10 * ms)
		require.Equal(t, 5, a.leaves())
		b.join(5)
		pass(10 * ms)
		w.server.Flush()
		pass(800 * ms)
		assert.Zero(t, b.leaves(), "the window that is used up is waited out")
		for range 4 {
			a.answer(headers(5, 0, 100*ms, 1000))
		}
		pass(400 * ms)
		require.Equal(t, 1, b.leaves(), "one goes first")
		b.answer(headers(5, 4, 900*ms, 2200))
		pass(100 * ms)
		assert.Equal(t, 5, b.leaves())
	})
}

func TestALoanOfALostStateIsReturned(t *testing.T) {
	inWorld(t, func(w *world) {
		a := w.process().use(someKey)
		a.join(1)
		pass(10 * ms)
		w.server.Flush()
		pass(1100 * ms)
		require.True(t, a.wanted())
		require.Zero(t, a.until())
		a.giveBack(ratelimits.State{Limit: 5, Used: 5, Reset: 2 * time.Second, Period: 3 * time.Second})
		a.join(1)
		pass(1900 * ms)
		require.False(t, a.lent)
		pass(200 * ms)
		require.True(t, a.lent)
		assert.True(t, a.window.Probing())
		assert.Equal(t, 5, a.window.Limit())
	})
}

// step steps the clock of the server, which runs on from there. Calls take no time after that.
func (w *world) step(d time.Duration) {
	w.server.StepClock(d)
	w.server.Decide(nil)
}

func TestAClockThatStepsStopsNobody(t *testing.T) {
	for _, step := range []time.Duration{-time.Hour, -5 * time.Second, 5 * time.Second, time.Hour} {
		t.Run(step.String(), func(t *testing.T) {
			inWorld(t, func(w *world) {
				a, b := w.limited()
				a.join(2)
				b.join(1)
				pass(10 * ms)
				require.Equal(t, 4, a.leaves()+b.leaves())
				w.step(step)
				a.join(10)
				b.join(10)
				for n := int64(2); n < 12; n++ { // two for what is lost with the step
					for _, u := range []*user{a, b} {
						for u.inFlight() > 0 {
							u.answer(headers(5, 1, 500*ms, n*1000))
						}
					}
					pass(1500 * ms)
				}
				assert.True(t, a.served(13), a.leaves())
				assert.True(t, b.served(11), b.leaves())
			})
		})
	}
}

func TestAClockThatStepsBackDoesNotMakeAWindowLonger(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.limited()
		a.join(4)
		pass(10 * ms)
		for range 4 {
			a.answer(headers(5, 0, 990*ms, 1000))
		}
		pass(10 * ms)
		w.step(-time.Hour)
		b.join(3)
		pass(900 * ms)
		require.True(t, b.served(0), "nor shorter")
		pass(1200 * ms)
		assert.True(t, b.served(1), "nor longer: one goes first, as after each loss")
	})
}

func TestAKeyThatIsNotOursIsNamed(t *testing.T) {
	const bucket = "rl2:{default}:b:0123456789abcdef/hash/1"
	for name, spoil := range map[string]func(w *world){
		"another type":     func(w *world) { w.server.Set(bucket, "mine") },
		"another hash":     func(w *world) { w.server.SetForeign(bucket) },
		"another version":  func(w *world) { w.server.Set(bucket, "1 1 - mine") },
		"another text":     func(w *world) { w.server.Set(bucket, "1.1 - mine") },
		"era":              func(w *world) { w.server.Set("rl2:{default}:e", "mine") },
		"number of an era": func(w *world) { w.server.Set("rl2:{default}:e", "mine 1") },
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				spoil(w)
				a := w.process().use(someKey)
				a.join(1)
				pass(10 * ms)
				require.NotEmpty(t, a.errs)
				var wrong *shared.KeyError
				require.ErrorAs(t, a.errs[0], &wrong)
				assert.Contains(t, wrong.Key, "rl2:{default}:")
				assert.NotEmpty(t, wrong.Problem)
				assert.NotErrorIs(t, a.errs[0], shared.ErrOutage)
				assert.Zero(t, a.leaves())
				assert.False(t, a.lent)
				w.server.Flush()
				pass(1100 * ms)
				assert.True(t, a.lent, "it goes on when that is gone")
			})
		})
	}
}

func TestNothingRunsAfterClose(t *testing.T) {
	inWorld(t, func(w *world) {
		w.server.SetFrozen(true)
		a := w.process().use(someKey)
		a.join(10)
		pass(100 * ms)
		start := w.now()
		a.session.Close()
		assert.LessOrEqual(t, w.now()-start, time.Second)
		a.join(1)
		a.bucket.Close()
		w.server.SetFrozen(false)
		pass(time.Minute)
		assert.Zero(t, a.leaves())
		calls := w.server.Total()
		pass(time.Minute)
		assert.Equal(t, calls, w.server.Total())
	})
}

func TestASessionThatClosesGivesUpItsPlacesAndLoans(t *testing.T) {
	inWorld(t, func(w *world) {
		p := w.process()
		a, lent := p.use(someKey), p.use(shared.Key{Hash: "other"})
		b := w.process()
		other, otherLent := b.use(someKey), b.use(shared.Key{Hash: "other"})
		lent.join(1)
		other.join(1)
		pass(10 * ms)
		require.True(t, other.lent)
		a.asleep = true
		a.join(10)
		pass(10 * ms)
		other.giveBack(ratelimits.State{Limit: 1, Period: time.Second})
		pass(10 * ms)
		p.session.Close()
		other.join(1)
		otherLent.join(1)
		pass(1200 * ms)
		assert.Equal(t, 1, other.leaves(), "nobody is ahead")
		pass(10 * time.Second) // the manager has not said what it has sent, nor how long its window is
		assert.True(t, otherLent.served(1), "the loan is over")
	})
}

func TestCallsThatFailTogetherAreNoOutage(t *testing.T) {
	inWorld(t, func(w *world) {
		p := w.process(shared.WithOutage(shared.OutageFail))
		a, b := p.use(someKey), p.use(shared.Key{Hash: "other"})
		w.server.SetDown(true)
		a.join(1)
		b.join(1)
		pass(ms)
		w.server.SetDown(false)
		pass(100 * ms)
		assert.Empty(t, a.errs)
		assert.Empty(t, b.errs)
		assert.True(t, a.lent)
		assert.True(t, b.lent)
	})
}

func TestOutages(t *testing.T) {
	t.Run("wait", func(t *testing.T) {
		inWorld(t, func(w *world) {
			a, b := w.limited()
			w.server.SetDown(true)
			a.join(1)
			b.join(1)
			pass(20 * time.Second)
			assert.Equal(t, 1, a.leaves()+b.leaves())
			assert.Empty(t, a.errs)
			assert.Zero(t, a.forecast(0).Wait, "nobody knows")
			w.server.SetDown(false)
			pass(1100 * ms)
			assert.True(t, a.served(2) || b.served(1))
		})
	})
	t.Run("fail", func(t *testing.T) {
		inWorld(t, func(w *world) {
			a, _ := w.limited(shared.WithOutage(shared.OutageFail))
			w.server.SetDown(true)
			a.join(1)
			pass(100 * ms)
			require.NotEmpty(t, a.errs)
			require.ErrorIs(t, a.errs[0], shared.ErrOutage)
			require.ErrorIs(t, a.errs[0], memoryengine.ErrDown)
			var outage *shared.OutageError
			require.True(t, errors.As(a.errs[0], &outage))
			assert.Equal(t, shared.OutageFail, outage.Policy)
			w.server.SetDown(false)
			pass(1100 * ms)
			assert.NoError(t, a.bucket.Err())
			assert.Equal(t, 2, a.leaves())
		})
	})
	for policy, share := range map[shared.Outage]int{shared.OutageShare: 2, shared.OutageFull: 1} {
		t.Run(policy.String(), func(t *testing.T) {
			inWorld(t, func(w *world) {
				a, b := w.limited(shared.WithOutage(policy))
				w.server.SetDown(true)
				a.join(3)
				pass(100 * ms)
				require.True(t, a.lent)
				assert.Equal(t, 5/share, a.window.Limit())
				pass(time.Minute)
				assert.Greater(t, a.until(), w.now())
				assert.False(t, a.wanted())
				w.server.SetDown(false)
				pass(1100 * ms)
				require.True(t, a.wanted())
				a.giveBack(ratelimits.State{Limit: 5, Used: 3, Reset: 2 * time.Second, Period: 2 * time.Second}, w.now())
				pass(10 * ms)
				b.join(5)
				pass(1900 * ms)
				assert.Zero(t, b.leaves(), "what was sent alone is waited out")
				pass(200 * ms)
				assert.Equal(t, 1, b.leaves(), "and then one goes first")
			})
		})
	}
}

func TestALoanGoesOnToItsEndWhenAnOutageBegins(t *testing.T) {
	inWorld(t, func(w *world) {
		a := w.process().use(someKey)
		a.join(1)
		pass(1500 * ms)
		w.server.SetDown(true)
		until := a.until()
		pass(2 * time.Second)
		assert.Equal(t, until, a.until())
		assert.False(t, a.wanted())
		pass(2 * time.Second)
		assert.Less(t, a.until(), w.now())
		a.giveBack(ratelimits.State{Limit: 5, Used: 1, Reset: time.Second, Period: time.Second})
		a.join(1)
		pass(time.Second)
		assert.False(t, a.lent)
		w.server.SetDown(false)
		pass(2 * time.Second)
		require.True(t, a.lent)
		assert.Equal(t, 5, a.window.Limit())
		assert.False(t, a.window.Probing(), "nobody else had it meanwhile")
	})
}

func TestWhatBecameOfALoanIsKnownDuringAnOutage(t *testing.T) {
	inWorld(t, func(w *world) {
		a := w.process(shared.WithOutage(shared.OutageFull)).use(someKey)
		a.join(1)
		pass(1500 * ms)
		w.server.SetDown(true)
		pass(4 * time.Second)
		a.giveBack(ratelimits.State{Limit: 5, Used: 4, Reset: 10 * time.Second, Period: 20 * time.Second})
		a.join(1)
		pass(time.Second)
		require.True(t, a.lent)
		assert.Equal(t, 5, a.window.Limit())
		assert.Equal(t, 4, a.window.State(w.now()).Used)
		assert.InDelta(t, 9*time.Second, a.window.State(w.now()).Reset, float64(100*ms))
	})
}

func TestAServerThatHasLostItsStateDoesNotMakeAProcessAlone(t *testing.T) {
	inWorld(t, func(w *world) {
		a, _ := w.limited(shared.WithOutage(shared.OutageShare))
		w.server.Flush()
		a.join(1)
		pass(5 * ms)
		w.server.SetDown(true)
		a.join(1)
		pass(200 * ms)
		require.True(t, a.lent)
		pass(2 * time.Second)
		permit, ok := a.bucket.Take(w.now())
		require.True(t, ok)
		a.bucket.Report(w.now(), permit, headers(5, 4, time.Second, 2000))
		assert.Equal(t, 5/2, a.window.Limit())
	})
}
