package tune

import (
	"cmp"
	"slices"
	"time"

	"github.com/jonboulle/clockwork"
)

// beginning is the time at which every replay begins.
var beginning = time.Date(2030, time.January, 1, 0, 0, 0, 0, time.UTC)

// clock is an event queue in virtual time, and the clock of a bucket manager. next advances the time to the next event
// and calls it. Events of the same time are called in the order in which they were scheduled, so that a replay always
// gives the same result. Only the methods that a manager calls are implemented.
type clock struct {
	clockwork.Clock // nil: the other methods panic
	now             time.Duration
	due             []*event // sorted, the next event last
	asked           uint64   // number of events scheduled so far, to order events of the same time
	ticks           *ticker
}

type event struct {
	at    time.Duration
	order uint64
	call  func()
}

// next advances to the next event and calls it. If no event is left, or if only a tick is left, next does nothing and
// returns false.
func (c *clock) next() bool {
	last := len(c.due) - 1
	if last < 0 || last == 0 && c.ticks != nil && c.due[0] == &c.ticks.event {
		return false
	}
	e := c.due[last]
	c.due = c.due[:last]
	c.now = e.at
	e.call()
	return true
}

// place returns the index of an event in due, or where to insert it, and whether it was found.
func (c *clock) place(e *event) (int, bool) {
	return slices.BinarySearchFunc(c.due, e, func(a, b *event) int {
		return cmp.Or(cmp.Compare(b.at, a.at), cmp.Compare(b.order, a.order))
	})
}

// after schedules an event for d from now. The event must not be in due.
func (c *clock) after(d time.Duration, e *event) {
	c.asked++
	e.at, e.order = c.now+max(d, 0), c.asked
	i, _ := c.place(e)
	c.due = slices.Insert(c.due, i, e)
}

func (c *clock) Now() time.Time { return beginning.Add(c.now) }

func (c *clock) Since(t time.Time) time.Duration { return c.Now().Sub(t) }

func (c *clock) AfterFunc(d time.Duration, f func()) clockwork.Timer {
	t := &timer{event{call: f}, c}
	t.Reset(d)
	return t
}

// timer is an event that can be cancelled.
type timer struct {
	event
	clock *clock
}

func (t *timer) Stop() bool {
	i, found := t.clock.place(&t.event)
	if found {
		t.clock.due = slices.Delete(t.clock.due, i, i+1)
	}
	return found
}

func (t *timer) Reset(d time.Duration) bool {
	was := t.Stop()
	t.clock.after(d, &t.event)
	return was
}

func (t *timer) Chan() <-chan time.Time { return nil }

// NewTicker returns the only ticker. It is for the manager's garbage collector, a goroutine that calls Chan before each
// wait.
func (c *clock) NewTicker(d time.Duration) clockwork.Ticker {
	c.ticks = &ticker{timer{clock: c}, d, make(chan time.Time), make(chan struct{}, 1)}
	c.ticks.call = c.ticks.tick
	c.ticks.Reset(d)
	return c.ticks
}

type ticker struct {
	timer
	every time.Duration
	ticks chan time.Time
	waits chan struct{} // holds a value while the goroutine waits for a tick
}

func (t *ticker) Chan() <-chan time.Time {
	select {
	case t.waits <- struct{}{}:
	default:
	}
	return t.ticks
}

// tick delivers a tick and returns when the goroutine has done its work, so that nothing else runs at the same time.
func (t *ticker) tick() {
	t.timer.Reset(t.every)
	<-t.waits
	t.ticks <- t.clock.Now()
	<-t.waits
	t.waits <- struct{}{}
}

func (t *ticker) Stop() { t.timer.Stop() }

func (t *ticker) Reset(d time.Duration) {
	t.every = d
	t.timer.Reset(d)
}
