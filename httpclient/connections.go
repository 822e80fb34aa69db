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

// connections knows which attempts use which connection. Over HTTP/2 many share one, which stays in use after one of
// them has timed out. So a connection is closed when an attempt on it times out and no other attempt on it has made
// progress since: it is dead, and each further attempt would wait for it again.
type connections struct {
	mu    sync.Mutex
	inUse map[net.Conn]*connection
}

// connection is one that attempts use.
type connection struct {
	net.Conn
	attempts int          // which use it; guarded by connections.mu
	moved    atomic.Int64 // when one of them made progress, as deadlines count time; 0: never
}

// use notes that an attempt uses a connection from now on, in place of an earlier one.
func (c *connections) use(s *attemptContext, conn net.Conn) {
	if !reflect.ValueOf(conn).Comparable() {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.waiting.Load() == over { // since then, and the attempt would not leave it
		return
	}
	c.leaveLocked(s)
	used := c.inUse[conn]
	if used == nil {
		used = &connection{Conn: conn}
		if c.inUse == nil {
			c.inUse = make(map[net.Conn]*connection)
		}
		c.inUse[conn] = used
	}
	used.attempts++
	s.connection.Store(used)
}

// leave notes that an attempt is over, and closes its connection if it timed out and nothing has moved there since.
func (c *connections) leave(s *attemptContext, timedOut bool) {
	c.mu.Lock()
	used := c.leaveLocked(s)
	c.mu.Unlock()
	if used == nil || !timedOut {
		return
	}
	if moved := time.Duration(used.moved.Load()); moved == 0 || moved <= s.deadlines.now()-s.patience {
		go used.Close() // TLS waits to say goodbye
	}
}

func (c *connections) leaveLocked(s *attemptContext) *connection {
	used := s.connection.Swap(nil)
	if used == nil {
		return nil
	}
	if used.attempts--; used.attempts == 0 {
		delete(c.inUse, used.Conn)
	}
	return used
}

// traceKey is the key by which package httptrace finds the trace of a context. It is not exported, but a context that
// knows it needs no other context around it.
var traceKey = func() (key any) {
	httptrace.ContextClientTrace(valueFunc{context.Background(), func(asked any) { key = asked }})
	return key
}()

type valueFunc struct {
	context.Context
	asked func(key any)
}

func (f valueFunc) Value(key any) any {
	f.asked(key)
	return nil
}

// Value is that of the request's context, except that the attempt's trace notes its connection.
func (s *attemptContext) Value(key any) any {
	if key != traceKey {
		return s.Context.Value(key)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.trace != nil {
		return s.trace
	}
	s.trace = new(httptrace.ClientTrace)
	own := httptrace.ContextClientTrace(s.Context)
	if own != nil {
		*s.trace = *own
	}
	s.trace.GotConn = func(got httptrace.GotConnInfo) {
		s.deadlines.connections.use(s, got.Conn)
		if own != nil && own.GotConn != nil {
			own.GotConn(got)
		}
	}
	return s.trace
}
