package httpclient

import (
	"context"
	"net"
	"net/http/httptrace"
	"reflect"
	"sync"
	"sync/atomic"
	"time"
)

// progress ends the context of an attempt when the caller has waited for the attempt timeout, and no bytes were
// transferred during this wait.
//
// The caller waits for the headers of the response, then during each read of the response's body, and during Close of
// that body. The time between two reads does not count. Whenever bytes of the request's body are read during a wait,
// the timeout of the wait starts again. Because the timeout can start again, it is not the Deadline of the attempt's
// context. That Deadline is the same as the Deadline of the request's context.
type progress struct {
	roundTrip *roundTrip
	cancel    context.CancelCauseFunc // nil if the attempt has no timeout
	trace     httptrace.ClientTrace   // reports which connection the attempt uses

	mu         sync.Mutex  // guards all fields below
	timer      *time.Timer // nil if the attempt is over, or has no timeout
	waiting    bool        // whether a wait is in progress
	until      time.Time   // when the wait times out
	connection *connection // nil if it is not known
}

// begin starts the wait for the headers, and returns the context of the attempt.
func (p *progress) begin(ctx context.Context, now time.Time) context.Context {
	p.mu.Lock()
	defer p.mu.Unlock()
	ctx, p.cancel = context.WithCancelCause(ctx)
	p.trace.GotConn = p.use
	p.waiting, p.until = true, now.Add(p.patience())
	p.timer = time.AfterFunc(p.patience(), p.expire)
	return httptrace.WithClientTrace(ctx, &p.trace)
}

// patience returns how long a wait may last without progress.
func (p *progress) patience() time.Duration { return p.roundTrip.attempts.Timeout }

// await starts a wait, unless the attempt has no timeout or the timeout has been turned off.
func (p *progress) await() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.timer != nil {
		p.awaitLocked()
	}
}

func (p *progress) awaitLocked() {
	p.waiting, p.until = true, time.Now().Add(p.patience())
	p.timer.Reset(p.patience())
}

// transferred records that bytes have been transferred. If awaited is true, the caller was waiting for these bytes, and
// the wait ends. Otherwise the timeout of the current wait, if there is one, starts again.
func (p *progress) transferred(awaited bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.timer == nil {
		return
	}
	if p.connection != nil {
		p.connection.used.Store(int64(p.roundTrip.sinceMade()))
	}
	switch {
	case awaited:
		p.waiting = false
		p.timer.Stop()
	case p.waiting:
		p.awaitLocked()
	}
}

// expire is called by the timer. It does nothing if the wait ended, or the timeout of the wait started again, at the
// moment when the timer fired.
func (p *progress) expire() {
	p.mu.Lock()
	if !p.waiting || time.Now().Before(p.until) {
		p.mu.Unlock()
		return
	}
	c := p.releaseLocked()
	p.mu.Unlock()
	p.cancel(p.roundTrip.timeoutError())
	if c != nil {
		t := p.roundTrip.Transport
		t.connections.timedOut(c, t.sinceMade(), max(p.patience(), t.attempts.Timeout))
	}
}

// end ends the context of the attempt, unless the timeout was turned off before. It may be called more than once.
func (p *progress) end() {
	if p.release() {
		p.cancel(nil)
	}
}

// release turns off the timeout, so that only the request's context can still end the attempt. It reports whether the
// timeout was on.
func (p *progress) release() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.timer == nil {
		return false
	}
	p.releaseLocked()
	return true
}

func (p *progress) releaseLocked() *connection {
	p.timer.Stop()
	p.timer, p.waiting = nil, false
	c := p.connection
	p.roundTrip.connections.leave(c)
	p.connection = nil
	return c
}

// use records which connection the attempt uses now. If the attempt used another connection before, it no longer uses
// the earlier connection, because net/http takes a new connection only after it has found the earlier one to be broken.
func (p *progress) use(got httptrace.GotConnInfo) {
	if got.Conn == nil || !reflect.ValueOf(got.Conn).Comparable() {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.timer == nil {
		return
	}
	p.roundTrip.connections.leave(p.connection)
	p.connection = p.roundTrip.connections.use(got.Conn, p.roundTrip.sinceMade())
}

// connections counts the attempts on each connection. Over HTTP/2 many attempts share a connection, which stays in use
// after one of the attempts has timed out. If the connection is dead, each further attempt on it would also time out.
type connections struct {
	mu    sync.Mutex // guards all fields below
	inUse map[net.Conn]*connection
}

type connection struct {
	net.Conn
	attempts int          // number of attempts that use the connection; guarded by connections.mu
	used     atomic.Int64 // when bytes were last transferred, or when the use began, in the time of Transport.sinceMade
}

// timedOut closes the connection of an attempt that has timed out. If other attempts use the connection, closing it
// would make them fail, although the server may only be slow to answer the request of the first attempt. Therefore a
// connection that other attempts use is closed only if nothing was transferred on it for twice the attempt timeout.
func (c *connections) timedOut(left *connection, now, patience time.Duration) {
	c.mu.Lock()
	shared := left.attempts > 0
	c.mu.Unlock()
	if silence := now - time.Duration(left.used.Load()); shared && silence/2 < patience {
		return
	}
	defer func() { _ = recover() }() // Close of quic-go's HTTP/3 connections panics
	left.Close()
}

func (c *connections) use(conn net.Conn, now time.Duration) *connection {
	c.mu.Lock()
	defer c.mu.Unlock()
	used := c.inUse[conn]
	if used == nil {
		used = &connection{Conn: conn}
		used.used.Store(int64(now))
		if c.inUse == nil {
			c.inUse = make(map[net.Conn]*connection)
		}
		c.inUse[conn] = used
	}
	used.attempts++
	return used
}

func (c *connections) leave(used *connection) {
	if used == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if used.attempts--; used.attempts == 0 {
		delete(c.inUse, used.Conn)
	}
}
