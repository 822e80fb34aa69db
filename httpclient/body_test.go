package httpclient_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
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
		"known to be too long":   {eachBody(999), 1000},
		"found to be too long":   {eachBody(999), -1},
		"a byte in memory":       {eachBody(1), -1},
		"nothing kept":           {eachBody(0), -1},
		"nothing kept, negative": {eachBody(-5), 1000},
		"known to have no room":  {allBodies(999), 1000},
		"found to have no room":  {allBodies(999), -1},
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

		// The 429 was returned to the caller, but the next request must still wait as long as the 429 says.
		next := send(transport, newMessage(t))
		assertStatus(t, http.StatusOK, next)
		assertTook(t, time.Second, next.took)
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

// A body that turns out to be empty can still have trailers. The trailers must be sent, but net/http sends trailers
// only after a body. If the transport passed no body to net/http, an HTTP/2 server would never learn that the request
// is complete.
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
			transport := newTransport(t, server.Client().Transport, append(anyHost, noRetries)...)
			r, err := http.NewRequest("POST", server.URL+messages, io.NopCloser(strings.NewReader("")))
			require.NoError(t, err)
			r.Trailer = http.Header{"X-Sum": {"of nothing"}}
			response := roundTrip(t, transport, r)
			response.Body.Close()
			assert.Equal(t, http.Header{"X-Sum": {"of nothing"}}, trailer)
		})
	}
}

// All bodies must be closed in the end: request bodies from the caller and from GetBody, and the bodies of 429s. The
// base transport closes the request bodies that it gets, and the caller closes the response that it gets.
func TestAllBodiesAreClosed(t *testing.T) {
	ok, user, full := answer(http.StatusOK, "{}"), refuse("user", "1"), usedUp(1, time.Second)
	subLimit := refusal429(`{"retry_after":1}`, limitHeaders(roomLeft, "X-RateLimit-Scope: user")...)
	type prepare func(t *testing.T, transport *httpclient.Transport, r *http.Request)
	both := func(all ...prepare) prepare {
		return func(t *testing.T, transport *httpclient.Transport, r *http.Request) {
			for _, each := range all {
				each(t, transport, r)
			}
		}
	}
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
	noRoom := func(t *testing.T, transport *httpclient.Transport, _ *http.Request) {
		assertStatus(t, http.StatusOK, send(transport, newMessage(t)).wait())
	}
	cancelled := func(t *testing.T, transport *httpclient.Transport, r *http.Request) {
		first := send(transport, newMessage(t))
		ctx, cancel := context.WithCancel(t.Context())
		*r = *r.WithContext(ctx)
		time.AfterFunc(500*time.Millisecond, cancel)
		t.Cleanup(func() { first.wait() })
		synctest.Wait()
	}
	superseded := func(t *testing.T, transport *httpclient.Transport, r *http.Request) {
		*r = *r.WithContext(httpclient.ContextWithLatest(context.Background()))
		newer := make(chan *call, 1)
		time.AfterFunc(500*time.Millisecond, func() { newer <- send(transport, newMessage(t).WithContext(r.Context())) })
		t.Cleanup(func() { assertStatus(t, http.StatusOK, <-newer) })
	}
	tooLate := func(t *testing.T, _ *httpclient.Transport, r *http.Request) {
		*r = *r.WithContext(within(t, 500*time.Millisecond))
	}

	type story struct {
		answers []responder
		prepare prepare
		keep    int64
		status  int // 0: an error is returned
	}
	inBubbles(t, map[string]story{
		"success":                              {answers(ok), both(), 0, 200},
		"success, kept in memory":              {answers(ok), single, 100, 200},
		"success, too large to keep":           {answers(ok), single, 3, 200},
		"refused and repeated":                 {answers(user, refuse("global", "1"), ok), both(), 0, 200},
		"refused and repeated, kept in memory": {answers(user, ok), single, 100, 200},
		"refused by a hidden limit":            {answers(subLimit, subLimit, ok), both(), 0, 200},
		"refused, cannot be repeated":          {answers(user), single, 0, 429},
		"refused, too large to keep":           {answers(user), single, 3, 429},
		"refused by the edge":                  {answers(answer(429, "<html>")), both(), 0, 0},
		"refused, a longer wait than allowed":  {answers(refuse("user", "4000")), both(), 0, 0},
		"refused, past the deadline":           {answers(user), tooLate, 0, 0},
		"error below":                          {answers(fail(errors.New("no network"))), both(), 0, 0},
		"body cannot be read":                  {answers(ok), unreadable, 100, 0},
		"cancelled in the queue":               {answers(full), both(noRoom, cancelled), 0, 0},
		"superseded in the queue":              {answers(full), both(noRoom, superseded), 0, 0},
		"closed":                               {answers(ok), closed, 0, 0},
		"closed, kept in memory":               {answers(ok), both(single, closed), 100, 0},
		"not a path of Discord's":              {answers(ok), wrongPath, 0, 0},
		"another host's path":                  {answers(ok), cdn, 0, 200},
	}, func(t *testing.T, c story) {
		var requests, responses ledger
		below := newScript(c.answers...)
		transport := newTransport(t, responder(func(r *http.Request) (*http.Response, error) {
			response, err := below.RoundTrip(r)
			if err == nil {
				response.Body = responses.open(response.Body)
			}
			return response, err
		}), eachBody(c.keep))
		open := func() io.ReadCloser { return requests.open(strings.NewReader(`{"content":"hello"}`)) }
		r := newMessage(t)
		r.Body, r.GetBody = open(), func() (io.ReadCloser, error) { return open(), nil }
		c.prepare(t, transport, r)
		response, err := transport.RoundTrip(r)
		status := 0
		if err == nil {
			status = response.StatusCode
			assert.NoError(t, response.Body.Close())
		}
		assert.Equal(t, c.status, status, "%v", err)
		synctest.Wait()
		requests.assertClosed(t)
		assert.Equal(t, responses.opened.Load(), responses.closed.Load(), "not all bodies of responses were closed")
	})
}

