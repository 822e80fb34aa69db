package proxy

import (
	"context"
	"encoding/base64"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httputil"
	"strings"
	"sync"
	"time"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/httpclient"
	"github.com/ratelight/ratelight/httpclient/internal/redact"
	"github.com/ratelight/ratelight/internal/sparselog"
	"github.com/ratelight/ratelight/routes"
)

// Handler is an http.Handler that forwards each request to Discord when Discord is certain to accept it. Get a Handler
// from New. A Handler is safe for concurrent use. It may be mounted below a path with http.StripPrefix, but not in an
// http.ServeMux that cleans paths. The handler sets write deadlines, so that a client that reads nothing for 30 s loses
// its connection (over HTTP/2, only the stream). These deadlines replace the WriteTimeout of the http.Server.
type Handler struct {
	settings
	transport      *httpclient.Transport
	authorizations *authorizations
	origins        *http.CrossOriginProtection
	reverse        httputil.ReverseProxy
	upstreamState  upstreamState
	log            *sparselog.Log
	began          time.Time
}

// New returns a handler. Close the handler, or shut it down, when you no longer need it. New's errors wrap ErrOptions,
// and say what was expected.
func New(options ...Option) (*Handler, error) {
	s := defaults()
	for _, option := range options {
		if option == nil {
			continue
		}
		if err := option(&s); err != nil {
			return nil, err
		}
	}
	h := &Handler{settings: s, authorizations: newAuthorizations(), log: sparselog.New(s.logger), began: time.Now()}
	h.origins = http.NewCrossOriginProtection()
	if err := h.origins.AddTrustedOrigin(h.upstream.Scheme + "://" + h.upstream.Host); err != nil {
		return nil, fmt.Errorf("%w: the upstream: %w", ErrOptions, err)
	}
	h.transport = httpclient.NewTransport(h.transportOptions()...)
	h.transport.AddHooks(clientHooks)
	h.reverse = httputil.ReverseProxy{
		Rewrite: rewrite, Transport: h.transport, ModifyResponse: h.answered, ErrorHandler: h.failed,
		// An ErrorLog would only contain reports of clients that have disconnected.
		BufferPool: new(buffers), ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug),
	}
	return h, nil
}

func (h *Handler) transportOptions() []httpclient.Option {
	s := &h.settings
	options := []httpclient.Option{
		httpclient.WithBase(newBase()), httpclient.WithAttempts(httpclient.Attempts{Retries: httpclient.NoRetries}),
		httpclient.WithBufferedBodies(s.maxBuffered, httpclient.DefaultMaxBufferedTotal),
	}
	if s.logger != nil {
		options = append(options, httpclient.WithLogger(s.logger))
	}
	if !routes.IsAPIHost(s.upstream.Host) {
		options = append(options, httpclient.WithAPI(s.upstream, ""))
	}
	if s.globalLimit > 0 {
		options = append(options, httpclient.WithBuckets(buckets.WithGlobalLimitOf(s.globalLimitOf)))
	}
	return append(options, s.transport...)
}

// newBase returns a transport that does not change requests and responses. It is for a single server.
func newBase() *http.Transport {
	base := http.DefaultTransport.(*http.Transport).Clone()
	base.DisableCompression = true // the client's Accept-Encoding stays, and bodies keep their length
	base.MaxIdleConns, base.MaxIdleConnsPerHost = 0, 512
	// Pings detect dead connections, as httpclient.WithBase recommends.
	base.HTTP2 = &http.HTTP2Config{SendPingTimeout: 15 * time.Second, PingTimeout: 5 * time.Second}
	return base
}

// globalLimitOf returns the global limit of an Authorization. The first part of a bot's token is the bot's id.
func (s *settings) globalLimitOf(authorization string) int {
	token, isBot := strings.CutPrefix(authorization, "Bot ")
	first, _, _ := strings.Cut(token, ".")
	if id, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(first, "=")); isBot && err == nil {
		if limit, ok := s.globalLimits[string(id)]; ok {
			return limit
		}
	}
	return s.globalLimit
}

// Transport returns the transport that sends the requests, for example for its manager's statistics.
func (h *Handler) Transport() *httpclient.Transport { return h.transport }

// LiftHolds ends all effects of earlier refusals (see httpclient.Transport.LiftHolds). If too many new Authorizations
// have been tried, LiftHolds also lets new Authorizations be tried again.
func (h *Handler) LiftHolds() {
	h.authorizations.lift()
	h.transport.LiftHolds()
}

// Shutdown rejects new requests with a 503, waits until all waiting requests and all requests in flight have been
// answered, and closes the handler. If the context ends before that, Shutdown closes the handler at once, and returns
// the context's error (see httpclient.Transport.Shutdown). Call http.Server.Shutdown before Handler.Shutdown, because
// only http.Server.Shutdown also waits for the bodies of responses.
func (h *Handler) Shutdown(ctx context.Context) error {
	defer h.transport.CloseIdleConnections()
	return h.transport.Shutdown(ctx)
}

// Close ends waiting requests with a 503, and rejects new ones. Requests in flight are not cut off. The error is always
// nil.
func (h *Handler) Close() error {
	defer h.transport.CloseIdleConnections()
	h.log.Flush(time.Since(h.began), true)
	return h.transport.Close()
}

