package httpclient

import (
	"context"
	"errors"
	"net/http/httptrace"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ratelight/ratelight/internal/fifo"
)

// errAttemptTimeout is why a context ended by itself.
var errAttemptTimeout = errors.New("attempt timeout")

// attemptContext is the context of an attempt: that of its request, with an end of its own when somebody has waited for too long and nothing
// moved. It has no timer, as all attempts share one, and if the request's context never ends, it is a part of the attempt.
//
// It begins with somebody who waits for the response. When the headers are there nobody does, until the body is read, and then
// during each read. What moves meanwhile, the bytes of an upload, begins the wait anew. Its Deadline is the request's, as its own
// end can be put off.
type attemptContext struct {
	context.Context                         // the request's, or with cancel one made of it; nil: not begun
	cancel          context.CancelCauseFunc // nil if the request's context never ends
	deadlines       *deadlines
	patience        time.Duration
	waiting         atomic.Int64                  // since when, as deadlines count time, or one of the values below
	entry           fifo.Element[*attemptContext] // among the deadlines, by the time when it is to be looked at
	connection      atomic.Pointer[connection]    // nil: none that is known

	mu    sync.Mutex
	trace *httptrace.ClientTrace // nil if nobody has asked for it

	// Without cancel.
	ended   bool
	tooLate bool          // it ended because its time was over
	done    chan struct{} // nil if nobody has asked for it
	after   func()        // nil if there is nothing to do at the end
}

// The values of attemptContext.waiting while nobody waits.
const (
	atRest    = -1 // among the deadlines
	unwatched = -2 // not among them, as it was at rest when it was looked at
	over      = -3 // for ever
)

// begin starts the context, which ends when somebody waits for longer than d, counted from now for the first time, or when the request's
// context ends.
func (s *attemptContext) begin(request context.Context, now time.Time, d time.Duration, l *deadlines) {
	s.Context = request
	if request.Done() != nil {
		s.Context, s.cancel = context.WithCancelCause(request)
	}
	s.deadlines, s.patience, s.entry.Value = l, min(d, longestAttempt), s
	since := now.Sub(l.epoch)
	s.waiting.Store(int64(since))
	l.add(s, since+s.patience)
}

func (s *attemptContext) begun() bool { return s.Context != nil }

// wait says that somebody begins to wait.
func (s *attemptContext) wait() {
	now := s.deadlines.now()
	for {
		before := s.waiting.Load()
		switch {
		case before == over:
			return
		case !s.waiting.CompareAndSwap(before, int64(now)):
			continue
		case before == unwatched:
			s.deadlines.add(s, now+s.patience)
		}
		return
	}
}

// rest says that nobody waits any more, as something has come.
func (s *attemptContext) rest() {
	s.noteProgress(s.deadlines.now())
	for {
		since := s.waiting.Load()
		if since < 0 || s.waiting.CompareAndSwap(since, atRest) {
			return
		}
	}
}

// moved says that bytes have moved, should somebody be waiting for others.
func (s *attemptContext) moved() {
	now := s.deadlines.now()
	s.noteProgress(now)
	if since := s.waiting.Load(); since >= 0 {
		s.waiting.CompareAndSwap(since, int64(now)) // or else something has moved at the same time
	}
}

func (s *attemptContext) noteProgress(now time.Duration) {
	if c := s.connection.Load(); c != nil {
		c.moved.Store(int64(now))
	}
}

// look returns when to look at the context again. Late says that it is over instead, and zero that it need not be looked at.
func (s *attemptContext) look(now time.Duration) (next time.Duration, late bool) {
	for {
		since := s.waiting.Load()
		next = time.Duration(since) + s.patience
		switch {
		case since == over:
			return 0, false
		case since == atRest:
			if s.waiting.CompareAndSwap(since, unwatched) {
				return 0, false
			}
		case next > now:
			return next, false
		case s.waiting.CompareAndSwap(since, over):
			return 0, true
		}
	}
}

// release takes the context's time away: only the request's context ends it from now on. It reports whether it had any left.
func (s *attemptContext) release() bool {
	if !s.begun() || s.waiting.Swap(over) == over {
		return false
	}
	s.deadlines.remove(s)
	s.deadlines.connections.leave(s, false)
	return true
}

// end ends the context. Without begin, and after another end, it does nothing.
func (s *attemptContext) end() {
	if s.release() {
		s.finish(false)
	}
}

// late reports that the context ended because its time was over.
func (s *attemptContext) late() bool {
	switch {
	case !s.begun():
		return false
	case s.cancel != nil:
		return context.Cause(s.Context) == errAttemptTimeout
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tooLate
}

// finish makes the context end, because its time is over or not. It is called once.
func (s *attemptContext) finish(late bool) {
	if late {
		defer s.deadlines.connections.leave(s, true)
	}
	switch {
	case s.cancel != nil && late:
		s.cancel(errAttemptTimeout)
		return
	case s.cancel != nil:
		s.cancel(nil)
		return
	}
	s.mu.Lock()
	s.ended, s.tooLate = true, late
	if s.done != nil {
		close(s.done)
	}
	after := s.after
	s.after = nil
	s.mu.Unlock()
	if after != nil {
		after()
	}
}

func (s *attemptContext) Done() <-chan struct{} {
	if s.cancel != nil {
		return s.Context.Done()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.done == nil {
		s.done = make(chan struct{})
		if s.ended {
			close(s.done)
		}
	}
	return s.done
}

func (s *attemptContext) Err() error {
	if s.cancel != nil {
		err := s.Context.Err()
		if err != nil && s.late() {
			return context.DeadlineExceeded
		}
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.tooLate:
		return context.DeadlineExceeded
	case s.ended:
		return context.Canceled
	}
	return nil
}

// AfterFunc lets contexts be derived without a goroutine for each: package context looks for it and passes a function that cancels
// the derived one, which blocks nobody and does no harm when it comes late. So it need not be called off, and stop never does.
func (s *attemptContext) AfterFunc(f func()) (stop func() bool) {
	if s.cancel != nil {
		return context.AfterFunc(s.Context, f)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch before := s.after; {
	case s.ended:
		go f() // whoever derives a context holds a lock that f needs
	case before == nil:
		s.after = f
	default:
		s.after = func() { before(); f() }
	}
	return notStopped
}

func notStopped() bool { return false }
