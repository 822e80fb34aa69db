package httpclient_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/httpclient"
	"github.com/ratelight/ratelight/internal/discordsim"
)

// readSlowly reads r to its end in pieces, with a pause before each, and returns the number of bytes.
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

// closers closes all its elements.
type closers []io.Closer

func (c closers) Close() error {
	for _, each := range c {
		each.Close()
	}
	return nil
}

// With Expect: 100-continue, the server asks for the body some seconds after it has received the headers. If the server
// asks within the attempt timeout, the upload must go on. Otherwise the attempt must time out.
func TestAnUploadThatWaitsForTheServersConsentGoesOnAfterIt(t *testing.T) {
	t.Parallel()
	const limit = httpclient.DefaultAttemptTimeout
	for consent, ok := range map[time.Duration]bool{limit - 2*time.Second: true, limit + time.Second: false} {
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
			assertAttemptTimeout(t, httpclient.DefaultAttemptTimeout, sent.err)
			assert.Equal(t, httpclient.DefaultAttemptTimeout, sent.took)
		})
	}
}

// If net/http does not know that a body is in memory, it sends the headers separately. The transport must therefore
// pass a small body in a type that net/http recognises.
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

// The first request of a route is an upload that makes slow progress. After 15 s the other requests must be sent,
// although the upload has no response yet.
func TestAnUploadThatTricklesDelaysTheDiscoveryOfItsRouteABoundedTime(t *testing.T) {
	bubble(t, func(t *testing.T) {
		server := newDiscord(t, everything(discordsim.Fixed(5, 5*time.Second)))
		below := &http.Transport{DialContext: server.DialContext}
		defer below.CloseIdleConnections()
		transport := newTransport(t, below)
		source, writer := io.Pipe()
		go func() {
			defer writer.Close()
			for range 60 {
				time.Sleep(5 * time.Second)
				_, _ = writer.Write(make([]byte, 64<<10))
			}
		}()
		upload := send(transport, unreplayable(newMessage(t), source, 60*64<<10))
		time.Sleep(5 * time.Second)
		var others []*call
		for range 10 {
			time.Sleep(100 * time.Millisecond)
			others = append(others, send(transport, newMessage(t)))
		}
		assertStatus(t, http.StatusOK, others...)
		for _, c := range others {
			assert.Less(t, c.took, httpclient.DefaultAttemptTimeout+2*(5*time.Second+slack))
		}
		assertStatus(t, http.StatusOK, upload)
		assert.Greater(t, upload.took, 4*time.Minute)
		assert.Zero(t, server.Report().Refused.Total())
	})
}

func TestAnUploadThatNeverBeginsTimesOut(t *testing.T) {
	bubble(t, func(t *testing.T) {
		transport := newTransport(t, newServer(t, swallow))
		source, _ := io.Pipe()
		r := unreplayable(newMessage(t), nil, 3<<20)
		r.Body = source
		c := send(transport, r).wait()
		assertAttemptTimeout(t, httpclient.DefaultAttemptTimeout, c.err)
		assert.Equal(t, httpclient.DefaultAttemptTimeout, c.took)
		assert.Zero(t, transport.Manager().Stats().Granted)
	})
}

// Reading a body into memory must have the same timeout as sending a body.
func TestABodyThatStopsBeforeItIsKeptTimesOut(t *testing.T) {
	t.Parallel()
	for name, length := range map[string]int64{"of a known length": 1000, "of unknown length": -1} {
		inBubble(t, name, func(t *testing.T) {
			below := newScript(answer(http.StatusOK, ""))
			transport := newTransport(t, below)
			source, writer := io.Pipe()
			go func() {
				for range 3 {
					_, _ = writer.Write([]byte("piece"))
					time.Sleep(httpclient.DefaultAttemptTimeout - 5*time.Second)
				}
			}()
			r := unreplayable(newMessage(t), nil, length)
			r.Body = source
			c := send(transport, r)
			time.Sleep(time.Hour)
			if assert.True(t, c.over(), "it waits") {
				assertAttemptTimeout(t, httpclient.DefaultAttemptTimeout, c.err)
				assert.Equal(t, 3*httpclient.DefaultAttemptTimeout-10*time.Second, c.took)
			}
			_, err := writer.Write([]byte("late"))
			assert.ErrorIs(t, err, io.ErrClosedPipe)
			assert.Empty(t, below.requests())
		})
	}
}

