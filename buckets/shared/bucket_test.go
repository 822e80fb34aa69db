package shared_test

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/internal/memoryengine"
	"github.com/ratelight/ratelight/ratelimits"
)

func TestPermitsAreGrantedInTheOrderOfArrivalAcrossProcesses(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.limited()
		var writing sync.Mutex
		var order []string
		log := func(name string) func(*process) {
			return func(*process) {
				writing.Lock()
				defer writing.Unlock()
				order = append(order, name)
			}
		}
		a.log, b.log = log("a"), log("b")
		for _, u := range []*user{a, a, a, a, b, b, a, b, a, a, b, b} {
			u.join(1)
			pass(2 * ms)
		}
		require.Equal(t, []string{"a", "a", "a", "a"}, order, "four were left")
		for range 4 {
			a.answer(headers(5, 0, 900*ms, 1000))
		}
		pass(1100 * ms)
		require.Equal(t, []string{"b"}, order[4:], "one goes first at the first opening")
		b.answer(headers(5, 4, time.Second, 2000))
		pass(10 * ms)
		assert.ElementsMatch(t, []string{"b", "b", "a", "b", "a"}, order[4:], "the first five of those who wait, and no other")
	})
}

func TestOneRequestFindsOutTheLimit(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.contested()
		a.join(3)
		b.join(3)
		pass(2 * time.Second)
		assert.Equal(t, 1, a.leaves()+b.leaves(), "one alone")
		a.answer(headers(5, 4, time.Second, 1000))
		pass(100 * ms)
		assert.Equal(t, 5, a.leaves()+b.leaves(), "the rest of the window")
	})
}

func TestTheNextOneFindsOutIfThereWasNoAnswer(t *testing.T) {
	for name, answer := range map[string]ratelimits.Response{"no answer": {}, "an answer of a server in trouble": {Status: 502}} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				a, b := w.contested()
				b.join(2)
				pass(100 * ms)
				require.Zero(t, b.leaves())
				a.answer(answer)
				pass(100 * ms)
				assert.Equal(t, 1, b.leaves())
			})
		})
	}
}

func TestAnswersWithoutLimitsLetEverythingGo(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.contested()
		b.join(20)
		a.answer(ratelimits.Response{Status: 204})
		pass(100 * ms)
		assert.Equal(t, 20, b.leaves())
	})
}

func TestAWindowLetsNoMoreGoThanItsLimit(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.limited()
		a.join(10)
		b.join(10)
		pass(500 * ms)
		assert.Equal(t, 5, a.leaves()+b.leaves())
		for a.leaves() > 1 && len(a.flying) > 0 {
			a.answer(headers(5, 0, 450*ms, 1000))
		}
		for len(b.flying) > 0 {
			b.answer(headers(5, 0, 450*ms, 1000))
		}
		pass(440 * ms)
		assert.Equal(t, 5, a.leaves()+b.leaves(), "it is not over yet")
		pass(100 * ms)
		require.Equal(t, 6, a.leaves()+b.leaves(), "one goes first at the first opening")
		if len(a.flying) > 0 {
			a, b = b, a
		}
		b.answer(headers(5, 4, time.Second, 2000))
		pass(10 * ms)
		assert.Equal(t, 10, a.leaves()+b.leaves())
	})
}

func TestRequestsInFlightAreChargedToTheNextWindow(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.punctual()
		b.join(2)
		pass(10 * ms)
		require.Equal(t, 2, b.leaves())
		pass(1100 * ms)
		a.join(10)
		pass(100 * ms)
		require.Equal(t, 1+3, a.leaves(), "two of five are on their way")
		// One of b's two requests was counted in the previous window after all.
		b.answer(headers(5, 3, 10*ms, 1000))
		pass(100 * ms)
		assert.Equal(t, 1+4, a.leaves())
	})
}

func TestRemainingIsLoweredByOthersAndNeverRaised(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.limited()
		a.join(1)
		pass(10 * ms)
		a.answer(headers(5, 1, 900*ms, 1000)) // somebody else has used two
		pass(10 * ms)
		b.join(5)
		pass(100 * ms)
		require.Equal(t, 1, b.leaves())
		b.answer(headers(5, 4, 800*ms, 1000)) // which cannot be
		pass(100 * ms)
		assert.Equal(t, 1, b.leaves())
	})
}

func TestARequestThatWasNotSentGivesItsPlaceBack(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.limited()
		a.join(4)
		pass(10 * ms)
		require.Equal(t, 4, a.leaves()-1)
		b.join(2)
		pass(10 * ms)
		require.Zero(t, b.leaves())
		a.mu.Lock()
		a.bucket.Return(w.now(), a.flying[0]) // it was not sent after all
		a.flying = a.flying[1:]
		a.mu.Unlock()
		pass(10 * ms)
		assert.Equal(t, 1, b.leaves())
	})
}

