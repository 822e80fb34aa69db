package fleet

import (
	"sync"
	"time"
	"unsafe"

	"github.com/jonboulle/clockwork"
)

// clock is the clock of one process. It has the two readings that Go programs have on Linux: a monotonic reading, which
// timers use, and the reading of a wall clock. While a machine is suspended, the monotonic reading stands still but the
// wall clock goes on. The wall clock can also be set without the monotonic reading.
//
// A time that Now returns has both readings. Sub and Since use the monotonic reading. After [time.Time.Round] only the
// wall clock's reading remains. Use these times only with the methods of clock, because functions such as time.Since
// use another clock.
type clock struct {
	start time.Time

	mu     sync.Mutex
	behind time.Duration // how long the monotonic reading has stood still in total
	wall   time.Duration // sum of the steps of the wall clock
	frozen time.Time     // when freeze was called; zero while timers can fire
	still  bool          // whether the monotonic reading stands still while frozen is set
	timers map[*timer]struct{}
}

var _ clockwork.Clock = (*clock)(nil)

func newClock() *clock { return &clock{start: time.Now(), timers: map[*timer]struct{}{}} }

// freeze stops all timers until thaw is called. If still is set, the monotonic reading stands still until then.
func (c *clock) freeze(still bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.frozen, c.still = time.Now(), still
	for t := range c.timers {
		t.real.Stop()
	}
}

// thaw starts the timers again. Timers that became due while the clock was frozen fire at once.
func (c *clock) thaw() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.still {
		c.behind += time.Since(c.frozen)
	}
	c.frozen = time.Time{}
	for t := range c.timers {
		t.start()
	}
}

func (c *clock) step(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wall += d
}

// Now returns the time with both its wall clock reading and its monotonic clock reading.
func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now()
}

func (c *clock) now() time.Time {
	now := time.Now()
	monotonic := now.Sub(c.start) - c.behind
	if !c.frozen.IsZero() && c.still {
		monotonic -= now.Sub(c.frozen)
	}
	return both(now.Add(c.wall), monotonic)
}

// both returns a time with the given readings of a wall clock and a monotonic clock. Package time itself makes such
// times only from the machine's clocks, and in a bubble these have no monotonic reading. So the function both writes to
// the unexported fields of a Time. TestClockThatStoodStill fails if a Time no longer has these fields.
func both(wall time.Time, monotonic time.Duration) time.Time {
	const has = 1 << 63
	seconds := wall.Sub(time.Date(1885, 1, 1, 0, 0, 0, 0, time.UTC)) / time.Second
	fields := (*struct {
		wall     uint64
		ext      int64
		location unsafe.Pointer
	})(unsafe.Pointer(&wall))
	fields.wall, fields.ext = has|uint64(seconds)<<30|uint64(wall.Nanosecond()), int64(monotonic)+1
	return wall
}

// Since returns the time since t, measured with the monotonic reading.
func (c *clock) Since(t time.Time) time.Duration { return c.Now().Sub(t) }

// Until returns the time until t, measured with the monotonic reading.
func (c *clock) Until(t time.Time) time.Duration { return t.Sub(c.Now()) }

func (c *clock) Sleep(d time.Duration) { <-c.After(d) }

// After returns a channel that receives the time when d has passed.
func (c *clock) After(d time.Duration) <-chan time.Time { return c.NewTimer(d).Chan() }

// NewTimer returns a timer that sends the time when d has passed.
func (c *clock) NewTimer(d time.Duration) clockwork.Timer {
	t := &timer{clock: c, ticks: make(chan time.Time, 1)}
	t.Reset(d)
	return t
}

// AfterFunc calls f in a separate goroutine when d has passed.
func (c *clock) AfterFunc(d time.Duration, f func()) clockwork.Timer {
	t := &timer{clock: c, call: f}
	t.Reset(d)
	return t
}

func (c *clock) NewTicker(d time.Duration) clockwork.Ticker {
	t := &timer{clock: c, ticks: make(chan time.Time, 1)}
	ticker{t}.Reset(d)
	return ticker{t}
}

// timer is a timer or a ticker. clock.mu guards it.
type timer struct {
	clock  *clock
	call   func() // nil: the timer sends the time
	ticks  chan time.Time
	period time.Duration // of a ticker; 0 for a timer
	due    time.Time
	real   *time.Timer
}

type ticker struct{ *timer }

func (t ticker) Reset(d time.Duration) { t.set(d, d) }
func (t ticker) Stop()                 { t.timer.Stop() }

// Chan returns the channel that receives the time.
func (t *timer) Chan() <-chan time.Time { return t.ticks }

func (t *timer) Reset(d time.Duration) bool { return t.set(d, 0) }

func (t *timer) set(d, period time.Duration) (was bool) {
	t.clock.mu.Lock()
	defer t.clock.mu.Unlock()
	was = t.unset()
	t.due, t.period = t.clock.now().Add(d), period
	t.clock.timers[t] = struct{}{}
	if t.clock.frozen.IsZero() {
		t.start()
	}
	return was
}

func (t *timer) Stop() bool {
	t.clock.mu.Lock()
	defer t.clock.mu.Unlock()
	return t.unset()
}

func (t *timer) unset() (was bool) {
	_, was = t.clock.timers[t]
	delete(t.clock.timers, t)
	if t.real != nil {
		t.real.Stop()
	}
	return was
}

// start starts the real timer, which calls fire when t is due.
func (t *timer) start() {
	var real *time.Timer
	real = time.AfterFunc(t.due.Sub(t.clock.now()), func() { t.fire(&real) })
	t.real = real
}

// fire runs the timer's function or sends the time. It does nothing if the timer was stopped or set again in the
// meantime, or if the clock is frozen.
func (t *timer) fire(real **time.Timer) {
	c := t.clock
	c.mu.Lock()
	_, set := c.timers[t]
	if !set || t.real != *real || !c.frozen.IsZero() {
		c.mu.Unlock()
		return
	}
	delete(c.timers, t)
	now := c.now()
	if t.period > 0 {
		t.due = t.due.Add(max(now.Sub(t.due).Truncate(t.period), 0) + t.period)
		c.timers[t] = struct{}{}
		t.start()
	}
	c.mu.Unlock()
	if t.call != nil {
		t.call()
		return
	}
	select {
	case t.ticks <- now:
	default:
	}
}