// If the credential of a request is stopped while the request waits for its body, that wait must end. If the credential
// was stopped before that wait, the body must not be read.
func TestTheWaitForABodyEndsWhenItsCredentialIsStopped(t *testing.T) {
	t.Parallel()
	for name, length := range map[string]int64{"sent as it comes": 3 << 20, "read into memory": -1} {
		inBubble(t, name, func(t *testing.T) {
			transport := newTransport(t, newScript(unauthorized))
			silent := func() (*call, *io.PipeWriter) {
				source, writer := io.Pipe()
				r := unreplayable(posting(t, 1), nil, length)
				r.Body = source
				return send(transport, r), writer
			}
			during, writer := silent()
			time.Sleep(time.Second)
			me, gateway := send(transport, getting(t, "/users/@me")), send(transport, getting(t, "/gateway/bot"))
			assertStatus(t, http.StatusUnauthorized, me, gateway)
			after, _ := silent()
			for _, c := range []*call{during, after} {
				assert.ErrorAs(t, c.wait().err, new(*httpclient.CredentialError))
			}
			assert.Equal(t, time.Second, during.took)
			assert.Zero(t, after.took)
			_, err := writer.Write([]byte("late"))
			assert.ErrorIs(t, err, io.ErrClosedPipe)
		})
	}
}

// A request with priority can be sent although the queue is too long for other new requests. Its body must be kept in
// memory like any other body.
func TestTheBodyOfAnUrgentRequestIsKept(t *testing.T) {
	bubble(t, func(t *testing.T) {
		full := limitHeaders("X-RateLimit-Remaining: 0", "X-RateLimit-Limit: 1", "X-RateLimit-Reset-After: 10")
		below := newScript(answer(http.StatusOK, "", full...), refuse("user", "1"), answer(http.StatusOK, "", full...))
		transport := newTransport(t, below, httpclient.WithMaxRateLimit(time.Minute))
		assertStatus(t, http.StatusOK, send(transport, newMessage(t)))
		var others []*call
		for range 6 {
			others = append(others, send(transport, newMessage(t)))
		}
		synctest.Wait()
		r := unreplayable(newMessage(t), strings.NewReader("{}"), -1)
		urgent := send(transport, r.WithContext(buckets.ContextWithPriority(t.Context())))
		assertStatus(t, http.StatusOK, urgent)
		for _, c := range others {
			c.wait()
		}
	})
}

