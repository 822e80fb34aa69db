package httpclient

import (
	"context"
	"errors"
	"sync"
	"time"
)

// waitContext is the context of a request while it waits: it ends with the request's own, and when the credential is
// stopped, as the request would not be sent any more. Nothing is done for that until somebody wants to know when it
// ends, which most requests have no need of. It is used for one wait. Limiters get it, who may print it with all that
// it points to, so it does not know the request.
type waitContext struct {
	request    context.Context // the request's own; nil: not begun
	credential *credential
	mu         sync.Mutex
	watch      *watch // nil until somebody has asked for the end
}

// watch is the context of a wait that ends when its credential is stopped.
type watch struct {
	context.Context
	stop       context.CancelCauseFunc
	credential *credential
}

// noWatch stands for none: the wait is over, or there is nothing that can be stopped.
var noWatch = new(watch)

// waitContext returns the context of a wait that begins. It has to be ended.
func (x *roundTrip) waitContext() *waitContext {
	q := &x.firstWait
	if q.request != nil { // somebody may still hold on to that
		q = new(waitContext)
	}
	q.request, q.credential = x.request.Context(), &x.credential
	return q
}

// end ends the wait.
func (q *waitContext) end() {
	q.mu.Lock()
	w := q.watch
	if w == nil {
		q.watch = noWatch
	}
	q.mu.Unlock()
	if w != nil && w != noWatch {
		w.credential.waiting.Delete(w)
		w.stop(nil)
	}
}

// reason returns why the wait ended with an error: that its credential was stopped, or else that error.
func (q *waitContext) reason(err error) error {
	if err == nil {
		return nil
	}
	if stopped, ok := errors.AsType[*CredentialError](context.Cause(q.context(false))); ok {
		return stopped
	}
	return err
}

// context returns what stands for the wait: the request's context until somebody asks for its end.
func (q *waitContext) context(watched bool) context.Context {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.watch == nil && watched {
		q.watch = q.credential.watch(q.request)
	}
	if q.watch == nil || q.watch == noWatch {
		return q.request
	}
	return q.watch
}

func (q *waitContext) Done() <-chan struct{} { return q.context(true).Done() }

func (q *waitContext) Err() error { return q.context(false).Err() }

func (q *waitContext) Value(key any) any { return q.context(false).Value(key) }

func (q *waitContext) Deadline() (deadline time.Time, ok bool) {
	return q.request.Deadline()
}

// watch lets a context end with another one and when the credential is stopped.
func (c *credential) watch(ctx context.Context) *watch {
	if c.id == (credentialID{}) {
		return noWatch
	}
	w := &watch{credential: c}
	w.Context, w.stop = context.WithCancelCause(ctx)
	c.waiting.Store(w, struct{}{})
	if err := c.check(); err != nil { // in the meantime
		w.stop(err)
	}
	return w
}

// wake ends the waits of a credential's requests that it would not be sent with any more.
func (c *credentials) wake(id credentialID) {
	for w := range c.waiting.All() {
		if w.credential.id != id {
			continue
		}
		if err := w.credential.check(); err != nil {
			w.stop(err)
		}
	}
}
