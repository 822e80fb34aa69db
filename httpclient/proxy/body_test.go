package proxy_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/httpclient/discordtest"
	"github.com/ratelight/ratelight/httpclient/proxy"
)

const megabyte = 1 << 20

// source is a body that counts the bytes that were read from it (given). aheadMost is the largest number of bytes that,
// at any time, were read but not received yet.
type source struct {
	remaining, given, aheadMost int64
	received                    *atomic.Int64
}

func (s *source) Read(p []byte) (int, error) {
	if s.remaining == 0 {
		return 0, io.EOF
	}
	n := int(min(s.remaining, int64(len(p)), 16<<10))
	s.remaining -= int64(n)
	s.given += int64(n)
	s.aheadMost = max(s.aheadMost, s.given-s.received.Load())
	return n, nil
}

// count reads r to its end, and adds the number of bytes to received as they arrive.
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
	type story struct {
		length, ahead int64
	}
	playEach(t, map[string]story{
		"of known length":   {25 * megabyte, 256 << 10},
		"of unknown length": {-1, megabyte + 256<<10}, // the proxy reads until it knows that the body is too large to keep
	}, func(t *testing.T, c story) {
		var received atomic.Int64
		var length int64
		w := newWorldOf(t, func(_ http.ResponseWriter, r *http.Request) {
			length = r.ContentLength
			assert.NoError(t, count(r.Body, &received))
		})
		body := &source{remaining: 25 * megabyte, received: &received}
		r, err := http.NewRequest("POST", "http://proxy"+messages, body)
		require.NoError(t, err)
		r.ContentLength = c.length
		assert.Equal(t, 200, w.do(r).StatusCode)
		assert.EqualValues(t, 25*megabyte, received.Load())
		assert.Equal(t, c.length, length)
		assert.LessOrEqual(t, body.aheadMost, c.ahead)
	})
}

func TestDownloadsStreamWithFlatMemory(t *testing.T) {
	play(t, func(t *testing.T) {
		var received atomic.Int64
		body := &source{remaining: 25 * megabyte, received: &received}
		w := newWorldOf(t, func(rw http.ResponseWriter, _ *http.Request) { _, _ = io.Copy(rw, body) })
		got, err := w.client.Do(newRequest(t, "GET", "/api/v10/guilds/1/widget.png", ""))
		require.NoError(t, err)
		defer got.Body.Close()
		require.NoError(t, count(got.Body, &received))
		assert.EqualValues(t, 25*megabyte, received.Load())
		assert.LessOrEqual(t, body.aheadMost, int64(256<<10))
	})
}

// Each part of a response of unknown length must reach the client when the part arrives, not only when a buffer is
// full.
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

// A client sends 25 MB, and reads nothing before it has sent everything. It must get the early response, not a broken
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

// If an attachment is too large, Discord answers before it has read the whole body. The client must get that answer.
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

// The proxy must repeat a refused request if the body was kept in memory. Otherwise the client must get the 429.
func TestA429IsRepeatedHereUnlessTheBodyIsTooLargeToKeep(t *testing.T) {
	playEach(t, map[string]int{"kept": 100, "too large": 5000}, func(t *testing.T, size int) {
		refusal := discordtest.Refuse("POST /channels/{id}/messages", discordtest.Shared, time.Second).Nth(1)
		w := newWorld(t, []discordtest.Rule{refusal}, proxy.WithMaxBufferedBody(1000))
		got := w.send("POST", messages, strings.Repeat("x", size))
		assert.Empty(t, got.Header.Get("X-Ratelight-Proxy"))
		if size == 100 {
			assert.Equal(t, 200, got.StatusCode)
			assert.Len(t, w.discord.Requests(), 2)
			return
		}
		assert.Equal(t, 429, got.StatusCode)
		assert.Equal(t, "1", got.Header.Get("Retry-After"))
		assert.Equal(t, "shared", got.Header.Get("X-RateLimit-Scope"))
		assert.InDelta(t, 1, *got.error(t).RetryAfter, 0.01)
		assert.Len(t, w.discord.Requests(), 1)
	})
}

// A client gets a 429 when it has sent only a part of its body or nothing of it. With Expect: 100-continue, the client
// gets the 429 before it sends the body. In each case, the proxy must soon close the connection, so that later bytes
// that look like a request are not taken for a request.
func TestTheRestOfARefusedBodyIsNoRequestAndIsNotWaitedForForEver(t *testing.T) {
	type story struct {
		begin  string
		header []string
	}
	playEach(t, map[string]story{
		"in chunks":           {"7d0\r\n" + strings.Repeat("x", 2000), []string{"Transfer-Encoding: chunked"}},
		"of known length":     {strings.Repeat("x", 2000), []string{"Content-Length: 5000"}},
		"that never begins":   {"", []string{"Content-Length: 26214400"}},
		"that waits to begin": {"", []string{"Expect: 100-continue", "Content-Length: 26214400"}},
	}, func(t *testing.T, c story) {
		w := usedUp(t, time.Minute, proxy.WithMaxBufferedBody(1000))
		conn, got := w.raw(rawPost(c.begin, c.header...))
		assert.Equal(t, 429, got.StatusCode)
		start := time.Now()
		_, err := io.Copy(io.Discard, conn)
		require.NoError(t, err)
		assert.LessOrEqual(t, time.Since(start), 10*time.Second)
		_, err = io.WriteString(conn, "GET /smuggled HTTP/1.1\r\nHost: proxy\r\n\r\n")
		assert.Error(t, err)
		w.assertOnly(1)
	})
}

// Slow uploads to invented webhooks must not cause requests of bots or of working webhooks to be rejected.
func TestSlowUploadsToInventedWebhooksStopNobody(t *testing.T) {
	play(t, func(t *testing.T) {
		w := newWorldOf(t, func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) })
		for i := range 30 {
			conn, err := w.network.dial(t.Context(), "", "")
			require.NoError(t, err)
			defer conn.Close()
			go func() {
				header := "POST /webhooks/%d/invented HTTP/1.1\r\nHost: proxy\r\nContent-Length: 26214400\r\n\r\nx"
				_, err := fmt.Fprintf(conn, header, i)
				for err == nil {
					time.Sleep(time.Second / 2)
					_, err = conn.Write(make([]byte, 4<<10))
				}
			}()
		}
		time.Sleep(time.Second)
		r := upTo(newRequest(t, "POST", "/webhooks/777/webhook-token-webhook-token", ""), "300")
		r.Header.Del("Authorization")
		got := w.do(r)
		assert.Equal(t, 200, got.StatusCode)
		assert.LessOrEqual(t, got.took, 16*time.Second)
	})
}
