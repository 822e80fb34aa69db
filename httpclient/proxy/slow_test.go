package proxy_test

import (
	"bufio"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/httpclient"
	"github.com/ratelight/ratelight/httpclient/proxy"
)

// A client may stop sending its body, or send the body very slowly. Without a timeout, such a client would occupy a
// connection, and memory or a place in a bucket, for as long as it likes. The proxy must end the request of such a
// client, and must not take the request for a failure of the upstream.
func TestAClientThatSendsItsBodyTooSlowlyIsNotWaitedForForEver(t *testing.T) {
	for name, c := range map[string]struct {
		length string
		every  time.Duration
	}{
		"stops, kept in memory":       {"Content-Length: 100000", 0},
		"stops, streamed":             {"Content-Length: 26214400", 0},
		"stops, of unknown length":    {"Transfer-Encoding: chunked", 0},
		"trickles, kept in memory":    {"Content-Length: 100000", 9 * time.Second},
		"trickles, streamed":          {"Content-Length: 26214400", 9 * time.Second},
		"trickles, of unknown length": {"Transfer-Encoding: chunked", 9 * time.Second},
	} {
		for _, patience := range []time.Duration{time.Second, time.Minute} {
			playIn(t, name+" "+patience.String(), func(t *testing.T) {
				w := newWorldOf(t, func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) },
					proxy.WithTransport(httpclient.WithAttempts(httpclient.Attempts{Timeout: patience})))
				conn, err := w.network.dial(t.Context(), "", "")
				require.NoError(t, err)
				defer conn.Close()
				go func() {
					_, _ = io.WriteString(conn, rawPost("1\r\nx\r\n", c.length))
					for c.every > 0 {
						time.Sleep(c.every)
						if _, err := io.WriteString(conn, "1\r\nx\r\n"); err != nil {
							return
						}
					}
				}()
				start := time.Now()
				got, err := http.ReadResponse(bufio.NewReader(conn), nil)
				require.NoError(t, err)
				assert.Equal(t, 400, got.StatusCode)
				assert.Equal(t, "bad-request", got.Header.Get("X-Ratelight-Proxy"))
				_, err = io.Copy(io.Discard, conn)
				assert.NoError(t, err, "the connection must be closed")
				assert.LessOrEqual(t, time.Since(start), time.Minute)
				assert.True(t, w.handler.Upstream().OK())
				time.Sleep(10 * time.Second) // the goroutine that writes ends within this time
				w.assertNoneLeft()
			})
		}
	}
}

// A request that is rejected before its body is read must not keep its connection for ever. Even clients without the
// secret can send such requests.
func TestABodyThatNobodyReadsIsNotWaitedForForEver(t *testing.T) {
	play(t, func(t *testing.T) {
		w := newWorld(t, nil)
		guarded, err := proxy.RequireSecret("a-secret-of-the-proxy", w.handler)
		require.NoError(t, err)
		w.server.Handler = guarded
		for path, want := range map[string]string{"/users/@me": "bad-request", "/a-secret-of-the-proxy/": "no-path"} {
			start := time.Now()
			conn, got := w.raw("POST " + path + " HTTP/1.1\r\nHost: proxy\r\nContent-Length: 10\r\n\r\nx")
			assert.Equal(t, want, got.Header.Get("X-Ratelight-Proxy"))
			_, err := io.Copy(io.Discard, conn)
			assert.NoError(t, err, "the connection must be closed")
			assert.LessOrEqual(t, time.Since(start), 10*time.Second)
		}
	})
}

// A client stops sending after an early response to its upload. Even if the upstream would read more, the proxy must
// not wait for ever for the rest of the upload.
func TestAClientThatStopsHalfwayAfterAnEarlyAnswerIsNotWaitedForForEver(t *testing.T) {
	for name, sent := range map[string]int{"begins": 1, "stops": 100_000} {
		playIn(t, name, func(t *testing.T) {
			w := newWorldOf(t, func(rw http.ResponseWriter, r *http.Request) {
				_ = http.NewResponseController(rw).EnableFullDuplex()
				rw.Header().Set("Content-Length", "0")
				rw.WriteHeader(http.StatusRequestEntityTooLarge)
				_ = http.NewResponseController(rw).Flush()
				_, _ = io.Copy(io.Discard, r.Body)
			})
			start := time.Now()
			conn, got := w.raw(rawPost(strings.Repeat("x", sent), "Content-Length: 26214400"))
			assert.Equal(t, 413, got.StatusCode)
			assert.Less(t, time.Since(start), time.Second, "the response must come at once")
			_, err := io.Copy(io.Discard, conn)
			assert.NoError(t, err)
			assert.LessOrEqual(t, time.Since(start), 6*time.Second, "the connection must be closed soon")
		})
	}
}

