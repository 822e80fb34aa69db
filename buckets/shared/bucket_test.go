package shared_test

import (
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets/shared"
	"github.com/ratelight/ratelight/internal/memoryengine"
	"github.com/ratelight/ratelight/ratelimits"
)

func TestPermitsAreGrantedInTheOrderOfArrivalAcrossProcesses(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.limited()
		var writing sync.Mutex
		var order []string
		log := func(name string) func() {
			return func() {
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
		require.Equal(t, []string{"a", "a", "a", "a"}, order, "the window must allow four requests")
		for range 4 {
			a.answer(headers(5, 0, 900*ms, 1000))
		}
		pass(1100 * ms)
		require.Equal(t, []string{"b"}, order[4:], "one request must be sent first when the bucket opens")
		b.answer(headers(5, 4, time.Second, 2000))
		pass(10 * ms)
		assert.ElementsMatch(t, []string{"b", "b", "a", "b", "a"}, order[4:], "the first five to arrive")
	})
}

// Of the requests of all processes, only one must be sent at first. The response to this request decides how many of 25
// other requests follow.
func TestOneRequestFindsTheLimit(t *testing.T) {
	for name, c := range map[string]struct {
		response ratelimits.Response
		follow   int
	}{
		"limits":       {headers(5, 4, time.Second, 1000), 4},
		"no limits":    {ratelimits.Response{Status: 204}, 25},
		"no response":  {ratelimits.Response{}, 1},
		"server error": {ratelimits.Response{Status: 502}, 1},
	} {
		eachWorld(t, name, func(t *testing.T, w *world) {
			a, b := w.contested()
			a.join(5)
			b.join(20)
			pass(2 * time.Second)
			require.Equal(t, 1, a.leaves()+b.leaves())
			a.answer(c.response)
			pass(100 * ms)
			assert.Equal(t, 1+c.follow, a.leaves()+b.leaves())
		})
	}
}

func TestRequestThatWasNotSentReturnsItsPermit(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.limited()
		a.join(4)
		pass(10 * ms)
		require.Equal(t, 1+4, a.leaves())
		b.join(2)
		pass(10 * ms)
		require.Zero(t, b.leaves())
		a.mu.Lock()
		a.bucket.Return(w.now(), a.flying[0])
		a.flying = a.flying[1:]
		a.mu.Unlock()
		pass(10 * ms)
		assert.Equal(t, 1, b.leaves())
	})
}

// A request may return to the head of the queue, for example after a 429. Its place must be that of its first arrival,
// in all processes.
func TestRequestWithAnEarlierArrivalIsFirstInAllProcesses(t *testing.T) {
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
		require.Equal(t, 5+1, a.leaves(), "one request must be sent first when the bucket opens")
		require.Zero(t, b.leaves())
		a.answer(headers(5, 4, time.Second, 2000))
		pass(10 * ms)
		assert.Equal(t, 5+2, a.leaves())
		assert.Equal(t, 3, b.leaves())
	})
}

func TestAdoptedRequestIsCharged(t *testing.T) {
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

func TestPermitThatIsNotUsedReturns(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.limited()
		a.asleep = true
		a.join(4)
		pass(10 * ms)
		require.True(t, a.may())
		pass(16 * time.Second)
		b.join(5)
		pass(10 * ms)
		require.False(t, a.may(), "the permit is void after half of the lease")
		pass(10 * ms)
		assert.True(t, a.may(), "the request must be at the head of the queue again")
		assert.Equal(t, 1, b.leaves())
	})
}

func TestForecastCountsRequestsOfOtherProcesses(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.limited()
		a.join(4)
		pass(10 * ms)
		b.join(12)
		pass(10 * ms)
		a.join(1)
		pass(10 * ms)
		for ahead := range 2 { // the 12 or 13 requests before it need the rest of this window, and two more windows
			assert.InDelta(t, 2960*ms, a.forecast(ahead).Wait, float64(50*ms))
		}
		assert.InDelta(t, 960*ms, b.forecast(0).Wait, float64(60*ms))
	})
}

