package redis

import (
	"context"
	"crypto/tls"
	"net"
	"sync"

	"github.com/redis/rueidis"
)

// connections can cut all connections of a client. The type is needed because rueidis.NewClient takes no context, and
// because Close of a rueidis client waits for replies.
type connections struct {
	context context.Context
	cancel  context.CancelFunc

	mu   sync.Mutex
	down bool
	open map[*connection]struct{}
}

type connection struct {
	net.Conn
	of *connections
}

func newConnections() *connections {
	c := &connections{open: map[*connection]struct{}{}}
	c.context, c.cancel = context.WithCancel(context.Background())
	return c
}

// through makes the client dial through c, so that c can cut the client's connections.
func (c *connections) through(o *rueidis.ClientOption) {
	inner, old := o.DialCtxFn, o.DialFn
	o.DialFn = nil
	o.DialCtxFn = func(ctx context.Context, address string, dialer *net.Dialer, config *tls.Config) (net.Conn, error) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(c.context, cancel)()
		var made net.Conn
		var err error
		switch {
		case inner != nil:
			made, err = inner(ctx, address, dialer, config)
		case old != nil:
			made, err = old(address, dialer, config)
		case config != nil:
			made, err = dialTLS(ctx, address, dialer, config)
		default:
			made, err = dialer.DialContext(ctx, "tcp", address)
		}
		if err != nil {
			return nil, err
		}
		return c.add(made)
	}
}

// handshakeError means that the TLS handshake failed: the server answers, but does not use TLS or has a wrong
// certificate.
type handshakeError struct{ error }

func (e handshakeError) Error() string { return "TLS handshake: " + e.error.Error() }
func (e handshakeError) Unwrap() error { return e.error }

func dialTLS(ctx context.Context, address string, dialer *net.Dialer, config *tls.Config) (net.Conn, error) {
	if dialer.Timeout > 0 { // the timeout includes the handshake
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, dialer.Timeout)
		defer cancel()
	}
	plain, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	if config.ServerName == "" {
		host, _, _ := net.SplitHostPort(address)
		config = config.Clone()
		config.ServerName = host
	}
	secure := tls.Client(plain, config)
	if err := secure.HandshakeContext(ctx); err != nil {
		plain.Close()
		return nil, handshakeError{err}
	}
	return secure, nil
}

func (c *connections) add(made net.Conn) (net.Conn, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.down {
		made.Close()
		return nil, net.ErrClosed
	}
	one := &connection{made, c}
	c.open[one] = struct{}{}
	return one, nil
}

// Close closes the connection, and removes it from the open connections.
func (c *connection) Close() error {
	c.of.mu.Lock()
	delete(c.of.open, c)
	c.of.mu.Unlock()
	return c.Conn.Close()
}

// cut closes all connections, and prevents new ones.
func (c *connections) cut() {
	c.cancel()
	c.mu.Lock()
	c.down = true
	open := c.open
	c.open = nil
	c.mu.Unlock()
	for one := range open {
		one.Conn.Close()
	}
}
