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
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/httpclient"
)

// http2Network has connections that go silent: what is written is lost, and nothing comes.
type http2Network struct {
	base *http.Transport

	mu          sync.Mutex
	connections []*silentConn
}

type silentConn struct {
	net.Conn
	silent atomic.Bool
}

func (c *silentConn) Write(p []byte) (int, error) {
	if c.silent.Load() {
		return len(p), nil
	}
	return c.Conn.Write(p)
}

func newHTTP2(t *testing.T, handler http.HandlerFunc) *http2Network {
	t.Helper()
	n := &http2Network{base: newServer(t, handler)}
	dial := n.base.DialContext
	n.base.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := dial(ctx, network, address)
		silent := &silentConn{Conn: c}
		n.mu.Lock()
		defer n.mu.Unlock()
		n.connections = append(n.connections, silent)
		return silent, err
	}
	n.base.Protocols = new(http.Protocols)
	n.base.Protocols.SetUnencryptedHTTP2(true)
	return n
}

// stallGets answers each POST after two seconds, and no GET.
func stallGets(_ http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet {
		<-r.Context().Done()
	}
	time.Sleep(2 * time.Second)
}

func (n *http2Network) dials() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.connections)
}

// silence makes all connections of now silent.
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
				assert.Less(t, first.took, 17*time.Second)
			} else { // which is not repeated
				assertAttemptTimeout(t, 15*time.Second, first.err)
			}
			time.Sleep(time.Millisecond) // in which net/http notices that the connection is closed
			next := send(transport, http2Request(t, method).WithContext(parent))
			assertStatus(t, http.StatusOK, next)
			assert.Less(t, next.took, time.Second)
			assert.Equal(t, 2, n.dials())
			assert.GreaterOrEqual(t, got, 3, "the caller's trace")
		}
	})
}

// A response may also stop halfway.
func TestADeadHTTP2ConnectionIsNotUsedAgainAfterAResponseThatStops(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newHTTP2(t, func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodGet {
				_, _ = w.Write([]byte("begin"))
				_ = http.NewResponseController(w).Flush()
				<-r.Context().Done()
			}
		})
		transport := newTransport(t, n.base)
		var timeout *httpclient.AttemptTimeoutError
		assert.ErrorAs(t, send(transport, http2Request(t, http.MethodGet)).wait().err, &timeout)
		time.Sleep(time.Millisecond)
		next := send(transport, http2Request(t, http.MethodPost))
		assertStatus(t, http.StatusOK, next)
		assert.Equal(t, 2, n.dials())
	})
}

// A server that is slow with one request breaks no others on the same connection, as long as they go on.
func TestASlowAnswerDoesNotBreakOthersOnItsHTTP2Connection(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newHTTP2(t, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/api/v10/gateway" {
				<-r.Context().Done()
				return
			}
			time.Sleep(2 * time.Second)
		})
		transport := newTransport(t, n.base, httpclient.WithRetries(0))
		assertStatus(t, http.StatusOK, send(transport, http2Request(t, http.MethodPost)))
		slow := http2Request(t, http.MethodGet)
		slow.URL.Path = "/api/v10/gateway"
		late := send(transport, slow)
		for range 20 {
			go func() { assertStatus(t, http.StatusOK, send(transport, http2Request(t, http.MethodPost))) }()
			time.Sleep(time.Second)
		}
		var timeout *httpclient.AttemptTimeoutError
		assert.ErrorAs(t, late.wait().err, &timeout)
		time.Sleep(time.Minute)
		assert.Equal(t, 1, n.dials())
	})
}

// The default base finds out by itself, also when an attempt may take any time. It is made of http.DefaultTransport, so
// this test does not run beside others.
func TestTheDefaultBaseFindsADeadHTTP2Connection(t *testing.T) {
	before := http.DefaultTransport
	defer func() { http.DefaultTransport = before }()
	synctest.Test(t, func(t *testing.T) {
		n := newHTTP2(t, func(http.ResponseWriter, *http.Request) {})
		http.DefaultTransport = n.base
		transport := newTransport(t, nil, httpclient.WithAttemptTimeout(0))
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		assertStatus(t, http.StatusOK, send(transport, http2Request(t, http.MethodGet)))
		n.silence()
		second := send(transport, http2Request(t, http.MethodGet).WithContext(ctx))
		assertStatus(t, http.StatusOK, second)
		assert.InDelta(t, 20.5, second.took.Seconds(), 0.5, "15 s until a ping, 5 s for its answer, and a pause")
		assert.Equal(t, 2, n.dials())
		assert.Nil(t, n.base.HTTP2, "the caller's own is left alone")
	})
}

// A connection that took long to come about has not been silent for long.
func TestATimeoutDoesNotBreakOthersOnANewHTTP2Connection(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newHTTP2(t, stallGets)
		dial := n.base.DialContext
		n.base.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
			time.Sleep(14 * time.Second)
			return dial(ctx, network, address)
		}
		transport := newTransport(t, n.base, httpclient.WithRetries(0))
		time.Sleep(time.Minute)
		slow := http2Request(t, http.MethodGet)
		slow.URL.Path = "/api/v10/gateway"
		late := send(transport, slow)
		time.Sleep(13 * time.Second)
		message := send(transport, http2Request(t, http.MethodPost))
		assert.ErrorAs(t, late.wait().err, new(*httpclient.AttemptTimeoutError))
		assertStatus(t, http.StatusOK, message)
		time.Sleep(time.Minute) // in which the dial of the second one ends
	})
}

