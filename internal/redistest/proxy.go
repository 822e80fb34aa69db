package redistest

import (
	"io"
	"net"
	"sync"
	"testing"
)

// Proxy forwards connections to an engine. A test can inspect the replies and break the connections.
type Proxy struct {
	listener net.Listener
	to       string
	running  sync.WaitGroup

	mu    sync.Mutex
	reply func(p []byte) bool
}

// NewProxy starts a proxy on a listener, or on a free port if the listener is nil. The proxy ends when the test ends.
func NewProxy(t testing.TB, e *Engine, listener net.Listener) *Proxy {
	t.Helper()
	if listener == nil {
		var err error
		listener, err = net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
	}
	p := &Proxy{listener: listener, to: e.Address()}
	p.running.Go(func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			p.running.Go(func() { p.serve(connection) })
		}
	})
	t.Cleanup(func() {
		listener.Close()
		p.running.Wait()
	})
	return p
}

// Address returns the host and the port of the proxy.
func (p *Proxy) Address() string { return p.listener.Addr().String() }

// OnReply sets a function that is called with each part of a reply. If the function returns false, the proxy drops that
// part and closes the connection.
func (p *Proxy) OnReply(f func(part []byte) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reply = f
}

func (p *Proxy) serve(connection net.Conn) {
	defer connection.Close()
	engine, err := net.Dial("tcp", p.to)
	if err != nil {
		return
	}
	defer engine.Close()
	p.running.Go(func() {
		_, _ = io.Copy(engine, connection)
		engine.Close()
	})
	buffer := make([]byte, 1<<16)
	for {
		n, err := engine.Read(buffer)
		if err != nil {
			return
		}
		p.mu.Lock()
		reply := p.reply
		p.mu.Unlock()
		if reply != nil && !reply(buffer[:n]) {
			return
		}
		if _, err := connection.Write(buffer[:n]); err != nil {
			return
		}
	}
}
