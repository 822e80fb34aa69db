package httpclient

import (
	"sync"
	"time"

	"github.com/ratelight/ratelight/internal/fifo"
)

// longestAttempt is what any longer time is cut to. It leaves room to add.
const longestAttempt = 100 * 365 * 24 * time.Hour

// deadlines ends the attempts that take too long. One timer serves them all, and is left alone when an attempt ends in time: a
// timer of its own for each would wake a thread that waits for the network each time, which costs more than all else here.
type deadlines struct {
	epoch time.Time // what times are counted from

	mu    sync.Mutex
	queue fifo.Queue[*span] // by deadline
	timer *time.Timer       // nil if it has never been needed
	rings time.Duration     // when the timer does, 0 if it does not
}

// add lets the span's time run. It ends after d, counted from now.
func (l *deadlines) add(s *span, now time.Time, d time.Duration) {
	s.deadlines, s.place.Value = l, s
	s.place.Arrived = now.Sub(l.epoch) + min(d, longestAttempt)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.queue.Insert(&s.place)
	if l.rings == 0 || s.place.Arrived < l.rings {
		l.set(s.place.Arrived)
	}
}

// remove takes the span out, and reports whether it was still in.
func (l *deadlines) remove(s *span) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.queue.Remove(&s.place)
}

// set lets the timer ring at the given time. The lock is held.
func (l *deadlines) set(at time.Duration) {
	l.rings = at
	wait := at - time.Since(l.epoch)
	if l.timer == nil {
		l.timer = time.AfterFunc(wait, l.ring)
	} else {
		l.timer.Reset(wait)
	}
}

// ring ends the spans whose time is over.
func (l *deadlines) ring() {
	for _, s := range l.due() {
		s.over(true)
	}
}

// due takes out the spans whose time is over, and sets the timer for the next one.
func (l *deadlines) due() (due []*span) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Since(l.epoch)
	head := l.queue.Head()
	for ; head != nil && head.Arrived <= now; head = l.queue.Head() {
		l.queue.Remove(head)
		due = append(due, head.Value)
	}
	l.rings = 0
	if head != nil {
		l.set(head.Arrived)
	}
	return due
}

// rest stops the timer if nobody needs it. With attempts under way it goes on until it has rung for the last time.
func (l *deadlines) rest() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.timer != nil && l.queue.Len() == 0 {
		l.timer.Stop()
		l.rings = 0
	}
}
