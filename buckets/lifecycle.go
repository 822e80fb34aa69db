package buckets

import (
	"context"
	"time"

	"github.com/ratelight/ratelight/ratelimits"
)

// The states of a manager: fresh; running after Start; draining during Shutdown; ended after Close, and running again after another Start.
const (
	fresh int32 = iota
	running
	draining
	ended
)

func (m *RESTBucketManager) closed() bool {
	state := m.state.Load()
	return state != running && state != draining
}

// admits returns the error for a request that comes now, nil if it may go on. During a drain a request may that was granted before.
func (m *RESTBucketManager) admits(r *Request) error {
	switch state := m.state.Load(); {
	case state == running, state == draining && r.arrived != 0:
		return nil
	case state == draining:
		return errDraining
	case state == ended:
		return ErrClosed
	}
	if err := m.settings.problem(); err != nil {
		return err
	}
	return ErrNotStarted
}

// IsAlive reports whether the manager takes new requests: it is started, and neither closed nor shutting down.
func (m *RESTBucketManager) IsAlive() bool { return m.state.Load() == running }

// Start starts the garbage collector and lets Acquire grant. It returns an error if the manager is running already, or
// shutting down, and one that wraps ErrOptions if an option cannot be used. A closed manager can be started again; it has then forgotten
// all limits.
func (m *RESTBucketManager) Start() error {
	if err := m.settings.problem(); err != nil {
		return err
	}
	m.life.Lock()
	defer m.life.Unlock()
	if !m.closed() {
		return errStarted
	}
	m.begin()
	ticker := m.settings.clock.NewTicker(m.settings.pollPeriod)
	m.stop, m.gone = make(chan struct{}), make(chan struct{})
	m.state.Store(running)
	go func(stop <-chan struct{}, gone chan<- struct{}) {
		defer close(gone)
		defer ticker.Stop()
		for {
			select {
			case <-stop:
				return
			case <-ticker.Chan():
				m.collect()
			}
		}
	}(m.stop, m.gone)
	return nil
}

// begin starts the session, and forgets what somebody has left that came while the manager was closed.
func (m *RESTBucketManager) begin() {
	m.leaving.Lock()
	defer m.leaving.Unlock()
	m.left = nil
	m.doubted.Store(0)
	m.moves.Lock()
	defer m.moves.Unlock()
	m.joinSession()
	m.clear()
}

// Close ends all waits with ErrClosed, and stops the garbage collector and all timers. Leases that are still held can
// be ended as usual. It waits for the garbage collector, not for leases. Closing again does nothing; the error is
// always nil. Use Shutdown to let requests finish.
func (m *RESTBucketManager) Close() error {
	m.close(nil)
	return nil
}

// close closes the manager, or only the end of a drain of it, and reports whether that cut something off: somebody waited, or was in flight.
func (m *RESTBucketManager) close(only *drain) (cut bool) {
	defer m.flushLog() // under no lock, as it calls the logger
	m.life.Lock()
	defer m.life.Unlock()
	d := m.draining.Load()
	switch {
	case only != nil && only != d:
		return only.cut
	case m.closed():
		m.state.Store(ended)
		return false
	}
	cut = m.busy()
	m.state.Store(ended)
	close(m.stop)
	<-m.gone
	m.leave()
	m.leaveSession() // under no other lock than that, as what still runs of the session may need them to end
	if d != nil {
		d.cut = cut
		m.draining.Store(nil)
		close(d.over)
	}
	return cut
}

// leave forgets everything, but for the state if somebody wants it.
func (m *RESTBucketManager) leave() {
	m.leaving.Lock()
	defer m.leaving.Unlock()
	if m.leaves {
		m.left = m.encode()
	}
	m.moves.Lock()
	defer m.moves.Unlock()
	m.clear()
	m.throttled = ratelimits.Throttle{}
}

func (m *RESTBucketManager) flushLog() { m.settings.log.Flush(m.now(), true) }

// drain is what Shutdown waits for.
type drain struct {
	progress chan struct{} // of capacity 1: there is something in it when a request has ended
	over     chan struct{} // closed when the manager is
	cut      bool          // something was cut off then
}

