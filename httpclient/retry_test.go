package httpclient_test

import (
	"bytes"
	"crypto/x509"
	"errors"
	"io"
	"mime/multipart"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/httpclient"
)

const channel = "/api/v10/channels/1"

// getChannel returns a request that does no harm when Discord processes it twice.
func getChannel(t *testing.T) *http.Request {
	t.Helper()
	return newRequest(t, http.MethodGet, channel, "")
}

func lostConnection() error {
	return &net.OpError{Op: "read", Net: "tcp", Err: errors.New("connection reset by peer")}
}

func noConnection() error {
	return &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("connection refused")}
}

func TestOnlyStatusesThatWillPassAreRepeated(t *testing.T) {
	bubble(t, func(t *testing.T) {
		passing := []int{500, 502, 503, 504, 520, 521, 522, 523, 524, 529}
		for status := 200; status < 1000; status++ {
			if status == http.StatusTooManyRequests {
				continue
			}
			below := newScript(answer(status, ""), answer(http.StatusOK, ""))
			transport := httpclient.NewTransport(httpclient.WithBase(below))
			c := send(transport, getChannel(t))
			if slices.Contains(passing, status) {
				assertStatus(t, http.StatusOK, c)
				assert.Len(t, below.requests(), 2, "status %d", status)
			} else {
				assertStatus(t, status, c)
				assert.Len(t, below.requests(), 1, "status %d", status)
				assert.Zero(t, c.took)
			}
			assertNothingHeld(t, transport)
			require.NoError(t, transport.Close())
		}
	})
}

func TestARequestIsRepeatedIfItsMethodAllowsIt(t *testing.T) {
	type story struct {
		failure   responder
		neverSent bool
	}
	inBubbles(t, map[string]story{
		"a server error":       {answer(http.StatusBadGateway, "<html>"), false},
		"a lost connection":    {fail(lostConnection()), false},
		"the end of a stream":  {fail(io.EOF), false},
		"half an answer":       {fail(io.ErrUnexpectedEOF), false},
		"an unknown error":     {fail(errors.New("http2: stream closed")), false},
		"no connection at all": {fail(noConnection()), true},
		"no proxy":             {fail(&net.OpError{Op: "proxyconnect", Err: errors.New("connection refused")}), true},
		"a wrapped one":        {fail(&url.Error{Op: "Get", URL: "http://proxy", Err: noConnection()}), true},
	}, func(t *testing.T, c story) {
		for method, safe := range map[string]bool{
			"": true, http.MethodGet: true, http.MethodHead: true, http.MethodOptions: true, http.MethodPut: true,
			http.MethodDelete: true, http.MethodPost: false, http.MethodPatch: false,
		} {
			below := newScript(c.failure, answer(http.StatusOK, "done"))
			r := newRequest(t, method, channel, "")
			r.Method = method
			sent := send(newTransport(t, below), r).wait()
			if safe || c.neverSent {
				assertStatus(t, http.StatusOK, sent)
				assert.Equal(t, "done", sent.body)
				assert.Len(t, below.requests(), 2, method)
				assert.InDelta(t, 0.5, sent.took.Seconds(), 0.126)
				continue
			}
			assert.Len(t, below.requests(), 1, method)
			assert.Zero(t, sent.took)
			if sent.err != nil { // the error is not wrapped, because nothing was repeated
				assert.NotErrorAs(t, sent.err, new(*httpclient.RetryError))
				_, want := c.failure(r)
				assert.Equal(t, want, sent.err)
				continue
			}
			assertStatus(t, http.StatusBadGateway, sent)
			assert.Equal(t, "<html>", sent.body)
		}
	})
}

