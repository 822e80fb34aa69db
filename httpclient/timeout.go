package httpclient

import (
	"fmt"
	"sync"
	"time"

	"github.com/ratelight/ratelight/internal/fifo"
)

// DefaultAttemptTimeout is how long an attempt may make no progress, unless WithAttemptTimeout sets another duration.
const DefaultAttemptTimeout = 15 * time.Second

// WithAttemptTimeout sets how long one attempt may make no progress; then it ends with an *AttemptTimeoutError. Zero or
// less means no timeout. The default is DefaultAttemptTimeout. ContextWithAttemptTimeout overrides it for one request.
//
// Progress means that bytes are transferred: the base transport reads a part of the request's body; the headers of the
// response arrive; a read of its body returns. So large uploads and downloads have no timeout while they make progress.
// These times count:
//   - from the start of sending, or the latest part of the body, until the headers of the response: connecting, waiting
//     for 100-continue or for the server to process the request, and waiting for the source of the body. A body in
//     memory (see below) of a known length up to 32 KiB is one part
//   - each read of the response's body. While the body is not being read, there is no timeout
//
// A body that is sent as it comes, because it is too large to be kept, has as long to give its first byte; its request
// waits for its limits after that.
//
// The time in queues and pauses does not count. A connection that was switched to another protocol (101) has no timeout.
//
// Closing a body may not end a blocked read of its source. So a request whose body is not known to be in memory is sent
// by a separate goroutine, which stays blocked in such a read after the timeout. In memory are bodies that
// http.NewRequest makes of a bytes.Buffer, bytes.Reader or strings.Reader, and those that the transport keeps.
//
// This finds connections that are broken, and no more: a server that sends a byte now and then keeps an attempt going. How long a
// request may take in all is for the deadline of its context to say.
func WithAttemptTimeout(d time.Duration) Option {
	return func(s *settings) { s.attemptTimeout = max(d, 0) }
}

// AttemptTimeoutError is the error of an attempt that made no progress for too long. It does not match
// context.DeadlineExceeded, because it is not the caller's deadline; its Timeout method returns true.
type AttemptTimeoutError struct {
	// Route is the method and template, without parameters.
	Route string
	// After is how long there was no progress.
	After time.Duration
}

func (e *AttemptTimeoutError) Error() string {
	return fmt.Sprintf("%s: no progress for %v", e.Route, e.After)
}

// Timeout returns true.
func (e *AttemptTimeoutError) Timeout() bool { return true }

// longestAttempt is what any longer time is cut to. It leaves room to add.
const longestAttempt = 100 * 365 * 24 * time.Hour

// deadlines ends the attempts that wait for too long. One timer serves them all, and is left alone when an attempt ends in time,
// or when something moves: then it fires for nothing, and is set again. A timer of its own for each would wake a thread that waits
// for the network each time, which costs more than all else here.
type deadlines struct {
	epoch       time.Time // what times are counted from
	connections connections

	mu    sync.Mutex
	queue fifo.Queue[*attemptContext] // by when they are to be looked at
	timer *time.Timer                 // nil if it has never been needed
	fires time.Duration               // when the timer does, 0 if it does not
}

func (l *deadlines) now() time.Duration { return time.Since(l.epoch) }

// add lets the context be looked at at the given time.
func (l *deadlines) add(s *attemptContext, at time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s.waiting.Load() == over { // since then, and nobody would take it out
		return
	}
	s.entry.Arrived = at
	l.queue.Insert(&s.entry)
	if l.fires == 0 || at < l.fires {
		l.set(at)
	}
}

func (l *deadlines) remove(s *attemptContext) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.queue.Remove(&s.entry)
}

// set lets the timer fire at the given time. The lock is held.
func (l *deadlines) set(at time.Duration) {
	l.fires = at
	wait := at - l.now()
	if l.timer == nil {
		l.timer = time.AfterFunc(wait, l.fire)
	} else {
		l.timer.Reset(wait)
	}
}

// fire ends the contexts whose time is over.
func (l *deadlines) fire() {
	for _, s := range l.due() {
		s.finish(true)
	}
}

// due looks at the contexts whose turn it is, returns those whose time is over, and sets the timer for the next one.
func (l *deadlines) due() (due []*attemptContext) {
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
	l.fires = 0
	if head != nil {
		l.set(head.Arrived)
	}
	return due
}

// stop stops the timer if nobody needs it. With attempts under way it goes on until it has fired for the last time.
func (l *deadlines) stop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.timer != nil && l.queue.Len() == 0 {
		l.timer.Stop()
		l.fires = 0
	}
}
