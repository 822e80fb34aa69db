package httpclient

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/ratelight/ratelight/internal/fifo"
)

// errAttemptTimeout is why a span ended by itself.
var errAttemptTimeout = errors.New("attempt timeout")

// span is the context of an attempt: that of its request, with an end of its own. It is what context.WithTimeout returns, but
// cheaper: its timer is that of all attempts, and if the request's context never ends, it is a part of the attempt.
type span struct {
	context.Context                         // the request's, or with cancel one made of it; nil: not begun
	cancel          context.CancelCauseFunc // nil if the request's context never ends
	deadlines       *deadlines
	place           fifo.Element[*span] // among them, by deadline

	// Without cancel.
	mu      sync.Mutex
	ended   bool
	tooLate bool          // it ended because its time was over
	done    chan struct{} // nil if nobody has asked for it
	after   func()        // nil if there is nothing to do at the end
}

// begin lets the span live for d, counted from now, or until the request's context ends.
func (s *span) begin(request context.Context, now time.Time, d time.Duration, l *deadlines) {
	s.Context = request
	if request.Done() != nil {
		s.Context, s.cancel = context.WithCancelCause(request)
	}
	l.add(s, now, d)
}

func (s *span) begun() bool { return s.Context != nil }

// end ends the span. Without begin, and after another end, it does nothing.
func (s *span) end() {
	if s.begun() && s.deadlines.remove(s) {
		s.over(false)
	}
}

// late reports that the span ended because its time was over.
func (s *span) late() bool {
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

// over ends the span, because its time is over or not. It is called once.
func (s *span) over(late bool) {
	switch {
	case s.cancel == nil:
		s.finish(late)
	case late:
		s.cancel(errAttemptTimeout)
	default:
		s.cancel(nil)
	}
}

// finish is over without cancel.
func (s *span) finish(late bool) {
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

func (s *span) Deadline() (time.Time, bool) { return s.deadlines.epoch.Add(s.place.Arrived), true }

func (s *span) Done() <-chan struct{} {
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

func (s *span) Err() error {
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
func (s *span) AfterFunc(f func()) (stop func() bool) {
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