// assertRepeated asserts whether a request is repeated after failures after which it is possible that Discord has
// processed the request.
func assertRepeated(t *testing.T, want bool, r func() *http.Request, options ...httpclient.Option) {
	t.Helper()
	for name, failure := range map[string]responder{
		"server error": answer(http.StatusBadGateway, ""), "lost": fail(lostConnection()), "silent": silence,
	} {
		below := newScript(failure, answer(http.StatusOK, "done"))
		c := send(newTransport(t, below, options...), r()).wait()
		if !want {
			assert.Len(t, below.requests(), 1, name)
			assert.NotEqual(t, "done", c.body, name)
			continue
		}
		assertStatus(t, http.StatusOK, c)
		sent := below.requests()
		require.Len(t, sent, 2, name)
		assert.Equal(t, sent[0].body, sent[1].body, name)
	}
}

func TestPostAndPatchAreRepeatedIfTheCallerSaysSo(t *testing.T) {
	type attempts = httpclient.Attempts
	none, safe, unsafe := attempts{}, attempts{Mode: httpclient.SafeRetries}, attempts{Mode: httpclient.UnsafeRetries}
	never, once := attempts{Retries: httpclient.NoRetries}, attempts{Retries: 1}
	type story struct {
		option, context attempts
		post            bool // POST and PATCH are repeated
		put             bool // PUT and GET are repeated
	}
	inBubbles(t, map[string]story{
		"nothing":                           {none, none, false, true},
		"by the context":                    {none, unsafe, true, true},
		"by the option":                     {unsafe, none, true, true},
		"not by the context":                {none, never, false, false},
		"not by the context, by the option": {unsafe, never, false, false},
		"not by the option":                 {never, none, false, false},
		"by the context, not by the option": {never, once, false, true},
		"no mode turns retries on":          {never, unsafe, false, false},
		"safely by the context":             {unsafe, safe, false, true},
	}, func(t *testing.T, c story) {
		ctx := httpclient.ContextWithAttempts(t.Context(), c.context)
		ctx = buckets.ContextWithMaxWait(ctx, time.Minute) // this must not replace the other options of the context
		for method, want := range map[string]bool{
			http.MethodPost: c.post, http.MethodPatch: c.post, http.MethodPut: c.put, http.MethodGet: c.put,
		} {
			assertRepeated(t, want, func() *http.Request {
				return newRequest(t, method, channel, `{"name":"new"}`).WithContext(ctx)
			}, httpclient.WithAttempts(c.option))
		}
	})
}

func TestAMessageWithAnEnforcedNonceIsRepeated(t *testing.T) {
	const nonce = `{"content":"hello","nonce":"abc","enforce_nonce":true}`
	// A form with a nonce is not repeated, because it is not known whether Discord obeys a nonce in a form with files.
	var form bytes.Buffer
	w := multipart.NewWriter(&form)
	require.NoError(t, w.WriteField("payload_json", nonce))
	require.NoError(t, w.Close())
	type story struct {
		path, body string
		change     func(*http.Request)
		want       bool
	}
	inBubbles(t, map[string]story{
		"text":                      {messages, nonce, nil, true},
		"number":                    {messages, `{"nonce":7,"enforce_nonce":true}`, nil, true},
		"kept in memory":            {messages, nonce, func(r *http.Request) { r.GetBody = nil }, true},
		"without a version":         {"/api/channels/1/messages", nonce, nil, true},
		"not enforced":              {messages, `{"nonce":"abc","enforce_nonce":false}`, nil, false},
		"no enforce_nonce":          {messages, `{"nonce":"abc"}`, nil, false},
		"no nonce":                  {messages, `{"enforce_nonce":true}`, nil, false},
		"an empty nonce":            {messages, `{"nonce":"","enforce_nonce":true}`, nil, false},
		"null":                      {messages, `{"nonce":null,"enforce_nonce":true}`, nil, false},
		"other case of names":       {messages, `{"Nonce":"abc","ENFORCE_NONCE":true}`, nil, false},
		"enforce_nonce as a string": {messages, `{"nonce":"abc","enforce_nonce":"true"}`, nil, false},
		"inside an object":          {messages, `{"message":` + nonce + `}`, nil, false},
		"in a list":                 {messages, `[` + nonce + `]`, nil, false},
		"not JSON":                  {messages, `nonce=abc&enforce_nonce=true`, nil, false},
		"no body":                   {messages, ``, nil, false},
		"cannot be sent again":      {messages, nonce, func(r *http.Request) { unreplayable(r, r.Body, 1<<30) }, false},
		"a form": {messages, form.String(), func(r *http.Request) {
			r.Header.Set("Content-Type", w.FormDataContentType())
		}, false},
		"a webhook":              {webhook, nonce, nil, false},
		"an interaction":         {followUp, nonce, nil, false},
		"a callback":             {callback, nonce, nil, false},
		"another route":          {channel + "/threads", nonce, nil, false},
		"the edit of a message":  {edited, nonce, func(r *http.Request) { r.Method = http.MethodPatch }, false},
		"a route without nonces": {messages + "/bulk-delete", nonce, nil, false},
	}, func(t *testing.T, c story) {
		assertRepeated(t, c.want, func() *http.Request {
			r := newRequest(t, http.MethodPost, c.path, c.body)
			if c.change != nil {
				c.change(r)
			}
			return r
		})
	})
}