// If a client never reads its response, the proxy must not wait for ever, however long the response is.
func TestAClientThatNeverReadsItsResponseIsNotWaitedForForEver(t *testing.T) {
	for name, size := range map[string]int{"short": 10, "long": 10 * megabyte} {
		playIn(t, name, func(t *testing.T) {
			w := newWorldOf(t, func(rw http.ResponseWriter, _ *http.Request) {
				rw.Header().Set("Content-Length", strconv.Itoa(size))
				_, _ = rw.Write(make([]byte, size))
			})
			conn, err := w.network.dial(t.Context(), "", "")
			require.NoError(t, err)
			defer conn.Close()
			_, err = io.WriteString(conn, "GET /api/v10/gateway HTTP/1.1\r\nHost: proxy\r\n\r\n")
			require.NoError(t, err)
			time.Sleep(time.Minute)
			_, err = conn.Write([]byte("x"))
			assert.Error(t, err, "the connection must be closed")
		})
	}
}

// deadlines records, for each write of a 1xx response, whether the write had a deadline.
type deadlines struct {
	*httptest.ResponseRecorder
	latest time.Time
	early  []bool
}

func (d *deadlines) SetWriteDeadline(t time.Time) error {
	d.latest = t
	return nil
}

func (d *deadlines) WriteHeader(status int) {
	if status < 200 {
		d.early = append(d.early, !d.latest.IsZero())
		return
	}
	d.ResponseRecorder.WriteHeader(status)
}

// net/http writes a 1xx response at once. Meanwhile httputil.ReverseProxy holds a lock that the final response needs,
// so the write must have a deadline.
func TestAClientThatReadsNo1xxResponseIsNotWaitedForForEver(t *testing.T) {
	play(t, func(t *testing.T) {
		w := newWorldOf(t, func(rw http.ResponseWriter, _ *http.Request) {
			rw.WriteHeader(http.StatusEarlyHints)
			rw.WriteHeader(http.StatusEarlyHints)
			time.Sleep(time.Second)
		})
		client := &deadlines{ResponseRecorder: httptest.NewRecorder()}
		w.handler.ServeHTTP(client, httptest.NewRequest("GET", "/users/@me", nil))
		assert.Equal(t, 200, client.Code)
		assert.Equal(t, []bool{true, true}, client.early)
	})
}

// Neither a client that reads slowly nor a response that arrives slowly may be cut off.
func TestAResponseMayTakeLong(t *testing.T) {
	play(t, func(t *testing.T) {
		w := newWorldOf(t, func(rw http.ResponseWriter, _ *http.Request) {
			// The headers come first: httputil.ReverseProxy flushes them from a timer. In the bubble, the timer must not wait
			// for a lock that a blocked write holds.
			_ = http.NewResponseController(rw).Flush()
			time.Sleep(time.Millisecond)
			for range 3 {
				_, _ = rw.Write(make([]byte, 64<<10))
				_ = http.NewResponseController(rw).Flush()
				time.Sleep(time.Minute)
			}
		}, proxy.WithTransport(httpclient.WithAttempts(httpclient.Attempts{Timeout: 2 * time.Minute})))
		got, err := w.client.Do(newRequest(t, "GET", "/api/v10/gateway", ""))
		require.NoError(t, err)
		defer got.Body.Close()
		read := 0
		for err == nil {
			var n int
			n, err = got.Body.Read(make([]byte, 4<<10))
			read += n
			time.Sleep(time.Second)
		}
		assert.Equal(t, io.EOF, err)
		assert.Equal(t, 3*64<<10, read)
		assert.Equal(t, 200, w.send("GET", "/api/v10/gateway", "").StatusCode)
	})
}

// The first request of a route is sent alone, and in this test it is a long upload. The other requests of the route
// must get a response within the max wait. Otherwise discord.js would give up after 15 s and send such a request again,
// although Discord may already have received the first copy.
func TestNobodyWaitsLongerForTheFirstRequestOfARouteThanTheMaxWait(t *testing.T) {
	play(t, func(t *testing.T) {
		w := newWorldOf(t, func(rw http.ResponseWriter, r *http.Request) {
			for _, err := io.CopyN(io.Discard, r.Body, 100<<10); err == nil; _, err = io.CopyN(io.Discard, r.Body, 100<<10) {
				time.Sleep(100 * time.Millisecond) // 1 MB a second
			}
			time.Sleep(50 * time.Millisecond)
			rw.Header().Set("X-RateLimit-Limit", "5")
			rw.Header().Set("X-RateLimit-Remaining", "4")
			rw.Header().Set("X-RateLimit-Reset-After", "1")
			rw.Header().Set("X-RateLimit-Bucket", "messages")
		})
		upload := newRequest(t, "POST", messages, "")
		upload.Body, upload.ContentLength = io.NopCloser(io.LimitReader(zeros{}, 20<<20)), 20<<20
		first := w.start(upload)
		time.Sleep(30 * time.Millisecond)
		message := w.send("POST", "/api/v10/channels/2/messages", "{}")
		assert.LessOrEqual(t, message.took, proxy.DefaultMaxWait+time.Second)
		assert.Equal(t, 200, (<-first).StatusCode)
	})
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }
