package soak

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"

	"github.com/ratelight/ratelight/internal/discordsim"
)

// wire connects the transport with the server of the round.
type wire interface {
	http.RoundTripper
	use(*discordsim.Server) error
	drop()
	close()
}

var errNoServer = errors.New("connection reset: no server between the rounds")

func newWire(virtual bool) wire {
	if virtual {
		return &memory{}
	}
	s := &sockets{}
	s.Transport = &http.Transport{DialContext: s.dial, MaxIdleConnsPerHost: 100}
	return s
}

// memory needs no connection.
type memory struct {
	server atomic.Pointer[discordsim.Server]
}

func (m *memory) RoundTrip(r *http.Request) (*http.Response, error) {
	server := m.server.Load()
	if server == nil {
		closeBody(r)
		return nil, errNoServer
	}
	return server.RoundTripper().RoundTrip(r)
}

func (m *memory) use(server *discordsim.Server) error {
	m.server.Store(server)
	return nil
}

func (m *memory) drop()  { m.server.Store(nil) }
func (m *memory) close() { m.drop() }

// sockets goes over the loopback interface.
type sockets struct {
	*http.Transport
	address atomic.Pointer[string]
}

func (s *sockets) dial(ctx context.Context, network, _ string) (net.Conn, error) {
	address := s.address.Load()
	if address == nil {
		return nil, errNoServer
	}
	return new(net.Dialer).DialContext(ctx, network, *address)
}

func (s *sockets) use(server *discordsim.Server) error {
	url, err := server.Listen()
	if err != nil {
		return err
	}
	address := strings.TrimPrefix(url, "http://")
	s.address.Store(&address)
	return nil
}

func (s *sockets) drop() {
	s.address.Store(nil)
	s.CloseIdleConnections()
}

func (s *sockets) close() { s.drop() }

// ledger counts the bodies that are open.
type ledger struct{ requests, responses atomic.Int64 }

// open returns how many are.
func (l *ledger) open() int { return int(l.requests.Load() + l.responses.Load()) }

// request returns a request's body that is counted until it is closed.
func (l *ledger) request(content io.Reader) io.ReadCloser {
	l.requests.Add(1)
	return &counted{Reader: content, open: &l.requests}
}

// below counts the bodies of responses.
func (l *ledger) below(base http.RoundTripper) http.RoundTripper {
	return roundTrip(func(r *http.Request) (*http.Response, error) {
		response, err := base.RoundTrip(r)
		if err != nil {
			return nil, err
		}
		if response.Body != nil && response.Body != http.NoBody {
			l.responses.Add(1)
			response.Body = &counted{Reader: response.Body, closer: response.Body, open: &l.responses}
		}
		return response, nil
	})
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// counted is a body that is counted as open until it is closed for the first time.
type counted struct {
	io.Reader
	closer io.Closer // nil: nothing to close
	open   *atomic.Int64
	closed atomic.Bool
}

func (c *counted) Close() error {
	if !c.closed.Swap(true) {
		c.open.Add(-1)
	}
	if c.closer == nil {
		return nil
	}
	return c.closer.Close()
}

func closeBody(r *http.Request) {
	if r.Body != nil {
		_ = r.Body.Close() // nobody waits for it
	}
}
