package httpclient_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/ratelight/ratelight/httpclient"
	"github.com/ratelight/ratelight/internal/discordsim"
)

// readSlowly reads all in pieces, with a pause before each.
func readSlowly(r io.Reader, piece int, pause time.Duration) (sum int) {
	p := make([]byte, piece)
	for {
		time.Sleep(pause)
		n, err := io.ReadFull(r, p)
		if sum += n; err != nil {
			return sum
		}
	}
}

// An upload of 25 MB at 10 Mbit/s.
func TestAnUploadMayTakeLongerThanTheTimeOfAnAttemptWhileItMoves(t *testing.T) {
	const size, piece = 25 << 20, 256 << 10
	const pause = 210 * time.Millisecond
	upload := func() io.Reader { return io.LimitReader(endless{}, size) }
	handler := func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, readSlowly(r.Body, piece, pause)) }
	fake := func(*testing.T) http.RoundTripper {
		return responder(func(r *http.Request) (*http.Response, error) {
			defer r.Body.Close()
			done := make(chan int, 1)
			go func() { done <- readSlowly(r.Body, piece, pause) }()
			select {
			case n := <-done:
				return answer(http.StatusOK, fmt.Sprint(n))(r)
			case <-r.Context().Done():
				return nil, r.Context().Err()
			}
		})
	}
	type story struct {
		below  func(t *testing.T) http.RoundTripper
		change func(*http.Request)
	}
	inBubbles(t, map[string]story{
		"over HTTP": {func(t *testing.T) http.RoundTripper { return newServer(t, handler) }, func(*http.Request) {}},
		"over HTTP, of unknown length": {
			func(t *testing.T) http.RoundTripper { return newServer(t, handler) },
			func(r *http.Request) { r.ContentLength = -1 },
		},
		"with another transport below": {fake, func(*http.Request) {}},
		"of unknown length":            {fake, func(r *http.Request) { r.ContentLength = -1 }},
		"that can be repeated": {fake, func(r *http.Request) {
			r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(upload()), nil }
		}},
		"that is repeated below": {func(t *testing.T) http.RoundTripper {
			return responder(func(r *http.Request) (*http.Response, error) {
				again := r.Clone(r.Context())
				var err error
				if again.Body, err = r.GetBody(); err != nil {
					return nil, err
				}
				return fake(t).RoundTrip(again)
			})
		}, func(r *http.Request) {
			r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(upload()), nil }
		}},
	}, func(t *testing.T, c story) {
		r := unreplayable(newMessage(t), upload(), size)
		c.change(r)
		sent := send(newTransport(t, c.below(t)), r).wait()
		assertStatus(t, http.StatusOK, sent)
		assert.Equal(t, fmt.Sprint(size), sent.body)
		assert.Greater(t, sent.took, 20*time.Second)
	})
}

func TestAnUploadThatStopsIsATimeout(t *testing.T) {
	inBubbles(t, map[string]time.Duration{
		"at once": 0, "in the middle": 30 * time.Second, "at the end": time.Hour,
	}, func(t *testing.T, stops time.Duration) {
		start := time.Now()
		var last atomic.Int64 // time since start
		below := newServer(t, func(_ http.ResponseWriter, r *http.Request) {
			p := make([]byte, 64<<10)
			for time.Since(start) < stops {
				time.Sleep(10 * time.Second)
				if _, err := io.ReadFull(r.Body, p); err != nil {
					break
				}
				last.Store(int64(time.Since(start)))
			}
			<-r.Context().Done()
		})
		r := unreplayable(newMessage(t), io.LimitReader(endless{}, 2<<20), 2<<20)
		sent := send(newTransport(t, below), r).wait()
		assertAttemptTimeout(t, 15*time.Second, sent.err)
		assert.Equal(t, time.Duration(last.Load())+15*time.Second, sent.took)
	})
}

// closers closes all its elements.
type closers []io.Closer

func (c closers) Close() error {
	for _, each := range c {
		each.Close()
	}
	return nil
}

// onceOnly counts the calls of its Close.
type onceOnly struct {
	io.Reader
	closed atomic.Int32
}

func (o *onceOnly) Close() error {
	o.closed.Add(1)
	return nil
}

func TestTheBodyOfAnUploadIsClosedOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		body := &onceOnly{Reader: io.LimitReader(endless{}, 1<<20)}
		r := newMessage(t)
		r.Body, r.GetBody, r.ContentLength = body, nil, -1
		below := newServer(t, func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) })
		ctx, cancel := context.WithCancel(t.Context())
		assertStatus(t, http.StatusOK, send(newTransport(t, below, httpclient.WithMaxBufferedBody(0)), r.WithContext(ctx)))
		cancel()
		synctest.Wait()
		assert.EqualValues(t, 1, body.closed.Load())
	})
}

// After the headers, the server asks for the body or refuses it.
func TestAnUploadThatWaitsForTheServersConsentGoesOnAfterIt(t *testing.T) {
	t.Parallel()
	for consent, ok := range map[time.Duration]bool{13 * time.Second: true, 16 * time.Second: false} {
		inBubble(t, consent.String(), func(t *testing.T) {
			below := newServer(t, func(w http.ResponseWriter, r *http.Request) {
				time.Sleep(consent)
				fmt.Fprint(w, readSlowly(r.Body, 64<<10, time.Second))
			})
			r := unreplayable(newMessage(t), io.LimitReader(endless{}, 1<<20), 1<<20)
			r.Header.Set("Expect", "100-continue")
			sent := send(newTransport(t, below), r).wait()
			if ok {
				assertStatus(t, http.StatusOK, sent)
				assert.GreaterOrEqual(t, sent.took, 30*time.Second)
				return
			}
			assertAttemptTimeout(t, 15*time.Second, sent.err)
			assert.Equal(t, 15*time.Second, sent.took)
		})
	}
}

// net/http sends the headers alone if it cannot see that the body is in memory.
func TestASmallBodyIsSentTogetherWithItsHeaders(t *testing.T) {
	inBubbles(t, map[string]func(*http.Request){
		"by GetBody":     func(*http.Request) {},
		"kept in memory": func(r *http.Request) { unreplayable(r, r.Body, -1) },
	}, func(t *testing.T, change func(*http.Request)) {
		server := newDiscord(t, everything(discordsim.Fixed(5, time.Second)))
		var writes atomic.Int32
		below := &http.Transport{DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			c, err := server.DialContext(ctx, network, address)
			return &countedConn{c, &writes}, err
		}}
		defer below.CloseIdleConnections()
		r := newMessage(t)
		change(r)
		assertStatus(t, http.StatusOK, send(newTransport(t, below), r))
		assert.EqualValues(t, 1, writes.Load())
	})
}

type countedConn struct {
	net.Conn
	writes *atomic.Int32
}

func (c *countedConn) Write(p []byte) (int, error) {
	c.writes.Add(1)
	return c.Conn.Write(p)
}
