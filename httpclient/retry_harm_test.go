package httpclient_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"mime/multipart"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/httpclient"
)

// assertRepeated asserts whether a request is repeated after each failure that may come after Discord has processed it.
func assertRepeated(t *testing.T, want bool, r func() *http.Request, options ...httpclient.Option) {
	t.Helper()
	for name, failure := range map[string]responder{
		"server error": answer(http.StatusBadGateway, ""), "lost": fail(lostConnection()), "silent": nil,
	} {
		synctest.Test(t, func(t *testing.T) {
			below := newScript(failure, answer(http.StatusOK, "done"))
			if failure == nil {
				below.answers[0] = func(r *http.Request) (*http.Response, error) {
					<-r.Context().Done()
					return nil, context.Cause(r.Context())
				}
			}
			c := send(newTransport(t, below, options...), r()).wait()
			if !want {
				assert.Len(t, below.requests(), 1, name)
				assert.NotEqual(t, "done", c.body, name)
				return
			}
			assertStatus(t, http.StatusOK, c)
			sent := below.requests()
			require.Len(t, sent, 2, name)
			assert.Equal(t, sent[0].body, sent[1].body, name)
		})
	}
}

func TestPostAndPatchAreRepeatedIfTheCallerSaysSo(t *testing.T) {
	t.Parallel()
	with, without := httpclient.ContextWithUnsafeRetries, httpclient.ContextWithoutRetries
	plain := func(ctx context.Context) context.Context { return ctx }
	unsafe := []httpclient.Option{httpclient.WithUnsafeRetries()}
	for name, c := range map[string]struct {
		context func(context.Context) context.Context
		options []httpclient.Option
		post    bool // POST and PATCH are repeated
		put     bool // PUT is repeated
	}{
		"nothing":                           {plain, nil, false, true},
		"by the context":                    {with, nil, true, true},
		"by the option":                     {plain, unsafe, true, true},
		"by both":                           {with, unsafe, true, true},
		"not by the context":                {without, nil, false, false},
		"not by the context, by the option": {without, unsafe, false, false},
		"the context's last option":         {func(ctx context.Context) context.Context { return with(without(ctx)) }, nil, true, true},
		"the context's last option, not":    {func(ctx context.Context) context.Context { return without(with(ctx)) }, unsafe, false, false},
		"with a max wait as well": {
			func(ctx context.Context) context.Context { return buckets.ContextWithMaxWait(with(ctx), time.Minute) },
			nil, true, true,
		},
		"but not at all": {with, []httpclient.Option{httpclient.WithUnsafeRetries(), httpclient.WithRetries(0)}, false, false},
	} {
		for method, want := range map[string]bool{
			http.MethodPost: c.post, http.MethodPatch: c.post, http.MethodPut: c.put, http.MethodGet: c.put,
		} {
			t.Run(name+", "+method, func(t *testing.T) {
				t.Parallel()
				assertRepeated(t, want, func() *http.Request {
					r := newRequest(t, method, channel, `{"name":"new"}`)
					return r.WithContext(c.context(r.Context()))
				}, c.options...)
			})
		}
	}
}

func TestAMessageWithAnEnforcedNonceIsRepeated(t *testing.T) {
	t.Parallel()
	const nonce = `{"content":"hello","nonce":"abc","enforce_nonce":true}`
	const webhook = "/api/v10/webhooks/1/" + webhookSecret
	for name, c := range map[string]struct {
		path, body string
		change     func(*http.Request)
		want       bool
	}{
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
		"cannot be sent again":      {messages, nonce, func(r *http.Request) { unreplayable(r, strings.NewReader(nonce), 1<<30) }, false},
		"a webhook":                 {webhook, nonce, nil, false},
		"an interaction":            {"/api/v10/webhooks/1/" + replySecret, nonce, nil, false},
		"a callback":                {callback, nonce, nil, false},
		"another route":             {"/api/v10/channels/1/threads", nonce, nil, false},
		"the edit of a message":     {messages + "/2", nonce, func(r *http.Request) { r.Method = http.MethodPatch }, false},
		"a route without nonces":    {messages + "/bulk-delete", nonce, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			assertRepeated(t, c.want, func() *http.Request {
				r := newRequest(t, http.MethodPost, c.path, c.body)
				if c.change != nil {
					c.change(r)
				}
				return r
			})
		})
	}
}

