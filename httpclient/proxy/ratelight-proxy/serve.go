package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/buckets/shared/redis"
	"github.com/ratelight/ratelight/httpclient"
	"github.com/ratelight/ratelight/httpclient/metrics"
	"github.com/ratelight/ratelight/httpclient/proxy"
	"github.com/ratelight/ratelight/httpclient/statefile"
	"github.com/ratelight/ratelight/httpclient/status"
	"github.com/ratelight/ratelight/httpclient/trace"
)

const (
	readHeaderTimeout = 10 * time.Second
	// idleTimeout is longer than the time for which libraries keep idle connections (OkHttp: 5 min). Otherwise the
	// proxy could close a connection that a library is about to use.
	idleTimeout    = 6 * time.Minute
	maxHeaderBytes = 64 << 10
	// adminTimeout bounds the time to read a request to the admin listener, and the time to write the response.
	adminTimeout = 30 * time.Second
	// closeTime is how long clients of waiting requests have to read the 503 of a closed proxy.
	closeTime = 2 * time.Second
)

// service is the proxy with its listeners.
type service struct {
	*config
	log      *slog.Logger
	journal  *journal
	tlsSetup *tls.Config
	handler  *proxy.Handler
	bots     http.Handler // handler, behind the journal and perhaps RequireSecret or RequireHost
	admin    http.Handler
	store    *redis.Store    // nil without --redis
	state    *statefile.File // nil without --state
	recorder *trace.Recorder // nil without --record
	recorded *os.File
	draining atomic.Bool
}

// newService prepares everything except the listeners. Its errors are about the configuration; some wrap
// errUnavailable.
func newService(c *config, stderr io.Writer) (s *service, err error) {
	s = &service{config: c, log: c.logger(stderr)}
	s.journal = newJournal(s.log, c.AccessLog)
	defer func() {
		if err != nil {
			s.close()
			s = nil
		}
	}()
	if !c.Check {
		s.log.Info("configuration", c.attributes()...)
	}
	if s.tlsSetup, err = c.tls(); err != nil {
		return s, err
	}
	declared, err := c.declared()
	if err != nil {
		return s, err
	}
	limiting := append(declared, buckets.WithMaxWaiting(c.MaxQueue))
	if c.Redis != "" {
		if err = s.connect(); err != nil {
			return s, fmt.Errorf("--redis: %w", err)
		}
		if s.store != nil {
			limiting = append(limiting, buckets.WithShared(s.store))
		}
	}
	transport := []httpclient.Option{
		httpclient.WithAttempts(httpclient.Attempts{Timeout: time.Duration(c.RequestTimeout)}),
		httpclient.WithBuckets(limiting...),
	}
	if c.StateKey != "" {
		transport = append(transport, httpclient.WithStateKey([]byte(c.StateKey)))
	}
	if c.HideLimits {
		transport = append(transport, httpclient.WithoutRateLimitHeaders())
	}
	s.handler, err = proxy.New(
		proxy.WithUpstream(c.Upstream),
		proxy.WithMaxWait(c.MaxWait),
		proxy.WithMaxBufferedBody(c.MaxBody),
		proxy.WithGlobalLimits(c.GlobalLimit.all, c.GlobalLimit.ofBots),
		proxy.WithLogger(s.log),
		proxy.WithTransport(transport...))
	if err != nil {
		return s, err
	}
	s.handler.Transport().AddHooks(s.journal.hooks())
	if c.State != "" && !c.Check {
		if s.state, err = statefile.Open(c.State, s.handler.Transport(), statefile.WithLogger(s.log)); err != nil {
			return s, fmt.Errorf("%w: --state: %w", errUnavailable, err)
		}
	}
	if c.Record != "" && !c.Check {
		if s.recorded, err = os.OpenFile(c.Record, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600); err != nil {
			return s, fmt.Errorf("%w: --record: %w", errUnavailable, err)
		}
		s.recorder = trace.New(s.recorded)
		s.handler.Transport().AddHooks(s.recorder.Hooks())
	}
	s.bots = s.handler
	pages := s.pages()
	if c.Secret != "" {
		if s.bots, err = proxy.RequireSecret(c.Secret, s.bots); err == nil {
			pages, err = proxy.RequireSecret(c.Secret, pages)
		}
	} else if c.TLSCert == "" { // with TLS, the certificate proves the name
		s.bots, pages = proxy.RequireHost(s.bots, c.hosts()...), proxy.RequireHost(pages, c.hosts()...)
	}
	s.admin = s.health(pages)
	if err == nil {
		s.bots = s.journal.around(s.bots)
	}
	return s, err
}

// errUnavailable is wrapped by errors about a file or server that the configuration names and that cannot be used now.
var errUnavailable = errors.New("unavailable")

// connect opens the store of shared limits. With --check it only checks the URL and the name of the application.
func (s *service) connect() (err error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if s.Check {
		cancel()
	}
	s.store, err = redis.Open(ctx, s.Redis, redis.WithApplication(s.Application), redis.WithLogger(s.log))
	switch {
	case errors.Is(err, redis.ErrURL), errors.Is(err, redis.ErrApplication), err == nil:
		return err
	case s.Check:
		return nil
	}
	return fmt.Errorf("%w: %w", errUnavailable, err)
}

