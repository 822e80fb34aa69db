package httpclient

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"time"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/ratelimits"
	"github.com/ratelight/ratelight/routes"
)

const (
	// maxRefusal is how much of a 429's body is read, in bytes. Discord's are a few hundred.
	maxRefusal = 64 << 10
	// refusalPatience is how long.
	refusalPatience = 5 * time.Second
)

// Transport is an http.RoundTripper that sends requests to Discord as fast as Discord allows and never faster. Get one from
// NewTransport; the zero value cannot be used. It is safe for concurrent use.
type Transport struct {
	base       http.RoundTripper
	limiter    Limiter
	manager    *buckets.RESTBucketManager // the limiter, if it is one
	owned      bool
	maxReplay  int64
	hideLimits bool

	life context.Context // ends with Close
	end  context.CancelFunc
}

// NewTransport returns a transport that is ready for use. Close it when it is not needed any more: until then a goroutine
// of its manager collects garbage. The options count in their order; a later one of the same name replaces an earlier one,
// except WithBuckets, which adds to it.
func NewTransport(options ...Option) *Transport {
	s := settings{maxReplay: DefaultMaxReplay}
	for _, option := range options {
		if option != nil {
			option(&s)
		}
	}
	t := &Transport{base: s.base, limiter: s.limiter, manager: s.manager, maxReplay: s.maxReplay, hideLimits: s.hideLimits}
	t.life, t.end = context.WithCancel(context.Background())
	if t.base == nil {
		t.base = http.DefaultTransport
	}
	switch {
	case t.limiter != nil:
		t.manager, _ = t.limiter.(*buckets.RESTBucketManager)
		return t
	case t.manager == nil:
		t.manager, t.owned = buckets.NewRESTBucketManager(s.buckets...), true
		if err := t.manager.Start(); err != nil {
			panic("httpclient: a new manager does not start: " + err.Error())
		}
	}
	t.limiter = t.manager
	return t
}

// Manager returns the manager that decides when requests may leave, nil if WithLimiter has put something else in its place.
func (t *Transport) Manager() *buckets.RESTBucketManager { return t.manager }

// Close ends what waits with buckets.ErrClosed, and refuses what comes later. What is under way is not cut off. A manager
// that was passed in by WithManager stays open, and what waits there goes on waiting. Closing again does nothing; the error
// is always nil.
func (t *Transport) Close() error {
	t.end()
	if !t.owned {
		return nil
	}
	return t.manager.Close()
}

// CloseIdleConnections does what it does for the transport below, if that can do it. http.Client calls it.
func (t *Transport) CloseIdleConnections() {
	if c, ok := t.base.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// RoundTrip waits until the request may leave, sends it, and returns its response at once. After a 429 it waits and sends
// again, in the place in the queue that it had.
//
// A 429 is returned only if the request cannot be repeated because its body can be sent only once. Every other response is
// returned untouched. Requests to hosts that are outside the limits of the API (attachments, avatars) are passed on.
//
// Besides the errors of the transport below, there are those of buckets.RESTBucketManager.Acquire, which bound the wait;
// *ratelimits.EdgeError after a refusal that does not say when to come back; and *routes.PathError for a malformed path or
// an unknown method. The request is not modified, and its body is closed in every case.
//
// Requests whose bodies set the same fields share a hidden limit on what they change. The fields are read from bodies that
// are JSON by their Content-Type, or have none.
func (t *Transport) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.URL == nil || routes.IsMediaHost(request.URL.Host) {
		return t.base.RoundTrip(request)
	}
	route, err := t.match(request)
	if err != nil {
		closeBody(request)
		return nil, err
	}
	body, err := newBody(t.life, request, t.maxReplay)
	if err != nil {
		return nil, err
	}
	defer body.close()
	ask := buckets.Request{
		Route:         route,
		Authorization: request.Header.Get("Authorization"),
		Fields:        func() []string { return body.fields(request.Header) },
	}
	for {
		response, again, err := t.attempt(request, &ask, body)
		if !again {
			return response, err
		}
	}
}

// match returns the request's route, and no error if the transport is open.
func (t *Transport) match(request *http.Request) (routes.CompiledRoute, error) {
	if t.life.Err() != nil {
		return routes.CompiledRoute{}, buckets.ErrClosed
	}
	path := request.URL.EscapedPath()
	if path == "" {
		path = "/" // as net/http sends it
	}
	return routes.Match(methodOf(request), path)
}

// attempt sends the request once. It reports again if it was refused and is to be repeated.
func (t *Transport) attempt(request *http.Request, ask *buckets.Request, body *body) (response *http.Response, again bool, err error) {
	lease, err := t.limiter.AcquireRequest(request.Context(), ask)
	if err != nil {
		return nil, false, err
	}
	defer lease.Release()
	content, err := body.next()
	if err != nil {
		lease.Return()
		return nil, false, err
	}
	response, err = t.base.RoundTrip(body.in(request, content))
	if err != nil {
		return nil, false, err
	}
	if response.StatusCode != http.StatusTooManyRequests {
		lease.Update(ratelimits.ParseResponse(response.StatusCode, response.Header, nil))
		return response, false, nil
	}
	refusal, err := readRefusal(response.Body)
	limits := ratelimits.ParseResponse(response.StatusCode, response.Header, refusal)
	lease.Update(limits)
	if err != nil {
		response.Body.Close()
		return nil, false, err
	}
	if limits.Class == ratelimits.ClassEdge && !limits.HasRetryAfter {
		response.Body.Close()
		return nil, false, &ratelimits.EdgeError{Route: ask.Route.Route().String(), Hold: edgeWait(t.limiter)}
	}
	if !body.repeatable() {
		response.Body = withHead(refusal, response.Body)
		return response, false, nil
	}
	response.Body.Close()
	return nil, true, nil
}

// readRefusal reads the body of a 429, or the part of it that comes within refusalPatience.
func readRefusal(body io.ReadCloser) ([]byte, error) {
	giveUp := time.AfterFunc(refusalPatience, func() { body.Close() })
	read, err := io.ReadAll(io.LimitReader(body, maxRefusal))
	if !giveUp.Stop() {
		err = nil
	}
	return read, err
}

// methodOf returns the request's method; for a client, none means GET.
func methodOf(request *http.Request) string {
	if request.Method == "" {
		return http.MethodGet
	}
	return request.Method
}

// in returns a copy of the request with the body for one attempt. The transport below may ask for it again, if a connection
// turns out to be dead before anything was sent.
func (b *body) in(request *http.Request, content io.ReadCloser) *http.Request {
	attempt := *request
	attempt.Body, attempt.GetBody = content, b.get
	if content == nil && request.Body == http.NoBody {
		attempt.Body = http.NoBody
	}
	return &attempt
}

// withHead returns a body that begins with what was read of it.
func withHead(head []byte, rest io.ReadCloser) io.ReadCloser {
	return struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(head), rest), rest}
}

func closeBody(request *http.Request) {
	if request.Body != nil {
		request.Body.Close()
	}
}

var _ http.RoundTripper = (*Transport)(nil)
