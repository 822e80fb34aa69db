package rest

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"reflect"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/httpclient"
	"github.com/ratelight/ratelight/httpclient/internal/drain"
)

// Client sends requests to Discord's REST API, for programs without a Discord library. The package comment says what a
// Client adds to a Transport.
//
// Get a Client from New; the zero value cannot be used. All methods are safe for concurrent use. Printing a Client does
// not show its token.
type Client struct {
	transport *httpclient.Transport
	http      *http.Client
	base      *url.URL
	// credential returns the value of the Authorization header. It is a function, because package fmt does not print the
	// variables that a function captures.
	credential  func() string
	userAgent   string
	maxResponse int64
	invalid     error // says which argument of New is invalid, and is returned by every Do; nil if all are valid

	calls *drain.Drain
	life  context.Context // ends with Close
	end   context.CancelFunc
}

// New returns a client that is ready for use. Close it when you no longer need it.
//
// The client adds "Bot " before the token, unless the token already begins with "Bot " or "Bearer " (in upper or lower
// case). Spaces before and after the token are ignored. If the token is empty, requests have no Authorization.
//
// New always returns a Client. If the token, the base URL or the User-Agent is invalid, every Do returns ErrToken,
// ErrBaseURL or ErrUserAgent before it sends anything.
func New(token string, options ...Option) *Client {
	s := settings{maxResponse: DefaultMaxResponse}
	for _, option := range options {
		if option != nil {
			option(&s)
		}
	}
	authorization, err := parseToken(token)
	c := &Client{
		credential:  func() string { return authorization },
		maxResponse: s.maxResponse,
		invalid:     err,
		calls:       drain.New(),
	}
	if c.base, err = s.base(); err != nil {
		c.invalid = err
	}
	if c.userAgent, err = s.userAgent(); err != nil {
		c.invalid = err
	}
	c.life, c.end = context.WithCancel(context.Background())
	var transport []httpclient.Option
	if c.base != nil {
		transport = append(transport, httpclient.WithAPI(c.base, c.base.Host))
	}
	c.transport = httpclient.NewTransport(append(transport, s.transport...)...)
	// Set no Timeout: it would include the time in queues.
	c.http = &http.Client{Transport: c.transport, CheckRedirect: followRedirect}
	return c
}

// Transport returns the client's transport, for example for its manager's statistics.
func (c *Client) Transport() *httpclient.Transport { return c.transport }

// ResetCredential lets the client's token be used again at once if the transport does not use the token for some time
// after 401s, see httpclient.Transport.ResetCredential.
func (c *Client) ResetCredential() { c.transport.ResetCredential(c.credential()) }

// Close ends waiting requests with buckets.ErrClosed, and rejects new ones. Requests in flight are not cut off. A
// manager of httpclient.WithLimiter stays open, and requests that wait in that manager continue to wait. A second call
// does nothing. The error is always nil.
func (c *Client) Close() error {
	c.calls.Closing()
	c.end()
	return c.transport.Close()
}

// Shutdown rejects new calls, with an error that matches buckets.ErrClosed. It waits until all earlier calls have
// returned, calls httpclient.Transport.Shutdown, and closes the client. If the context ends first, Shutdown closes the
// client at once, as Close does, and returns the context's error.
func (c *Client) Shutdown(ctx context.Context) error {
	err := c.calls.Wait(ctx, c.life.Done())
	if err == nil {
		err = c.transport.Shutdown(ctx)
	}
	if !errors.Is(err, buckets.ErrNoContext) {
		_ = c.Close() // never fails
	}
	return err
}