func TestWhoComesToTheFrontStandsAheadOfAllOthers(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.limited()
		a.join(4)
		pass(10 * ms)
		b.join(5)
		pass(10 * ms)
		a.joinAt(0, 2)
		for range 4 {
			a.answer(headers(5, 0, 900*ms, 1000))
		}
		pass(1100 * ms)
		require.Equal(t, 5+1, a.leaves(), "one goes first at the first opening")
		require.Zero(t, b.leaves())
		a.answer(headers(5, 4, time.Second, 2000))
		pass(10 * ms)
		assert.Equal(t, 5+2, a.leaves())
		assert.Equal(t, 3, b.leaves())
	})
}

func TestARequestFromElsewhereIsCharged(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.limited()
		permit := a.bucket.Adopt(w.now(), w.now())
		pass(10 * ms)
		b.join(10)
		pass(10 * ms)
		require.Equal(t, 3, b.leaves())
		a.bucket.Report(w.now(), permit, headers(5, 3, 900*ms, 1000))
		pass(10 * ms)
		assert.Equal(t, 3, b.leaves())
	})
}

func TestAPermitThatNobodyTakesGoesBack(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.limited()
		a.asleep = true
		a.join(4)
		pass(10 * ms)
		require.True(t, a.may())
		pass(16 * time.Second)
		b.join(5)
		pass(10 * ms)
		require.False(t, a.may(), "half of the lease is over")
		pass(10 * ms)
		assert.True(t, a.may(), "it came back to the head")
		assert.Equal(t, 1, b.leaves())
	})
}

func TestForecastCountsTheOthers(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.limited()
		a.join(4)
		pass(10 * ms)
		b.join(12)
		pass(10 * ms)
		a.join(1)
		pass(10 * ms)
		f := a.forecast(1)
		// Thirteen are ahead: two windows, after what is left of this one.
		assert.InDelta(t, 2960*ms, f.Wait, float64(50*ms))
		f = a.forecast(0)
		assert.InDelta(t, 2960*ms, f.Wait, float64(50*ms), "its first one has twelve ahead")
		f = b.forecast(0)
		assert.InDelta(t, 960*ms, f.Wait, float64(60*ms))
	})
}

// All answers of a window are lost. The window began, at the latest, when the last of its requests was processed.
func TestAWindowOfWhichNoAnswerCameLastsFromTheLastLoss(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.punctual()
		a.join(4)
		pass(10 * ms)
		for range 4 {
			a.answer(headers(5, 0, 990*ms, 1000))
		}
		b.join(5)
		pass(1100 * ms)
		require.Equal(t, 5, b.leaves())
		pass(400 * ms)
		for range 5 {
			b.answer(ratelimits.Response{})
		}
		a.join(5)
		pass(950 * ms) // more than a window since they left, less since the last was lost
		before := a.leaves()
		require.False(t, a.served(before+1))
		pass(100 * ms)
		assert.True(t, a.served(before+1) || a.leaves() > before, "one goes first, or all")
	})
}

func TestAWindowIsNotOverBeforeAnAnswerTellsItsEnd(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.punctual()
		a.join(4)
		pass(10 * ms)
		for range 4 {
			a.answer(headers(5, 0, 990*ms, 1000))
		}
		b.join(5)
		pass(1100 * ms)
		require.Equal(t, 5, b.leaves())
		a.join(5)
		b.join(5)
		pass(4 * time.Second)
		require.Equal(t, 10, a.leaves()+b.leaves(), "five are on their way, and may be counted when they arrive")
		b.answer(headers(5, 4, 200*ms, 2000))
		pass(300 * ms)
		assert.Equal(t, 11, a.leaves()+b.leaves())
	})
}

// A request's place in the queue depends on when it arrived, however long the call takes that reports it.
func TestASlowCallCostsNoPlaceInTheQueue(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.limited()
		a.join(4)
		pass(10 * ms)
		for range 5 - 1 {
			a.answer(headers(5, 0, 900*ms, 1000))
		}
		pass(10 * ms)
		before := a.leaves()
		w.server.Decide(func(string) memoryengine.Fate { return memoryengine.Fate{Before: 30 * ms} })
		a.join(1)
		pass(2 * ms)
		w.server.Decide(nil)
		a.join(1) // with the next call, which stands ahead of the one before
		pass(4 * ms)
		b.join(7) // between the two
		pass(1050 * ms)
		require.Equal(t, before+1, a.leaves(), "one goes first at the first opening")
		require.Zero(t, b.leaves())
		a.answer(headers(5, 4, time.Second, 2000))
		pass(10 * ms)
		assert.Equal(t, before+2, a.leaves(), "they are the first two")
	})
}

// When a permit is taken, it goes to the request that is then first in the queue, not to the request for which it was
// granted.
func TestAPermitOfARequestThatLeavesIsForTheNextOneOfItsProcess(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.limited()
		a.asleep = true
		a.join(1)
		pass(10 * ms)
		require.True(t, a.may())
		calls := w.server.Calls()["swap"]
		a.mu.Lock()
		a.arrivals[0] = w.now()
		a.tell()
		a.mu.Unlock()
		pass(10 * ms)
		assert.True(t, a.may())
		assert.Equal(t, calls, w.server.Calls()["swap"], "nobody else has to hear of that")
		a.leave(1)
		b.join(4)
		pass(10 * ms)
		assert.Equal(t, 4, b.leaves())
	})
}