// An upload of 25 MB at 10 Mbit/s takes longer than the attempt timeout, and must not be cut off.
func TestAnUploadMayTakeLongerThanTheTimeOfAnAttemptWhileItMoves(t *testing.T) {
	const size, piece, pause = 25 << 20, 256 << 10, 210 * time.Millisecond
	upload := func() (io.ReadCloser, error) { return io.NopCloser(io.LimitReader(endless{}, size)), nil }
	fake := responder(func(r *http.Request) (*http.Response, error) {
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
	again := responder(func(r *http.Request) (*http.Response, error) {
		copied := r.Clone(r.Context())
		copied.Body, _ = r.GetBody()
		return fake(copied)
	})
	type story struct {
		below   http.RoundTripper // nil: an http.Transport
		length  int64
		getBody func() (io.ReadCloser, error)
	}
	inBubbles(t, map[string]story{
		"over HTTP":                    {nil, size, nil},
		"over HTTP, of unknown length": {nil, -1, nil},
		"with another transport below": {fake, size, nil},
		"of unknown length":            {fake, -1, nil},
		"that can be repeated":         {fake, size, upload},
		"that is repeated below":       {again, size, upload},
	}, func(t *testing.T, c story) {
		if c.below == nil {
			c.below = newServer(t, func(w http.ResponseWriter, r *http.Request) {
				fmt.Fprint(w, readSlowly(r.Body, piece, pause))
			})
		}
		r := newMessage(t)
		r.Body, _ = upload()
		r.ContentLength, r.GetBody = c.length, c.getBody
		sent := send(newTransport(t, c.below), r)
		assertStatus(t, http.StatusOK, sent)
		assert.Equal(t, fmt.Sprint(size), sent.body)
		assert.Greater(t, sent.took, 20*time.Second)
	})
}

func TestAnUploadThatStopsIsATimeout(t *testing.T) {
	inBubbles(t, map[string]time.Duration{"at once": 0, "in the middle": 30 * time.Second, "at the end": time.Hour},
		func(t *testing.T, stops time.Duration) {
			start := time.Now()
			var last atomic.Int64 // time since start
			below := newServer(t, func(_ http.ResponseWriter, r *http.Request) {
				for time.Since(start) < stops {
					time.Sleep(10 * time.Second)
					if _, err := io.ReadFull(r.Body, make([]byte, 64<<10)); err != nil {
						break
					}
					last.Store(int64(time.Since(start)))
				}
				<-r.Context().Done()
			})
			r := unreplayable(newMessage(t), io.LimitReader(endless{}, 2<<20), 2<<20)
			sent := send(newTransport(t, below), r).wait()
			assertAttemptTimeout(t, httpclient.DefaultAttemptTimeout, sent.err)
			assert.Equal(t, time.Duration(last.Load())+httpclient.DefaultAttemptTimeout, sent.took)
		})
}

// closing is a body that counts the calls of its Close.
type closing struct {
	io.Reader
	times atomic.Int32
}

func (c *closing) Close() error {
	c.times.Add(1)
	return nil
}

func TestTheBodyOfAnUploadIsClosedOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		body := &closing{Reader: io.LimitReader(endless{}, 1<<20)}
		r := unreplayable(newMessage(t), nil, -1)
		r.Body = body
		ctx, cancel := context.WithCancel(t.Context())
		transport := newTransport(t, newServer(t, swallow), eachBody(0))
		assertStatus(t, http.StatusOK, send(transport, r.WithContext(ctx)))
		cancel()
		synctest.Wait()
		assert.EqualValues(t, 1, body.times.Load())
	})
}

// The first request of a route is sent alone. That request must not be an upload whose body has not begun to arrive.
// Such an upload must not hold a lease while it waits for its body, neither before its first attempt nor before a
// repetition.
func TestAnUploadThatHasNotBegunHoldsNobody(t *testing.T) {
	type story struct {
		first   responder // of the upload; nil: its first attempt succeeds
		option  httpclient.Option
		length  int64
		getBody bool
	}
	inBubbles(t, map[string]story{
		"large":           {nil, nil, 3 << 20, false},
		"not kept":        {nil, eachBody(0), 1 << 20, false},
		"no room":         {nil, allBodies(0), 1 << 20, false},
		"with GetBody":    {nil, nil, 1 << 20, true},
		"after a 429":     {refuse("user", "1"), nil, 3 << 20, true},
		"after a failure": {answer(http.StatusBadGateway, ""), nil, 3 << 20, true},
	}, func(t *testing.T, c story) {
		below := newScript(answer(http.StatusOK, ""))
		source, writer := io.Pipe()
		r := unreplayable(newRequest(t, http.MethodPut, "/api/v10/guilds/1/bans/2", ""), source, c.length)
		r.Header.Set("Content-Type", "multipart/form-data") // the transport does not look for a nonce in a form
		if c.getBody {
			r.GetBody = func() (io.ReadCloser, error) { return nil, errors.New("it is not needed") }
		}
		if c.first != nil { // the second attempt reads the body from the source
			below = newScript(c.first, answer(http.StatusOK, ""))
			r.Body = io.NopCloser(io.LimitReader(endless{}, c.length))
			r.GetBody = func() (io.ReadCloser, error) { return source, nil }
		}
		transport := newTransport(t, below, c.option)
		upload := send(transport, r)
		time.Sleep(5 * time.Second)
		assert.False(t, upload.over())
		next := send(transport, newRequest(t, http.MethodPut, "/api/v10/guilds/1/bans/3", "{}"))
		assertStatus(t, http.StatusOK, next)
		assert.Less(t, next.took, time.Second)
		go func() { _, _ = writer.Write(make([]byte, c.length)); writer.Close() }()
		assertStatus(t, http.StatusOK, upload)
	})
}
