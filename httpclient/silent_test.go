package httpclient_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httputil"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/httpclient"
)

// deaf makes sources of bodies that stop giving bytes, and whose Close does not end a waiting Read. There are two such
// kinds: if an io.Reader has no Close, package http adds one that does nothing; and Close of a server's request body
// waits for a Read. All waits end with the test.
type deaf struct{ end chan struct{} }

func newDeaf(t *testing.T) *deaf {
	d := &deaf{make(chan struct{})}
	t.Cleanup(func() { close(d.end) })
	return d
}

// after returns a source that gives so many bytes before it stops.
func (d *deaf) after(bytes int) io.ReadCloser { return &deafSource{d, bytes} }

type deafSource struct {
	*deaf
	left int
}

func (s *deafSource) Read(p []byte) (int, error) {
	if s.left == 0 {
		<-s.end
		return 0, io.EOF
	}
	n := min(len(p), s.left)
	s.left -= n
	return n, nil
}

// Close waits until no more can be read, as Close of a server's request body may.
func (s *deafSource) Close() error {
	<-s.end
	return nil
}

func swallow(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }

// An upload stops because its source gives no more bytes. When a context ends, net/http waits for its read from the
// source. So the transport must end that read, or give up the attempt if nothing ends it.
func TestAnUploadFromASilentSourceEndsAndHoldsNobody(t *testing.T) {
	t.Parallel()
	const never = time.Duration(0)
	for name, c := range map[string]struct {
		bytes, length      int
		getBody            bool
		timeout            time.Duration
		deadline, cancelAt time.Duration // when the context ends
		ends               time.Duration
	}{
		"a stream, at its deadline":                  {2 << 20, -1, false, 15 * time.Second, 5 * time.Second, never, 5 * time.Second},
		"a stream, at its deadline, without timeout": {2 << 20, -1, false, never, 5 * time.Second, never, 5 * time.Second},
		"a stream, when it is cancelled":             {2 << 20, -1, false, 15 * time.Second, never, 5 * time.Second, 5 * time.Second},
		"a stream, by the attempt's time":            {2 << 20, -1, false, 15 * time.Second, time.Hour, never, 15 * time.Second},
		"a stream, context without an end":           {2 << 20, -1, false, 15 * time.Second, never, never, 15 * time.Second},
		"a small body, at its deadline":              {0, 100, true, 15 * time.Second, 5 * time.Second, never, 5 * time.Second},
		"a small body, by the attempt's time":        {0, 100, true, 15 * time.Second, time.Hour, never, 15 * time.Second},
		"a large body that could be sent once":       {2 << 20, 3 << 20, false, 15 * time.Second, 5 * time.Second, never, 5 * time.Second},
	} {
		for _, kind := range []string{"that Close wakes", "that nothing wakes", "whose Close blocks"} {
			inBubble(t, name+", "+kind, func(t *testing.T) {
				var bodies ledger
				deaf := newDeaf(t)
				source := func() io.ReadCloser {
					switch kind {
					case "that nothing wakes":
						return io.NopCloser(deaf.after(c.bytes))
					case "whose Close blocks":
						return deaf.after(c.bytes)
					}
					reader, writer := io.Pipe()
					go func() { _, _ = writer.Write(make([]byte, c.bytes)) }()
					return struct {
						io.Reader
						io.Closer
					}{reader, closers{bodies.open(nil), reader}}
				}
				ctx, cancel := context.WithCancel(context.Background())
				defer cancel()
				if c.cancelAt > 0 {
					time.AfterFunc(c.cancelAt, cancel)
				}
				if c.deadline > 0 {
					ctx, cancel = context.WithTimeout(ctx, c.deadline)
					defer cancel()
				}
				transport := newTransport(t, newServer(t, swallow), httpclient.WithRetries(0),
					httpclient.WithAttemptTimeout(c.timeout))
				r := unreplayable(newMessage(t), nil, int64(c.length)).WithContext(ctx)
				r.Body = source()
				if c.getBody {
					r.GetBody = func() (io.ReadCloser, error) { return source(), nil }
				}
				silent := send(transport, r)
				time.Sleep(time.Second)
				// This request has the same route, so it waits for the first one's response.
				assertStatus(t, http.StatusOK, send(transport, newMessage(t)))
				silent.wait()
				assert.GreaterOrEqual(t, silent.took, c.ends)
				assert.Less(t, silent.took, c.ends+time.Second)
				switch {
				case c.cancelAt > 0:
					assert.ErrorIs(t, silent.err, context.Canceled)
				case c.ends == 15*time.Second:
					assertAttemptTimeout(t, c.ends, silent.err)
				default:
					assert.ErrorIs(t, silent.err, context.DeadlineExceeded)
				}
				if kind == "that Close wakes" {
					synctest.Wait()
					bodies.assertClosed(t)
				}
			})
		}
	}
}

