// Package virtual is a clock for simulations: time stands still while something happens, and then jumps to whatever is due
// next.
//
// It is for a simulation that runs on one goroutine. That one calls [Clock.Next] in a loop, and everything that is due runs
// on it, one after the other, in the order of time and, at one moment, in the order in which it was asked for. So the same
// simulation always does the same.
package virtual

import (
	"container/heap"
	"time"

	"github.com/jonboulle/clockwork"
)

// Clock is a clockwork.Clock whose time passes only in Next. It is used by one goroutine at a time. Get one from New.
type Clock struct {
	start time.Time
	now   time.Duration // since the start
	due   queue
	asked uint64 // timers set so far, to keep those of one moment in order
	once  int    // of those that are due, how many are no tickers
	rung  int
}

// New returns a clock that shows the given time.
func New(start time.Time) *Clock { return &Clock{start: start} }

var _ clockwork.Clock = (*Clock)(nil)

// Next goes to the moment of whatever is due next and lets it happen. It reports false, and does nothing, if nothing is due
// any more but the ticks of tickers, which would never end.
func (c *Clock) Next() bool {
	if c.once == 0 {
		return false
	}
	t := c.due[0]
	c.now = t.at
	c.rung++
	t.stop()
	t.ring()
	return true
}

// Rung returns how many things Next has let happen.
func (c *Clock) Rung() int { return c.rung }

// Elapsed returns the time since the clock was made.
func (c *Clock) Elapsed() time.Duration { return c.now }

// Now returns the time that the clock shows.
func (c *Clock) Now() time.Time { return c.start.Add(c.now) }

// Since returns the time that has passed since t.
func (c *Clock) Since(t time.Time) time.Duration { return c.Now().Sub(t) }

// Until returns the time that will have passed at t.
func (c *Clock) Until(t time.Time) time.Duration { return t.Sub(c.Now()) }

// AfterFunc lets Next call f when d has passed. It never calls f itself, however small d is.
func (c *Clock) AfterFunc(d time.Duration, f func()) clockwork.Timer {
	t := &timer{clock: c, ring: f, place: notSet}
	t.set(d)
	return t
}

// NewTimer returns a timer that sends the time when d has passed.
func (c *Clock) NewTimer(d time.Duration) clockwork.Timer {
	sent := make(chan time.Time, 1)
	t := &timer{clock: c, sent: sent, place: notSet}
	t.ring = func() {
		select {
		case sent <- c.Now():
		default: // the last one was not fetched
		}
	}
	t.set(d)
	return t
}

// After is NewTimer for those who never stop it.
func (c *Clock) After(d time.Duration) <-chan time.Time { return c.NewTimer(d).Chan() }

// Sleep waits until another goroutine has let d pass. It must not be called by what Next calls.
func (c *Clock) Sleep(d time.Duration) { <-c.After(d) }

const notSet = -1

// timer is in the queue as long as it is set.
type timer struct {
	clock  *Clock
	at     time.Duration
	order  uint64
	place  int // in the queue, or notSet
	ticker bool
	ring   func()
	sent   chan time.Time // nil: of AfterFunc
}

func (t *timer) Chan() <-chan time.Time { return t.sent }

func (t *timer) Stop() bool { return t.stop() }

func (t *timer) Reset(d time.Duration) bool {
	was := t.stop()
	t.set(d)
	return was
}

func (t *timer) set(d time.Duration) {
	c := t.clock
	c.asked++
	t.at, t.order = c.now+max(d, 0), c.asked
	heap.Push(&c.due, t)
	if !t.ticker {
		c.once++
	}
}

func (t *timer) stop() bool {
	if t.place == notSet {
		return false
	}
	heap.Remove(&t.clock.due, t.place)
	if !t.ticker {
		t.clock.once--
	}
	return true
}

// queue is a heap of the timers that are set, by time and order.
type queue []*timer

func (q queue) Len() int { return len(q) }

func (q queue) Less(i, j int) bool {
	if q[i].at != q[j].at {
		return q[i].at < q[j].at
	}
	return q[i].order < q[j].order
}

func (q queue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].place, q[j].place = i, j
}

func (q *queue) Push(x any) {
	t := x.(*timer)
	t.place = len(*q)
	*q = append(*q, t)
}

func (q *queue) Pop() any {
	last := len(*q) - 1
	t := (*q)[last]
	(*q)[last] = nil
	*q = (*q)[:last]
	t.place = notSet
	return t
}
