package httpclient_test

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/httpclient"
)

func TestAResponseMayTakeLongerThanTheTimeOfAnAttemptWhileItMoves(t *testing.T) {
	t.Parallel()
	const limit = httpclient.DefaultAttemptTimeout
	for pause, ok := range map[time.Duration]bool{limit - time.Second: true, limit + time.Second: false} {
		inBubble(t, pause.String(), func(t *testing.T) {
			below := newServer(t, func(w http.ResponseWriter, r *http.Request) {
				for range 10 {
					_, _ = io.WriteString(w, "a")
					w.(http.Flusher).Flush()
					select {
					case <-time.After(pause):
					case <-r.Context().Done():
						return
					}
				}
			})
			start := time.Now()
			response := roundTrip(t, newTransport(t, below), newMessage(t))
			content, err := io.ReadAll(response.Body)
			require.NoError(t, response.Body.Close())
			if ok {
				require.NoError(t, err)
				assert.Equal(t, strings.Repeat("a", 10), string(content))
				assert.Equal(t, 10*pause, time.Since(start))
				return
			}
			assertAttemptTimeout(t, httpclient.DefaultAttemptTimeout, err)
			assert.Equal(t, "a", string(content))
			assert.Equal(t, httpclient.DefaultAttemptTimeout, time.Since(start))
		})
	}
}

// A server may respond before it has received the whole body. Then the rest of the body is sent in the background. The
// attempt timeout must not apply to this part of the upload, because the caller does not wait for it.
func TestAnUploadThatGoesOnAfterTheResponseStartsNoTime(t *testing.T) {
	forEachParent(t, func(t *testing.T, parent context.Context) {
		source, writer := io.Pipe()
		go func() {
			for range 3 {
				_, _ = writer.Write([]byte("piece"))
				time.Sleep(10 * time.Second)
			}
			writer.Close()
		}()
		below := responder(func(r *http.Request) (*http.Response, error) {
			go func() {
				defer r.Body.Close()
				_, _ = io.Copy(io.Discard, r.Body)
			}()
			body := &fitful{context: r.Context(), waits: []time.Duration{time.Second, 20 * time.Second}}
			return answerWith(http.StatusOK, func() io.ReadCloser { return body })(r)
		})
		transport := newTransport(t, below)
		response := roundTrip(t, transport, unreplayable(newMessage(t), source, 2<<20).WithContext(parent))
		time.Sleep(20 * time.Minute)
		_, err := response.Body.Read(make([]byte, 1))
		require.NoError(t, err)
		_, err = response.Body.Read(make([]byte, 1))
		assertAttemptTimeout(t, httpclient.DefaultAttemptTimeout, err)
		require.NoError(t, response.Body.Close())
	})
}

// The caller may close the body of a response while another goroutine is in Read. Close must end that Read.
func TestClosingAResponseEndsItsReading(t *testing.T) {
	bubble(t, func(t *testing.T) {
		below := newServer(t, func(w http.ResponseWriter, r *http.Request) {
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		})
		transport := newTransport(t, below)
		for _, pause := range []time.Duration{0, time.Second, httpclient.DefaultAttemptTimeout, time.Minute} {
			response := roundTrip(t, transport, newMessage(t))
			time.Sleep(pause)
			var reading sync.WaitGroup
			reading.Go(func() {
				_, err := io.ReadAll(response.Body)
				assert.Error(t, err)
				assert.NotErrorAs(t, err, new(*httpclient.AttemptTimeoutError))
			})
			synctest.Wait()
			time.Sleep(time.Second)
			assert.NoError(t, response.Body.Close())
			reading.Wait()
		}
	})
}

// In each attempt, bytes arrive and reads begin at random times. An attempt must time out if one of its reads waits
// longer than the timeout, and only then.
func TestEachAttemptIsCutOffExactlyWhenItHasWaitedTooLong(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 1))
			transport := newTransport(t, responder(func(r *http.Request) (*http.Response, error) {
				body := &fitful{context: r.Context(), waits: r.Context().Value(fitfulKey{}).([]time.Duration)}
				return answerWith(http.StatusOK, func() io.ReadCloser { return body })(r)
			}))
			var all sync.WaitGroup
			for i := range 50 {
				var waits, pauses []time.Duration
				for range 1 + random.IntN(6) {
					waits = append(waits, time.Duration(random.Int64N(int64(6*time.Second))*(1+random.Int64N(2))))
					pauses = append(pauses, time.Duration(random.Int64N(int64(25*time.Second))))
				}
				allowed := 10 * time.Second
				all.Go(func() {
					time.Sleep(time.Duration(i) * 137 * time.Millisecond)
					ctx := httpclient.ContextWithAttempts(context.WithValue(context.Background(), fitfulKey{}, waits),
						httpclient.Attempts{Timeout: allowed})
					path := fmt.Sprintf("/api/v10/interactions/%d/token/callback", 1000+i)
					response, err := transport.RoundTrip(newRequest(t, http.MethodPost, path, "{}").WithContext(ctx))
					if !assert.NoError(t, err) {
						return
					}
					defer response.Body.Close()
					for k, wait := range waits {
						time.Sleep(pauses[k])
						start := time.Now()
						_, err := response.Body.Read(make([]byte, 1))
						assert.Equal(t, min(wait, allowed), time.Since(start))
						if wait >= allowed {
							assert.ErrorAs(t, err, new(*httpclient.AttemptTimeoutError))
							return
						}
						assert.NoError(t, err)
					}
				})
			}
			all.Wait()
		})
	}
}

