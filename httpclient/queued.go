package httpclient

import (
	"context"
	"errors"
	"sync"
)

// queued is the context of a request while it waits: it ends with the request's own, and when the credential is stopped, as the request
// would not be sent any more. Nothing is done for that until somebody wants to know when it ends, which most requests have no need of.
// It is used for one wait.
type queued struct {
	context.Context // the request's
	credential      *credential

	mu    sync.Mutex
	watch *watch // nil until somebody has asked for the end
	over  bool   // the wait, and nobody needs to know the end any more
}

// watch is one who waits and would hear that its credential is stopped.
type watch struct {
	context.Context
	stop       context.CancelCauseFunc
	credential *credential
	places     [3]place // in which a stop is about it; the zero place is none
}

// wait returns the context of a wait that begins. It has to be ended.
func (x *exchange) wait() *queued {
	q := &x.firstWait
	if q.credential != nil { // somebody may still hold on to that
		q = new(queued)
	}
	q.Context, q.credential = x.request.Context(), &x.credential
	return q
}

// end ends the wait.
func (q *queued) end() {
	q.mu.Lock()
	w := q.watch
	q.over = true
	q.mu.Unlock()
	if w != nil {
		w.credential.waiting.Delete(w)
		w.stop(nil)
	}
}

// reason returns why the wait ended with an error: that its credential was stopped, or else that error.
func (q *queued) reason(err error) error {
	if err == nil {
		return nil
	}
	if stopped, ok := errors.AsType[*CredentialError](context.Cause(q.current())); ok {
		return stopped
	}
	return err
}

func (q *queued) current() context.Context {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.watch == nil {
		return q.Context
	}
	return q.watch
}

func (q *queued) Done() <-chan struct{} {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.watch == nil && !q.over {
		q.watch = q.credential.watch(q.Context)
	}
	if q.watch == nil {
		return q.Context.Done()
	}
	return q.watch.Done()
}

func (q *queued) Err() error { return q.current().Err() }

func (q *queued) Value(key any) any { return q.current().Value(key) }

// watch lets a context end with another one and when the credential is stopped. It returns nil if that cannot be.
func (c *credential) watch(ctx context.Context) *watch {
	w := &watch{credential: c, places: [...]place{c.inPath(), c.here(), {}}}
	if c.standing != nil {
		w.places[2] = place{owner: c.standing.owner}
	}
	if w.places == [3]place{} {
		return nil
	}
	w.Context, w.stop = context.WithCancelCause(ctx)
	c.waiting.Store(w, struct{}{})
	if err := c.check(); err != nil { // in the meantime
		w.stop(err)
	}
	return w
}

// wake ends the waits of those whose credential is stopped in a place, for an Authorization without a route everywhere. No lock is held.
func (c *credentials) wake(p place) {
	for w := range c.waiting.All() {
		if w.places[0] != p && w.places[1] != p && w.places[2] != p {
			continue
		}
		if err := w.credential.check(); err != nil {
			w.stop(err)
		}
	}
}
