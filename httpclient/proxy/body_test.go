package proxy_test

import (
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/httpclient"
	"github.com/ratelight/ratelight/httpclient/discordtest"
	"github.com/ratelight/ratelight/httpclient/proxy"
)

const megabyte = 1 << 20

// source gives left bytes and counts them. ahead is the most bytes that were given but not yet received.
type source struct {
	left, given, ahead int64
	received           *atomic.Int64
}

func (s *source) Read(p []byte) (int, error) {
	if s.left == 0 {
		return 0, io.EOF
	}
	n := int(min(s.left, int64(len(p)), 16<<10))
	s.left -= int64(n)
	s.given += int64(n)
	s.ahead = max(s.ahead, s.given-s.received.Load())
	return n, nil
}

// count reads all of r and adds the bytes to received as they come.
func count(r io.Reader, received *atomic.Int64) error {
	buffer := make([]byte, 16<<10)
	for {
		n, err := r.Read(buffer)
		received.Add(int64(n))
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func TestUploadsStreamWithFlatMemory(t *testing.T) {
	for name, c := range map[string]struct{ length, ahead int64 }{
		"of known length":   {25 * megabyte, 256 << 10},
		"of unknown length": {-1, megabyte + 256<<10}, // the proxy reads until it knows that the body is too large to keep
	} {
		playIn(t, name, func(t *testing.T) {
			var received atomic.Int64
			var length int64
			w := newWorldOf(t, func(_ http.ResponseWriter, r *http.Request) {
				length = r.ContentLength
				assert.NoError(t, count(r.Body, &received))
			})
			body := &source{left: 25 * megabyte, received: &received}
			r, err := http.NewRequest("POST", "http://proxy"+messages, body)
			require.NoError(t, err)
			r.ContentLength = c.length
			assert.Equal(t, 200, w.do(r).StatusCode)
			assert.EqualValues(t, 25*megabyte, received.Load())
			assert.Equal(t, c.length, length)
			assert.LessOrEqual(t, body.ahead, c.ahead)
		})
	}
}

func TestDownloadsStreamWithFlatMemory(t *testing.T) {
	play(t, func(t *testing.T) {
		var received atomic.Int64
		body := &source{left: 25 * megabyte, received: &received}
		w := newWorldOf(t, func(rw http.ResponseWriter, _ *http.Request) { _, _ = io.Copy(rw, body) })
		got, err := w.client.Do(newRequest(t, "GET", "/api/v10/guilds/1/widget.png", ""))
		require.NoError(t, err)
		defer got.Body.Close()
		require.NoError(t, count(got.Body, &received))
		assert.EqualValues(t, 25*megabyte, received.Load())
		assert.LessOrEqual(t, body.ahead, int64(256<<10))
	})
}

// A part of a response of unknown length must reach the client when it comes, not when a buffer is full.
func TestPartsOfAResponseArriveWhenTheyCome(t *testing.T) {
	play(t, func(t *testing.T) {
		w := newWorldOf(t, func(rw http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(rw, "first")
			_ = http.NewResponseController(rw).Flush()
			<-r.Context().Done()
		})
		start := time.Now()
		got, err := w.client.Do(newRequest(t, "GET", "/api/v10/gateway", ""))
		require.NoError(t, err)
		defer got.Body.Close()
		first := make([]byte, 5)
		_, err = io.ReadFull(got.Body, first)
		require.NoError(t, err)
		assert.Equal(t, "first", string(first))
		assert.Zero(t, time.Since(start))
	})
}

// The proxy repeats a refused request if it has kept the body. If not, the client gets the 429.
func TestA429IsRepeatedHereUnlessTheBodyIsTooLargeToKeep(t *testing.T) {
	play(t, func(t *testing.T) {
		for size, passed := range map[int]bool{100: false, 5000: true} {
			w := newWorld(t,
				[]discordtest.Rule{discordtest.Refuse("POST /channels/{id}/messages", discordtest.Shared, time.Second).Nth(1)},
				proxy.WithMaxBufferedBody(1000))
			got := w.send("POST", messages, strings.Repeat("x", size))
			assert.Empty(t, got.Header.Get("X-Ratelight-Proxy"))
			if !passed {
				assert.Equal(t, 200, got.StatusCode)
				assert.Len(t, w.discord.Requests(), 2)
				continue
			}
			assert.Equal(t, 429, got.StatusCode)
			assert.Equal(t, "1", got.Header.Get("Retry-After"))
			assert.Equal(t, "shared", got.Header.Get("X-RateLimit-Scope"))
			assert.InDelta(t, 1, *got.error(t).RetryAfter, 0.01)
			assert.Len(t, w.discord.Requests(), 1)
		}
	})
}

// A client sends 25 MB and reads nothing before it has sent all. It must get the early response, not a broken
// connection.
func TestAnEarlyAnswerReachesAClientThatIsStillSending(t *testing.T) {
	play(t, func(t *testing.T) {
		w := usedUp(t, time.Minute)
		conn, err := w.network.dial(t.Context(), "", "")
		require.NoError(t, err)
		defer conn.Close()
		_, err = io.WriteString(conn, rawPost("", "Content-Length: 26214400"))
		require.NoError(t, err)
		answer := make(chan string, 1)
		go func() {
			text := make([]byte, 4096)
			n, _ := conn.Read(text)
			answer <- string(text[:n])
		}()
		part := make([]byte, 64<<10)
		for range 25 * megabyte / len(part) {
			_, err := conn.Write(part)
			require.NoError(t, err)
		}
		got := <-answer
		assert.Contains(t, got, "429 Too Many Requests")
		assert.Contains(t, got, "Connection: close")
	})
}

// After an early response the client sends more of its body. The proxy must not read that as a new request.
func TestTheRestOfARefusedBodyIsNoRequest(t *testing.T) {
	for _, length := range []string{"Transfer-Encoding: chunked", "Content-Length: 5000"} {
		playIn(t, length, func(t *testing.T) {
			w := usedUp(t, time.Minute, proxy.WithMaxBufferedBody(1000))
			conn, got := w.raw(rawPost("7d0\r\n"+strings.Repeat("x", 2000), length))
			assert.Equal(t, 429, got.StatusCode)
			time.Sleep(10 * time.Second)
			_, err := io.WriteString(conn, "GET /smuggled HTTP/1.1\r\nHost: proxy\r\n\r\n")
			assert.Error(t, err)
			w.assertOnly(1)
		})
	}
}

func TestAClientThatStopsSendingItsRefusedBodyIsNotWaitedForForEver(t *testing.T) {
	play(t, func(t *testing.T) {
		w := usedUp(t, time.Minute)
		conn, got := w.raw(rawPost("", "Content-Length: 26214400"))
		assert.Equal(t, 429, got.StatusCode)
		start := time.Now()
		_, err := io.Copy(io.Discard, conn)
		require.NoError(t, err)
		assert.LessOrEqual(t, time.Since(start), 10*time.Second)
		synctest.Wait()
	})
}

// A client that sends Expect: 100-continue gets its 429 before it sends any byte of the body.
func TestARefusedClientThatExpects100ContinueSendsNothing(t *testing.T) {
	play(t, func(t *testing.T) {
		w := usedUp(t, time.Minute)
		_, got := w.raw(rawPost("", "Expect: 100-continue", "Content-Length: 26214400"))
		assert.Equal(t, 429, got.StatusCode)
	})
}

// Discord answers before it has read the whole body if an attachment is too large.
func TestAnEarlyAnswerOfTheUpstreamPasses(t *testing.T) {
	play(t, func(t *testing.T) {
		w := newWorldOf(t, func(rw http.ResponseWriter, _ *http.Request) {
			rw.WriteHeader(http.StatusRequestEntityTooLarge)
		}, proxy.WithMaxBufferedBody(1000))
		assert.Equal(t, 413, w.send("POST", messages, strings.Repeat("x", 5*megabyte)).StatusCode)
	})
}

func TestABodyThatBreaksOffIsTheClientsFault(t *testing.T) {
	play(t, func(t *testing.T) {
		w := newWorld(t, nil)
		_, got := w.raw(rawPost("not a length\r\n", "Transfer-Encoding: chunked"))
		assert.Equal(t, 400, got.StatusCode)
		assert.Equal(t, "bad-request", got.Header.Get("X-Ratelight-Proxy"))
		assert.True(t, w.handler.Upstream().OK())
		w.assertOnly(0)
	})
}

func TestRetriesAndHiddenLimitsCanBeAskedFor(t *testing.T) {
	play(t, func(t *testing.T) {
		w := newWorld(t, []discordtest.Rule{discordtest.Answer("GET /users/@me", 502, nil).Nth(1)},
			proxy.WithTransport(httpclient.WithRetries(2), httpclient.WithoutRateLimitHeaders()))
		got := w.send("GET", "/users/@me", "")
		assert.Equal(t, 200, got.StatusCode)
		for name := range got.Header {
			assert.NotContains(t, name, "X-Ratelimit")
		}
	})
}
