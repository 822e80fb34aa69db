package httpclient_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/ratelight/ratelight/httpclient"
)

// All bodies are closed in the end: request bodies from the caller and from GetBody, and the bodies of 429s. The
// transport below closes the request bodies that it gets; the caller closes the response that it gets.
func TestAllBodiesAreClosed(t *testing.T) {
	ok := answer(http.StatusOK, "{}")
	subLimit := refusal429(`{"retry_after":1}`, limitHeaders(roomLeft, "X-RateLimit-Scope: user")...)
	type prepare func(t *testing.T, transport *httpclient.Transport, r *http.Request)
	single := func(_ *testing.T, _ *httpclient.Transport, r *http.Request) { r.GetBody = nil }
	unreadable := func(_ *testing.T, _ *httpclient.Transport, r *http.Request) {
		r.GetBody, r.Body = nil, struct {
			io.Reader
			io.Closer
		}{iotest.ErrReader(errors.New("disk is gone")), r.Body}
	}
	closed := func(_ *testing.T, transport *httpclient.Transport, _ *http.Request) { transport.Close() }
	wrongPath := func(_ *testing.T, _ *httpclient.Transport, r *http.Request) { r.URL.Path = "/a/../b" }
	cdn := func(_ *testing.T, _ *httpclient.Transport, r *http.Request) { r.URL.Host = "cdn.discordapp.com" }
	cancelled := func(t *testing.T, transport *httpclient.Transport, r *http.Request) {
		assertStatus(t, http.StatusOK, send(transport, newMessage(t)).wait())
		first := send(transport, newMessage(t))
		ctx, cancel := context.WithCancel(t.Context())
		*r = *r.WithContext(ctx)
		time.AfterFunc(500*time.Millisecond, cancel)
		t.Cleanup(func() { first.wait() })
		synctest.Wait()
	}
	superseded := func(t *testing.T, transport *httpclient.Transport, r *http.Request) {
		assertStatus(t, http.StatusOK, send(transport, newMessage(t)).wait())
		*r = *r.WithContext(httpclient.ContextWithLatest(context.Background()))
		newer := make(chan *call, 1)
		time.AfterFunc(500*time.Millisecond, func() { newer <- send(transport, newMessage(t).WithContext(r.Context())) })
		t.Cleanup(func() { assertStatus(t, http.StatusOK, <-newer) })
	}
	tooLate := func(t *testing.T, transport *httpclient.Transport, r *http.Request) {
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		t.Cleanup(cancel)
		*r = *r.WithContext(ctx)
	}

	type story struct {
		answers []responder
		prepare prepare
		keep    int64
		status  int // 0: an error is returned
	}
	inBubbles(t, map[string]story{
		"success":                              {answers: answers(ok), status: 200},
		"success, kept in memory":              {answers: answers(ok), prepare: single, keep: 100, status: 200},
		"success, too large to keep":           {answers: answers(ok), prepare: single, keep: 3, status: 200},
		"refused and repeated":                 {answers: answers(refuse("user", "1"), refuse("global", "1"), ok), status: 200},
		"refused and repeated, kept in memory": {answers: answers(refuse("user", "1"), ok), prepare: single, keep: 100, status: 200},
		"refused by a hidden limit":            {answers: answers(subLimit, subLimit, ok), status: 200},
		"refused, cannot be repeated":          {answers: answers(refuse("user", "1")), prepare: single, status: 429},
		"refused, too large to keep":           {answers: answers(refuse("user", "1")), prepare: single, keep: 3, status: 429},
		"refused by the edge":                  {answers: answers(answer(429, "<html>"))},
		"refused, a longer wait than allowed":  {answers: answers(refuse("user", "4000"))},
		"refused, past the deadline":           {answers: answers(refuse("user", "1")), prepare: tooLate},
		"error below":                          {answers: answers(fail(errors.New("no network")))},
		"body cannot be read":                  {answers: answers(ok), prepare: unreadable, keep: 100},
		"cancelled in the queue": {
			answers: answers(answer(200, "", limitHeaders("X-RateLimit-Remaining: 0")...)), prepare: cancelled,
		},
		"superseded in the queue": {
			answers: answers(answer(200, "", limitHeaders("X-RateLimit-Remaining: 0")...)), prepare: superseded,
		},
		"closed": {answers: answers(ok), prepare: closed},
		"closed, kept in memory": {answers: answers(ok), prepare: func(t *testing.T, transport *httpclient.Transport, r *http.Request) {
			single(t, transport, r)
			closed(t, transport, r)
		}, keep: 100},
		"not a path of Discord's": {answers: answers(ok), prepare: wrongPath},
		"another host's path":     {answers: answers(ok), prepare: cdn, status: 200},
	}, func(t *testing.T, c story) {
		var requests, responses ledger
		below := newScript(c.answers...)
		transport := newTransport(t, responder(func(r *http.Request) (*http.Response, error) {
			response, err := below.RoundTrip(r)
			if err == nil {
				response.Body = struct {
					io.Reader
					io.Closer
				}{response.Body, responses.open(nil)}
			}
			return response, err
		}), httpclient.WithMaxBufferedBody(c.keep))

		open := func() io.ReadCloser { return requests.open(strings.NewReader(`{"content":"hello"}`)) }
		r := newMessage(t)
		r.Body, r.GetBody = open(), func() (io.ReadCloser, error) { return open(), nil }
		if c.prepare != nil {
			c.prepare(t, transport, r)
		}
		response, err := transport.RoundTrip(r)
		status := 0
		if err == nil {
			status = response.StatusCode
			assert.NoError(t, response.Body.Close())
		}
		assert.Equal(t, c.status, status, "%v", err)
		synctest.Wait()
		requests.assertClosed(t)
		assert.Equal(t, responses.opened.Load(), responses.closed.Load(), "of the responses' bodies not all were closed")
	})
}
