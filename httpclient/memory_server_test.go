package httpclient_test

import (
	"context"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// pipes are connections in memory, for a server of net/http in virtual time. What is written waits until it is read.
type pipes struct {
	dialed chan net.Conn
	closed context.Context
	close  context.CancelFunc
}

// newServer returns a transport that reaches a server of its own, in virtual time. The contexts of its requests end with the test.
func newServer(t *testing.T, handler http.HandlerFunc) *http.Transport {
	t.Helper()
	p := &pipes{dialed: make(chan net.Conn)}
	p.closed, p.close = context.WithCancel(context.Background())
	var serving sync.WaitGroup
	server := &http.Server{
		BaseContext: func(net.Listener) context.Context { return p.closed },
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			serving.Add(1)
			defer serving.Done()
			handler(w, r)
		}),
	}
	serving.Go(func() { assert.ErrorIs(t, server.Serve(p), http.ErrServerClosed) })
	below := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
		client, server := net.Pipe()
		p.dialed <- server
		return client, nil
	}, ExpectContinueTimeout: time.Minute}
	t.Cleanup(func() {
		below.CloseIdleConnections()
		assert.NoError(t, server.Close())
		serving.Wait()
		time.Sleep(time.Second) // so that connections linger no more, as net/http lets them
	})
	return below
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.dialed:
		return c, nil
	case <-p.closed.Done():
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { p.close(); return nil }
func (p *pipes) Addr() net.Addr { return new(net.TCPAddr) }
