//go:build !race

package httpclient_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/httpclient"
	"github.com/ratelight/ratelight/internal/discordsim"
)

// deriving is a base transport that answers at once. Like http.Transport, it derives a context from that of the
// request.
type deriving struct{}

var plenty = http.Header{
	"X-Ratelimit-Bucket": {"a"}, "X-Ratelimit-Limit": {"1000000"}, "X-Ratelimit-Remaining": {"999999"},
	"X-Ratelimit-Reset-After": {"1"},
}

func (deriving) RoundTrip(r *http.Request) (*http.Response, error) {
	_, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	body := io.NopCloser(strings.NewReader("{}"))
	return &http.Response{StatusCode: http.StatusOK, Header: plenty, Body: body, Request: r}, nil
}

// This file is not built with the race detector, because that makes pools drop objects, which then have to be allocated
// again. The test does not run in parallel with other tests, because it counts all allocations of the program.
func TestATransportAllocatesLittle(t *testing.T) {
	endless := func() (context.Context, context.CancelFunc) { return context.Background(), func() {} }
	for _, c := range []struct {
		name, method, body string
		context            func() (context.Context, context.CancelFunc)
		most               float64
	}{
		{"without a body", http.MethodGet, "", endless, 14},
		{"with a body", http.MethodPost, "{}", endless, 15},
		{"with a deadline", http.MethodPost, "{}", func() (context.Context, context.CancelFunc) {
			return context.WithTimeout(context.Background(), httpclient.DefaultAttemptTimeout/2)
		}, 15},
		{"that can be cancelled", http.MethodPost, "{}", func() (context.Context, context.CancelFunc) {
			return context.WithCancel(context.Background())
		}, 15},
	} {
		t.Run(c.name, func(t *testing.T) {
			request, err := http.NewRequest(c.method, discordsim.BaseURL+messages, strings.NewReader(c.body))
			require.NoError(t, err)
			request.Header.Set("Authorization", authorization)
			measure := func(transport http.RoundTripper) float64 {
				return testing.AllocsPerRun(1000, func() {
					ctx, cancel := c.context()
					defer cancel()
					r := request.WithContext(ctx)
					r.Body, _ = r.GetBody()
					response, err := transport.RoundTrip(r)
					if err != nil {
						panic(err)
					}
					_, _ = io.Copy(io.Discard, response.Body)
					_ = response.Body.Close()
				})
			}
			transport := httpclient.NewTransport(httpclient.WithBase(deriving{}),
				httpclient.WithBuckets(buckets.WithGlobalLimit(0)))
			defer transport.Close()
			assert.LessOrEqual(t, measure(transport)-measure(deriving{}), c.most)
		})
	}
}