// Process a does not learn that the requests of process b have left. After a while a must no longer count these
// requests in its forecasts.
func TestForecastForgetsRequestsOfOtherProcesses(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.limited()
		a.join(4)
		pass(10 * ms)
		b.join(12)
		pass(10 * ms)
		a.join(1)
		pass(10 * ms)
		require.Greater(t, a.forecast(0).Wait, 2*time.Second)
		a.leave(1)
		for range 4 {
			a.answer(headers(5, 0, 900*ms, 1000))
		}
		pass(300 * ms)
		b.leave(12)
		pass(5 * time.Second)
		assert.Zero(t, a.forecast(0).Wait)
	})
}

// The place of a request in the queue must depend on its arrival, even if the call that reports the request is slow.
func TestSlowCallCostsNoPlaceInTheQueue(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.usedUp(900 * ms)
		pass(10 * ms)
		before := a.leaves()
		w.server.Decide(func(string) memoryengine.Fate { return memoryengine.Fate{Before: 30 * ms} })
		a.join(1)
		pass(2 * ms)
		w.server.Decide(nil)
		a.join(1) // the next call reports this request, and overtakes the slow call
		pass(4 * ms)
		b.join(7) // still before the slow call reaches the server
		pass(1050 * ms)
		require.Equal(t, before+1, a.leaves(), "one request must be sent first when the bucket opens")
		require.Zero(t, b.leaves())
		a.answer(headers(5, 4, time.Second, 2000))
		pass(10 * ms)
		assert.Equal(t, before+2, a.leaves())
	})
}

// A permit must be used by the request that is first when the permit is used, not by the request that was first when
// the permit was granted.
func TestPermitOfARequestThatLeavesIsForTheNextOneOfItsProcess(t *testing.T) {
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
		assert.Equal(t, calls, w.server.Calls()["swap"], "other processes need not learn of this")
		a.leave(1)
		b.join(4)
		pass(10 * ms)
		assert.Equal(t, 4, b.leaves())
	})
}

// A bucket with a limit of five has counted one request of process a. A call of process a is lost or late. Then process
// b sends as many requests as it can. Each request that was sent must be charged exactly once.
func TestLostAndLateCallsChangeNoCharge(t *testing.T) {
	for name, c := range map[string]struct {
		fate memoryengine.Fate
		do   func(a *user)
		a, b int // number of requests that each process has sent in the end
	}{
		"lost reply to a grant": {memoryengine.Fate{LostReply: true}, func(a *user) { a.join(2) }, 3, 2},
		"lost reply to a grant for requests that leave": {memoryengine.Fate{LostReply: true}, func(a *user) {
			a.join(2)
			pass(100 * ms)
			a.leave(2)
		}, 1, 4},
		"late call of a request that leaves": {memoryengine.Fate{Before: 3 * time.Second}, func(a *user) {
			a.join(1)
			pass(100 * ms)
			a.leave(1)
			pass(2400 * ms)
		}, 1, 5}, // after the window has ended
		"lost call of an adopted request": {memoryengine.Fate{Lost: true}, (*user).adopt, 1, 3},
	} {
		eachWorld(t, name, func(t *testing.T, w *world) {
			a, b := w.limited()
			w.fates("swap", c.fate)
			c.do(a)
			pass(600 * ms)
			assert.Equal(t, c.a, a.leaves())
			b.join(5)
			pass(10 * ms)
			assert.Equal(t, c.b, b.leaves())
		})
	}
}

func TestLostReportIsRepeated(t *testing.T) {
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
		pass(200 * ms)
		assert.Equal(t, 5, b.leaves(), "the window must end 2 s after the response, not 2 s after its report")
	})
}

func TestRequestWithoutOutcomeEndsWithItsLease(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.contested(shared.WithLease(5 * time.Second))
		b.join(3)
		pass(4500 * ms)
		require.Zero(t, b.leaves())
		pass(1500 * ms)
		assert.True(t, b.served(1), "the next request must discover the limit")
		assert.Equal(t, 1, a.leaves())
	})
}

