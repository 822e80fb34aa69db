package httpclient_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/httpclient"
	"github.com/ratelight/ratelight/httpclient/discordtest"
	"github.com/ratelight/ratelight/internal/discordsim"
	"github.com/ratelight/ratelight/routes"
)

// untouchable is a body that must be neither read nor closed.
type untouchable struct{ t *testing.T }

func (u untouchable) Read([]byte) (int, error) {
	u.t.Error("the body was read")
	return 0, io.EOF
}

func (u untouchable) Close() error {
	u.t.Error("the body was closed")
	return nil
}

func TestEveryResponseButA429IsReturnedUntouchedAndAtOnce(t *testing.T) {
	t.Parallel()
	for _, status := range []int{
		200, 201, 202, 204, 301, 304, 400, 403, 404, 405, 428, 430, 500, 501, 502, 503, 504, 524,
	} {
		inBubble(t, strconv.Itoa(status), func(t *testing.T) {
			header := http.Header{"X-Ratelimit-Bucket": {"abc"}, "X-Ratelimit-Limit": {"1"}, "X-Ratelimit-Remaining": {"0"},
				"X-Ratelimit-Reset-After": {"60"}, "Retry-After": {"60"}, "Anything": {"else"}}
			given := &http.Response{StatusCode: status, Header: header.Clone(), Body: untouchable{t}}
			calls := 0
			transport := newTransport(t, responder(func(*http.Request) (*http.Response, error) {
				calls++
				return given, nil
			}), httpclient.WithRetries(0))

			start := time.Now()
			response := roundTrip(t, transport, newRequest(t, http.MethodGet, messages, ""))
			assert.Same(t, given, response)
			assert.Equal(t, status, response.StatusCode)
			assert.Equal(t, header, response.Header)
			assert.Equal(t, 1, calls)
			assert.Zero(t, time.Since(start))
		})
	}
}

func TestTheRequestIsNotModified(t *testing.T) {
	ok := answer(http.StatusOK, "{}")
	refusal := refuse("user", "1.5")
	type story struct {
		below  *script
		change func(*http.Request)
	}
	inBubbles(t, map[string]story{
		"success":                   {newScript(ok), nil},
		"refused and repeated":      {newScript(refusal, refusal, ok), nil},
		"body kept in memory":       {newScript(refusal, ok), func(r *http.Request) { r.GetBody = nil }},
		"of unknown length":         {newScript(refusal, ok), func(r *http.Request) { r.GetBody, r.ContentLength = nil, -1 }},
		"without a body":            {newScript(refusal, ok), func(r *http.Request) { r.Body, r.GetBody, r.ContentLength = nil, nil, 0 }},
		"no method":                 {newScript(ok), func(r *http.Request) { r.Method = "" }},
		"the transport below fails": {newScript(fail(errors.New("no network"))), nil},
		"too long a wait":           {newScript(refuse("user", "4000")), nil},
		"an invalid path":           {newScript(ok), func(r *http.Request) { r.URL.Path = "/channels/../1" }},
	}, func(t *testing.T, c story) {
		transport := newTransport(t, c.below)
		r := newRequest(t, http.MethodPost, messages+"?wait=true", `{"content":"hello"}`)
		r.Trailer, r.TransferEncoding = http.Header{"X-Trailer": nil}, []string{"identity"}
		r.Host, r.Close = "discord.com", true
		if c.change != nil {
			c.change(r)
		}
		before, body, getBody, url := *r, r.Body, r.GetBody, *r.URL
		header, trailer := r.Header.Clone(), r.Trailer.Clone()

		if response, err := transport.RoundTrip(r); err == nil {
			response.Body.Close()
		}
		assert.True(t, r.Body == body, "another body")
		assert.Equal(t, reflect.ValueOf(getBody).Pointer(), reflect.ValueOf(r.GetBody).Pointer(), "another GetBody")
		assert.Same(t, before.URL, r.URL)
		assert.Equal(t, url, *r.URL)
		assert.Equal(t, header, r.Header)
		assert.Equal(t, trailer, r.Trailer)
		// Functions and bodies cannot be compared deeply; the other fields can.
		after := *r
		before.Body, before.GetBody, after.Body, after.GetBody = nil, nil, nil, nil
		assert.True(t, reflect.DeepEqual(before, after))
	})
}

