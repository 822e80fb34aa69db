package discordsim

import (
	"context"
	"io"
	stdlog "log"
	"net"
	"net/http"
	"time"
)

// BaseURL is a base URL for requests over DialContext or RoundTripper. Any other host works as well, but clients that
// limit only Discord's hosts need no configuration for BaseURL.
const BaseURL = "http://discord.com"

// loopbackTolerance is how long, on a busy machine, an answer may wait in socket buffers and scheduler queues before a
// client on the loopback interface reads it.
const loopbackTolerance = 20 * time.Millisecond

// Listen serves real HTTP on a free port of the loopback interface until Close, and returns the base URL.
func (s *Server) Listen() (baseURL string, err error) { return s.ListenOn("127.0.0.1:0") }

// ListenOn is like Listen, but uses the given address.
func (s *Server) ListenOn(address string) (baseURL string, err error) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return "", err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.isClosed {
		_ = listener.Close()
		return "", ErrClosed
	}
	s.world.config.Tolerance = max(s.world.config.Tolerance, loopbackTolerance)
	s.serve(listener)
	return "http://" + listener.Addr().String(), nil
}

// DialContext connects to the server in memory. It ignores the network and the address. Use it as the DialContext of an
// [http.Transport]. In a testing/synctest bubble, connecting takes no time.
func (s *Server) DialContext(ctx context.Context, _, _ string) (net.Conn, error) {
	s.mu.Lock()
	if s.isClosed {
		s.mu.Unlock()
		return nil, ErrClosed
	}
	if s.memory == nil {
		s.memory = &memoryListener{connections: make(chan net.Conn), closed: make(chan struct{})}
		s.serve(s.memory)
	}
	listener := s.memory
	s.mu.Unlock()

	client, server := net.Pipe()
	select {
	case listener.connections <- server:
		return client, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-listener.closed:
		return nil, ErrClosed
	}
}

// serve accepts connections until Close. s.mu must be held.
func (s *Server) serve(listener net.Listener) {
	server := &http.Server{
		Handler:  s,
		ErrorLog: stdlog.New(io.Discard, "", 0), // tests break connections on purpose
	}
	s.serving = append(s.serving, server)
	s.busy.Go(func() { _ = server.Serve(listener) }) // returns ErrServerClosed
}

// memoryListener hands the server's end of a pipe to Accept, one pipe for each connection.
type memoryListener struct {
	connections chan net.Conn
	closed      chan struct{}
}

func (l *memoryListener) Accept() (net.Conn, error) {
	select {
	case conn := <-l.connections:
		return conn, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close is called once, by the http.Server that owns the listener.
func (l *memoryListener) Close() error {
	close(l.closed)
	return nil
}

func (l *memoryListener) Addr() net.Addr { return memoryAddr{} }

type memoryAddr struct{}

func (memoryAddr) Network() string { return "memory" }
func (memoryAddr) String() string  { return "discord.com" }