func TestWithoutReplayOneByteOfABodyIsReadBeforeItIsSent(t *testing.T) {
	bubble(t, func(t *testing.T) {
		text := &counted{Reader: strings.NewReader("hello")}
		transport := newTransport(t, responder(func(r *http.Request) (*http.Response, error) {
			assert.Equal(t, 1, text.read, "exactly one byte must be read, to see that the body has begun to arrive")
			defer r.Body.Close()
			content, err := io.ReadAll(r.Body)
			assert.NoError(t, err)
			return answer(http.StatusOK, string(content))(r)
		}), eachBody(-5)) // a negative size has the same effect as 0
		sent := send(transport, unreplayable(newMessage(t), text, -1))
		assertStatus(t, http.StatusOK, sent)
		assert.Equal(t, "hello", sent.body)
	})
}

func TestABodyThatCannotBeHadAgainIsAnErrorAndTheNextRequestGoes(t *testing.T) {
	type story struct {
		first responder
		next  time.Duration // wait of the next request
	}
	inBubbles(t, map[string]story{
		"after a 429":     {refuse("user", "1"), time.Second},
		"after a failure": {answer(http.StatusBadGateway, ""), 0},
	}, func(t *testing.T, c story) {
		below := newScript(c.first, answer(http.StatusOK, ""))
		transport := newTransport(t, below)
		broken := errors.New("the file was removed")
		r := newRequest(t, http.MethodPut, messages, "hello")
		r.GetBody = func() (io.ReadCloser, error) {
			if len(below.requests()) > 0 {
				return nil, broken
			}
			return io.NopCloser(strings.NewReader("hello")), nil
		}
		first := send(transport, r)
		synctest.Wait()
		second := send(transport, newRequest(t, http.MethodPut, messages, "hello"))
		assert.ErrorIs(t, first.wait().err, broken)
		if c.next > 0 {
			assert.Zero(t, first.took, "the request waited although it cannot be sent")
		} else {
			assert.Equal(t, httpclient.ErrNotRepeatable, errorAs[*httpclient.RetryError](t, first.err).Reason)
		}
		assertStatus(t, http.StatusOK, second)
		assertTook(t, c.next, second.took)
		assert.Len(t, below.requests(), 2)
		assert.Zero(t, transport.Manager().Stats().Lost, "a request that was never sent must not count as lost")
	})
}

// The transport must compare the length of a body in memory with the Content-Length before it sends the request,
// because net/http notices a wrong length only after it has sent the body.
func TestARequestThatFailsBeforehandIsNotSentAndItsBodyIsClosed(t *testing.T) {
	closed := func(_ *testing.T, transport *httpclient.Transport, r *http.Request) *http.Request {
		transport.Close()
		transport.Close() // Close may be called twice
		return r
	}
	cancelled := func(t *testing.T, _ *httpclient.Transport, r *http.Request) *http.Request {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		return r.WithContext(ctx)
	}
	with := func(content string) func(*testing.T, *httpclient.Transport, *http.Request) *http.Request {
		return func(_ *testing.T, _ *httpclient.Transport, r *http.Request) *http.Request {
			return unreplayable(r, strings.NewReader(content), 5)
		}
	}
	type story struct {
		change func(*testing.T, *httpclient.Transport, *http.Request) *http.Request
		want   string
	}
	inBubbles(t, map[string]story{
		"closed":                  {closed, buckets.ErrClosed.Error()},
		"cancelled":               {cancelled, context.Canceled.Error()},
		"shorter than its length": {with("1234"), "ContentLength=5 with Body length"},
		"longer than its length":  {with("123456"), "ContentLength=5 with Body length"},
	}, func(t *testing.T, c story) {
		below := newScript(answer(http.StatusOK, ""))
		transport := newTransport(t, below)
		r := c.change(t, transport, newMessage(t))
		bodies := track(r)
		_, err := transport.RoundTrip(r)
		assert.ErrorContains(t, err, c.want)
		assert.Empty(t, below.requests())
		bodies.assertClosed(t)
	})
}
