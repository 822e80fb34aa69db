package httpclient_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/ratelight/ratelight/httpclient"
)

// http2Network has connections that can become silent. On a silent connection nothing arrives, and writes are lost or
// block until the connection is closed.
type http2Network struct {
	base   *http.Transport
	blocks bool // whether the writes of a silent connection block

	mu          sync.Mutex
	connections []*silentConn
}

type silentConn struct {
	net.Conn
	network *http2Network
	silent  atomic.Bool
	closed  chan struct{}
	close   func()
}

func (c *silentConn) Write(p []byte) (int, error) {
	switch {
	case !c.silent.Load():
		return c.Conn.Write(p)
	case c.network.blocks:
		<-c.closed
		return 0, net.ErrClosed
	}
	return len(p), nil
}

func (c *silentConn) Close() error {
	c.close()
	return c.Conn.Close()
}

func newHTTP2(t *testing.T, handler http.HandlerFunc) *http2Network {
	t.Helper()
	n := &http2Network{base: newServer(t, handler)}
	dial := n.base.DialContext
	n.base.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := dial(ctx, network, address)
		silent := &silentConn{Conn: c, network: n, closed: make(chan struct{})}
		silent.close = sync.OnceFunc(func() { close(silent.closed) })
		n.mu.Lock()
		defer n.mu.Unlock()
		n.connections = append(n.connections, silent)
		return silent, err
	}
	n.base.Protocols = new(http.Protocols)
	n.base.Protocols.SetUnencryptedHTTP2(true)
	return n
}

func (n *http2Network) dials() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.connections)
}

// silence makes all currently open connections silent.
func (n *http2Network) silence() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, c := range n.connections {
		c.silent.Store(true)
	}
}

func http2Request(t *testing.T, method string) *http.Request {
	t.Helper()
	body := ""
	if method == http.MethodPost {
		body = "{}"
	}
	r := newRequest(t, method, messages, body)
	r.URL.Scheme = "http"
	return r
}

func TestADeadHTTP2ConnectionIsNotUsedAgain(t *testing.T) {
	forEachParent(t, func(t *testing.T, parent context.Context) {
		for _, method := range []string{http.MethodGet, http.MethodPost} {
			n := newHTTP2(t, func(http.ResponseWriter, *http.Request) {})
			var got int
			parent = httptrace.WithClientTrace(parent, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { got++ }})
			transport := newTransport(t, n.base)
			assertStatus(t, http.StatusOK, send(transport, http2Request(t, method).WithContext(parent)))
			n.silence()
			first := send(transport, http2Request(t, method).WithContext(parent)).wait()
			if method == http.MethodGet {
				assertStatus(t, http.StatusOK, first)
				assert.Less(t, first.took, httpclient.DefaultAttemptTimeout+2*time.Second)
			} else { // a request with this method is not repeated
				assertAttemptTimeout(t, httpclient.DefaultAttemptTimeout, first.err)
			}
			time.Sleep(time.Millisecond) // so that net/http notices that the connection is closed
			next := send(transport, http2Request(t, method).WithContext(parent))
			assertStatus(t, http.StatusOK, next)
			assert.Less(t, next.took, time.Second)
			assert.Equal(t, 2, n.dials())
			assert.GreaterOrEqual(t, got, 3, "the caller's trace must be called, too")
		}
	})
}

// beginOnly is a handler that begins the response to a GET and does not end it.
func beginOnly(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet {
		_, _ = w.Write([]byte("begin"))
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}
}

// A connection that becomes silent in the middle of a response must not be used again.
func TestADeadHTTP2ConnectionIsNotUsedAgainAfterAResponseThatStops(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newHTTP2(t, beginOnly)
		transport := newTransport(t, n.base)
		errorAs[*httpclient.AttemptTimeoutError](t, send(transport, http2Request(t, http.MethodGet)).wait().err)
		time.Sleep(time.Millisecond)
		assertStatus(t, http.StatusOK, send(transport, http2Request(t, http.MethodPost)))
		assert.Equal(t, 2, n.dials())
	})
}

