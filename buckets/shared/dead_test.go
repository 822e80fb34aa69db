package shared_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets/shared"
	"github.com/ratelight/ratelight/internal/memoryengine"
	"github.com/ratelight/ratelight/ratelimits"
)

func TestDeadProcessWithEarlierRequestsCostsASessionTime(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.limited()
		b.asleep = true
		b.join(100)
		pass(10 * ms)
		b.link.kill(true)
		a.join(5)
		pass(2 * time.Second)
		require.Equal(t, 1, a.leaves(), "the requests of process b arrived earlier")
		pass(3 * time.Second)
		assert.True(t, a.leaves() > 1 || a.lent)
	})
}

func TestDeadProcessThatFindsTheLimitCostsASessionTime(t *testing.T) {
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

// A permit must be void when its process counts as dead, and must stay void when the process is alive again.
func TestPermitIsVoidWhenItsProcessCountsAsDead(t *testing.T) {
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
		a.link.kill(false)
		pass(100 * ms)
		assert.False(t, a.may(), "another process may have the permit now")
		pass(3 * time.Second)
		assert.True(t, a.mayOrOwns(), "the process must ask for another permit")
	})
}

func TestLoanOfADeadProcessEnds(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.lent()
		a.link.kill(true)
		b.join(1)
		pass(2900 * ms)
		assert.Zero(t, b.leaves())
		assert.False(t, b.lent)
		assert.Less(t, a.until(), w.now(), "the holder must stop before another process starts")
		pass(10200 * ms) // the longest period, because no process knows the window's period
		require.True(t, b.leaves() == 1 || b.lent)
		// The holder makes calls again, and returns its loan.
		if b.leaves() == 1 {
			b.answer(headers(5, 2, time.Second, 5000))
		}
		a.link.kill(false)
		a.giveBack(ratelimits.State{Limit: 5, Used: 1, Reset: 300 * ms, Period: time.Second}, w.now())
		pass(time.Second)
	})
}

// The holder of a loan counts as dead for a moment between two of its beats (calls that show that it is alive). The
// loan must end.
func TestLoanDoesNotOutliveItsHoldersLife(t *testing.T) {
	inWorld(t, func(w *world) {
		p := w.process()
		a, other, b := p.use(someKey), p.use(elsewhere), w.process().use(someKey)
		a.join(1)
		pass(500 * ms)
		require.True(t, a.lent)
		other.join(1) // this call is half way between two beats, so the session counts as alive until 3.5 s
		pass(10 * ms)
		p.link.kill(true)
		pass(3050 * ms)
		b.join(1) // process b takes the bucket over
		pass(100 * ms)
		p.link.kill(false)
		pass(300 * ms)
		assert.LessOrEqual(t, a.until(), w.now())
		pass(2 * time.Second)
		assert.LessOrEqual(t, a.until(), w.now())
	})
}

// The holder of a loan learns from a response that the period is longer than was known. The other processes must learn
// the longer period even if the holder dies.
func TestLongerPeriodOutlivesTheHolderOfALoan(t *testing.T) {
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
			require.False(t, b.mayOrOwns(), "may send after %v", w.now()-learnt)
			require.Zero(t, b.leaves(), "sent after %v", w.now()-learnt)
			pass(500 * ms)
		}
	})
}

// The last call of a session must shorten the time for which this session counts as alive. The call must not shorten
// that time for another session, which has a loan.
func TestClosingSessionDoesNotEndAnotherSessionsLoan(t *testing.T) {
	inWorld(t, func(w *world) {
		p, q := w.process(), w.process()
		a, b, c := p.use(someKey), q.use(someKey), w.process().use(someKey)
		a.join(1)
		pass(1100 * ms)
		require.True(t, a.lent)
		p.link.kill(true) // for less time than the session counts as alive
		b.join(1)
		pass(50 * ms)
		b.bucket.Hold(w.now(), time.Second, 0) // the last call reports this hold
		q.session.Close()
		pass(1300 * ms)
		c.join(1)
		pass(100 * ms)
		require.Greater(t, a.until(), w.now())
		assert.False(t, c.lent)
		assert.Zero(t, c.leaves())
	})
}

// In thirty processes requests wait for a bucket of one request a second. Most of these processes make no calls, so the
// other processes have to ask whether these are alive. The others must ask only once in three seconds.
func TestManyWaitingProcessesAskSeldomWhetherTheOthersAreAlive(t *testing.T) {
	inWorld(t, func(w *world) {
		var all []*user
		for range 30 {
			u := w.process().use(someKey)
			all = append(all, u)
			u.join(5)
			pass(3 * ms)
		}
		all[0].giveBack(ratelimits.State{Limit: 1, Period: time.Second})
		for range 60 {
			pass(500 * ms)
			for _, u := range all {
				if u.inFlight() > 0 {
					u.answer(headers(1, 0, 900*ms, w.now().Milliseconds()/1000*1000))
				}
			}
		}
		lives := 0
		for _, u := range all {
			u.link.mu.Lock()
			lives += u.link.lives
			u.link.mu.Unlock()
		}
		assert.Less(t, lives, 8000)
	})
}

// holder returns users of n buckets in one process. All of the buckets are lent to that process.
func (w *world) holder(n int) (all []*user) {
	p := w.process()
	for i := range n {
		key := someKey
		key.Major = strconv.Itoa(i)
		u := p.use(key)
		u.join(1)
		all = append(all, u)
	}
	pass(20 * ms)
	for _, u := range all {
		require.True(w.t, u.lent)
	}
	return all
}

