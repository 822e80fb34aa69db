package httpclient

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/httpclient/internal/drain"
	"github.com/ratelight/ratelight/httpclient/internal/message"
	"github.com/ratelight/ratelight/routes"
)

// Transport is an http.RoundTripper that sends requests to Discord as fast as Discord allows and never faster. Get a
// Transport from NewTransport; the zero value cannot be used. A Transport is safe for concurrent use. In tests with
// testing/synctest, make the Transport inside the bubble, because its manager has timers.
type Transport struct {
	base     http.RoundTripper
	ownsBase bool // whether newBase made the base
	limiter  Limiter
	manager  *buckets.RESTBucketManager // the limiter if it is a manager, otherwise nil
	owned    bool                       // whether the manager is the transport's own
	behaviour
	hooks        atomic.Pointer[Hooks] // never nil
	credentials  *credentials
	epoch        time.Time // when the transport was made
	connections  connections
	memoryBudget memoryBudget
	liftSignal   liftSignal

	invalid error // the error for unusable options, nil if there are none

	requests *drain.Drain
	life     context.Context // ends with Close
	end      context.CancelFunc
}

// NewTransport returns a transport that is ready for use. Close it when you no longer need it. Until then its manager
// runs a goroutine that evicts idle buckets. Options are applied in order. A later option replaces an earlier one of
// the same name, with two exceptions. WithBuckets, WithAPI, and WithDialect (if it names another server) add to the
// earlier options. WithAttempts replaces only the fields that it sets.
//
// NewTransport always returns a Transport. If options exclude each other, or if an option cannot be used, every request
// fails with ErrOptions.
func NewTransport(options ...Option) *Transport {
	s := defaults()
	for _, option := range options {
		if option != nil {
			option(&s)
		}
	}
	t := &Transport{
		base: s.base, limiter: s.limiter, behaviour: s.behaviour,
		invalid: errors.Join(s.conflict(), s.attempts.validate()), requests: drain.New(),
	}
	t.hooks.Store(&s.hooks)
	t.epoch = time.Now()
	t.memoryBudget.max = t.maxBufferedTotal
	t.life, t.end = context.WithCancel(context.Background())
	if t.base == nil {
		t.base, t.ownsBase = newBase()
	}
	if t.limiter != nil {
		t.manager, _ = t.limiter.(*buckets.RESTBucketManager)
	} else {
		t.manager, t.owned = buckets.NewRESTBucketManager(s.buckets...), true
		t.limiter = t.manager
		if err := t.manager.Start(); err != nil { // an option is invalid
			t.invalid = errors.Join(t.invalid, err)
		}
	}
	t.credentials = newCredentials(s.stateKey, t.manager)
	return t
}

// Pings find a dead HTTP/2 connection before a request is lost on it.
const (
	pingAfter   = 15 * time.Second // a ping is sent when nothing has arrived from the server for this time
	pingTimeout = 5 * time.Second  // the connection is closed if no reply arrives within this time
)

// newBase returns a copy of http.DefaultTransport that also pings silent HTTP/2 connections, and true. If the program
// has replaced http.DefaultTransport by a value of another type, newBase returns the program's value, and false.
func newBase() (base http.RoundTripper, isOwn bool) {
	usual, ok := http.DefaultTransport.(*http.Transport)
	if !ok {
		return http.DefaultTransport, false
	}
	own := usual.Clone()
	if own.HTTP2 == nil {
		own.HTTP2 = &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingTimeout}
	}
	return own, true
}

// isNil reports whether the limiter is nil or a nil manager.
func isNil(l Limiter) bool {
	m, ok := l.(*buckets.RESTBucketManager)
	return l == nil || ok && m == nil
}

// Manager returns the manager that decides when requests are sent, nil if WithLimiter set a limiter of another type.
func (t *Transport) Manager() *buckets.RESTBucketManager { return t.manager }

// Close ends waiting requests with buckets.ErrClosed, and rejects new ones. Requests in flight are not cut off. A
// limiter of WithLimiter stays open, and requests that wait in that limiter continue to wait. A second call does
// nothing. The error is always nil.
func (t *Transport) Close() error {
	t.requests.Closing()
	t.end()
	t.log.Flush(t.sinceMade(), true)
	if t.ownsBase {
		t.CloseIdleConnections()
	}
	if !t.owned {
		return nil
	}
	return t.manager.Close()
}