// pages returns the handler of those pages of the admin listener that need the secret.
func (s *service) pages() http.Handler {
	transport := s.handler.Transport()
	registry := prometheus.NewRegistry()
	registry.MustRegister(metrics.New(transport.Manager(), transport), collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	mux := http.NewServeMux()
	page := status.Handler(transport.Manager(), status.WithLift(lifter{transport, s.handler}))
	mux.Handle("GET /{$}", page)
	mux.Handle("POST /{$}", s.logged(page)) // the page's buttons
	mux.Handle("POST /lift", s.logged(page))
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /upstream", s.upstream)
	return mux
}

// lifter is the transport, except that LiftHolds also lifts the holds of the proxy.
type lifter struct {
	*httpclient.Transport
	handler *proxy.Handler
}

func (l lifter) LiftHolds() { l.handler.LiftHolds() }

// logged logs the requests that have lifted something. It does not log failed requests, because their forms may contain
// anything.
func (s *service) logged(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		recorder := &statusRecorder{ResponseWriter: w}
		next.ServeHTTP(recorder, r)
		if recorder.status == http.StatusOK {
			s.log.Info("lifted", "what", r.Form.Get("what"), "credential", r.Form.Get("credential"))
		}
	})
}

// health returns a handler that serves the pages and, for probes, /live and /ready. The two probes need no secret,
// because they show only whether the process works.
func (s *service) health(pages http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", pages)
	mux.HandleFunc("GET /live", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok\n") })
	mux.HandleFunc("GET /ready", func(w http.ResponseWriter, _ *http.Request) {
		if s.draining.Load() {
			http.Error(w, "shutting down", http.StatusServiceUnavailable)
			return
		}
		_, _ = io.WriteString(w, "ok\n")
	})
	return mux
}

// upstream answers with the state of the upstream. The status is 503 if the state is not OK.
func (s *service) upstream(w http.ResponseWriter, _ *http.Request) {
	state := s.handler.Upstream()
	w.Header().Set("Content-Type", "application/json")
	if !state.OK() {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	answer := map[string]any{"ok": state.OK(), "hold_seconds": state.Hold.Seconds()}
	if !state.Answered.IsZero() {
		answer["answered"] = state.Answered.UTC()
	}
	if !state.Failed.IsZero() {
		answer["failed"], answer["failure"] = state.Failed.UTC(), state.Failure
	}
	_ = json.NewEncoder(w).Encode(answer) // an error means that the client has disconnected
}

// serve serves requests until the context ends. Then it lets the requests that have already arrived finish (see drain).
func (s *service) serve(ctx context.Context) error {
	listeners := []struct {
		name, flag, address string
		handler             http.Handler
	}{{"bots", "--listen", s.Listen, s.bots}, {"admin", "--admin", s.Admin, s.admin}}
	var servers []*http.Server
	failures := make(chan error, len(listeners))
	defer func() {
		for _, server := range servers {
			_ = server.Close() // closes the remaining connections
		}
	}()
	for _, l := range listeners {
		if l.address == "" {
			continue
		}
		listener, err := net.Listen("tcp", l.address)
		if err != nil {
			return fmt.Errorf("%s: %w", l.flag, err)
		}
		if s.tlsSetup != nil {
			setup := s.tlsSetup.Clone()
			setup.NextProtos = []string{"h2", "http/1.1"}
			listener = tls.NewListener(listener, setup)
		}
		server := &http.Server{
			Handler: l.handler, ReadHeaderTimeout: readHeaderTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeaderBytes,
			ErrorLog:  slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
			ConnState: newConnections(s.MaxConnections).changed,
		}
		if l.name == "admin" { // no request to this listener takes long
			server.ReadTimeout, server.WriteTimeout = adminTimeout, adminTimeout
		}
		servers = append(servers, server)
		s.log.Info("listening", "for", l.name, "address", listener.Addr().String())
		go func() { failures <- server.Serve(listener) }()
	}
	select {
	case err := <-failures:
		return err
	case <-ctx.Done():
	}
	return s.drain(servers[0])
}

// drain stops accepting connections and lets the bots' requests finish. After DrainTimeout, requests that still wait
// get a 503.
func (s *service) drain(bots *http.Server) error {
	s.draining.Store(true)
	s.log.Info("draining", "waiting", s.handler.Transport().Manager().Stats().Waiting)
	ctx, cancel := context.WithTimeout(context.Background(), s.DrainTimeout)
	defer cancel()
	err := bots.Shutdown(ctx)
	if shut := s.handler.Shutdown(ctx); err == nil {
		err = shut
	}
	if !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	ctx, cancel = context.WithTimeout(context.Background(), closeTime)
	defer cancel()
	_ = bots.Shutdown(ctx)
	return fmt.Errorf("requests were cut off after %v", s.DrainTimeout)
}

// close closes everything that newService has opened.
func (s *service) close() {
	if s.state != nil {
		if err := s.state.Close(); err != nil { // also closes the transport
			s.log.Warn("state not written", "error", err)
		}
	}
	if s.handler != nil {
		_ = s.handler.Close() // never fails
	}
	if s.recorder != nil {
		if err := errors.Join(s.recorder.Close(), s.recorded.Close()); err != nil {
			s.log.Warn("record not complete", "error", err)
		}
	}
	if s.store != nil {
		s.store.Close()
	}
}
