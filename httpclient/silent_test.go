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

// deaf are sources that give nothing more, and whose Close ends no read. Package http gives every io.Reader that has no
// Close one that does nothing, and the Close of a server's request waits for a read. All of them end with the test.
type deaf struct{ end chan struct{} }

func newDeaf(t *testing.T) *deaf {
	d := &deaf{make(chan struct{})}
	t.Cleanup(func() { close(d.end) })
	return d
}

// after returns a source that gives so many bytes first.
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

// Close waits until there is nothing to read any more, as that of a server's request may.
func (s *deafSource) Close() error {
	<-s.end
	return nil
}

func swallow(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }

func TestAnUploadFromASilentSourceThatNothingWakesEndsAndHoldsNobody(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		bytes, length int
		getBody       bool
		life          time.Duration // of the context
		ends          time.Duration
	}{
		"a stream, by its context":             {2 << 20, -1, false, 5 * time.Second, 5 * time.Second},
		"a stream, by the attempt's time":      {2 << 20, -1, false, time.Hour, 15 * time.Second},
		"a small body, by its context":         {0, 100, true, 5 * time.Second, 5 * time.Second},
		"a small body, by the attempt's time":  {0, 100, true, time.Hour, 15 * time.Second},
		"a stream, without an end of its own":  {2 << 20, -1, false, 0, 15 * time.Second},
		"a large body that could be sent once": {2 << 20, 3 << 20, false, 5 * time.Second, 5 * time.Second},
	} {
		for _, blocks := range []bool{false, true} {
			inBubble(t, fmt.Sprintf("%s, whose Close blocks %v", name, blocks), func(t *testing.T) {
				transport := newTransport(t, newServer(t, swallow), httpclient.WithRetries(0))
				ctx := context.Background()
				if c.life > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, c.life)
					defer cancel()
				}
				sources := newDeaf(t)
				r := unreplayable(newMessage(t), sources.after(c.bytes), int64(c.length)).WithContext(ctx)
				if c.getBody {
					r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(sources.after(c.bytes)), nil }
				}
				if blocks {
					r.Body = sources.after(c.bytes)
				}
				silent := send(transport, r)
				time.Sleep(time.Second)
				next := send(transport, newMessage(t)) // on the same route, for whose first answer it waits
				assertStatus(t, http.StatusOK, next)
				if c.ends < 15*time.Second {
					assert.ErrorIs(t, silent.wait().err, context.DeadlineExceeded)
				} else {
					assertAttemptTimeout(t, c.ends, silent.wait().err)
				}
				assert.GreaterOrEqual(t, silent.took, c.ends)
				assert.Less(t, silent.took, c.ends+time.Second)
			})
		}
	}
}

// A proxy's client stalls in the middle of its upload.
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
		writer.CloseWithError(io.ErrUnexpectedEOF) // not later: the server waits for a mutex, where virtual time stands still
		first.wait()
	})
}

// A body is read before the queue if it is to be kept. What it takes is given back when its source lets go of it.
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
				transport := httpclient.NewTransport(httpclient.WithLimiter(limiter), httpclient.WithMaxBufferedTotal(1000),
					httpclient.WithBase(newScript(answer(http.StatusOK, ""))))
				defer transport.Close()
				ctx, cancel := context.WithTimeout(context.Background(), c.life)
				defer cancel()
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

// It is not read then, but closed.
func TestABodyThatCannotBeClosedDelaysNoError(t *testing.T) {
	bubble(t, func(t *testing.T) {
		limiter := new(gate)
		limiter.shut.Store(true)
		transport := httpclient.NewTransport(httpclient.WithLimiter(limiter), httpclient.WithBase(newScript(answer(http.StatusOK, ""))))
		defer transport.Close()
		sources := newDeaf(t)
		for name, change := range map[string]func(*http.Request){
			"large":                     func(r *http.Request) { r.ContentLength = 2 << 20 },
			"with GetBody":              func(r *http.Request) { r.GetBody = func() (io.ReadCloser, error) { return sources.after(0), nil } },
			"longer than its length":    func(r *http.Request) { r.ContentLength = 5 },
			"longer than what is kept":  func(r *http.Request) { r.Body = sources.after(2 << 20) },
			"of a path that is not one": func(r *http.Request) { r.URL.Path = "/a/../b" },
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

// Other transports than net/http's may return at any time, and do anything.
func TestATransportBelowThatWasLeftAloneWithAnUploadDoesNoHarm(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var responses ledger
		var count atomic.Int32
		transport := newTransport(t, roundTripper(func(r *http.Request) (*http.Response, error) {
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
			r.Header.Set("X-Count", "2") // it is the caller's again
			r.URL.Path = ""
			assertStatus(t, http.StatusOK, send(transport, newMessage(t)))
		}
		time.Sleep(2 * time.Hour)
		responses.assertClosed(t)
	})
}

func TestAPanicBelowReachesTheCallerOfAnUpload(t *testing.T) {
	bubble(t, func(t *testing.T) {
		transport := newTransport(t, roundTripper(func(*http.Request) (*http.Response, error) { panic("below") }))
		r := unreplayable(newMessage(t), io.LimitReader(endless{}, 2<<20), 2<<20)
		assert.PanicsWithValue(t, "below", func() { _, _ = transport.RoundTrip(r) })
		assertNothingHeld(t, transport)
	})
}
