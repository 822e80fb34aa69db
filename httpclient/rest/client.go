package rest

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"reflect"
	"slices"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/httpclient"
	"github.com/ratelight/ratelight/httpclient/internal/drain"
)

// Client sends requests to Discord's REST API for programs that have no library which does it for them. It is a Transport
// with what Discord insists on around it: addresses, headers, bodies that can be sent again, typed errors. It knows nothing
// of Discord's objects.
//
// Get one from New; the zero value cannot be used. All methods are safe for concurrent use. No dump of a Client shows its
// token.
type Client struct {
	transport *httpclient.Transport
	http      *http.Client
	base      *url.URL
	// credential returns the Authorization header. It is a function because nothing prints what a function has captured.
	credential  func() string
	userAgent   string
	maxResponse int64
	invalid     error // what is wrong with the arguments of New, nil if nothing is

	calls *drain.Drain
	life  context.Context // ends with Close
	end   context.CancelFunc
}

// New returns a client that is ready for use. Close it when it is not needed any more.
//
// The token is sent as "Bot" unless it begins with "Bot " or "Bearer ", in any case; space around it is ignored. Without a
// token requests are anonymous.
//
// New does not fail. A token that cannot be one, a base URL that is none, and a User-Agent that cannot be sent are reported
// by every Do, before anything is sent: see ErrToken, ErrBaseURL and ErrUserAgent.
func New(token string, options ...Option) *Client {
	s := settings{maxResponse: DefaultMaxResponse}
	for _, option := range options {
		if option != nil {
			option(&s)
		}
	}
	authorization, err := parseToken(token)
	c := &Client{credential: func() string { return authorization }, maxResponse: s.maxResponse, invalid: err, calls: drain.New()}
	if c.base, err = s.base(); err != nil {
		c.invalid = err
	}
	if c.userAgent, err = s.userAgent(); err != nil {
		c.invalid = err
	}
	c.life, c.end = context.WithCancel(context.Background())
	// Always: where it is needed is decided by newCall, and what the caller sets is sent.
	c.transport = httpclient.NewTransport(append(slices.Clip(s.transport), httpclient.WithAPI(c.base), httpclient.WithAuthorizationAlways())...)
	// No Timeout: it would count the time in queues.
	c.http = &http.Client{Transport: c.transport, CheckRedirect: followRedirect}
	return c
}

// Transport returns the transport that the client sends through, for its manager's statistics, say.
func (c *Client) Transport() *httpclient.Transport { return c.transport }

// ResetCredential lets the client's token be used again that 401s have stopped, see httpclient.Transport.ResetCredential.
func (c *Client) ResetCredential() { c.transport.ResetCredential(c.credential()) }

// Close ends what waits with buckets.ErrClosed, and refuses what comes later. What is under way is not cut off. A manager
// that was passed in by httpclient.WithManager stays open, and requests that wait there go on waiting. Closing again does nothing; the
// error is always nil.
func (c *Client) Close() error {
	c.calls.Closing()
	c.end()
	return c.transport.Close()
}

// Shutdown lets no new calls in, which fail with an error that matches buckets.ErrClosed, waits until all have returned that were made before,
// and closes the client. When the context ends before, it closes the client at once, as Close does, and returns the context's error. See
// httpclient.Transport.Shutdown, which follows.
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

// Do sends a request and returns the whole response. It blocks as long as the limits demand, the request takes, and ctx
// allows. A body that is nil is none.
//
// The path is what follows the base URL, "/channels/1/messages?limit=5", percent-encoded where a segment or the query need
// it. A whole URL is accepted if it has the scheme and host of the base URL. A path with an empty segment, as an empty
// parameter makes it, is refused.
//
// A response that says that Discord is not ready yet (202 with retry_after, or with a code of 11xxxx, as the message search
// of a guild that is not indexed) is waited for, and the request is sent again, up to 30 times. Each wait is bounded like
// those in queues. Redirects are followed within the host of the base URL, and only if they keep the method.
//
// The bot's credential is not sent on routes with a token in the path, which do not need it and would count for the bot's
// global limit; pass Header("Authorization", …) to send one all the same.
//
// The errors are:
//   - *APIError for every status from 300 on but 304, and for a 202 as above when it was the last or the body cannot be sent
//     again
//   - *ResponseTooLargeError for a body that exceeds WithMaxResponse
//   - what httpclient.Transport.RoundTrip returns, *ratelimits.TooLongError first of all, and the context's error
//   - ErrPath, ErrReason, ErrHeader, ErrBody and *routes.PathError for arguments that make no request; see also New
//
// None of them contains a token. Use errors.Is and errors.As.
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
		case isError(response.Status), unready && (asked == maxAsked || call.content.once):
			return nil, call.newAPIError(response)
		case !unready:
			return response, nil
		}
		if err := c.pause(ctx, call.route, wait); err != nil {
			return nil, call.conceal(err)
		}
	}
}

// DoJSON is Do with a JSON value to send and one to receive. in is what JSON takes, or a Body; nil is no body. The response
// is decoded into out, a pointer as json.Unmarshal wants it; if out is nil it is ignored, and after 204, 205 and 304, which
// have no content, out is left alone.
//
// Besides the errors of Do there are ErrOut for an out that nothing can be decoded into, before anything is sent, and
// *DecodeError for a successful response that is no JSON, or none that fits out.
func (c *Client) DoJSON(ctx context.Context, method, path string, in, out any, options ...RequestOption) error {
	if out != nil {
		if v := reflect.ValueOf(out); v.Kind() != reflect.Pointer || v.IsNil() {
			return ErrOut // before anything is sent
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

// send sends the request once, as far as the Transport does.
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

// maxRedirects is how many redirects are followed, as many as net/http would.
const maxRedirects = 10

// followRedirect follows redirects to where the credentials may go, and where the request stays what it is: a POST that
// becomes a GET would be answered with something that nobody asked for.
func followRedirect(next *http.Request, via []*http.Request) error {
	first := via[0]
	if next.URL.Scheme != first.URL.Scheme || next.URL.Host != first.URL.Host || next.Method != first.Method ||
		len(via) > maxRedirects {
		return http.ErrUseLastResponse
	}
	return nil
}
