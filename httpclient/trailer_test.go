package httpclient_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/httpclient"
)

// A body that turns out to be empty still has trailers, which net/http sends only after a body. Without a body, HTTP/2
// would never say that the request is complete.
func TestTrailersOfAnEmptyBodyAreSent(t *testing.T) {
	t.Parallel()
	for name, version2 := range map[string]bool{"HTTP/1": false, "HTTP/2": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var trailer http.Header
			server := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				trailer = r.Trailer
			}))
			server.EnableHTTP2 = version2
			server.StartTLS()
			defer server.Close()
			transport := newTransport(t, server.Client().Transport, append(anyHost, httpclient.WithRetries(0))...)
			r, err := http.NewRequest("POST", server.URL+messages, io.NopCloser(strings.NewReader("")))
			require.NoError(t, err)
			r.Trailer = http.Header{"X-Sum": {"of nothing"}}
			response := roundTrip(t, transport, r)
			response.Body.Close()
			assert.Equal(t, http.Header{"X-Sum": {"of nothing"}}, trailer)
		})
	}
}
