package discordtest

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/ratelight/ratelight/internal/discordsim"
)

// Server is a fake Discord. It is safe for concurrent use.
type Server struct {
	// URL is the server's base URL, without a trailing slash: URL + "/api/v10/users/@me".
	URL string

	t         testing.TB // nil outside of tests
	address   string     // to listen on, outside of bubbles
	engine    *discordsim.Server
	transport *http.Transport
	client    *http.Client

	mu       sync.Mutex
	requests []*record // in the order of processing
}

// NewServer returns a running server with these rules, see the package documentation. It is closed when the test ends.
// If a rule is invalid, the test fails at once.
//
// In an Example or a program t may be nil. Then NewServer panics if a rule is invalid, and the caller must close the
// server.
func NewServer(t testing.TB, rules ...Rule) *Server {
	if t != nil {
		t.Helper()
	}
	s := &Server{t: t, address: "127.0.0.1:0"}
	config, err := s.compile(rules)
	if err == nil {
		err = s.start(config)
	}
	if err != nil {
		if t == nil {
			panic(err)
		}
		t.Fatalf("%v", err)
	}
	if t != nil {
		t.Cleanup(s.Close)
	}
	return s
}

// start starts the engine. In a bubble, the engine works in memory.
func (s *Server) start(config discordsim.Config) (err error) {
	if s.engine, err = discordsim.New(config); err != nil {
		return fmt.Errorf("discordtest: %w", err)
	}
	s.URL = discordsim.BaseURL
	dial := s.engine.DialContext
	if !inBubble() {
		if s.URL, err = s.engine.ListenOn(s.address); err != nil {
			s.Close()
			return fmt.Errorf("discordtest: %w", err)
		}
		address := strings.TrimPrefix(s.URL, "http://")
		dial = func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, address)
		}
	}
	s.transport = s.newTransport(dial)
	s.client = &http.Client{Transport: s.transport}
	return nil
}

// newTransport returns a transport that connects to Discord's hosts with dial. It uses no TLS, even for https URLs.
// Each request has its own connection. Otherwise, if a fault broke a connection, net/http itself would repeat some
// requests, and the client would not notice the fault.
func (s *Server) newTransport(
	dial func(ctx context.Context, network, address string) (net.Conn, error),
) *http.Transport {
	own, _ := url.Parse(s.URL) // the URL is the server's own, and valid
	dialDiscord := func(ctx context.Context, network, address string) (net.Conn, error) {
		host, _, _ := net.SplitHostPort(address) // never fails: net/http always adds a port
		if host != own.Hostname() && !isDiscord(host) {
			return nil, fmt.Errorf("discordtest: %s is not a host of Discord's API, "+
				"and the client of a fake Discord reaches no others", host)
		}
		return dial(ctx, network, address)
	}
	return &http.Transport{DialContext: dialDiscord, DialTLSContext: dialDiscord, DisableKeepAlives: true}
}

// isDiscord reports whether a host belongs to Discord's API. The hosts of attachments and avatars do not.
func isDiscord(host string) bool {
	label, _, _ := strings.Cut(host, ".")
	if label == "cdn" || label == "media" || strings.HasPrefix(label, "images-") {
		return false
	}
	for _, domain := range []string{"discord.com", "discordapp.com"} {
		if host == domain || strings.HasSuffix(host, "."+domain) {
			return true
		}
	}
	return false
}

// inBubble reports whether this goroutine runs in a testing/synctest bubble. The standard library shows a bubble only
// in the first line of a stack trace: "goroutine 3 [running, synctest bubble 1]:".
func inBubble() bool {
	trace := make([]byte, 128)
	first, _, _ := strings.Cut(string(trace[:runtime.Stack(trace, false)]), "\n")
	return strings.Contains(first, "synctest bubble")
}

// Client returns a client that sends requests for the hosts of Discord's API to the server. Requests to all other hosts
// fail. The client's transport can be used in a library's http.Client, or with httpclient.WithBase.
func (s *Server) Client() *http.Client { return s.client }

// Close closes the server and all its connections. Requests in flight fail. If a function of Handle is running, the
// context of its request ends, and Close waits until the function has returned. The recorded requests can still be
// read. A second Close does nothing.
func (s *Server) Close() {
	if s.transport != nil {
		s.transport.CloseIdleConnections()
	}
	_ = s.engine.Close() // the error is about listeners, which are closed in any case
}

// Requests returns all requests that the server has processed, in the order of processing. It includes requests that
// have no answer yet, but not requests that were cancelled before they arrived.
func (s *Server) Requests() []Request {
	return s.those(func(Request) bool { return true })
}

// Refused returns the requests that got a 429 from a limit or from [Refuse].
func (s *Server) Refused() []Request {
	return s.those(func(r Request) bool { return r.Refused != "" })
}

// Avoidable returns the refused requests that a correct client would not have sent: see the package documentation.
// Request.Because says why.
func (s *Server) Avoidable() []Request {
	return s.those(func(r Request) bool { return r.Avoidable })
}

func (s *Server) those(want func(Request) bool) []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []Request
	for _, r := range s.requests {
		if want(r.Request) {
			found = append(found, r.Request)
		}
	}
	return found
}

// errorf reports an error of the test, if there is a test.
func (s *Server) errorf(format string, arguments ...any) {
	if s.t != nil {
		s.t.Errorf(format, arguments...)
	}
}

// observe records the outcome of a request. The engine calls it in the order of processing.
func (s *Server) observe(event discordsim.Event) {
	r := event.Value.(*record)
	s.mu.Lock()
	defer s.mu.Unlock()
	r.Operation, r.Time, r.Status = event.Operation, event.At, event.Status
	if event.Class != discordsim.ClassNone {
		r.Refused = Class(event.Class.String())
		r.Avoidable, r.Because = event.Verdict == discordsim.Avoidable, event.Because
	}
	s.requests = append(s.requests, r)
}