func TestARequestIsRepeatedSoManyTimes(t *testing.T) {
	type story struct {
		attempts httpclient.Attempts
		sent     int
	}
	inBubbles(t, map[string]story{
		"by default":           {httpclient.Attempts{}, 4},
		"never":                {httpclient.Attempts{Retries: httpclient.NoRetries}, 1},
		"more than by default": {httpclient.Attempts{Retries: 6}, 7},
	}, func(t *testing.T, c story) {
		option := httpclient.WithAttempts(c.attempts)
		below := newScript(answer(http.StatusBadGateway, "gateway"))
		assertStatus(t, http.StatusBadGateway, send(newTransport(t, below, option), getChannel(t)))
		assert.Len(t, below.requests(), c.sent)

		for _, failure := range []error{lostConnection(), noConnection()} {
			below = newScript(fail(failure))
			err := send(newTransport(t, below, option), getChannel(t)).wait().err
			assert.Len(t, below.requests(), c.sent)
			if c.sent == 1 {
				assert.True(t, err == failure, "%v", err) //nolint:errorlint // the very same error
				continue
			}
			require.ErrorIs(t, err, failure)
			assert.Equal(t, c.sent, errorAs[*httpclient.RetryError](t, err).Attempts)
		}
	})
}

func TestTheLastResponseIsReturnedWhole(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var bodies ledger
		page := strings.Repeat("bad gateway ", 10_000)
		below := newScript(answerWith(http.StatusBadGateway,
			func() io.ReadCloser { return bodies.open(strings.NewReader(page)) }, "Anything: else", "Retry-After: 1"))
		response := roundTrip(t, newTransport(t, below), getChannel(t))
		require.Len(t, below.requests(), 4)
		assert.Equal(t, http.StatusBadGateway, response.StatusCode)
		assert.Equal(t, http.Header{"Anything": {"else"}, "Retry-After": {"1"}}, response.Header)
		assert.EqualValues(t, 3, bodies.closed.Load(), "the earlier responses must be closed")
		content, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		assert.Equal(t, page, string(content))
		require.NoError(t, response.Body.Close())
		bodies.assertClosed(t)
	})
}

