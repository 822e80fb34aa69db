package shared_test

import (
	"context"
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets/shared"
)

func (p *process) stats() shared.Stats { return p.session.(shared.Monitor).Stats() }

// sum returns the sum of the calls for all purposes.
func sum(s shared.Stats) (all shared.Calls) {
	for _, c := range s.Calls {
		all.Calls += c.Calls
		all.Errors += c.Errors
		all.Time += c.Time
	}
	return all
}

func TestStatsCountCallsByPurpose(t *testing.T) {
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
		assert.Equal(t, time.Duration(all.Calls)*ms, all.Time, "each call must take a millisecond")
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
		assert.Equal(t, time.Duration(sum(later).Calls-sum(later).Errors)*ms, sum(later).Time, "a failed call takes no time")
		assert.Less(t, s.Calls["beat"].Calls, later.Calls["beat"].Calls, "the earlier result of Stats must not change")
	})
}

// When a manager is started again, its counters must continue. Values that describe the present must be those of the
// new session.
func TestStatsOfEarlierSessionsAreAdded(t *testing.T) {
	t.Parallel()
	one := shared.Stats{Calls: map[string]shared.Calls{"swap": {Calls: 1, Errors: 1, Time: 1}}}
	fields := reflect.ValueOf(&one).Elem()
	for i := range fields.NumField() {
		switch f := fields.Field(i); f.Kind() {
		case reflect.Uint64:
			f.SetUint(1)
		case reflect.Int, reflect.Int64:
			f.SetInt(1)
		}
	}
	two := one.After(&one)
	assert.Equal(t, shared.Calls{Calls: 2, Errors: 2, Time: 2}, two.Calls["swap"])
	for i := range fields.NumField() {
		field, sum := fields.Type().Field(i), reflect.ValueOf(two).Field(i)
		switch {
		case sum.Kind() == reflect.Uint64:
			assert.EqualValues(t, 2, sum.Uint(), field.Name)
		case field.Name == "OutageTime":
			assert.EqualValues(t, 2, sum.Int(), field.Name)
		case sum.CanInt():
			assert.EqualValues(t, 1, sum.Int(), field.Name)
		}
	}
}

// loanCounts holds the fields of Stats that count loans.
type loanCounts struct{ now, taken, returned, expired, recalled int }

func (p *process) loanCounts() loanCounts {
	s := p.stats()
	return loanCounts{s.Loans, int(s.LoansTaken), int(s.LoansReturned), int(s.LoansExpired), int(s.LoansRecalled)}
}

func TestStatsCountLoans(t *testing.T) {
	inWorld(t, func(w *world) {
		p, q := w.process(), w.process()
		a, b := p.use(someKey), p.use(elsewhere)
		a.join(1)
		b.join(1)
		pass(10 * ms)
		require.True(t, a.lent && b.lent)
		assert.Equal(t, loanCounts{now: 2, taken: 2}, p.loanCounts())

		q.use(someKey).join(1)
		pass(10 * ms)
		assert.Equal(t, loanCounts{now: 2, taken: 2, recalled: 1}, p.loanCounts())
		a.giveBack(w.five())
		pass(10 * ms)
		assert.Equal(t, loanCounts{now: 1, taken: 2, recalled: 1, returned: 1}, p.loanCounts())

		p.link.kill(true)
		pass(5 * time.Second)
		require.Less(t, b.until(), w.now())
		b.giveBack(w.five())
		assert.Equal(t, loanCounts{now: 0, taken: 2, recalled: 1, returned: 1, expired: 1}, p.loanCounts())
	})
}

func TestStatsCountALoanThatALossHasEnded(t *testing.T) {
	inWorld(t, func(w *world) {
		a, _ := w.lent()
		pass(1500 * ms)
		require.Zero(t, a.stats().Losses)
		w.server.Flush()
		pass(1500 * ms)
		require.True(t, a.wanted())
		a.giveBack(w.five())
		pass(10 * ms)
		assert.Equal(t, loanCounts{taken: 1, expired: 1}, a.loanCounts())
		assert.Positive(t, a.stats().Losses)
	})
}

func TestStatsDoNotCountLoansOfAnOutage(t *testing.T) {
	inWorld(t, func(w *world) {
		a := w.process(shared.WithOutage(shared.OutageFull)).use(someKey)
		a.link.kill(true)
		a.join(1)
		pass(2 * time.Second)
		require.True(t, a.lent)
		assert.Zero(t, a.loanCounts())
		a.link.kill(false)
		pass(2 * time.Second)
		require.True(t, a.wanted())
		a.giveBack(w.five())
		pass(10 * ms)
		assert.Zero(t, a.loanCounts())
	})
}

func TestStatsCountEveryBucketWhoseStateWasLost(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.limited()
		a.join(2)
		b.join(2)
		pass(10 * ms)
		require.Zero(t, a.stats().Losses+b.stats().Losses)
		require.True(t, w.server.Evict(bucketKey))
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

// A step of the server's clock must not count as a suspension of the process, and a suspension must not count as a step
// of the clock.
func TestStatsCountStepsOfTheClockAndSuspensions(t *testing.T) {
	inWorld(t, func(w *world) {
		asleep := time.Duration(0)
		p := w.sleepy(&asleep)
		p.use(someKey).join(1)
		counts := func(clockSteps, suspensions int) {
			t.Helper()
			pass(2500 * ms)
			assert.EqualValues(t, clockSteps, p.stats().ClockSteps, "clock steps")
			assert.EqualValues(t, suspensions, p.stats().Suspensions, "suspensions")
		}
		counts(0, 0)
		for i, step := range []time.Duration{-5 * time.Second, 5050 * ms, time.Hour} {
			w.step(step)
			counts(i+1, 0)
		}
		for i := range 2 {
			asleep += time.Minute
			counts(3, i+1)
		}
	})
}

func TestStatsShowThePartAndTheNeedOfTheGlobalLimit(t *testing.T) {
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
			assert.InDelta(t, altogether, s.OutageTime.Seconds(), 1.1*float64(outages)) // each is noticed up to a second late
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

func TestStatsContinueWhenAManagerIsStartedAgain(t *testing.T) {
	withBoth(t, func(f *managers) {
		m := f.manager(0)
		pass(2 * time.Second)
		for range 3 {
			f.post(0, 7) // a bucket that no other process uses
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
		f.post(0, 1)
		pass(2 * time.Second)
		f.post(0, 1)
		assert.Greater(t, sum(m.Stats().Shared).Calls, sum(closed).Calls)
	})
}

// This test is for the race detector.
func TestStatsCanBeReadWhileRequestsAreSent(t *testing.T) {
	withBoth(t, func(f *managers) {
		ctx, stop := context.WithCancel(context.Background())
		for i := range 2 {
			f.Go(func() {
				for ctx.Err() == nil {
					assert.GreaterOrEqual(t, f.manager(i).Stats().Shared.Loans, 0)
					time.Sleep(ms)
				}
			})
			f.Go(func() {
				for n := range 40 {
					f.post(i, n%3)
				}
			})
		}
		pass(30 * time.Second)
		stop()
	})
}
