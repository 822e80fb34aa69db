package httpclient_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/httpclient"
)

// unreplayable gives the request a body that cannot be read again. A length of -1 means unknown.
func unreplayable(r *http.Request, body io.Reader, length int64) *http.Request {
	r.Body, r.GetBody, r.ContentLength = io.NopCloser(body), nil, length
	return r
}

func TestABodyThatCannotBeKeptIsSentOnce(t *testing.T) {
	content := strings.Repeat("0123456789", 100)
	type story struct {
		option httpclient.Option
		length int64
	}
	inBubbles(t, map[string]story{
		"known to be too long":   {httpclient.WithMaxBufferedBody(999), 1000},
		"found to be too long":   {httpclient.WithMaxBufferedBody(999), -1},
		"a byte in memory":       {httpclient.WithMaxBufferedBody(1), -1},
		"nothing kept":           {httpclient.WithMaxBufferedBody(0), -1},
		"nothing kept, negative": {httpclient.WithMaxBufferedBody(-5), 1000},
		"known to have no room":  {httpclient.WithMaxBufferedTotal(999), 1000},
		"found to have no room":  {httpclient.WithMaxBufferedTotal(999), -1},
	}, func(t *testing.T, c story) {
		below := newScript(refuse("user", "1"), answer(http.StatusOK, ""))
		var log bytes.Buffer
		transport := newTransport(t, below, c.option, httpclient.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
		r := unreplayable(newMessage(t), strings.NewReader(content), c.length)
		bodies := track(r)
		sent := send(transport, r).wait()
		assertStatus(t, http.StatusTooManyRequests, sent)
		assert.Zero(t, sent.took, "the 429 is returned at once")
		assert.JSONEq(t, `{"message":"You are being rate limited.","retry_after":1,"global":false}`, sent.body)
		bodies.assertClosed(t)
		require.Len(t, below.requests(), 1)
		assert.Equal(t, content, below.requests()[0].body)
		assert.Contains(t, log.String(), `level=WARN msg="request failed"`)
		assert.Contains(t, log.String(), `reason="its body can be sent only once"`)

		// The 429 was returned, but the next request waits as it asked.
		next := send(transport, newMessage(t))
		assertStatus(t, http.StatusOK, next)
		assertTook(t, time.Second, next.took)
	})
}

func TestWithoutReplayOneByteOfABodyIsReadBeforeItIsSent(t *testing.T) {
	t.Parallel()
	for _, maxBufferedBody := range []int64{0, -5} {
		t.Run(strconv.FormatInt(maxBufferedBody, 10), func(t *testing.T) {
			t.Parallel()
			text := &counted{Reader: strings.NewReader("hello")}
			transport := newTransport(t, responder(func(r *http.Request) (*http.Response, error) {
				assert.Equal(t, 1, text.read, "one byte is read to see that the source gives any")
				defer r.Body.Close()
				content, err := io.ReadAll(r.Body)
				assert.NoError(t, err)
				return answer(http.StatusOK, string(content))(r)
			}), httpclient.WithMaxBufferedBody(maxBufferedBody))
			sent := send(transport, unreplayable(newMessage(t), text, -1))
			assertStatus(t, http.StatusOK, sent)
			assert.Equal(t, "hello", sent.body)
		})
	}
}

func TestABodyThatCannotBeHadAgainIsAnErrorAndTheNextRequestGoes(t *testing.T) {
	bubble(t, func(t *testing.T) {
		below := newScript(refuse("user", "1"), answer(http.StatusOK, ""))
		transport := newTransport(t, below)
		broken := errors.New("the file was removed")
		r := newMessage(t)
		getBody := r.GetBody
		r.GetBody = func() (io.ReadCloser, error) {
			if len(below.requests()) > 0 {
				return nil, broken
			}
			return getBody()
		}
		first := send(transport, r)
		synctest.Wait()
		second := send(transport, newMessage(t))
		assert.ErrorIs(t, first.wait().err, broken)
		assert.Zero(t, first.took, "the request waited although it cannot be sent")
		assertStatus(t, http.StatusOK, second)
		assertTook(t, time.Second, second.took)
		assert.Len(t, below.requests(), 2)
		assert.Zero(t, transport.Manager().Stats().Lost, "a request that was never sent does not count as lost")
	})
}

// counted counts the bytes that were read.
type counted struct {
	io.Reader
	read  int
	ended bool // Read has returned io.EOF
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.read += n
	c.ended = c.ended || err == io.EOF
	return n, err
}

func TestOfAnEndless429OnlyTheBeginningIsRead(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const bound = 64 << 10
		var bodies ledger
		text := &counted{Reader: io.LimitReader(endless{}, 1<<30)}
		huge := answerWith(http.StatusTooManyRequests, func() io.ReadCloser { return bodies.open(text) },
			"X-RateLimit-Scope: user", "Retry-After: 2")
		transport := newTransport(t, newScript(huge, answer(http.StatusOK, "done")))
		sent := send(transport, newMessage(t))
		assertStatus(t, http.StatusOK, sent)
		assertTook(t, 2*time.Second, sent.took)
		bodies.assertClosed(t)
		assert.LessOrEqual(t, text.read, bound)
	})
}

type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	return len(p), nil
}

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

// A body that turns out to be empty still has trailers, which net/http sends only after a body. Without a body, HTTP/2
// would never say that the request is complete.
func TestTrailersOfAnEmptyBodyAreSent(t *testing.T) {
	t.Parallel()
	for name, version2 := range map[string]bool{"HTTP/1": false, "HTTP/2": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var trailer http.Header
			server := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				trailer = r.Trailer
			}))
			server.EnableHTTP2 = version2
			server.StartTLS()
			defer server.Close()
			transport := newTransport(t, server.Client().Transport, append(anyHost, httpclient.WithRetries(0))...)
			r, err := http.NewRequest("POST", server.URL+messages, io.NopCloser(strings.NewReader("")))
			require.NoError(t, err)
			r.Trailer = http.Header{"X-Sum": {"of nothing"}}
			response := roundTrip(t, transport, r)
			response.Body.Close()
			assert.Equal(t, http.Header{"X-Sum": {"of nothing"}}, trailer)
		})
	}
}