func TestTheLastErrorSaysWhatWasTried(t *testing.T) {
	lost := lostConnection()
	once := func(r *http.Request) { unreplayable(r, strings.NewReader("hello"), -1) }
	noBuffer := []httpclient.Option{eachBody(0)}
	type story struct {
		answers  []responder
		options  []httpclient.Option
		change   func(*http.Request)
		attempts int
		reason   error // nil if the request would fail again, or may have been processed
		timeout  bool
	}
	inBubbles(t, map[string]story{
		"used up":       {answers: answers(fail(lost)), attempts: 4, reason: httpclient.ErrRetriesUsedUp},
		"took too long": {answers: answers(silence), attempts: 4, reason: httpclient.ErrRetriesUsedUp, timeout: true},
		"out of time": {
			answers:  answers(fail(lost)),
			options:  []httpclient.Option{httpclient.WithAttempts(httpclient.Attempts{FirstPause: 90 * time.Second})},
			attempts: 2, reason: httpclient.ErrMaxRetryDuration,
		},
		"not repeatable": {
			answers: answers(fail(lost)), options: noBuffer, change: once, attempts: 1, reason: httpclient.ErrNotRepeatable,
		},
		"not repeatable, no connection": {
			answers: answers(fail(errors.Join(noConnection(), lost))), options: noBuffer, change: once,
			attempts: 1, reason: httpclient.ErrNotRepeatable,
		},
		"lost after a repetition that did no harm": {
			answers:  answers(fail(noConnection()), fail(lost)),
			change:   func(r *http.Request) { r.Method = http.MethodPost },
			attempts: 2,
		},
		"an error that will not pass": {
			answers:  answers(fail(lost), fail(errors.Join(x509.UnknownAuthorityError{}, lost)), answer(http.StatusOK, "")),
			attempts: 2,
		},
	}, func(t *testing.T, c story) {
		below := newScript(c.answers...)
		r := newRequest(t, http.MethodPut, channel+"/pins/2", "hello")
		if c.change != nil {
			c.change(r)
		}
		err := send(newTransport(t, below, c.options...), r).wait().err
		vain := errorAs[*httpclient.RetryError](t, err)
		assert.Equal(t, r.Method+" /channels/{channel_id}/pins/{message_id}", vain.Route)
		assert.Equal(t, c.attempts, vain.Attempts)
		assert.Len(t, below.requests(), c.attempts)
		assert.Equal(t, c.timeout, vain.Timeout())
		if c.reason != nil {
			assert.Equal(t, c.reason, vain.Reason)
		}
		assert.ErrorIs(t, err, vain.Reason)
		assert.ErrorIs(t, err, vain.Err)
		if c.timeout {
			assert.ErrorAs(t, err, new(*httpclient.AttemptTimeoutError))
		} else {
			assert.ErrorIs(t, err, lost)
		}
		for _, part := range []string{vain.Route, vain.Reason.Error(), vain.Err.Error()} {
			assert.ErrorContains(t, err, part)
		}
	})
}

// If a connection is refused because nothing listens at the address any more, the transport must try again.
func TestAConnectionThatIsRefusedIsTriedAgain(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, listener.Close())
	var count atomic.Int32
	options := append(anyHost, httpclient.WithAttempts(httpclient.Attempts{FirstPause: 1, MaxPause: 1}))
	transport := newTransport(t, attempts(new(http.Transport), &count), options...)
	_, err = transport.RoundTrip(to(t, "http://"+listener.Addr().String(), newMessage(t)))
	assert.Equal(t, 4, errorAs[*httpclient.RetryError](t, err).Attempts)
	assert.EqualValues(t, 4, count.Load())
	assert.Zero(t, transport.Manager().Stats().Lost)
}

func TestRefusalsAreRepeatedWithoutRetries(t *testing.T) {
	bubble(t, func(t *testing.T) {
		below := newScript(refuse("user", "1"), refuse("shared", "1"), refuse("global", "1"), answer(http.StatusOK, ""))
		sent := send(newTransport(t, below, noRetries), newMessage(t))
		assertStatus(t, http.StatusOK, sent)
		assertTook(t, 3*time.Second, sent.took)
	})
}

func TestRefusalsAreNotCountedAsRetries(t *testing.T) {
	bubble(t, func(t *testing.T) {
		no, bad := refuse("user", "1"), answer(http.StatusBadGateway, "")
		below := newScript(no, no, no, bad, no, no, fail(errors.New("lost")), no, no, answer(http.StatusOK, "done"))
		sent := send(newTransport(t, below, httpclient.WithAttempts(httpclient.Attempts{Retries: 2})), getChannel(t))
		assertStatus(t, http.StatusOK, sent)
		assert.Equal(t, "done", sent.body)
		assert.Len(t, below.requests(), 10)
	})
}

