package shared_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets/shared"
	"github.com/ratelight/ratelight/ratelimits"
)

// declares returns a user of a bucket with a declared limit.
func (p *process) declares(limit int, period time.Duration) *user {
	u := &user{process: p}
	u.window.Declare(limit, period)
	u.mu.Lock() // changed may be called at once
	defer u.mu.Unlock()
	u.bucket = p.session.Bucket(someKey, &u.window, u.changed)
	return u
}

// answers reports a success for each request in flight.
func (u *user) answers() {
	for u.inFlight() > 0 {
		u.answer(ratelimits.Response{Status: 200})
	}
	pass(10 * ms)
}

// gone removes all waiting requests, because they would cause calls all the time.
func gone(all ...*user) {
	for _, u := range all {
		u.mu.Lock()
		n := len(u.arrivals)
		u.mu.Unlock()
		u.leave(n)
	}
	pass(10 * ms)
}

// A declared limit is known from the first request on. So all processes together must send at once as many requests as
// the limit allows, and must not exceed the limit in any period.
func TestDeclaredLimitIsKeptFromTheFirstRequestOn(t *testing.T) {
	t.Parallel()
	for _, period := range []time.Duration{20 * time.Second, 10 * time.Minute, 24 * time.Hour} {
		inWorld(t, func(w *world) {
			a, b := w.process().declares(5, period), w.process().declares(5, period)
			a.join(3)
			b.join(3)
			pass(50 * ms)
			assert.Equal(t, 5, a.leaves()+b.leaves())
			a.answers()
			b.answers()
			gone(a, b)
			pass(period - 2*time.Second)
			a.join(1)
			pass(1500 * ms)
			assert.Equal(t, 5, a.leaves()+b.leaves())
			pass(2 * time.Second)
			assert.Equal(t, 6, a.leaves()+b.leaves())
		})
	}
}

// A 429 says nothing about a declared limit, so it must not end the loan of such a limit.
func TestLoanOfADeclaredLimitOutlivesA429(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		u := w.process().declares(5, 5*time.Second)
		u.join(1)
		pass(50 * ms)
		require.True(t, u.lent)
		u.mu.Lock()
		now := u.now()
		for range 5 {
			p, ok := u.bucket.Take(now)
			require.True(t, ok)
			u.bucket.Report(now, p, refusal(ratelimits.ClassUser, time.Second))
		}
		u.mu.Unlock()
		pass(50 * ms)
		u.mu.Lock()
		defer u.mu.Unlock()
		assert.True(t, u.bucket.Predict(u.now(), 0).Own)
		assert.Equal(t, 5, u.window.Remaining(u.now()), "a request that got a 429 must not count")
	})
}

// A process with a loan does not notice that the server has lost the key of the limit, so the limit may be lent to a
// second process. The first loan must end within a minute.
func TestDeclaredLimitThatIsLentTwiceIsOverrunForAMinuteAtMost(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		u := w.process().declares(5, 5*time.Second)
		u.join(1)
		pass(50 * ms)
		require.True(t, u.lent)
		w.evict("b")
		pass(time.Minute)
		assert.LessOrEqual(t, u.until(), w.now())
	})
}

// After a loss, the requests that living processes know must stay charged. The remaining permits must be available
// soon, although the period is a day.
func TestDeclaredLimitOutlivesALossOfState(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(w *world){
		"flushed":                func(w *world) { w.server.Flush() },
		"evicted":                func(w *world) { w.evict("b") },
		"clock set back":         func(w *world) { w.step(-time.Hour) },
		"clock set back further": func(w *world) { w.step(-365 * 24 * time.Hour) },
		"evicted long after": func(w *world) {
			pass(8 * time.Hour)
			w.evict("b")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inWorld(t, func(w *world) {
				a, b := w.process().declares(5, 24*time.Hour), w.process().declares(5, 24*time.Hour)
				a.join(2)
				b.join(1)
				pass(50 * ms)
				a.answers()
				b.answers()
				require.Equal(t, 3, a.leaves()+b.leaves())
				lose(w)
				since := time.Now()
				b.join(1) // so that a process notices the loss
				pass(1800 * ms)
				a.join(9)
				pass(3 * time.Second)
				assert.Equal(t, 5, a.leaves()+b.leaves())
				a.answers()
				b.answers()
				gone(a, b)
				pass(24*time.Hour - time.Since(since) - 5*time.Second)
				a.join(9)
				pass(3 * time.Second)
				assert.LessOrEqual(t, a.leaves()+b.leaves(), 8, "only the first three requests are a period old")
				pass(time.Minute)
				assert.GreaterOrEqual(t, a.leaves()+b.leaves(), 8)
			})
		})
	}
}

// The requests in flight of a dead process must count for a whole period, even if no process uses the bucket in that
// time.
func TestRequestsOfADeadProcessCountForAPeriod(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		dies := w.process()
		a := dies.declares(2, time.Hour)
		a.join(1)
		pass(50 * ms)
		require.Equal(t, 1, a.leaves())
		dies.link.kill(true)
		pass(50 * time.Minute)
		b := w.process().declares(2, time.Hour)
		b.join(3)
		pass(10 * time.Second)
		assert.Equal(t, 1, b.leaves())
	})
}

// During an outage, the policy decides whether a process must send nothing, keep to its share of the declared limit, or
// keep to the whole limit.
func TestDeclaredLimitDuringAnOutage(t *testing.T) {
	t.Parallel()
	for policy, want := range map[shared.Outage][2]int{ // total of requests sent at once, and after a period
		shared.OutageWait: {0, 0}, shared.OutageShare: {0, 2}, shared.OutageFull: {4, 8},
	} {
		t.Run(policy.String(), func(t *testing.T) {
			t.Parallel()
			inWorld(t, func(w *world) {
				declares := func() *user { return w.process(shared.WithOutage(policy)).declares(4, time.Minute) }
				a, b := declares(), declares()
				a.join(1)
				b.join(1)
				pass(50 * ms)
				a.answers()
				b.answers()
				pass(2 * time.Minute)
				w.server.SetDown(true)
				a.join(1)
				pass(5 * time.Second)
				n := a.sendsAll()
				assert.Equal(t, want[0], n)
				pass(61 * time.Second)
				assert.Equal(t, want[1], n+a.sendsAll())
			})
		})
	}
}

func TestDeclaredLimitThatIsFirstUsedDuringAnOutage(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.server.SetDown(true)
		u := w.process(shared.WithOutage(shared.OutageFull)).declares(4, time.Minute)
		u.join(1)
		pass(5 * time.Second)
		assert.Equal(t, 4, u.sendsAll())
	})
}

// sendsAll sends as many requests as the loan allows, and returns their number.
func (u *user) sendsAll() (n int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for now := u.now(); ; n++ {
		p, ok := u.bucket.Take(now)
		if !ok {
			return n
		}
		u.bucket.Report(now, p, ratelimits.Response{Status: 200})
	}
}
