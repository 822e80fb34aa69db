// Package lateclock has a clock that behaves as on a busy machine: its time is right, but its timers fire late. The
// clock works in real time and in the time of a testing/synctest bubble.
package lateclock

import (
	"math/rand/v2"
	"sync"
	"time"

	"github.com/jonboulle/clockwork"
)

// Clock is a clockwork.Clock whose timers fire late, each by a random time. It is safe for concurrent use.
type Clock struct {
	clockwork.Clock // tells the time

	mu     sync.Mutex
	chance *rand.Rand
	most   time.Duration
}

// New returns a clock whose timers fire late. How late each of them fires is drawn at random, from 0 to the duration
// most. Two clocks with the same seed draw the same durations if their timers are set in the same order.
func New(seed uint64, most time.Duration) *Clock {
	return &Clock{Clock: clockwork.NewRealClock(), chance: rand.New(rand.NewPCG(seed, 0)), most: max(most, 0)}
}

// late returns the duration d plus the random lateness of one timer.
func (c *Clock) late(d time.Duration) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	more := time.Duration(c.chance.Int64N(int64(c.most) + 1))
	if d+more < d {
		return d // the sum would overflow
	}
	return d + more
}

// After is like time.After.
func (c *Clock) After(d time.Duration) <-chan time.Time { return c.NewTimer(d).Chan() }

// Sleep is like time.Sleep.
func (c *Clock) Sleep(d time.Duration) { <-c.After(d) }

// NewTimer is like time.NewTimer.
func (c *Clock) NewTimer(d time.Duration) clockwork.Timer {
	return timer{c.Clock.NewTimer(c.late(d)), c}
}

// AfterFunc is like time.AfterFunc.
func (c *Clock) AfterFunc(d time.Duration, f func()) clockwork.Timer {
	return timer{c.Clock.AfterFunc(c.late(d), f), c}
}

// timer draws a new lateness each time it is set.
type timer struct {
	clockwork.Timer
	clock *Clock
}

func (t timer) Reset(d time.Duration) bool { return t.Timer.Reset(t.clock.late(d)) }

// NewTicker is like time.NewTicker. Each tick has its own random lateness, and a late tick does not delay later ticks.
func (c *Clock) NewTicker(d time.Duration) clockwork.Ticker {
	t := &ticker{clock: c, ticks: make(chan time.Time, 1)}
	t.Reset(d)
	return t
}

// ticker uses one timer, which it sets for one tick at a time.
type ticker struct {
	clock *Clock
	ticks chan time.Time

	mu     sync.Mutex
	period time.Duration
	due    time.Time       // when the next tick would be on time
	timer  clockwork.Timer // nil before the first Reset
	round  int             // counts calls of Reset and Stop, so that ticks from before such a call are ignored
}

func (t *ticker) Chan() <-chan time.Time { return t.ticks }

func (t *ticker) Reset(d time.Duration) {
	if d <= 0 {
		panic("lateclock: non-positive interval for a ticker")
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.end()
	t.period, t.due = d, t.clock.Now().Add(d)
	t.next()
}

func (t *ticker) Stop() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.end()
}

// end drops all ticks so far, including a tick that has not been received. t.mu must be held.
func (t *ticker) end() {
	t.round++
	if t.timer != nil {
		t.timer.Stop()
	}
	select {
	case <-t.ticks:
	default:
	}
}

// next sets the timer of the next tick. t.mu must be held.
func (t *ticker) next() {
	round := t.round
	t.timer = t.clock.AfterFunc(t.clock.Until(t.due), func() { t.tick(round) })
}

func (t *ticker) tick(round int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if round != t.round {
		return
	}
	now := t.clock.Now()
	select {
	case t.ticks <- now:
	default: // the previous tick has not been received, so this one is dropped
	}
	for !t.due.After(now) {
		t.due = t.due.Add(t.period)
	}
	t.next()
}