func TestABodyIsRepeatedExactly(t *testing.T) {
	content := strings.Repeat("0123456789", 100)
	type story struct {
		change func(*http.Request)
		want   string
	}
	inBubbles(t, map[string]story{
		"by GetBody":                {func(*http.Request) {}, content},
		"by GetBody, however large": {func(r *http.Request) { r.ContentLength = 1 << 40 }, content},
		"kept in memory":            {func(r *http.Request) { unreplayable(r, r.Body, 1000) }, content},
		"of unknown length":         {func(r *http.Request) { unreplayable(r, iotest.OneByteReader(r.Body), -1) }, content},
		"empty, of unknown length":  {func(r *http.Request) { unreplayable(r, strings.NewReader(""), -1) }, ""},
		"none":                      {func(r *http.Request) { r.Body, r.GetBody, r.ContentLength = nil, nil, 0 }, ""},
		"said to be none":           {func(r *http.Request) { r.Body, r.GetBody, r.ContentLength = http.NoBody, nil, 0 }, ""},
	}, func(t *testing.T, c story) {
		below := newScript(answer(http.StatusBadGateway, ""), fail(lostConnection()), refuse("user", "1"),
			answer(http.StatusOK, ""))
		r := newRequest(t, http.MethodPut, channel+"/pins/2", content)
		c.change(r)
		var bodies ledger
		if r.Body != nil && r.Body != http.NoBody {
			r.Body = bodies.open(r.Body)
		}
		length := r.ContentLength
		if length < 0 { // the transport knows the length when it has read the body
			length = int64(len(c.want))
		}
		// The body is exactly as long as the bound.
		assertStatus(t, http.StatusOK, send(newTransport(t, below, eachBody(1000)), r))
		require.Len(t, below.requests(), 4)
		for i, a := range below.requests() {
			assert.Equal(t, c.want, a.body, "attempt %d", i)
			assert.Equal(t, length, a.request.ContentLength, "attempt %d", i)
		}
		assert.Equal(t, bodies.opened.Load(), bodies.closed.Load())
	})
}

func TestABodyThatCanBeSentOnceIsNotRepeatedAfterAServerError(t *testing.T) {
	bubble(t, func(t *testing.T) {
		below := newScript(answer(http.StatusServiceUnavailable, "down"), answer(http.StatusOK, ""))
		r := unreplayable(newRequest(t, http.MethodPut, channel, "{}"), strings.NewReader("too long"), -1)
		bodies := track(r)
		sent := send(newTransport(t, below, eachBody(7)), r)
		assertStatus(t, http.StatusServiceUnavailable, sent)
		assert.Equal(t, "down", sent.body)
		assert.Len(t, below.requests(), 1)
		bodies.assertClosed(t)
	})
}

// The transport reads a body to find a nonce in it. The transport must not wait for a body that does not arrive or
// never ends.
func TestABodyThatCannotBeLookedAtIsNotWaitedFor(t *testing.T) {
	inBubbles(t, map[string]func() io.ReadCloser{
		"it does not come": func() io.ReadCloser { r, _ := io.Pipe(); return r },
		"it does not end":  func() io.ReadCloser { return io.NopCloser(endless{}) },
	}, func(t *testing.T, source func() io.ReadCloser) {
		below := newScript(fail(lostConnection()))
		r := newMessage(t)
		var bodies ledger
		r.GetBody = func() (io.ReadCloser, error) {
			body := source()
			return struct {
				io.Reader
				io.Closer
			}{body, closers{bodies.open(nil), body}}, nil
		}
		sent := send(newTransport(t, below), r).wait()
		assert.Error(t, sent.err)
		assert.Less(t, sent.took, time.Second)
		assert.Len(t, below.requests(), 1)
		bodies.assertClosed(t)
	})
}
