package httpclient_test

import (
	"io"
	"net/http"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
)

// A response without a body is not what net/http returns, but what many a transport in tests and some proxies do. http.Client puts
// up with it.
func TestAResponseWhoseBodyIsNilDoesNoHarm(t *testing.T) {
	t.Parallel()
	for name, first := range map[string]func(*http.Request) (*http.Response, error){
		"refused":  answerWith(http.StatusTooManyRequests, func() io.ReadCloser { return nil }, "Retry-After: 1", "X-RateLimit-Scope: user"),
		"repeated": answerWith(http.StatusBadGateway, func() io.ReadCloser { return nil }),
		"gone":     answerWith(http.StatusNotFound, func() io.ReadCloser { return nil }),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				transport := newTransport(t, newScript(first, answer(http.StatusOK, "")))
				assert.NotPanics(t, func() { _, _ = transport.RoundTrip(newRequest(t, http.MethodGet, webhook, "")) })
			})
		})
	}
}

// http.Client makes an error of a transport below that returns neither a response nor an error.
func TestATransportBelowThatReturnsNothingIsAnError(t *testing.T) {
	t.Parallel()
	transport := newTransport(t, roundTripper(func(*http.Request) (*http.Response, error) { return nil, nil }))
	assert.NotPanics(t, func() {
		_, err := transport.RoundTrip(newMessage(t))
		assert.Error(t, err)
	})
}