func TestProcessWithoutNewsMakesNoCalls(t *testing.T) {
	inWorld(t, func(w *world) {
		w.contested()
		pass(40 * time.Second) // until the lease of the request in flight has ended
		calls := w.server.Total()
		pass(time.Minute)
		assert.Equal(t, calls, w.server.Total())
		b := w.process().use(someKey)
		b.bucket.Hold(w.now(), ms/2, 0) // this hold ends before the process knows the server's clock
		pass(5 * time.Second)
		require.Greater(t, w.server.Total(), calls)
		calls = w.server.Total()
		pass(10 * time.Second)
		assert.Equal(t, calls, w.server.Total())
		b.bucket.Hold(w.now(), time.Minute, 0)
		pass(5 * time.Second)
		require.Greater(t, w.server.Total(), calls)
		calls = w.server.Total()
		pass(50 * time.Second)
		assert.Equal(t, calls, w.server.Total(), "the server knows the hold, so no more calls are needed")
	})
}

// With 100,000 waiting requests, an arrival must cost little time, because only the first arrivals are read.
func TestManyWaitingRequestsDoNotSlowDownAnArrival(t *testing.T) {
	inWorld(t, func(w *world) {
		a, _ := w.limited()
		const waiting = 100_000
		read := 0
		a.mu.Lock()
		defer a.mu.Unlock()
		a.bucket.Demand(w.now(), waiting, func(yield func(time.Duration) bool) {
			for read < waiting && yield(w.now()) {
				read++
			}
		})
		assert.Less(t, read, 100)
	})
}

// The size of a call must be bounded even if 5000 waiting requests are cancelled at the same time.
func TestCallHasABoundedSize(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.limited()
		a.asleep = true
		a.join(5000)
		b.join(4)
		pass(100 * ms)
		a.leave(5000)
		pass(100 * ms)
		assert.Less(t, a.link.largest(), 2000, "size of the values in the largest call, in bytes")
		assert.True(t, b.served(4))
	})
}

// A key may contain the id of a major parameter, but must contain no token and no authorization.
func TestKeysContainNoSecrets(t *testing.T) {
	inWorld(t, func(w *world) {
		p := w.process()
		p.use(shared.Key{Credential: p.session.Credential("Bot secret"), Hash: "h", Major: "7:secret"}).join(1)
		p.use(shared.Key{Hash: "h", Major: "1"}).join(1)
		pass(10 * ms)
		keys := strings.Join(w.server.Keys(), " ")
		assert.NotContains(t, keys, "secret")
		assert.Contains(t, keys, "/h/1")
	})
}

// refusal returns a 429 of the given class.
func refusal(class ratelimits.Class, wait time.Duration) ratelimits.Response {
	return ratelimits.Response{Status: 429, Class: class, HasRetryAfter: true, RetryAfter: wait}
}

func TestAfterA429OneRequestGoesFirst(t *testing.T) {
	for class, follow := range map[ratelimits.Class]int{
		ratelimits.ClassUser: 4, ratelimits.ClassShared: 1, // ClassShared: as many as were sent before the 429
	} {
		eachWorld(t, class.String(), func(t *testing.T, w *world) {
			a, b := w.limited()
			a.join(1)
			pass(10 * ms)
			a.answer(refusal(class, 3*time.Second))
			pass(10 * ms)
			b.join(5)
			pass(10 * ms)
			a.join(1) // so that the bucket is not lent
			pass(10 * ms)
			f := b.forecast(0)
			assert.Equal(t, class, f.Class)
			assert.InDelta(t, 3*time.Second, f.Wait, float64(50*ms))
			pass(2930 * ms)
			assert.Zero(t, b.leaves())
			pass(100 * ms)
			assert.Equal(t, 1, b.leaves())
			pass(500 * ms)
			assert.Equal(t, 1, b.leaves())
			b.answer(headers(5, 4, time.Second, 5000))
			pass(50 * ms)
			assert.Equal(t, 1+follow, b.leaves())
		})
	}
}

func Test429OfAnotherLimitReturnsThePermit(t *testing.T) {
	for _, class := range []ratelimits.Class{ratelimits.ClassGlobal, ratelimits.ClassEdge} {
		eachWorld(t, class.String(), func(t *testing.T, w *world) {
			a, b := w.limited()
			a.join(1)
			pass(10 * ms)
			a.answer(refusal(class, 3*time.Second))
			b.join(5)
			pass(10 * ms)
			assert.Equal(t, 4, b.leaves())
		})
	}
}

