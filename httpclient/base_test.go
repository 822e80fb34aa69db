package httpclient_test

import (
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/httpclient"
	"github.com/ratelight/ratelight/httpclient/discordtest"
	"github.com/ratelight/ratelight/internal/discordsim"
)

// If a transport below returns neither a response nor an error, http.Client returns an error; so must the transport.
func TestATransportBelowThatReturnsNothingIsAnError(t *testing.T) {
	t.Parallel()
	transport := newTransport(t, responder(func(*http.Request) (*http.Response, error) { return nil, nil }))
	assert.NotPanics(t, func() {
		_, err := transport.RoundTrip(newMessage(t))
		assert.Error(t, err)
	})
}

// A failed assertion ends its goroutine. In a test, the transport below may run in the test's goroutine, which must
// end.
func TestATransportBelowThatEndsItsGoroutineEndsTheCallers(t *testing.T) {
	t.Parallel()
	transport := newTransport(t,
		responder(func(*http.Request) (*http.Response, error) { runtime.Goexit(); return nil, nil }))
	// The second request is sent by another goroutine.
	for _, r := range []*http.Request{newMessage(t), unreplayable(newMessage(t), endless{}, -1)} {
		over, returned := make(chan struct{}), false
		go func() {
			defer close(over)
			_, _ = transport.RoundTrip(r)
			returned = true
		}()
		<-over
		assert.False(t, returned)
	}
}

// http.Client ignores a response that comes with an error, so the transport has to close its body.
func TestAResponseThatComesWithAnErrorIsClosed(t *testing.T) {
	t.Parallel()
	for name, host := range map[string]string{"of the API": "", "of a media host": "cdn.discordapp.com"} {
		inBubble(t, name, func(t *testing.T) {
			var bodies ledger
			both := func(r *http.Request) (*http.Response, error) {
				response, _ := answerWith(http.StatusOK, func() io.ReadCloser { return bodies.open(endless{}) })(r)
				return response, io.ErrUnexpectedEOF
			}
			for _, first := range []responder{
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
	}
}

func TestAResponseWithoutHeadersDoesNoHarm(t *testing.T) {
	t.Parallel()
	for _, status := range []int{0, 101, 200, 202, 204, 302, 401, 404, 429, 502, 999} {
		inBubble(t, strconv.Itoa(status), func(t *testing.T) {
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
	}
}

// After a lost connection the server may have processed the request, so the transport returns the error instead of
// repeating the request. Later requests are sent as usual. The lost request stays charged if the server may have
// counted it.
func TestALostConnectionIsAnErrorAndNothingElseStops(t *testing.T) {
	before := discordsim.Fault{Connection: discordsim.ConnectionLostBefore}
	after := discordsim.Fault{Connection: discordsim.ConnectionLostAfter}
	type story struct {
		fault discordsim.Fault
		nth   []int
	}
	inBubbles(t, map[string]story{
		"the first request of all, before it was counted":  {before, []int{1}},
		"the first request of all, after it was counted":   {after, []int{1}},
		"before it was counted":                            {before, []int{3}},
		"after it was counted":                             {after, []int{3}},
		"twice in a row, and then the one after the reset": {after, []int{3, 4, 6}},
	}, func(t *testing.T, c story) {
		c.fault.Nth = c.nth
		server := newDiscord(t, everything(discordsim.Fixed(5, time.Second), c.fault))
		// HTTP over in-memory connections, so that a connection really breaks.
		below := &http.Transport{DialContext: server.DialContext}
		transport := newTransport(t, below)
		t.Cleanup(below.CloseIdleConnections)
		client := &http.Client{Transport: transport}

		lost := 0
		for range 12 {
			response, err := client.Do(newMessage(t))
			if err != nil {
				lost++
				continue
			}
			require.NoError(t, response.Body.Close())
			assert.Equal(t, http.StatusOK, response.StatusCode)
		}
		assert.Equal(t, len(c.nth), lost)
		assert.EqualValues(t, len(c.nth), transport.Manager().Stats().Lost)
		assert.Zero(t, server.Report().Refused.Total())
		assertNothingHeld(t, transport)
	})
}

// One test over real sockets. It asserts nothing about how long the requests take.
func TestABurstOverLoopbackIsAnsweredWithoutARefusal(t *testing.T) {
	t.Parallel()
	server := discordtest.NewServer(t, discordtest.Window("POST /channels/{id}/messages", 5, 100*time.Millisecond))
	transport := newTransport(t, &http.Transport{MaxIdleConnsPerHost: 20}, anyHost...)
	defer transport.CloseIdleConnections()
	var calls []*call
	for i := range 40 {
		r := newRequest(t, http.MethodPost, fmt.Sprintf("/api/v10/channels/%d/messages", 1+i%2), `{"content":"hello"}`)
		calls = append(calls, send(transport, to(t, server.URL, r)))
	}
	assertStatus(t, http.StatusOK, calls...)
	assert.Len(t, server.Requests(), len(calls))
}