// ServeHTTP forwards a request, and returns when it has copied the response.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	response := newResponseWriter(w)
	response.pause() // removes the deadline of the connection's previous request
	defer response.begin()
	w = response
	out, refused := h.prepare(w, r)
	if refused != nil {
		refused.write(w)
		return
	}
	defer clientOf(out.Context()).leave()
	body, _ := out.Body.(*upload)
	large := body != nil && h.isLarge(r)
	if large {
		_ = body.control.EnableFullDuplex() // otherwise an early answer would wait for the body or break the connection
	}
	h.reverse.ServeHTTP(w, out)
	if large {
		_ = body.Close()
		body.drain(r)
	}
}

// prepare returns the request to forward, or the answer if the request is rejected.
func (h *Handler) prepare(w http.ResponseWriter, r *http.Request) (*http.Request, *answer) {
	target, refused := h.target(r)
	if refused != nil {
		return nil, refused
	}
	wait, err := h.maxWaitOf(r)
	if err != nil {
		return nil, badRequest(err.Error())
	}
	group, err := groupOf(r)
	if err != nil {
		return nil, badRequest(err.Error())
	}
	latest, err := isLatest(r)
	if err != nil {
		return nil, badRequest(err.Error())
	}
	if authorization := r.Header.Get("Authorization"); authorization != "" {
		route, err := routes.Match(r.Method, target.RawPath)
		isSent := err == nil && !(route.Route().TokenInPath() && isToken(authorization))
		if isSent && !h.transport.HasSucceeded(authorization) && !h.authorizations.admit(authorization) {
			a := &answer{message: "too many new Authorizations were tried without a success: no others are tried for now"}
			a.refuse("unverified", "user", unverifiedRetry)
			return nil, a
		}
	}
	ctx, _ := follow(buckets.ContextWithGroup(buckets.ContextWithMaxWait(r.Context(), wait), group))
	if latest {
		ctx = httpclient.ContextWithLatest(ctx)
	}
	body := r.Body
	if body != nil && body != http.NoBody {
		own := &upload{ReadCloser: body, control: http.NewResponseController(w), http1: r.ProtoMajor == 1,
			reading: make(chan struct{}, 1)}
		own.declareTrailer(r.Trailer)
		ctx, body = context.WithValue(ctx, uploadKey{}, own), own
	}
	out := r.WithContext(ctx)
	out.URL, out.Body = target, body
	if len(out.Header["Upgrade"]) > 0 { // the client asks for HTTP/2 (h2c), which the proxy ignores
		out.Header = out.Header.Clone()
		out.Header.Del("Upgrade")
	}
	return out, nil
}

// rewrite completes the request that httputil.ReverseProxy has made from the client's request.
func rewrite(r *httputil.ProxyRequest) {
	out := r.Out
	out.Host = ""                        // the URL's host is used
	out.URL.RawQuery = r.In.URL.RawQuery // a malformed query stays unchanged
	out.Trailer = nil
	if body, ok := r.In.Context().Value(uploadKey{}).(*upload); ok {
		out.Trailer = body.trailer
	}
	for name := range out.Header {
		if ofTheWay(name) {
			delete(out.Header, name)
		}
	}
}

// answered changes the headers of a response of the upstream, and records that the upstream has answered.
func (h *Handler) answered(response *http.Response) error {
	if response.StatusCode < http.StatusContinue { // http.Transport accepts it, but WriteHeader would panic
		return fmt.Errorf("the upstream has answered with the malformed status %03d", response.StatusCode)
	}
	h.upstreamState.answered()
	response.Header.Del(headerProxy) // this header marks the proxy's own answers
	response.Header.Del("Alt-Svc")
	response.Header.Del("Strict-Transport-Security")
	request := response.Request
	body, _ := request.Context().Value(uploadKey{}).(*upload)
	body.answer(response.Header)
	authorization := request.Header.Get("Authorization")
	if response.StatusCode/100 == 2 && authorization != "" && h.transport.HasSucceeded(authorization) {
		h.authorizations.verified(authorization)
	}
	if clientOf(request.Context()).hasGone() {
		return context.Canceled
	}
	return nil
}

// failed answers a request for which the transport has returned an error.
func (h *Handler) failed(w http.ResponseWriter, r *http.Request, err error) {
	err = redact.Error(err, redact.Secrets(r.URL, r.Header.Get("Authorization"))...)
	a := answerTo(err)
	body, _ := r.Context().Value(uploadKey{}).(*upload)
	if body != nil && body.fails(a.status == http.StatusGatewayTimeout) {
		a = badRequest("the body of the request broke off, or came too slowly")
	}
	if a.status == http.StatusBadGateway || a.status == http.StatusGatewayTimeout && r.Context().Err() == nil {
		h.upstreamState.failed(err)
		h.log.Write(r.Context(), time.Since(h.began), sparselog.Line{
			Level: slog.LevelWarn, Message: "upstream failed", Class: a.reason,
			Attributes: []slog.Attr{slog.String("error", err.Error())},
		})
	}
	body.answer(w.Header())
	a.write(w)
}

type buffers struct{ pool sync.Pool }

func (b *buffers) Get() []byte {
	if buffer, ok := b.pool.Get().(*[]byte); ok {
		return *buffer
	}
	return make([]byte, 32<<10)
}

func (b *buffers) Put(buffer []byte) { b.pool.Put(&buffer) }