// A server responds slowly to one request, and the attempt times out. Other requests on the same connection must not
// fail because of this timeout if they make progress or have not waited long.
func TestATimeoutBreaksNoOthersOnItsHTTP2Connection(t *testing.T) {
	type story struct {
		dial     time.Duration // time to open a connection, which does not count as silence
		unused   bool          // nothing was sent on the connection before the slow request
		idle     time.Duration // pause before the first request
		before   time.Duration // a message is sent this long before the slow request, 0: none
		after    time.Duration // the first message is sent this long after the slow request
		messages int           // number of messages sent after the slow request, one each second
		takes    time.Duration // time that the server takes for a message
		deadline time.Duration // deadline of each message's context, 0: none
		own      time.Duration // attempt timeout of the slow request, 0: the default
	}
	inBubbles(t, map[string]story{
		"others go on":           {messages: 20, takes: 2 * time.Second},
		"others have a deadline": {messages: 15, takes: 2 * time.Second, deadline: 10 * time.Second},
		"a recent one":           {idle: time.Minute, after: 14 * time.Second, messages: 1, takes: 2 * time.Second},
		"a new connection": {
			dial: 14 * time.Second, unused: true, idle: time.Minute, after: 13 * time.Second, messages: 1,
			takes: 2 * time.Second,
		},
		"a short time that ends now": {idle: time.Minute, before: 3 * time.Second, takes: 5 * time.Second, own: time.Second},
	}, func(t *testing.T, c story) {
		n := newHTTP2(t, func(_ http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodGet {
				<-r.Context().Done()
				return
			}
			time.Sleep(c.takes)
		})
		dial := n.base.DialContext
		n.base.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
			time.Sleep(c.dial)
			return dial(ctx, network, address)
		}
		transport := newTransport(t, n.base, noRetries)
		post := func() *call {
			ctx, cancel := context.WithCancel(t.Context())
			if c.deadline > 0 {
				ctx, cancel = context.WithTimeout(ctx, c.deadline)
			}
			t.Cleanup(cancel)
			return send(transport, http2Request(t, http.MethodPost).WithContext(ctx))
		}
		if !c.unused {
			assertStatus(t, http.StatusOK, post())
		}
		time.Sleep(c.idle)
		var messages []*call
		if c.before > 0 {
			messages = append(messages, post())
			time.Sleep(c.before)
		}
		slow := http2Request(t, http.MethodGet)
		slow.URL.Path = "/api/v10/gateway"
		if c.own > 0 {
			slow = slow.WithContext(httpclient.ContextWithAttempts(t.Context(), httpclient.Attempts{Timeout: c.own}))
		}
		late := send(transport, slow)
		time.Sleep(c.after)
		for range c.messages {
			messages = append(messages, post())
			time.Sleep(time.Second)
		}
		assert.ErrorAs(t, late.wait().err, new(*httpclient.AttemptTimeoutError))
		assertStatus(t, http.StatusOK, messages...)
		time.Sleep(time.Minute) // a second dial would end within this time
		if !c.unused {
			assert.Equal(t, 1, n.dials())
		}
	})
}

// The default base must detect a dead connection even without an attempt timeout. The default base is a clone of
// http.DefaultTransport. The test replaces that variable, so it does not run in parallel with other tests.
func TestTheDefaultBaseFindsADeadHTTP2Connection(t *testing.T) {
	before := http.DefaultTransport
	defer func() { http.DefaultTransport = before }()
	synctest.Test(t, func(t *testing.T) {
		n := newHTTP2(t, func(http.ResponseWriter, *http.Request) {})
		http.DefaultTransport = n.base
		transport := newTransport(t, nil, noTimeout)
		ctx := within(t, time.Hour)
		assertStatus(t, http.StatusOK, send(transport, http2Request(t, http.MethodGet)))
		n.silence()
		second := send(transport, http2Request(t, http.MethodGet).WithContext(ctx))
		assertStatus(t, http.StatusOK, second)
		assert.InDelta(t, 20.5, second.took.Seconds(), 0.5, "15 s until a ping, 5 s for its answer, and a pause")
		assert.Equal(t, 2, n.dials())
		assert.Nil(t, n.base.HTTP2, "the caller's transport must not change")
	})
}

// Each request has only a short timeout, and the next request follows at once. Although the connection is always in
// use, these timeouts must show that it is dead.
func TestADeadHTTP2ConnectionThatIsAlwaysInUseIsClosed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newHTTP2(t, func(http.ResponseWriter, *http.Request) {})
		transport := newTransport(t, n.base)
		var all []*call
		for i := range 40 {
			if i == 5 {
				n.silence()
			}
			r := http2Request(t, http.MethodGet)
			r.URL.Path = fmt.Sprintf("/api/v10/channels/%d", i)
			all = append(all, send(transport, r))
			time.Sleep(time.Second)
		}
		assertStatus(t, http.StatusOK, all...)
		assert.Equal(t, 2, n.dials())
		for _, c := range all {
			assert.Less(t, c.took, 2*httpclient.DefaultAttemptTimeout+2*time.Second)
		}
	})
}

// When the body of a response is closed, net/http tells the server, and waits until this message has been written. On a
// dead connection, Close must return nevertheless.
func TestClosingAResponseOverADeadHTTP2ConnectionEnds(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newHTTP2(t, beginOnly)
		response := roundTrip(t, newTransport(t, n.base), http2Request(t, http.MethodGet))
		n.blocks = true
		n.silence()
		start := time.Now()
		assert.NoError(t, response.Body.Close())
		assert.LessOrEqual(t, time.Since(start), httpclient.DefaultAttemptTimeout+time.Second)
	})
}

// forbidden is a connection whose Close panics, like those that HTTP/3 clients of quic-go pass to httptrace.
type forbidden struct{ net.Conn }

func (forbidden) Close() error { panic("connection operation prohibited") }

func TestAConnectionThatMustNotBeClosedDoesNotEndTheProgram(t *testing.T) {
	bubble(t, func(t *testing.T) {
		transport := newTransport(t, responder(func(r *http.Request) (*http.Response, error) {
			trace := httptrace.ContextClientTrace(r.Context())
			trace.GotConn(httptrace.GotConnInfo{Conn: &forbidden{}})
			<-r.Context().Done()
			return nil, r.Context().Err()
		}))
		time.Sleep(time.Minute)
		assertAttemptTimeout(t, httpclient.DefaultAttemptTimeout, send(transport, newMessage(t)).wait().err)
		synctest.Wait()
	})
}
