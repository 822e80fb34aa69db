package httpclient

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/httpclient/internal/drain"
	"github.com/ratelight/ratelight/httpclient/internal/message"
	"github.com/ratelight/ratelight/routes"
)

// Transport is an http.RoundTripper that sends requests to Discord as fast as Discord allows and never faster. Get one from
// NewTransport; the zero value cannot be used. It is safe for concurrent use. In tests with testing/synctest each bubble needs one of
// its own, as all attempts share a timer.
type Transport struct {
	base    http.RoundTripper
	limiter Limiter
	manager *buckets.RESTBucketManager // the limiter, if it is one
	owned   bool
	behaviour
	credentials  *credentials
	deadlines    deadlines
	memoryBudget memoryBudget
	liftSignal   liftSignal

	invalid error // what is wrong with the options, nil if nothing is

	requests *drain.Drain
	life     context.Context // ends with Close
	end      context.CancelFunc
}

// NewTransport returns a transport that is ready for use. Close it when it is not needed any more: until then a goroutine
// of its manager collects garbage. The options count in their order; a later one of the same name replaces an earlier one,
// except WithBuckets, WithMaxRateLimit and WithAPI, which add to it.
//
// NewTransport does not fail. With options that exclude each other every request fails with ErrOptions.
func NewTransport(options ...Option) *Transport {
	s := defaults()
	for _, option := range options {
		if option != nil {
			option(&s)
		}
	}
	t := &Transport{base: s.base, limiter: s.limiter, manager: s.manager, behaviour: s.behaviour, credentials: newCredentials(),
		invalid: s.conflict(), requests: drain.New()}
	t.deadlines.epoch = time.Now()
	t.memoryBudget.max = t.maxBufferedTotal
	t.life, t.end = context.WithCancel(context.Background())
	if t.base == nil {
		t.base = http.DefaultTransport
	}
	switch {
	case !isNil(t.limiter):
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

// isNil reports whether there is no limiter, or a manager that is none.
func isNil(l Limiter) bool {
	m, ok := l.(*buckets.RESTBucketManager)
	return l == nil || ok && m == nil
}

// Manager returns the manager that decides when requests may leave, nil if WithLimiter has put something else in its place.
func (t *Transport) Manager() *buckets.RESTBucketManager { return t.manager }

// Close ends what waits with buckets.ErrClosed, and refuses what comes later. What is under way is not cut off. A manager
// that was passed in by WithManager stays open, and what waits there goes on waiting. Closing again does nothing; the error
// is always nil.
func (t *Transport) Close() error {
	t.requests.Closing()
	t.end()
	t.deadlines.stop()
	t.log.Flush(t.sinceMade(), true)
	if !t.owned {
		return nil
	}
	return t.manager.Close()
}

// Shutdown lets no new requests in, which fail with an error that matches buckets.ErrClosed, waits until every RoundTrip has returned that
// was called before, and closes the transport. What waits, for a limit or for another attempt, may still be sent. When the context ends before,
// it closes the transport at once, as Close does, and returns the context's error. It does not wait for the bodies of responses; Close
// does not cut them off. Requests to hosts that are not limited are neither refused nor waited for. A redirect that http.Client follows is a
// new request.
//
// The manager is shut down, too, after that, see buckets.RESTBucketManager.Shutdown, unless it was passed in by WithManager. Shutdown can be
// called more than once, also at the same time; if Close or another call cuts something off while it waits, it returns buckets.ErrClosed.
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
func (t *Transport) sinceMade() time.Duration { return time.Since(t.deadlines.epoch) }

// ResetCredential lets an Authorization, the whole value of the header ("Bot …"), be used again that 401s have stopped, on all servers
// and everywhere. Answers to requests that are under way do not stop it again. It is not needed for a token that has been replaced by
// another one.
func (t *Transport) ResetCredential(authorization string) { t.credentials.reset(authorization) }

// LiftHolds ends everything that holds requests back because of earlier refusals: all that is known against credentials, tokens in paths
// and webhooks, the waits after 429s, and the holds of the limiter if it has a LiftHolds method, as a manager has; a manager of
// WithManager's, too. What the next requests are answered counts again.
func (t *Transport) LiftHolds() {
	t.credentials.resetAll(func(credentialID) bool { return true })
	if l, ok := t.limiter.(interface{ LiftHolds() }); ok {
		l.LiftHolds()
	}
	t.liftSignal.lift()
}

// CloseIdleConnections does what it does for the transport below, if that can do it. http.Client calls it.
func (t *Transport) CloseIdleConnections() {
	if c, ok := t.base.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// RoundTrip waits until the request may leave, sends it, and returns its response at once. After a 429 it waits and sends
// again, in the place in the queue that it had. After a failure that will pass it does so if that can do no harm, see
// WithRetries.
//
// All that is for hosts that are limited: Discord's own without its media hosts, and those of WithHosts. A request to any other host is
// passed on to the transport below as it is, and so are its response and its error, also after Close: nothing that another host answers
// changes what is known of Discord. Only what identifies its sender (credentials, cookies, the Referer) is taken from it if it was
// redirected there and the first request went to a limited host.
//
// A 429 is returned only if the request cannot be repeated because its body can be sent only once. Every other response is
// returned untouched and without waiting for its body. The first 4 KiB of the body of a 401, and of a webhook's 404, tell whose credential
// does not work. They are looked at while the caller reads them; if the body is closed before, Close reads what has come or comes
// within 100 ms. Where that is nothing, status and header decide. A caller who asks for an encoding gets it as it came; gzip and deflate
// are undone only for that look, others are not looked into. A 407 is a proxy's on the way, and says nothing of the server.
//
// The errors are those of the transport below, in a *RetryError if the request was repeated or should have been, and
//   - those of buckets.RESTBucketManager.Acquire, which bound the wait
//   - *ratelimits.EdgeError after a refusal that does not say when to come back
//   - *AttemptTimeoutError if there was no progress for too long
//   - *CredentialError if the credential has been refused before, at once also for those who wait: a 401 stops an Authorization for ten
//     minutes on that route with that channel, guild or webhook; everywhere after 401s of two routes without a success between them; and
//     for ever after one to GET /users/@me or GET /gateway/bot. See ResetCredential
//   - *routes.PathError for a malformed path or method
//   - ErrOptions for options of NewTransport that exclude each other
//
// The request is not modified, and its body is closed in every case, when its context ends also while it is read. Where that does not end
// the read, RoundTrip returns before it, as the contract of http.RoundTripper allows. A response with status 101, and one whose body
// is an io.Writer, is returned as the transport below gave it.
//
// Requests whose bodies set the same fields share a hidden limit on what they change. The fields are read from bodies that
// are JSON by their Content-Type, or have none.
func (t *Transport) RoundTrip(request *http.Request) (*http.Response, error) {
	if t.invalid != nil {
		closeBody(request)
		return nil, t.invalid
	}
	server, limited := t.serverOf(request, request.URL)
	if !limited {
		return sendBelow(t.base, t.withoutSecrets(request))
	}
	if hasCancel(request) {
		return t.roundTripUntil(request)
	}
	route, err := t.match(request)
	if err == nil && !t.requests.Enter() {
		err = drain.ErrShuttingDown
	}
	if err != nil {
		closeBody(request)
		return nil, err
	}
	defer t.requests.Leave()
	x := &roundTrip{Transport: t, request: request, attemptTimeout: t.attemptTimeout}
	if requestConfig := requestConfigOf(request.Context()); requestConfig.hasTimeout {
		x.attemptTimeout = requestConfig.timeout
	}
	x.body.reservation.of = &t.memoryBudget
	defer x.body.close()
	if err := x.body.take(t.life, request, t.maxBufferedBody); err != nil {
		return nil, err
	}
	if t.retrySettings.nonce && route.Route() == routes.CreateMessage {
		x.body.addNonce(request)
	}
	x.prepare(server, route)
	response, err := x.run()
	if response != nil {
		x.body.reservation.endWith(response)
		if t.withoutLimitHeaders {
			hide(response)
		}
	}
	return response, err
}

// prepare works out what is asked of the limiter, and what leaves out what must not be sent.
func (x *roundTrip) prepare(server string, route routes.CompiledRoute) {
	x.ask = buckets.Request{Server: server, Route: route, Authorization: message.HeaderValue(x.request.Header, "Authorization")}
	if x.body.get != nil {
		x.ask.Fields = x.fields
	}
	x.header = x.request.Header
	if withheld := x.withheld(route); len(withheld) > 0 {
		x.header = without(x.request.Header, withheld)
		x.ask.Authorization = message.HeaderValue(x.header, "Authorization")
	}
	x.credential = x.credentials.of(&x.ask)
}

func (x *roundTrip) fields() []string { return x.body.fields(x.request.Header) }

// maxRateLimit is how long a request may wait.
func (t *Transport) maxRateLimit() time.Duration {
	if t.manager == nil {
		return buckets.DefaultMaxRateLimit
	}
	return t.manager.MaxRateLimit()
}

// match returns the request's route, and no error if the transport is open.
func (t *Transport) match(request *http.Request) (routes.CompiledRoute, error) {
	if t.life.Err() != nil {
		return routes.CompiledRoute{}, buckets.ErrClosed
	}
	path := t.hosts.belowAPI(request.URL)
	return routes.Match(methodOf(request), path)
}

// methodOf returns the request's method; for a client, none means GET.
func methodOf(request *http.Request) string {
	if request.Method == "" {
		return http.MethodGet
	}
	return request.Method
}

func closeBody(request *http.Request) { closeSoon(request.Body) }

var _ http.RoundTripper = (*Transport)(nil)
