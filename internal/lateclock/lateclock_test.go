package lateclock

import (
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	ms   = time.Millisecond
	most = 300 * ms
)

var _ clockwork.Clock = (*Clock)(nil)

// bubble runs a test in virtual time.
func bubble(t *testing.T, test func(t *testing.T, clock *Clock)) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { test(t, New(1, most)) })
}

// lateness is the smallest and the largest delay so far.
type lateness struct{ least, most time.Duration }

func (l *lateness) add(d time.Duration) {
	l.least, l.most = min(l.least, d), max(l.most, d)
}

// spread asserts that the delays of many timers were spread over the whole range from 0 to the duration most, and never
// outside this range.
func (l *lateness) spread(t *testing.T) {
	t.Helper()
	assert.GreaterOrEqual(t, l.least, time.Duration(0))
	assert.Less(t, l.least, most/10)
	assert.LessOrEqual(t, l.most, most)
	assert.Greater(t, l.most, most*9/10)
}

func TestEveryWayToWaitIsLate(t *testing.T) {
	t.Parallel()
	const d = 2 * time.Second
	ways := map[string]func(*Clock){
		"sleep": func(c *Clock) { c.Sleep(d) },
		"after": func(c *Clock) { <-c.After(d) },
		"timer": func(c *Clock) { <-c.NewTimer(d).Chan() },
		"timer that was set again": func(c *Clock) {
			timer := c.NewTimer(time.Millisecond)
			timer.Reset(d)
			<-timer.Chan()
		},
		"function": func(c *Clock) {
			done := make(chan struct{})
			c.AfterFunc(d, func() { close(done) })
			<-done
		},
		"function that was set again": func(c *Clock) {
			done := make(chan struct{})
			c.AfterFunc(time.Hour, func() { close(done) }).Reset(d)
			<-done
		},
		"ticker": func(c *Clock) {
			ticker := c.NewTicker(d)
			defer ticker.Stop()
			<-ticker.Chan()
		},
	}
	for name, way := range ways {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, clock *Clock) {
				late := lateness{least: time.Hour}
				for range 200 {
					began := time.Now()
					way(clock)
					late.add(time.Since(began) - d)
				}
				late.spread(t)
			})
		})
	}
}

func TestTheTimeIsRight(t *testing.T) {
	bubble(t, func(t *testing.T, clock *Clock) {
		began := clock.Now()
		time.Sleep(time.Second)
		assert.Equal(t, time.Second, clock.Since(began))
		assert.Equal(t, time.Now(), clock.Now())
		assert.Equal(t, time.Second, clock.Until(time.Now().Add(time.Second)))
		at := <-clock.After(time.Second)
		assert.Equal(t, time.Now(), at, "a timer sends the time at which it fired, not the time for which it was set")
	})
}

func TestStoppedTimersNeverFire(t *testing.T) {
	bubble(t, func(t *testing.T, clock *Clock) {
		timer := clock.NewTimer(time.Second)
		function := clock.AfterFunc(time.Second, func() { t.Error("a stopped function ran") })
		ticker := clock.NewTicker(time.Second)
		assert.True(t, timer.Stop())
		assert.True(t, function.Stop())
		assert.False(t, function.Stop())
		time.Sleep(time.Second + most) // by now the first tick has come
		ticker.Stop()
		time.Sleep(time.Minute)
		select {
		case <-timer.Chan():
			t.Error("a stopped timer fired")
		case <-ticker.Chan():
			t.Error("a stopped ticker ticked")
		default:
		}
	})
}

func TestALateTickDoesNotDelayThoseAfterIt(t *testing.T) {
	bubble(t, func(t *testing.T, clock *Clock) {
		began := time.Now()
		ticker := clock.NewTicker(time.Second)
		defer ticker.Stop()
		late := lateness{least: time.Hour}
		for i := range 200 {
			<-ticker.Chan()
			late.add(time.Since(began) - time.Duration(i+1)*time.Second)
		}
		late.spread(t)
	})
}

func TestTicksThatNobodyTakesAreDropped(t *testing.T) {
	bubble(t, func(t *testing.T, clock *Clock) {
		began := time.Now()
		ticker := clock.NewTicker(10 * ms) // many ticks become due while one tick is late
		defer ticker.Stop()
		time.Sleep(10 * time.Second)
		first := <-ticker.Chan()
		assert.Less(t, first.Sub(began), 10*ms+most+1)
		second := <-ticker.Chan()
		assert.GreaterOrEqual(t, second.Sub(began), 10*time.Second)
		ticker.Reset(time.Hour)
		assert.GreaterOrEqual(t, (<-ticker.Chan()).Sub(began), time.Hour)
		assert.Panics(t, func() { ticker.Reset(0) })
		assert.Panics(t, func() { clock.NewTicker(-1) })
	})
}

func TestLatenessIsRepeatable(t *testing.T) {
	t.Parallel()
	run := func(seed uint64) (times []time.Duration) {
		synctest.Test(t, func(*testing.T) {
			clock, began := New(seed, most), time.Now()
			for range 10 {
				clock.Sleep(time.Second)
				times = append(times, time.Since(began))
			}
		})
		return times
	}
	assert.Equal(t, run(7), run(7))
	assert.NotEqual(t, run(7), run(8))
	require.Equal(t, time.Duration(math.MaxInt64), New(1, most).late(math.MaxInt64), "the longest must not overflow")
}