// Shutdown rejects new requests with an error that matches buckets.ErrClosed, waits until all earlier calls of
// RoundTrip have returned, and closes the transport. Meanwhile, requests that wait for a limit or for another attempt
// are still sent. If the context ends first, Shutdown closes the transport at once, as Close does, and returns the
// context's error. Shutdown does not wait for the bodies of responses, which can still be read afterwards. Shutdown
// neither rejects requests to hosts that are not limited nor waits for them. If http.Client follows a redirect
// meanwhile, the redirected request is a new request and is rejected.
//
// Before Shutdown closes the transport, it shuts down the transport's own manager, see
// buckets.RESTBucketManager.Shutdown. It does not shut down a limiter of WithLimiter. Shutdown can be called more than
// once, and by several goroutines at the same time. If Close or another call of Shutdown cuts off a waiting request,
// Shutdown returns buckets.ErrClosed.
func (t *Transport) Shutdown(ctx context.Context) error {
	err := t.requests.Wait(ctx, t.life.Done())
	if err == nil && t.owned {
		err = t.manager.Shutdown(ctx)
	}
	if !errors.Is(err, buckets.ErrNoContext) {
		_ = t.Close() // never fails
	}
	return err
}

// sinceMade returns the monotonic time since the transport was made.
func (t *Transport) sinceMade() time.Duration { return time.Since(t.epoch) }

// ResetCredential lets an Authorization be used again at once, on all routes, if it rests (is not used) after 401s.
// Pass the whole value of the header ("Bot …"). Responses to requests that are in flight now do not make the
// Authorization rest again. A new token needs no reset.
func (t *Transport) ResetCredential(authorization string) {
	if authorization != "" {
		t.credentials.reset(t.credentials.idOf(CredentialAuthorization, authorization))
	}
}

// HasSucceeded reports whether Discord has accepted the given Authorization within the last week for a request that
// needs one, in this process or in a process whose state this process has restored. All Authorizations without such a
// success together have only one share of the budget of invalid requests, see buckets.Request.Unproven.
func (t *Transport) HasSucceeded(authorization string) bool {
	return t.credentials.proven(t.credentials.idOf(CredentialAuthorization, authorization))
}

// LiftHolds ends the effects of earlier refusals: credentials no longer rest, and requests no longer wait because of
// earlier 429s. It calls the method LiftHolds of the limiter if the limiter has one. Every manager has this method, see
// buckets.RESTBucketManager.LiftHolds. New responses count as usual.
func (t *Transport) LiftHolds() {
	t.credentials.resetAll()
	if l, ok := t.limiter.(interface{ LiftHolds() }); ok {
		l.LiftHolds()
	}
	t.liftSignal.lift()
}