func TestTheTransportBelowGetsTheSameRequest(t *testing.T) {
	bubble(t, func(t *testing.T) {
		below := newScript(refuse("user", "1"), answer(http.StatusOK, "{}"))
		transport := newTransport(t, below)
		type key struct{}
		ctx := context.WithValue(t.Context(), key{}, "value")
		r := newRequest(t, http.MethodPut, messages+"/2/reactions/%F0%9F%94%A5/@me?a=b", `{"a":1}`).WithContext(ctx)
		r.Host = "discord.com"
		assertStatus(t, http.StatusOK, send(transport, r))

		attempts := below.requests()
		require.Len(t, attempts, 2)
		for _, a := range attempts {
			assert.Equal(t, http.MethodPut, a.request.Method)
			assert.Equal(t, r.URL.String(), a.request.URL.String())
			assert.Equal(t, r.Header, a.request.Header)
			assert.Equal(t, r.Host, a.request.Host)
			assert.Equal(t, r.ContentLength, a.request.ContentLength)
			assert.Equal(t, "value", a.request.Context().Value(key{}))
			assert.Equal(t, `{"a":1}`, a.body)
		}
	})
}

func TestARequestWithoutABodyHasNoneBelow(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]io.ReadCloser{"nil": nil, "http.NoBody": http.NoBody} {
		inBubble(t, name, func(t *testing.T) {
			below := newScript(refuse("user", "1"), answer(http.StatusOK, "{}"))
			transport := newTransport(t, below)
			r := newRequest(t, http.MethodGet, messages, "")
			r.Body = body
			assertStatus(t, http.StatusOK, send(transport, r))
			require.Len(t, below.requests(), 2)
			for _, a := range below.requests() {
				assert.Equal(t, body, a.request.Body)
			}
		})
	}
}

func TestNoMethodMeansGet(t *testing.T) {
	t.Parallel()
	below := newScript(answer(http.StatusOK, "{}"))
	transport := newTransport(t, below)
	r := newRequest(t, "", "/api/v10/gateway/bot", "")
	r.Method = ""
	assertStatus(t, http.StatusOK, send(transport, r))
	assert.Empty(t, below.requests()[0].request.Method, "the transport below chooses the method")
	var known []string
	for b := range transport.Manager().Buckets() {
		known = append(known, b.Route)
	}
	assert.Contains(t, known, routes.GetBotGateway.String())
}

func TestNoPathMeansTheRoot(t *testing.T) {
	t.Parallel()
	below := newScript(answer(http.StatusNotFound, ""))
	assertStatus(t, http.StatusNotFound, send(newTransport(t, below), newRequest(t, http.MethodGet, "", "")))
	assert.Equal(t, discordsim.BaseURL, below.requests()[0].request.URL.String())
}

func TestErrorsOfTheTransportBelowArePassedOnAndTheNextRequestGoes(t *testing.T) {
	bubble(t, func(t *testing.T) {
		broken := errors.New("http2: stream closed")
		below := newScript(fail(broken), fail(broken), answer(http.StatusOK, "{}"))
		below.takes = time.Second
		transport := newTransport(t, below)
		start := time.Now()
		var calls []*call
		for range 4 { // the first is sent alone, the others wait for its outcome
			calls = append(calls, send(transport, newMessage(t)))
			synctest.Wait()
		}
		assert.Len(t, below.requests(), 1)
		for _, c := range calls[:2] {
			assert.True(t, c.wait().err == broken, "%v", c.err) //nolint:errorlint // the very same error
		}
		assertStatus(t, http.StatusOK, calls[2:]...)
		assertTook(t, 4*time.Second, time.Since(start))
		assert.EqualValues(t, 2, transport.Manager().Stats().Lost)
	})
}

func TestAPathThatIsNotDiscordsIsRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		path   string
		method string
		want   error
	}{
		"dots":              {"/api/v10/channels/1/../2", http.MethodPost, routes.ErrDotSegment},
		"control character": {"/api/v10/channels/1\x00/messages", http.MethodPost, routes.ErrControlCharacter},
		"too long":          {"/" + strings.Repeat("x", 1<<16), http.MethodPost, routes.ErrTooLong},
		"relative":          {"channels/1", http.MethodPost, routes.ErrNotAbsolute},
		"method":            {messages, "BR EW", routes.ErrMethod},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			below := newScript(answer(http.StatusOK, "{}"))
			transport := newTransport(t, below)
			var bodies ledger
			r := newMessage(t)
			r.Method, r.URL.Path, r.Body = c.method, c.path, bodies.open(strings.NewReader("{}"))

			_, err := transport.RoundTrip(r)
			require.ErrorIs(t, err, c.want)
			errorAs[*routes.PathError](t, err)
			bodies.assertClosed(t)
			assert.Empty(t, below.requests())
			assert.Zero(t, transport.Manager().Stats().Granted)
		})
	}
}

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