func TestHoldAppliesToAllProcessesAndIsOnlyExtended(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.limited()
		a.bucket.Hold(w.now(), 2*time.Second, ratelimits.ClassSubLimit)
		a.bucket.Hold(w.now(), 300*ms, ratelimits.ClassUser)
		b.bucket.Hold(w.now(), 500*ms, ratelimits.ClassUser)
		pass(10 * ms)
		b.join(3)
		pass(10 * ms)
		a.join(1)
		pass(10 * ms)
		assert.Equal(t, ratelimits.ClassSubLimit, b.forecast(0).Class)
		pass(1940 * ms)
		assert.Zero(t, b.leaves())
		pass(100 * ms)
		assert.Equal(t, 1, b.leaves())
	})
}

// A request has a permit and waits for the global limit. Meanwhile another process learns of a hold. The hold must also
// apply to this request.
func TestHoldAppliesToARequestWithAPermit(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.limited()
		a.asleep = true
		a.join(1)
		pass(10 * ms)
		require.True(t, a.may())
		b.bucket.Hold(b.now(), 3*time.Second, ratelimits.ClassShared)
		pass(10 * ms)
		assert.False(t, a.may())
		pass(2900 * ms)
		assert.False(t, a.may())
		pass(100 * ms)
		assert.True(t, a.mayOrOwns())
	})
}

// Each of several 429s in a row makes the hold longer. After the 429s a request uses a permit from before them, and
// succeeds. The hold of the next 429 must be short again.
func TestHoldsBecomeShortAgainAfterASuccessWithAnOldPermit(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.limited()
		a.asleep = true
		a.join(1)
		pass(10 * ms)
		refused := func() {
			b.adopt()
			b.answer(refusal(ratelimits.ClassUser, 100*ms))
			pass(10 * ms)
		}
		for range 6 {
			refused()
			pass(b.forecast(0).Wait + 10*ms)
		}
		a.asleep = false
		a.changed()
		pass(50 * ms)
		require.Equal(t, 2, a.leaves())
		a.answer(headers(5, 4, 900*ms, 5000))
		pass(300 * ms)
		refused()
		a.join(1)
		pass(time.Second)
		assert.Equal(t, 3, a.leaves(), "the hold must be short")
	})
}

// A manager reads the clock once for several calls of methods, so the session's clock may be ahead of that time. A
// granted request must be allowed to leave at the time that the manager has read.
func TestAGrantedRequestMayLeaveAtTheTimeThatTheManagerHasRead(t *testing.T) {
	inWorld(t, func(w *world) {
		a, _ := w.limited()
		a.asleep = true
		a.join(1)
		pass(10 * ms)
		before := a.now() - ms
		at, ok := a.bucket.Next(before)
		require.True(t, ok)
		assert.Equal(t, before, at)
	})
}

func TestLoanBringsAndReturnsAHold(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.lent()
		b.join(1)
		pass(10 * ms)
		a.giveBack(ratelimits.State{Limit: 5, Period: time.Second, Hold: 2 * time.Second, HoldClass: ratelimits.ClassShared})
		pass(30 * ms)
		f := b.forecast(0)
		assert.Equal(t, ratelimits.ClassShared, f.Class)
		assert.InDelta(t, 2*time.Second, f.Wait, float64(50*ms))
		pass(1900 * ms)
		assert.Zero(t, b.leaves())
		pass(200 * ms)
		assert.True(t, b.leaves() == 1 || b.lent && b.window.Probing())
	})
}

// Neither a hold nor a response may hold a bucket for more than a day.
func TestNoHoldLastsLongerThanADay(t *testing.T) {
	respond := func(r ratelimits.Response) func(a *user) {
		return func(a *user) {
			a.join(4)
			pass(10 * ms)
			for range 4 {
				a.answer(r)
			}
		}
	}
	for name, hold := range map[string]func(a *user){
		"hold":   func(a *user) { a.bucket.Hold(a.now(), math.MaxInt64, ratelimits.ClassUser) },
		"shared": respond(refusal(ratelimits.ClassShared, 1000*time.Hour)),
		"window": respond(headers(5, 0, 1000*time.Hour, 2000)),
	} {
		eachWorld(t, name, func(t *testing.T, w *world) {
			a, b := w.limited()
			hold(a)
			pass(10 * ms)
			for _, u := range []*user{b, a} {
				u.join(1)
				pass(10 * ms)
				assert.InDelta(t, ratelimits.LongestTrust.Hours(), u.forecast(0).Wait.Hours(), 1)
			}
		})
	}
}