// Do sends a request and returns the whole response. It blocks while the request waits for limits and while it is in
// flight, but not after ctx has ended. A nil body means no body.
//
// The path is the part after the base URL, such as "/channels/1/messages?limit=5", percent-encoded where necessary. A
// complete URL is accepted if it has the scheme and host of the base URL. A path with an empty segment, which an empty
// parameter causes, is rejected with ErrPath.
//
// If Discord is not ready for a request yet, it answers 202 with retry_after, or with a code of 11xxxx. An example is a
// message search in a guild that is not indexed. Do then waits and sends the request again, up to 30 times in total.
// Each wait is bounded like the waits in queues. Do does not send a POST or PATCH again, because Discord may have
// carried it out. It does not send a request again whose body has a stream.
//
// A redirect is followed only if it leads to the host of the base URL and keeps the method.
//
// If the path has a token, the client's credential is not sent. The route of such a path does not need the credential,
// and with the credential the request would count against the bot's global limit.
//
// The errors are:
//   - *APIError for every status of 300 or more except 304, and for a 202 as described above if the request is not sent
//     again
//   - *ResponseTooLargeError for a response whose body exceeds WithMaxResponse
//   - the errors of httpclient.Transport.RoundTrip, such as *ratelimits.TooLongError, and the context's error
//   - ErrPath, ErrReason, ErrHeader, ErrBody and *routes.PathError for invalid arguments; see also New
//
// No error contains a token. Use errors.Is and errors.As.
func (c *Client) Do(ctx context.Context, method, path string, body Body, options ...RequestOption) (*Response, error) {
	if !c.calls.Enter() {
		if c.life.Err() != nil {
			return nil, buckets.ErrClosed
		}
		return nil, drain.ErrShuttingDown
	}
	defer c.calls.Leave()
	call, err := c.newCall(ctx, method, path, options)
	if err != nil {
		return nil, err
	}
	if body != nil {
		if call.content, err = body.prepare(); err != nil {
			return nil, call.conceal(err)
		}
	}
	for asked := 1; ; asked++ {
		response, err := c.send(ctx, call)
		if err != nil {
			return nil, call.conceal(err)
		}
		wait, unready := response.unready()
		switch {
		case isError(response.Status), unready && (asked == maxAsked || !call.repeatable()):
			return nil, call.newAPIError(response)
		case !unready:
			return response, nil
		}
		if err := c.pause(ctx, call.route, wait); err != nil {
			return nil, call.conceal(err)
		}
	}
}

// DoJSON is Do for JSON. It sends in, which is a value to encode as JSON or a Body; nil means no body. It decodes the
// response into out, a pointer as for json.Unmarshal. If out is nil, the response's body is ignored. Responses with the
// statuses 204, 205 and 304 have no body and do not change out.
//
// In addition to the errors of Do, DoJSON returns ErrOut for an invalid out, before anything is sent. If a successful
// response is not JSON or does not fit into out, DoJSON returns a *DecodeError.
func (c *Client) DoJSON(ctx context.Context, method, path string, in, out any, options ...RequestOption) error {
	if out != nil {
		if v := reflect.ValueOf(out); v.Kind() != reflect.Pointer || v.IsNil() {
			return ErrOut
		}
	}
	body, given := in.(Body)
	if in != nil && !given {
		body = JSON(in)
	}
	response, err := c.Do(ctx, method, path, body, options...)
	if err != nil || out == nil {
		return err
	}
	return response.decode(out)
}

// send passes the request to the Transport once. The Transport may send it several times.
func (c *Client) send(ctx context.Context, call *call) (*Response, error) {
	request, err := call.request(ctx)
	if err != nil {
		return nil, err
	}
	response, err := c.http.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	return readResponse(response, call.name(), c.maxResponse)
}

// maxRedirects is the largest number of redirects that are followed, as in net/http's own policy.
const maxRedirects = 10

// followRedirect follows redirects that keep the scheme, the host and the method. Another host must not get the
// credentials. If a redirect turned a POST into a GET, the response to the GET would not be the response to the POST.
func followRedirect(next *http.Request, via []*http.Request) error {
	first := via[0]
	if next.URL.Scheme != first.URL.Scheme || next.URL.Host != first.URL.Host || next.Method != first.Method ||
		len(via) > maxRedirects {
		return http.ErrUseLastResponse
	}
	return nil
}
