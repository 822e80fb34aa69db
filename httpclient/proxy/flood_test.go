package proxy_test

import (
	"fmt"
	"io"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/httpclient"
	"github.com/ratelight/ratelight/httpclient/proxy"
)

// own is the path of a webhook that works.
const own = "/webhooks/777/webhook-token-webhook-token"

// anonymous returns a request without an Authorization that may wait for 300 s.
func anonymous(t *testing.T, method, path string) *http.Request {
	r := newRequest(t, method, path, "")
	r.Header.Del("Authorization")
	r.Header.Set("X-Ratelight-Max-Wait", "300")
	return r
}

// A caller without a credential queues as many requests as it can. Neither a bot nor a webhook that works may be
// rejected.
func TestAQueueFullOfInventedWebhooksStopsNobody(t *testing.T) {
	play(t, func(t *testing.T) {
		w := newWorldOf(t, func(rw http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(rw, "{}") },
			proxy.WithTransport(httpclient.WithBuckets(buckets.WithMaxWaiting(1000))))
		require.Equal(t, 200, w.send("GET", "/users/@me", "").StatusCode)
		require.Equal(t, 200, w.as("", own).StatusCode)
		var flood []<-chan response
		for i := range 2000 {
			r := anonymous(t, "GET", fmt.Sprintf("/webhooks/%d/invented", i))
			r.Header.Set("X-Ratelight-Group", fmt.Sprint(i))
			flood = append(flood, w.start(r))
		}
		time.Sleep(time.Millisecond)
		var bots sync.WaitGroup
		for range 100 { // the second half waits for the global limit
			bots.Go(func() { assert.Equal(t, 200, w.as(token, "/users/@me").StatusCode) })
		}
		for range 3 {
			got := w.as("", own)
			assert.Equal(t, 200, got.StatusCode)
			assert.LessOrEqual(t, got.took, 2*time.Second)
		}
		bots.Wait()
		for _, c := range flood {
			<-c
		}
	})
}

// Slow uploads to invented webhooks must not have bots or working webhooks rejected either.
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
		got := w.do(anonymous(t, "POST", own))
		assert.Equal(t, 200, got.StatusCode)
		assert.LessOrEqual(t, got.took, 16*time.Second)
	})
}
