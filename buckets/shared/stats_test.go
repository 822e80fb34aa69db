package shared_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets/shared"
)

func (p *process) stats() shared.Stats { return p.session.(shared.Monitor).Stats() }

// sum adds up the counts of all scripts.
func sum(s shared.Stats) (all shared.Calls) {
	for _, c := range s.Calls {
		all.Calls += c.Calls
		all.Errors += c.Errors
		all.Time += c.Time
	}
	return all
}

func TestStatsCountCallsByScript(t *testing.T) {
	inWorld(t, func(w *world) {
		p := w.process()
		require.Zero(t, p.stats())
		a, global := p.use(someKey), p.session.Global("bot", 50, func() {})
		a.join(1)
		global.Need(w.now(), 1, 0)
		pass(5500 * ms)
		s := p.stats()
		all := sum(s)
		assert.Equal(t, p.link.called(), int(all.Calls))
		assert.Equal(t, time.Duration(all.Calls)*ms, all.Time, "each takes a millisecond")
		assert.Zero(t, all.Errors)
		assert.EqualValues(t, 1, s.Calls["swap"].Calls)
		assert.InDelta(t, 6, s.Calls["beat"].Calls, 1)
		assert.Positive(t, s.Calls["part"].Calls)

		p.link.kill(true)
		pass(5 * time.Second)
		p.link.kill(false)
		pass(2 * time.Second)
		later := p.stats()
		assert.Greater(t, later.Calls["beat"].Errors, uint64(3))
		assert.Equal(t, p.link.called(), int(sum(later).Calls))
		assert.Equal(t, time.Duration(sum(later).Calls-sum(later).Errors)*ms, sum(later).Time, "those that failed took no time")
		assert.Less(t, s.Calls["beat"].Calls, later.Calls["beat"].Calls, "what was returned does not change any more")
	})
}

func TestStatsCountWhatBecomesOfLoans(t *testing.T) {
	inWorld(t, func(w *world) {
		p, q := w.process(), w.process()
		other := someKey
		other.Major = "2"
		a, b := p.use(someKey), p.use(other)
		a.join(1)
		b.join(1)
		pass(10 * ms)
		require.True(t, a.lent && b.lent)
		s := p.stats()
		assert.Equal(t, 2, s.Loans)
		assert.EqualValues(t, 2, s.LoansTaken)
		assert.Zero(t, s.LoansReturned+s.LoansExpired+s.LoansRecalled)

		q.use(someKey).join(1)
		pass(10 * ms)
		s = p.stats()
		assert.Equal(t, 2, s.Loans)
		assert.EqualValues(t, 1, s.LoansRecalled)
		a.giveBack(w.five())
		pass(10 * ms)
		s = p.stats()
		assert.Equal(t, 1, s.Loans)
		assert.EqualValues(t, 1, s.LoansReturned)

		p.link.kill(true)
		pass(5 * time.Second)
		require.Less(t, b.until(), w.now())
		b.giveBack(w.five())
		s = p.stats()
		assert.Zero(t, s.Loans)
		assert.EqualValues(t, 2, s.LoansTaken)
		assert.EqualValues(t, 1, s.LoansReturned)
		assert.EqualValues(t, 1, s.LoansExpired)
		assert.EqualValues(t, 1, s.LoansRecalled)
	})
}

func TestStatsCountLoansThatALossOfStateHasEnded(t *testing.T) {
	inWorld(t, func(w *world) {
		a := w.process().use(someKey)
		a.join(1)
		pass(1500 * ms)
		require.True(t, a.lent)
		require.Zero(t, a.stats().Losses)
		w.server.Flush()
		pass(1500 * ms)
		require.True(t, a.wanted())
		a.giveBack(w.five())
		pass(10 * ms)
		s := a.stats()
		assert.Zero(t, s.Loans)
		assert.EqualValues(t, 1, s.LoansExpired)
		assert.Zero(t, s.LoansReturned)
		assert.Zero(t, s.LoansRecalled, "nobody else has asked for it")
		assert.Positive(t, s.Losses)
	})
}

func TestLoansOfAnOutageAreNotCounted(t *testing.T) {
	inWorld(t, func(w *world) {
		p := w.process(shared.WithOutage(shared.OutageFull))
		a := p.use(someKey)
		p.link.kill(true)
		a.join(1)
		pass(2 * time.Second)
		require.True(t, a.lent)
		assert.Zero(t, p.stats().Loans)
		p.link.kill(false)
		pass(2 * time.Second)
		require.True(t, a.wanted())
		a.giveBack(w.five())
		pass(10 * ms)
		s := p.stats()
		assert.Zero(t, s.Loans)
		assert.Zero(t, s.LoansTaken+s.LoansReturned+s.LoansExpired+s.LoansRecalled)
	})
}

func TestStatsCountEveryBucketWhoseStateWasLost(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.limited()
		a.join(2)
		b.join(2)
		pass(10 * ms)
		require.Zero(t, a.stats().Losses+b.stats().Losses)
		require.True(t, w.server.Evict("rl2:{default}:b:0123456789abcdef/hash/1"))
		a.join(1)
		pass(10 * ms)
		assert.EqualValues(t, 1, a.stats().Losses)
		w.server.Flush()
		pass(1500 * ms)
		assert.GreaterOrEqual(t, a.stats().Losses, uint64(2))
		assert.Positive(t, b.stats().Losses)
	})
}