// CloseIdleConnections calls CloseIdleConnections of the base transport, if the base has this method. It is called by
// http.Client.CloseIdleConnections.
func (t *Transport) CloseIdleConnections() {
	if c, ok := t.base.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// RoundTrip waits until the request may be sent, sends it, and returns the response as soon as its headers arrive.
// After a 429, RoundTrip waits and sends the request again, and the request keeps its place in the queue. After a
// temporary failure, RoundTrip repeats the request if a repetition does no harm, see Attempts.
//
// This applies to requests to limited hosts: Discord's own except its media hosts, and those of WithHosts and WithAPI.
// Requests to other hosts, their responses and their errors are passed on unchanged, even after Close, and do not
// affect what is known about limits. The only change is that credentials, cookies and the Referer are removed from a
// request that a limited host redirected to another host.
//
// A 429 is returned only if the request's body can be sent only once, so that the request cannot be repeated. Responses
// are returned unchanged, unless WithoutRateLimitHeaders is used. RoundTrip waits for the body of a response only if
// the response is a 429, or if a Dialect may take the response for a refusal.
//
// The section Errors of the package comment lists the errors. Errors of the base transport are wrapped in a *RetryError
// if the request was repeated after a failure, or if only the request's body or a bound on retries prevented a
// repetition. All other errors of the base transport are returned unchanged. If an option cannot be used, the error
// wraps ErrOptions.
//
// The request is not modified, and its body is always closed. If the context ends while the body is being read, the
// body is closed during the read. If closing does not end the read, RoundTrip returns before the read ends, as the
// contract of http.RoundTripper allows. The deprecated Request.Cancel does not end a wait for a limit. Only the base
// transport and the decision about a retry obey it. If a response has the status 101, or if its body is an io.Writer,
// the body is exactly that of the base transport.
//
// Discord has hidden limits for some fields of bodies, such as a channel's name. To know which requests share such a
// limit, the transport reads the names of the fields from bodies whose Content-Type is JSON or missing.
func (t *Transport) RoundTrip(request *http.Request) (*http.Response, error) {
	if t.invalid != nil {
		closeBody(request)
		return nil, t.invalid
	}
	hooks, began := t.hooks.Load(), time.Now()
	server, limited := t.serverOf(request, request.URL)
	if !limited {
		return sendBelow(t.base, t.withoutSecrets(request))
	}
	route, attempts, err := t.examine(request)
	if err == nil && !t.requests.Enter() {
		err = drain.ErrShuttingDown
	}
	if err != nil {
		closeBody(request)
		return nil, err
	}
	defer t.requests.Leave()
	x := &roundTrip{Transport: t, hooks: hooks, request: request, attempts: attempts}
	x.times.began = began
	authorization := message.HeaderValue(request.Header, "Authorization")
	x.ask = buckets.Request{
		Server: server, Route: route, Authorization: authorization, Supersedes: supersedes(request.Context(), route),
	}
	if t.manager != nil {
		t.manager.Begin(&x.ask) // before the body is read, because that may take long
	}
	x.body.reservation.of = &t.memoryBudget
	defer x.body.close()
	response, err := x.do()
	if response != nil {
		x.body.reservation.endWith(response)
		if t.withoutLimitHeaders {
			hide(response)
		}
	}
	x.callDoneHook(response, err)
	return response, err
}

func (x *roundTrip) do() (*http.Response, error) {
	x.prepare()
	if err := x.takeBody(); err != nil {
		return nil, err
	}
	if x.attempts.Nonce && x.ask.Route.Route() == routes.CreateMessage {
		x.body.addNonce(x.request)
	}
	if x.body.get != nil {
		x.ask.Fields = x.fields
	}
	return x.run()
}

// prepare sets the headers that are sent, the credential, and the Authorization for the limiter.
func (x *roundTrip) prepare() {
	x.header = x.request.Header
	if withheld := x.withheld(x.ask.Route); len(withheld) > 0 {
		x.header = without(x.request.Header, withheld)
		x.ask.Authorization = message.HeaderValue(x.header, "Authorization")
	}
	x.credential = x.credentials.of(&x.ask)
}

func (x *roundTrip) fields() []string { return x.body.fields(x.request.Header) }

// maxRateLimit returns the longest predicted wait that is accepted.
func (t *Transport) maxRateLimit() time.Duration {
	if t.manager == nil {
		return buckets.DefaultMaxRateLimit
	}
	return t.manager.MaxRateLimit()
}

// examine returns the request's route and its Attempts. It returns an error if one of them cannot be used, and
// buckets.ErrClosed after Close.
func (t *Transport) examine(request *http.Request) (route routes.CompiledRoute, a Attempts, err error) {
	if t.life.Err() != nil {
		return route, a, buckets.ErrClosed
	}
	a = t.attempts.overriddenBy(requestConfigOf(request.Context()).attempts)
	if route, err = routes.Match(methodOf(request), t.hosts.belowAPI(request.URL)); err == nil {
		err = a.validate()
	}
	return route, a, err
}

// methodOf returns the request's method. An empty method means GET, as in net/http.
func methodOf(request *http.Request) string {
	if request.Method == "" {
		return http.MethodGet
	}
	return request.Method
}

func closeBody(request *http.Request) { closeSoon(request.Body) }

var _ http.RoundTripper = (*Transport)(nil)