// A request with a short time of its own says little about a connection on which others may wait for longer.
func TestAShortTimeoutDoesNotBreakOthersOnItsHTTP2Connection(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newHTTP2(t, func(_ http.ResponseWriter, r *http.Request) { time.Sleep(5 * time.Second) })
		transport := newTransport(t, n.base, httpclient.WithRetries(0))
		assertStatus(t, http.StatusOK, send(transport, http2Request(t, http.MethodPost)))
		time.Sleep(time.Minute)
		message := send(transport, http2Request(t, http.MethodPost))
		time.Sleep(3 * time.Second)
		hurried := http2Request(t, http.MethodGet)
		hurried.URL.Path = "/api/v10/gateway"
		late := send(transport, hurried.WithContext(httpclient.ContextWithAttemptTimeout(t.Context(), time.Second)))
		assert.ErrorAs(t, late.wait().err, new(*httpclient.AttemptTimeoutError))
		assertStatus(t, http.StatusOK, message)
		assert.Equal(t, 1, n.dials())
	})
}

// One request that stalls does not fail another that has only just been sent.
func TestAStalledStreamDoesNotBreakARecentOneOnItsHTTP2Connection(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newHTTP2(t, stallGets)
		transport := newTransport(t, n.base, httpclient.WithRetries(0))
		assertStatus(t, http.StatusOK, send(transport, http2Request(t, http.MethodPost)))
		time.Sleep(time.Minute)
		slow := http2Request(t, http.MethodGet)
		slow.URL.Path = "/api/v10/gateway"
		late := send(transport, slow)
		time.Sleep(14 * time.Second)
		message := send(transport, http2Request(t, http.MethodPost))
		assert.ErrorAs(t, late.wait().err, new(*httpclient.AttemptTimeoutError))
		assertStatus(t, http.StatusOK, message)
	})
}

// All of them together find that a connection is dead, however many there are, and however soon one follows another.
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
			assert.Less(t, c.took, 32*time.Second)
		}
	})
}

// stuckConn is a connection whose peer takes nothing more once it is stuck, so that writes block.
type stuckConn struct {
	net.Conn
	stuck, closed context.Context
	close         context.CancelFunc
}

func (c *stuckConn) Write(p []byte) (int, error) {
	if c.stuck.Err() != nil {
		<-c.closed.Done()
	}
	return c.Conn.Write(p)
}

func (c *stuckConn) Close() error {
	c.close()
	return c.Conn.Close()
}

// net/http tells the server that a response is closed, and waits for that.
func TestClosingAResponseOverADeadHTTP2ConnectionEnds(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newHTTP2(t, func(w http.ResponseWriter, r *http.Request) {
			_, _ = w.Write([]byte("begin"))
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		})
		stuck, stick := context.WithCancel(t.Context())
		dial := n.base.DialContext
		n.base.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := dial(ctx, network, address)
			closed, close := context.WithCancel(context.Background())
			return &stuckConn{conn, stuck, closed, close}, err
		}
		response, err := newTransport(t, n.base).RoundTrip(http2Request(t, http.MethodGet))
		require.NoError(t, err)
		stick()
		over := make(chan struct{})
		go func() { defer close(over); assert.NoError(t, response.Body.Close()) }()
		select {
		case <-over:
		case <-time.After(16 * time.Second):
			assert.Fail(t, "it does not end")
		}
	})
}

// A request whose own deadline is earlier than the end of its attempt uses a connection like all others.
func TestATimeoutDoesNotBreakRequestsWithADeadlineOnItsHTTP2Connection(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newHTTP2(t, stallGets)
		transport := newTransport(t, n.base, httpclient.WithRetries(0))
		assertStatus(t, http.StatusOK, send(transport, http2Request(t, http.MethodPost)))
		slow := http2Request(t, http.MethodGet)
		slow.URL.Path = "/api/v10/gateway"
		late := send(transport, slow)
		var messages []*call
		for range 15 {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			messages = append(messages, send(transport, http2Request(t, http.MethodPost).WithContext(ctx)))
			time.Sleep(time.Second)
		}
		assert.ErrorAs(t, late.wait().err, new(*httpclient.AttemptTimeoutError))
		assertStatus(t, http.StatusOK, messages...)
		assert.Equal(t, 1, n.dials())
	})
}

// The connections in the traces of HTTP/3 clients of quic-go panic when they are closed, which httptrace forbids.
type forbidden struct{ net.Conn }

func (forbidden) Close() error { panic("connection operation prohibited") }

func TestAConnectionThatMustNotBeClosedDoesNotEndTheProgram(t *testing.T) {
	bubble(t, func(t *testing.T) {
		transport := newTransport(t, roundTripper(func(r *http.Request) (*http.Response, error) {
			trace := httptrace.ContextClientTrace(r.Context())
			trace.GotConn(httptrace.GotConnInfo{Conn: &forbidden{}})
			<-r.Context().Done()
			return nil, r.Context().Err()
		}))
		time.Sleep(time.Minute)
		assertAttemptTimeout(t, 15*time.Second, send(transport, newMessage(t)).wait().err)
		synctest.Wait()
	})
}