func TestStatsCountALossOfTheGlobalLimit(t *testing.T) {
	inWorld(t, func(w *world) {
		p := w.process()
		global := p.session.Global("bot", 50, func() {})
		for range 20 {
			global.Need(w.now(), 1, 1)
			pass(100 * ms)
		}
		require.Zero(t, p.stats().Losses)
		require.True(t, w.server.Evict("rl2:{default}:g:bot"))
		for range 30 {
			global.Need(w.now(), 1, 1)
			pass(100 * ms)
		}
		assert.EqualValues(t, 1, p.stats().Losses)
	})
}

func TestStatsCountStepsOfTheServersClock(t *testing.T) {
	inWorld(t, func(w *world) {
		a := w.process().use(someKey)
		a.join(1)
		pass(2500 * ms)
		require.Zero(t, a.stats().ClockSteps)
		for i, step := range []time.Duration{-5 * time.Second, 5050 * ms, time.Hour} {
			w.step(step)
			pass(2500 * ms)
			assert.EqualValues(t, i+1, a.stats().ClockSteps)
		}
		assert.Zero(t, a.stats().Suspensions)
	})
}

func TestStatsCountSuspensions(t *testing.T) {
	inWorld(t, func(w *world) {
		asleep := time.Duration(0)
		p := w.sleepy(&asleep)
		p.use(someKey).join(1)
		pass(1500 * ms)
		require.Zero(t, p.stats().Suspensions)
		for i := range 2 {
			asleep += time.Minute
			pass(1500 * ms)
			assert.EqualValues(t, i+1, p.stats().Suspensions)
		}
		assert.Zero(t, p.stats().ClockSteps)
	})
}

func TestStatsSayWhatIsHadAndNeededOfTheGlobalLimit(t *testing.T) {
	inWorld(t, func(w *world) {
		p, q := w.process(), w.process()
		require.Zero(t, p.stats().Quota+p.stats().QuotaNeed)
		global, theirs := p.session.Global("bot", 50, func() {}), q.session.Global("bot", 50, func() {})
		for range 30 {
			global.Need(w.now(), 200, 0)
			theirs.Need(w.now(), 200, 0)
			pass(100 * ms)
		}
		assert.Equal(t, 25, p.stats().Quota)
		assert.Equal(t, 50, p.stats().QuotaNeed)
		assert.Equal(t, 25, q.stats().Quota)
		p.link.kill(true)
		pass(5 * time.Second)
		assert.Zero(t, p.stats().Quota)
		global.Close()
		p.session.Close()
		assert.Zero(t, p.stats().QuotaNeed)
	})
}

func TestStatsCountOutages(t *testing.T) {
	inWorld(t, func(w *world) {
		p := w.process()
		p.use(someKey).join(1)
		pass(2 * time.Second)
		last := time.Duration(0)
		total := func(now, altogether, outages int) {
			t.Helper()
			s := p.stats()
			assert.InDelta(t, now, s.Outage.Seconds(), 1.1)
			assert.Equal(t, now > 0, s.Outage > 0)
			assert.InDelta(t, altogether, s.OutageTime.Seconds(), 1.1*float64(outages)) // it is noticed by the next beat
			assert.EqualValues(t, outages, s.Outages)
			assert.GreaterOrEqual(t, s.OutageTime, last)
			last = s.OutageTime
		}
		total(0, 0, 0)
		for i := range 2 {
			w.server.SetDown(true)
			pass(5 * time.Second)
			total(5, 10*i+5, i+1)
			pass(5 * time.Second)
			total(10, 10*i+10, i+1)
			w.server.SetDown(false)
			pass(2 * time.Second)
			total(0, 10*i+10, i+1)
		}
		w.server.SetDown(true)
		pass(5 * time.Second)
		p.session.Close()
		total(0, 25, 3)
		pass(time.Minute)
		total(0, 25, 3)
	})
}

func TestStatsGoOnWhenAManagerIsStartedAgain(t *testing.T) {
	inWorld(t, func(w *world) {
		f := w.both()
		defer f.close()
		m := f.managers[0]
		pass(2 * time.Second)
		for range 3 { // nobody else uses this one
			require.NoError(t, f.post(context.Background(), 0, 7))
		}
		before := m.Stats().Shared
		require.Positive(t, before.LoansTaken)
		require.NoError(t, m.Close())
		closed := m.Stats().Shared
		assert.Zero(t, closed.Loans)
		require.NoError(t, m.Start())
		again := m.Stats().Shared
		assert.GreaterOrEqual(t, sum(closed).Calls, sum(before).Calls)
		assert.Equal(t, sum(closed), sum(again))
		assert.Equal(t, closed.LoansTaken, again.LoansTaken)
		assert.Zero(t, again.Loans)
		require.NoError(t, f.post(context.Background(), 0, 1))
		pass(2 * time.Second)
		require.NoError(t, f.post(context.Background(), 0, 1))
		assert.Greater(t, sum(m.Stats().Shared).Calls, sum(closed).Calls)
	})
}

func TestStatsCanBeReadWhileEverythingMoves(t *testing.T) {
	inWorld(t, func(w *world) {
		f := w.both()
		defer f.close()
		ctx, stop := context.WithCancel(context.Background())
		for i := range 2 {
			f.all.Go(func() {
				for ctx.Err() == nil {
					s := f.managers[i].Stats().Shared
					assert.GreaterOrEqual(t, s.Loans, 0)
					time.Sleep(ms)
				}
			})
			f.all.Go(func() {
				for n := range 40 {
					assert.NoError(t, f.post(context.Background(), i, n%3))
				}
			})
		}
		pass(30 * time.Second)
		stop()
		f.all.Wait()
	})
}