func TestProcessThatWaitsForADeadHolderMakesFewCalls(t *testing.T) {
	long(t)
	inWorld(t, func(w *world) {
		const n = 200
		for _, u := range w.holder(n) {
			u.link.kill(true)
		}
		p, before := w.process(), w.server.Total()
		var waiting []*user
		for i := range n {
			key := someKey
			key.Major = strconv.Itoa(i)
			u := p.use(key)
			u.join(1)
			waiting = append(waiting, u)
		}
		pass(2900 * ms)
		assert.LessOrEqual(t, w.server.Total()-before, 17*n+3, "calls after 0, 25, 75, 175, 375 ms and so on")
		pass(10200 * ms) // the longest period, because no process knows the window's period
		for _, u := range waiting {
			require.True(t, u.served(1))
		}
	})
}

// holderIsCutOff returns users of one bucket in two processes. The bucket is lent to the first process, which has just
// lost its connection.
func (w *world) holderIsCutOff() (holder, other *user) {
	holder, other = w.lent()
	holder.link.kill(true)
	return holder, other
}

// Process b finds that process a is dead, but no longer needs a's loan. When b needs the bucket again, a is alive again
// and has a new loan. Process b must ask for that loan and must not take it.
func TestLoanOfAProcessThatHasComeBackIsNotTaken(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.holderIsCutOff()
		pass(4 * time.Second)
		w.server.Decide(func(string) memoryengine.Fate { return memoryengine.Fate{After: 100 * ms} })
		b.join(1)
		for b.link.called() < 3 { // calls 1 and 2 load the time and the bucket, call 3 asks whether the holder is alive
			pass(ms)
		}
		b.leave(1)
		pass(time.Second)
		a.link.kill(false)
		pass(5 * time.Second)
		a.lent = false
		a.join(1)
		pass(30 * time.Second)
		require.True(t, a.lent)
		b.join(1)
		pass(2 * time.Second)
		assert.True(t, a.wanted(), "process b must ask for the loan, not take it")
	})
}

// Process b asks whether process a is alive. The reply says that a is dead. When the reply arrives, a has a new loan.
// Process b must not take the new loan.
func TestNewLoanOfAProcessThatCountedAsDeadIsNotTaken(t *testing.T) {
	for offset := time.Duration(0); offset < 1200*ms; offset += 50 * ms {
		inWorld(t, func(w *world) {
			a, b := w.holderIsCutOff()
			pass(4 * time.Second)
			a.giveBack(ratelimits.State{Limit: 5, Period: time.Second})
			a.join(1)
			pass(100*ms + offset)
			w.server.Decide(func(purpose string) memoryengine.Fate {
				if b.link.called() == 3 { // this call asks whether the holder is alive
					return memoryengine.Fate{Before: ms / 2, After: 400 * ms}
				}
				return near(purpose)
			})
			b.join(1)
			for b.link.called() < 3 {
				pass(ms / 4)
			}
			w.server.Decide(near)
			a.link.kill(false)
			pass(5 * time.Second)
			used := b.leaves() > 0 || b.lent
			assert.False(t, used && a.lent && !a.wanted() && a.until() > w.now(), "both use the bucket, offset %v", offset)
		})
	}
}

// After an outage, process b makes calls again earlier than the process with the loan (the holder), which alone knows
// the limit. Process b must not conclude that the holder is dead.
func TestHolderThatComesBackLaterAfterAnOutageIsNotDead(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.holderIsCutOff()
		w.server.SetDown(true)
		b.join(1)
		pass(6 * time.Second)
		w.server.SetDown(false)
		pass(1100 * ms)
		require.Nil(t, b.process.session.(shared.Monitor).Outage())
		a.link.kill(false)
		a.giveBack(ratelimits.State{Limit: 5, Used: 4, Period: time.Second})
		pass(2 * time.Second)
		assert.Equal(t, 1, b.leaves(), "process b must not wait for the longest possible period")
	})
}

func TestDeadHolderIsFoundWhileTheServerComesAndGoes(t *testing.T) {
	inWorld(t, func(w *world) {
		_, b := w.holderIsCutOff()
		b.join(1)
		for range 20 {
			pass(1200 * ms)
			w.server.SetDown(true)
			pass(300 * ms)
			w.server.SetDown(false)
		}
		assert.True(t, b.mayOrOwns() || b.leaves() > 0, "no request was sent in half a minute")
	})
}

// The server goes back to a state in which a dead process has the bucket's loan and the limit is not known. A process
// that knows the limit must wait for the period of that limit, not for the longest possible period.
func TestTakenOverLoanIsWaitedOutForTheKnownPeriod(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.lent()
		lent := w.server.Value(bucketKey)
		require.NotEmpty(t, lent)
		b.join(1)
		pass(100 * ms)
		a.giveBack(ratelimits.State{Limit: 5, Period: time.Second})
		pass(100 * ms)
		b.answer(headers(5, 4, time.Second, 0))
		a.link.kill(true)
		pass(10 * time.Second)
		w.server.Set(bucketKey, lent)
		b.lent = false
		b.join(1)
		pass(4 * time.Second)
		assert.True(t, b.mayOrOwns() || b.leaves() > 1)
	})
}
