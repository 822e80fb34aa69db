package httpclient

import (
	"sync"
	"time"

	"github.com/ratelight/ratelight/internal/fifo"
)

// longestAttempt is what any longer time is cut to. It leaves room to add.
const longestAttempt = 100 * 365 * 24 * time.Hour

// deadlines ends the attempts that wait for too long. One timer serves them all, and is left alone when an attempt ends in time,
// or when something moves: then it rings for nothing, and is set anew. A timer of its own for each would wake a thread that waits
// for the network each time, which costs more than all else here.
type deadlines struct {
	epoch time.Time // what times are counted from

	mu    sync.Mutex
	queue fifo.Queue[*span] // by when they are to be looked at
	timer *time.Timer       // nil if it has never been needed
	rings time.Duration     // when the timer does, 0 if it does not
}

func (l *deadlines) now() time.Duration { return time.Since(l.epoch) }

// add lets the span be looked at at the given time.
func (l *deadlines) add(s *span, at time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s.waiting.Load() == over { // since then, and nobody would take it out
		return
	}
	s.place.Arrived = at
	l.queue.Insert(&s.place)
	if l.rings == 0 || at < l.rings {
		l.set(at)
	}
}

func (l *deadlines) remove(s *span) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.queue.Remove(&s.place)
}

// set lets the timer ring at the given time. The lock is held.
func (l *deadlines) set(at time.Duration) {
	l.rings = at
	wait := at - l.now()
	if l.timer == nil {
		l.timer = time.AfterFunc(wait, l.ring)
	} else {
		l.timer.Reset(wait)
	}
}

// ring ends the spans whose time is over.
func (l *deadlines) ring() {
	for _, s := range l.due() {
		s.finish(true)
	}
}

// due looks at the spans whose turn it is, returns those whose time is over, and sets the timer for the next one.
func (l *deadlines) due() (due []*span) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	head := l.queue.Head()
	for ; head != nil && head.Arrived <= now; head = l.queue.Head() {
		l.queue.Remove(head)
		switch next, late := head.Value.look(now); {
		case late:
			due = append(due, head.Value)
		case next > 0:
			head.Arrived = next
			l.queue.Insert(head)
		}
	}
	l.rings = 0
	if head != nil {
		l.set(head.Arrived)
	}
	return due
}

// stop stops the timer if nobody needs it. With attempts under way it goes on until it has rung for the last time.
func (l *deadlines) stop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.timer != nil && l.queue.Len() == 0 {
		l.timer.Stop()
		l.rings = 0
	}
}