// The transport does not look for a nonce in a form with files, because it is not known what Discord does with one
// there.
func TestAnUploadIsNotRepeatedForItsNonce(t *testing.T) {
	t.Parallel()
	assertRepeated(t, false, func() *http.Request {
		var form bytes.Buffer
		w := multipart.NewWriter(&form)
		assert.NoError(t, w.WriteField("payload_json", `{"nonce":"abc","enforce_nonce":true}`))
		assert.NoError(t, w.Close())
		r := newRequest(t, http.MethodPost, messages, form.String())
		r.Header.Set("Content-Type", w.FormDataContentType())
		return r
	})
}

func TestContextWithoutRetryHoldsForConnectionsThatDidNotComeAbout(t *testing.T) {
	bubble(t, func(t *testing.T) {
		refused := noConnection()
		below := newScript(fail(refused))
		r := newMessage(t)
		c := send(newTransport(t, below), r.WithContext(httpclient.ContextWithoutRetries(r.Context()))).wait()
		assert.True(t, c.err == refused, "%v", c.err) //nolint:errorlint // the very same error
		assert.Len(t, below.requests(), 1)
	})
}

func TestRefusalsAreRepeatedWithoutRetries(t *testing.T) {
	bubble(t, func(t *testing.T) {
		below := newScript(refuse("user", "1"), refuse("shared", "1"), refuse("global", "1"), answer(http.StatusOK, ""))
		r := newMessage(t)
		sent := send(newTransport(t, below, httpclient.WithRetries(0)),
			r.WithContext(httpclient.ContextWithoutRetries(r.Context())))
		assertStatus(t, http.StatusOK, sent)
		assertTook(t, 3*time.Second, sent.took)
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
		"kept in memory":            {func(r *http.Request) { unreplayable(r, strings.NewReader(content), 1000) }, content},
		"of unknown length":         {func(r *http.Request) { unreplayable(r, iotest.OneByteReader(strings.NewReader(content)), -1) }, content},
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
		if length < 0 { // the length is known once the body has been read
			length = int64(len(c.want))
		}
		// The body is exactly as long as the bound.
		assertStatus(t, http.StatusOK, send(newTransport(t, below, httpclient.WithMaxBufferedBody(1000)), r))
		require.Len(t, below.requests(), 4)
		for i, a := range below.requests() {
			assert.Equal(t, c.want, a.body, "attempt %d", i)
			assert.Equal(t, length, a.request.ContentLength, "attempt %d", i)
		}
		assert.Equal(t, bodies.opened.Load(), bodies.closed.Load())
	})
}

func TestABodyThatCanBeSentOnceIsNotRepeatedAfterAFailure(t *testing.T) {
	type story struct {
		failure responder
		is      error
	}
	inBubbles(t, map[string]story{
		"server error":  {answer(http.StatusServiceUnavailable, "down"), nil},
		"lost":          {fail(io.ErrUnexpectedEOF), io.ErrUnexpectedEOF},
		"no connection": {fail(errors.Join(noConnection(), io.ErrNoProgress)), io.ErrNoProgress},
	}, func(t *testing.T, c story) {
		var bodies ledger
		below := newScript(c.failure, answer(http.StatusOK, ""))
		r := unreplayable(newRequest(t, http.MethodPut, channel, "{}"), strings.NewReader("too long"), -1)
		r.Body = bodies.open(r.Body)
		sent := send(newTransport(t, below, httpclient.WithMaxBufferedBody(7)), r).wait()
		assert.Len(t, below.requests(), 1)
		bodies.assertClosed(t)
		if c.is == nil {
			assertStatus(t, http.StatusServiceUnavailable, sent)
			assert.Equal(t, "down", sent.body)
			return
		}
		vain := errorAs[*httpclient.RetryError](t, sent.err)
		assert.Equal(t, httpclient.ErrNotRepeatable, vain.Reason)
		assert.Equal(t, 1, vain.Attempts)
		assert.ErrorIs(t, sent.err, c.is)
		assert.ErrorContains(t, sent.err, "sent only once")
	})
}

// The transport reads a body to find a nonce in it, but must not wait for a body that does not come or never ends.
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