// A client of a proxy stalls in the middle of its upload.
func TestAnUploadThatStallsBeforeAReverseProxyHoldsNobody(t *testing.T) {
	bubble(t, func(t *testing.T) {
		transport := newTransport(t, newServer(t, swallow))
		proxy := &httputil.ReverseProxy{Transport: transport, Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme, r.Out.URL.Host = "http", "discord.com"
		}}
		client := newServer(t, proxy.ServeHTTP)

		reader, writer := io.Pipe()
		go func() { _, _ = writer.Write(make([]byte, 2<<20)) }()
		first := send(client, unreplayable(newMessage(t), reader, 3<<20))
		time.Sleep(time.Second)
		second := send(client, newMessage(t))
		assertStatus(t, http.StatusOK, second)
		assert.Less(t, second.took, 16*time.Second)
		// Not later: the server's Close waits for a mutex, and virtual time stands still meanwhile.
		writer.CloseWithError(io.ErrUnexpectedEOF)
		first.wait()
	})
}

// A body that is kept is read before the request waits in the queue. When its source ends the read, the memory is free
// again.
func TestTheReadingOfABodyThatNothingWakesEndsWithTheContextAndTheTransport(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		life   time.Duration
		err    error
		length int64
	}{
		"context":                      {time.Second, context.DeadlineExceeded, -1},
		"context, of known length":     {time.Second, context.DeadlineExceeded, 1000},
		"transport":                    {time.Hour, buckets.ErrClosed, -1},
		"transport, of a known length": {time.Hour, buckets.ErrClosed, 1000},
	} {
		for _, blocks := range []bool{false, true} {
			inBubble(t, fmt.Sprintf("%s, whose Close blocks %v", name, blocks), func(t *testing.T) {
				limiter := new(gate)
				transport := newTransport(t, newScript(answer(http.StatusOK, "")),
					httpclient.WithLimiter(limiter), httpclient.WithMaxBufferedTotal(1000))
				ctx := within(t, c.life)
				if c.err == buckets.ErrClosed {
					time.AfterFunc(time.Second, func() { transport.Close() })
				}
				sources := &deaf{make(chan struct{})}
				r := unreplayable(newMessage(t), sources.after(100), c.length).WithContext(ctx)
				if blocks {
					r.Body = sources.after(100)
				}
				sent := send(transport, r).wait()
				assert.ErrorIs(t, sent.err, c.err)
				assert.GreaterOrEqual(t, sent.took, time.Second)
				assert.Less(t, sent.took, 2*time.Second)
				close(sources.end)
				synctest.Wait()
				if c.err != buckets.ErrClosed {
					limiter.shut.Store(true)
					assertRoom(t, transport, 1000)
				}
			})
		}
	}
}

// The request waits, so its body is not read. Close of that body blocks, but must not delay the error.
func TestABodyThatCannotBeClosedDelaysNoError(t *testing.T) {
	bubble(t, func(t *testing.T) {
		limiter := new(gate)
		limiter.shut.Store(true)
		transport := newTransport(t, newScript(answer(http.StatusOK, "")), httpclient.WithLimiter(limiter))
		sources := newDeaf(t)
		for name, change := range map[string]func(*http.Request){
			"large":                  func(r *http.Request) { r.ContentLength = 2 << 20 },
			"with GetBody":           func(r *http.Request) { r.GetBody = func() (io.ReadCloser, error) { return sources.after(0), nil } },
			"longer than its length": func(r *http.Request) { r.ContentLength = 5 },
			"longer than the bound":  func(r *http.Request) { r.Body = sources.after(2 << 20) },
			"with an invalid path":   func(r *http.Request) { r.URL.Path = "/a/../b" },
		} {
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			r := unreplayable(newMessage(t), nil, -1).WithContext(ctx)
			r.Body = sources.after(100)
			change(r)
			c := send(transport, r).wait()
			assert.Error(t, c.err, name)
			assert.Less(t, c.took, 2*time.Second, name)
			cancel()
		}
	})
}

// A transport below other than net/http's may return at any time and use the request afterwards.
func TestATransportBelowThatWasLeftAloneWithAnUploadDoesNoHarm(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var responses ledger
		var count atomic.Int32
		transport := newTransport(t, responder(func(r *http.Request) (*http.Response, error) {
			if r.ContentLength < 1<<20 {
				return answer(http.StatusOK, "")(r)
			}
			time.Sleep(time.Hour)
			if r.Header.Get("X-Count") != "1" || r.URL.Path == "" {
				panic("the request has changed")
			}
			if count.Add(1) > 1 {
				panic("too late for anybody")
			}
			return answerWith(http.StatusOK, func() io.ReadCloser { return responses.open(nil) })(r)
		}), httpclient.WithRetries(0))
		for range 2 {
			r := unreplayable(newMessage(t), io.LimitReader(endless{}, 2<<20), 2<<20)
			r.Header.Set("X-Count", "1")
			c := send(transport, r).wait()
			assertAttemptTimeout(t, 15*time.Second, c.err)
			r.Header.Set("X-Count", "2") // the caller may change the request again
			r.URL.Path = ""
			assertStatus(t, http.StatusOK, send(transport, newMessage(t)))
		}
		time.Sleep(2 * time.Hour)
		responses.assertClosed(t)
	})
}

func TestAPanicBelowReachesTheCallerOfAnUpload(t *testing.T) {
	bubble(t, func(t *testing.T) {
		transport := newTransport(t, responder(func(*http.Request) (*http.Response, error) { panic("below") }))
		r := unreplayable(newMessage(t), io.LimitReader(endless{}, 2<<20), 2<<20)
		assert.PanicsWithValue(t, "below", func() { _, _ = transport.RoundTrip(r) })
		assertNothingHeld(t, transport)
	})
}
