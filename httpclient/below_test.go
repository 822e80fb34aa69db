package httpclient_test

import (
	"io"
	"net/http"
	"strconv"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"

	"github.com/ratelight/ratelight/httpclient"
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

// http.Client takes no notice of a response that comes with an error.
func TestAResponseThatComesWithAnErrorIsClosed(t *testing.T) {
	t.Parallel()
	for name, host := range map[string]string{"of the API": "", "of a media host": "cdn.discordapp.com"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var bodies ledger
				both := func(r *http.Request) (*http.Response, error) {
					response, _ := answerWith(http.StatusOK, func() io.ReadCloser { return bodies.open(endless{}) })(r)
					return response, io.ErrUnexpectedEOF
				}
				for _, first := range []func(*http.Request) (*http.Response, error){
					both,
					func(*http.Request) (*http.Response, error) { return new(http.Response), io.ErrUnexpectedEOF },
				} {
					r := getChannel(t)
					if host != "" {
						r.URL.Host = host
					}
					response, err := newTransport(t, newScript(first), httpclient.WithRetries(1)).RoundTrip(r)
					assert.Nil(t, response)
					assert.ErrorIs(t, err, io.ErrUnexpectedEOF)
				}
				bodies.assertClosed(t)
			})
		})
	}
}

func TestAResponseWithoutHeadersDoesNoHarm(t *testing.T) {
	t.Parallel()
	for _, status := range []int{0, 101, 200, 202, 204, 302, 401, 404, 429, 502, 999} {
		t.Run(strconv.Itoa(status), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				bare := func(*http.Request) (*http.Response, error) { return &http.Response{StatusCode: status}, nil }
				for _, path := range []string{webhook, channel} {
					transport := newTransport(t, newScript(bare), httpclient.WithoutRateLimitHeaders())
					assert.NotPanics(t, func() {
						if response, err := transport.RoundTrip(newRequest(t, http.MethodGet, path, "")); err == nil {
							assert.NoError(t, response.Body.Close())
						}
					})
				}
			})
		})
	}
}
