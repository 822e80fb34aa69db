package httpclient_test

import (
	"bytes"
	"encoding/json"
	"io"
	"mime/multipart"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/httpclient"
)

// nonceOf asserts that a message has enforce_nonce, and returns its nonce and its other fields.
func nonceOf(t *testing.T, body string) (nonce string, rest map[string]any) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(body), &rest), body)
	assert.Equal(t, true, rest["enforce_nonce"], body)
	nonce, _ = rest["nonce"].(string)
	delete(rest, "nonce")
	delete(rest, "enforce_nonce")
	return nonce, rest
}

// setting returns a function that sets a header of a request.
func setting(name, value string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set(name, value) }
}

func TestAMessageGetsANonceAndIsRepeatedWithIt(t *testing.T) {
	const hello = `{"content":"hello","nested":{"nonce":"inner"}}`
	const size = int64(len(hello))
	ofUnknownLength := func(r *http.Request) { unreplayable(r, iotest.OneByteReader(strings.NewReader(hello)), -1) }
	type story struct {
		body   string
		change func(*http.Request)
	}
	inBubbles(t, map[string]story{
		"by GetBody":              {hello, func(*http.Request) {}},
		"kept in memory":          {hello, func(r *http.Request) { unreplayable(r, strings.NewReader(hello), size) }},
		"of unknown length":       {hello, ofUnknownLength},
		"empty":                   {" \n{ }", func(*http.Request) {}},
		"no content type":         {hello, func(r *http.Request) { r.Header.Del("Content-Type") }},
		"content type in full":    {hello, setting("Content-Type", "application/json; charset=utf-8")},
		"content type plain text": {hello, setting("Content-Encoding", "identity")},
	}, func(t *testing.T, c story) {
		below := newScript(answer(http.StatusBadGateway, ""), fail(lostConnection()), refuse("user", "1"),
			answer(http.StatusOK, ""))
		r := newRequest(t, http.MethodPost, messages, c.body)
		c.change(r)
		var bodies ledger
		r.Body = bodies.open(r.Body)
		length, header := r.ContentLength, r.Header.Clone()
		transport := newTransport(t, below, httpclient.WithAttempts(httpclient.Attempts{Nonce: true}))
		assertStatus(t, http.StatusOK, send(transport, r))
		sent := below.requests()
		require.Len(t, sent, 4)
		nonce, rest := nonceOf(t, sent[0].body)
		assert.Len(t, nonce, 25)
		var want map[string]any
		require.NoError(t, json.Unmarshal([]byte(c.body), &want))
		assert.Equal(t, want, rest)
		for i, a := range sent {
			assert.Equal(t, sent[0].body, a.body, "attempt %d", i)
			assert.Equal(t, int64(len(a.body)), a.request.ContentLength, "attempt %d", i)
			again, err := a.request.GetBody()
			require.NoError(t, err)
			text, err := io.ReadAll(again)
			require.NoError(t, err)
			assert.Equal(t, a.body, string(text), "GetBody, which net/http calls when a connection is dead")
		}
		bodies.assertClosed(t)
		assert.Equal(t, length, r.ContentLength, "the caller's request must not change")
		assert.Equal(t, header, r.Header)
	})
}

func TestTwoMessagesHaveTwoNonces(t *testing.T) {
	t.Parallel()
	below := newScript(answer(http.StatusOK, ""))
	transport := newTransport(t, below, httpclient.WithAttempts(httpclient.Attempts{Nonce: true}))
	for range 2 {
		assertStatus(t, http.StatusOK, send(transport, newMessage(t)))
	}
	first, _ := nonceOf(t, below.requests()[0].body)
	second, _ := nonceOf(t, below.requests()[1].body)
	assert.NotEqual(t, first, second)
}

func TestWhatNeedsNoNonceIsSentUnchanged(t *testing.T) {
	const hello = `{"content":"hello"}`
	nonce := []httpclient.Option{httpclient.WithAttempts(httpclient.Attempts{Nonce: true})}
	var form bytes.Buffer
	w := multipart.NewWriter(&form)
	require.NoError(t, w.WriteField("payload_json", hello))
	require.NoError(t, w.Close())
	once := func(r *http.Request) { unreplayable(r, strings.NewReader(hello), 1<<30) }
	type story struct {
		path, body string
		change     func(*http.Request)
		options    []httpclient.Option
	}
	inBubbles(t, map[string]story{
		"without the option":    {messages, hello, nil, nil},
		"a nonce":               {messages, `{"nonce":"abc"}`, nil, nonce},
		"a number":              {messages, `{"nonce":7}`, nil, nonce},
		"null":                  {messages, `{"nonce":null}`, nil, nonce},
		"not to be enforced":    {messages, `{"enforce_nonce":false}`, nil, nonce},
		"a list":                {messages, `[` + hello + `]`, nil, nonce},
		"nothing":               {messages, `null`, nil, nonce},
		"not JSON":              {messages, `{"content":`, nil, nonce},
		"two objects":           {messages, hello + hello, nil, nonce},
		"no body":               {messages, "", nil, nonce},
		"another type":          {messages, hello, setting("Content-Type", "text/plain"), nonce},
		"a form":                {messages, form.String(), setting("Content-Type", w.FormDataContentType()), nonce},
		"encoded":               {messages, hello, setting("Content-Encoding", "gzip"), nonce},
		"unknown encoding":      {messages, hello, setting("Content-Encoding", "br"), nonce},
		"trailers":              {messages, hello, func(r *http.Request) { r.Trailer = http.Header{"X-Sum": nil} }, nonce},
		"large":                 {messages, `{"content":"` + strings.Repeat("x", 1<<20) + `"}`, nil, nonce},
		"large, mostly spaces":  {messages, hello + strings.Repeat(" ", 1<<20), nil, nonce},
		"sent once":             {messages, hello, once, nonce},
		"no room":               {messages, hello, nil, append(nonce, allBodies(int64(len(hello)+10)))},
		"the edit of a message": {messages + "/2", hello, func(r *http.Request) { r.Method = http.MethodPatch }, nonce},
		"another route":         {"/api/v10/channels/1/threads", hello, nil, nonce},
		"a webhook":             {"/api/v10/webhooks/1/" + webhookSecret, hello, nil, nonce},
		"a callback":            {callback, hello, nil, nonce},
	}, func(t *testing.T, c story) {
		below := newScript(answer(http.StatusOK, ""))
		r := newRequest(t, http.MethodPost, c.path, c.body)
		if c.change != nil {
			c.change(r)
		}
		length := r.ContentLength
		assertStatus(t, http.StatusOK, send(newTransport(t, below, c.options...), r))
		require.Len(t, below.requests(), 1)
		assert.Equal(t, c.body, below.requests()[0].body)
		assert.Equal(t, length, below.requests()[0].request.ContentLength)
	})
}