type fitfulKey struct{}

// fitful is a body of which one byte arrives after each wait.
type fitful struct {
	context context.Context
	waits   []time.Duration
}

func (f *fitful) Read(p []byte) (int, error) {
	if len(f.waits) == 0 {
		return 0, io.EOF
	}
	wait := f.waits[0]
	f.waits = f.waits[1:]
	if wait >= 10*time.Second { // so that a byte never arrives at the same instant as the timeout
		wait += time.Second
	}
	select {
	case <-time.After(wait):
		return 1, nil
	case <-f.context.Done():
		return 0, f.context.Err()
	}
}

func (f *fitful) Close() error { return nil }

// deaf makes bodies that stop giving bytes, and whose Close does not end a blocked Read. Programs have two kinds of
// such bodies: an io.Reader to which net/http adds a Close that does nothing, and the request body of a server, whose
// Close waits until Read returns. All Reads return when the test ends.
type deaf struct{ end chan struct{} }

func newDeaf(t *testing.T) *deaf {
	d := &deaf{make(chan struct{})}
	t.Cleanup(func() { close(d.end) })
	return d
}

// after returns a body that gives the given number of bytes before it stops.
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

// Close waits for the end of the test, like Close of a server's request body, which may have to wait until Read
// returns.
func (s *deafSource) Close() error {
	<-s.end
	return nil
}

func swallow(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }

// An upload stops because its body gives no more bytes. When the context of the attempt ends, net/http still waits for
// its own read of the body. The transport must end that read. If nothing ends it, the transport must give up the
// attempt.
func TestAnUploadFromASilentSourceEndsAndHoldsNobody(t *testing.T) {
	t.Parallel()
	const never, usual = time.Duration(-1), httpclient.DefaultAttemptTimeout
	for name, c := range map[string]struct {
		bytes, length      int
		getBody            bool
		timeout            time.Duration
		deadline, cancelAt time.Duration // when the context ends
		ends               time.Duration
	}{
		"a stream, at its deadline":             {2 << 20, -1, false, usual, 5 * time.Second, never, 5 * time.Second},
		"a stream, at its deadline, no timeout": {2 << 20, -1, false, never, 5 * time.Second, never, 5 * time.Second},
		"a stream, when it is cancelled":        {2 << 20, -1, false, usual, never, 5 * time.Second, 5 * time.Second},
		"a stream, by the attempt's time":       {2 << 20, -1, false, usual, time.Hour, never, usual},
		"a stream, context without an end":      {2 << 20, -1, false, usual, never, never, usual},
		"a small body, at its deadline":         {0, 100, true, usual, 5 * time.Second, never, 5 * time.Second},
		"a small body, by the attempt's time":   {0, 100, true, usual, time.Hour, never, usual},
		"a large body that could be sent once":  {2 << 20, 3 << 20, false, usual, 5 * time.Second, never, 5 * time.Second},
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
				transport := newTransport(t, newServer(t, swallow), noRetries,
					httpclient.WithAttempts(httpclient.Attempts{Timeout: c.timeout}))
				r := unreplayable(newMessage(t), nil, int64(c.length)).WithContext(ctx)
				r.Body = source()
				if c.getBody {
					r.GetBody = func() (io.ReadCloser, error) { return source(), nil }
				}
				silent := send(transport, r)
				time.Sleep(time.Second)
				// This request has the same route, so it waits for the response to the first request.
				assertStatus(t, http.StatusOK, send(transport, newMessage(t)))
				silent.wait()
				assert.GreaterOrEqual(t, silent.took, c.ends)
				assert.Less(t, silent.took, c.ends+time.Second)
				switch {
				case c.cancelAt > 0:
					assert.ErrorIs(t, silent.err, context.Canceled)
				case c.ends == httpclient.DefaultAttemptTimeout:
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

// A body that is kept in memory is read before the request waits in the queue. If such a read never ends, RoundTrip
// must return nevertheless. If the read ends after that, the memory of the body must be free again.
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
					httpclient.WithLimiter(limiter), allBodies(1000))
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

// A request fails before its body is read, and Close of that body blocks. This must not delay the error.
func TestABodyThatCannotBeClosedDelaysNoError(t *testing.T) {
	bubble(t, func(t *testing.T) {
		limiter := new(gate)
		limiter.shut.Store(true)
		transport := newTransport(t, newScript(answer(http.StatusOK, "")), httpclient.WithLimiter(limiter))
		sources := newDeaf(t)
		for name, change := range map[string]func(*http.Request){
			"large": func(r *http.Request) { r.ContentLength = 2 << 20 },
			"with GetBody": func(r *http.Request) {
				r.GetBody = func() (io.ReadCloser, error) { return sources.after(0), nil }
			},
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

// A base transport may continue to use the request of an upload after the attempt has timed out. In that time, it must
// not see the changes that the caller makes to the request. If the base transport panics in that time, the panic must
// not end the program.
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
		}), noRetries)
		for range 2 {
			r := unreplayable(newMessage(t), io.LimitReader(endless{}, 2<<20), 2<<20)
			r.Header.Set("X-Count", "1")
			c := send(transport, r).wait()
			assertAttemptTimeout(t, httpclient.DefaultAttemptTimeout, c.err)
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