// returnTime is how long a request that may come back to its place, as it was refused or failed, counts as waiting while nobody has asked for
// it again.
const returnTime = time.Second

// Shutdown refuses new requests, with an error that matches ErrClosed, waits until all that wait or are in flight have
// ended, and closes the manager. When the context ends first, it closes the manager at once, as Close does, and returns
// the context's error if that cut off any request. A lease that nobody ends keeps it waiting until then, so pass a context
// that ends.
//
// A Request that was refused or failed, see Request, can still be acquired again. It counts as waiting until then, but
// for at most a second, because it may never be acquired again. httpclient.Transport.Shutdown waits for all of its
// requests.
//
// It can be called more than once, also at the same time: all calls wait for the same end, at most until the first of
// their contexts ends. If Close or another call cuts off a request while it waits, it returns ErrClosed. On a manager
// that is not started or already closed it does the same as Close.
func (m *RESTBucketManager) Shutdown(ctx context.Context) error {
	if ctx == nil {
		return ErrNoContext
	}
	d, first := m.startDrain()
	if d == nil {
		return m.Close()
	}
	progress := d.progress
	if !first { // another call looks at it
		progress = nil
	}
	for {
		var pause <-chan time.Time
		if first && !m.busy() {
			left := m.returning()
			if left == 0 {
				if m.close(d) { // it was closed meanwhile, and they are gone because of that
					return ErrClosed
				}
				return nil
			}
			pause = m.settings.clock.After(left)
		}
		select {
		case <-progress:
		case <-pause:
		case <-d.over:
			if d.cut {
				return ErrClosed
			}
			return nil
		case <-ctx.Done():
			if m.close(d) {
				return ctx.Err()
			}
			return nil
		}
	}
}

// startDrain lets no new requests in any more, and returns what to wait for, nil if the manager is closed; and whether it is new.
func (m *RESTBucketManager) startDrain() (d *drain, first bool) {
	m.life.Lock()
	defer m.life.Unlock()
	if m.closed() {
		return nil, false
	}
	if d = m.draining.Load(); d != nil {
		return d, false
	}
	d = &drain{progress: make(chan struct{}, 1), over: make(chan struct{})}
	m.draining.Store(d)
	m.state.Store(draining)
	for b := range m.buckets.all() { // who was let in before has been counted when the lock is free
		b.mu.Lock()
		b.mu.Unlock() //lint:ignore SA2001 to wait for who has it
	}
	return d, true
}

// busy reports that somebody waits or is in flight. Who waits is looked at first, as he is in flight before he does not wait any more.
func (m *RESTBucketManager) busy() bool {
	if m.waiting.Load() > 0 {
		return true
	}
	m.moves.Lock()
	defer m.moves.Unlock()
	for _, s := range m.servers {
		if s.budget.counters.inFlight() > 0 {
			return true
		}
	}
	return false
}

// mayReturn notes that a request may come back to its place, and returning tells for how long one that has not is waited for.
func (m *RESTBucketManager) mayReturn() { m.comeBack.Store(int64(m.now() + 1)) }

func (m *RESTBucketManager) returning() time.Duration {
	at := time.Duration(m.comeBack.Load())
	if at == 0 {
		return 0
	}
	return max(at+returnTime-m.now(), 0)
}

// progressed is called when a request does not wait or is not in flight any more. It does not block.
func (m *RESTBucketManager) progressed() {
	d := m.draining.Load()
	if d == nil {
		return
	}
	select {
	case d.progress <- struct{}{}:
	default:
	}
}

// clear forgets all routes and buckets, and rejects who waits there. The lock for moves is held.
func (m *RESTBucketManager) clear() {
	m.buckets.clear((*bucket).close)
	for key, a := range m.authentications.All() {
		m.authentications.Delete(key)
		a.unlistForGood()
		a.global.close()
	}
	for _, d := range m.limits.All() {
		d.close()
	}
	for key, e := range m.entries.All() {
		e.evicted.Store(true)
		m.entries.Delete(key)
	}
	for _, s := range m.servers {
		s.edge.close()
		s.holds.Clear()
		s.byToken.Store(nil)
		s.edge, s.authentications = newEdge(m), 0
	}
}
