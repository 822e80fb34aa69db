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
			}), noRetries)

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

func TestErrorsOfTheTransportBelowArePassedOnAndTheNextRequestGoes(t *testing.T) {
	bubble(t, func(t *testing.T) {
		broken := errors.New("http2: stream closed")
		below := newScript(fail(broken), fail(broken), answer(http.StatusOK, "{}"))
		below.takes = time.Second
		transport := newTransport(t, below)
		start := time.Now()
		var calls []*call
		for range 4 { // the first one is sent alone, and the others wait for its outcome
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

// A failed assertion in the base transport ends the goroutine in which it runs (runtime.Goexit). In that case the
// goroutine that called RoundTrip must also end, even if another goroutine called the base transport.
func TestATransportBelowThatEndsItsGoroutineEndsTheCallers(t *testing.T) {
	t.Parallel()
	transport := newTransport(t,
		responder(func(*http.Request) (*http.Response, error) { runtime.Goexit(); return nil, nil }))
	// For the second of these requests, another goroutine calls the base transport.
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

// This test uses real sockets, so it asserts nothing about how long the requests take.
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

func TestTheRequestIsNotModifiedAndSentAsItIs(t *testing.T) {
	ok, refusal := answer(http.StatusOK, "{}"), refuse("user", "1.5")
	type story struct {
		answers []responder
		change  func(*http.Request)
		sent    int
	}
	same := func(*http.Request) {}
	unknown := func(r *http.Request) { r.GetBody, r.ContentLength = nil, -1 }
	none := func(r *http.Request) { r.Body, r.GetBody, r.ContentLength = nil, nil, 0 }
	noBody := func(r *http.Request) { r.Body, r.GetBody, r.ContentLength = http.NoBody, nil, 0 }
	inBubbles(t, map[string]story{
		"success":                   {answers(ok), same, 1},
		"refused and repeated":      {answers(refusal, refusal, ok), same, 3},
		"body kept in memory":       {answers(refusal, ok), func(r *http.Request) { r.GetBody = nil }, 2},
		"of unknown length":         {answers(refusal, ok), unknown, 2},
		"without a body":            {answers(refusal, ok), none, 2},
		"http.NoBody":               {answers(refusal, ok), noBody, 2},
		"no method":                 {answers(ok), func(r *http.Request) { r.Method = "" }, 1},
		"no path":                   {answers(ok), func(r *http.Request) { r.URL.Path, r.URL.RawPath = "", "" }, 1},
		"the transport below fails": {answers(fail(errors.New("no network"))), same, 1},
		"too long a wait":           {answers(refuse("user", "4000")), same, 1},
		"an invalid path":           {answers(ok), func(r *http.Request) { r.URL.Path = "/channels/../1" }, 0},
	}, func(t *testing.T, c story) {
		type key struct{}
		below := newScript(c.answers...)
		transport := newTransport(t, below)
		r := newRequest(t, http.MethodPost, messages+"/2/reactions/%F0%9F%94%A5/@me?wait=true", `{"content":"hello"}`)
		r = r.WithContext(context.WithValue(t.Context(), key{}, "value"))
		r.Trailer, r.TransferEncoding = http.Header{"X-Trailer": nil}, []string{"identity"}
		r.Host, r.Close = "discord.com", true
		c.change(r)
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

		require.Len(t, below.requests(), c.sent)
		for _, a := range below.requests() {
			assert.Equal(t, r.Method, a.request.Method, "the method must reach the base transport unchanged")
			assert.Equal(t, url.String(), a.request.URL.String())
			assert.Equal(t, header, a.request.Header)
			assert.Equal(t, r.Host, a.request.Host)
			assert.Equal(t, "value", a.request.Context().Value(key{}))
			if body == nil || body == http.NoBody {
				assert.Equal(t, body, a.request.Body)
			} else {
				assert.Equal(t, `{"content":"hello"}`, a.body)
			}
			if r.ContentLength >= 0 && getBody != nil {
				assert.Equal(t, r.ContentLength, a.request.ContentLength)
			}
		}
	})
}

func TestNoMethodMeansGet(t *testing.T) {
	t.Parallel()
	heard := &listener{}
	transport := newTransport(t, newScript(answer(http.StatusOK, "{}")), httpclient.WithLimiter(heard))
	r := newRequest(t, "", "/api/v10/gateway/bot", "")
	r.Method = ""
	assertStatus(t, http.StatusOK, send(transport, r))
	assert.Equal(t, routes.GetBotGateway, heard.routes[0].Route())
}

func TestAPathThatIsNotDiscordsIsRefused(t *testing.T) {
	type story struct {
		path, method string
		want         error
	}
	inBubbles(t, map[string]story{
		"dots":              {"/api/v10/channels/1/../2", http.MethodPost, routes.ErrDotSegment},
		"control character": {"/api/v10/channels/1\x00/messages", http.MethodPost, routes.ErrControlCharacter},
		"too long":          {"/" + strings.Repeat("x", 1<<16), http.MethodPost, routes.ErrTooLong},
		"relative":          {"channels/1", http.MethodPost, routes.ErrNotAbsolute},
		"method":            {messages, "BR EW", routes.ErrMethod},
	}, func(t *testing.T, c story) {
		below := newScript(answer(http.StatusOK, "{}"))
		transport := newTransport(t, below)
		r := newMessage(t)
		r.Method, r.URL.Path = c.method, c.path
		bodies := track(r)
		_, err := transport.RoundTrip(r)
		require.ErrorIs(t, err, c.want)
		errorAs[*routes.PathError](t, err)
		bodies.assertClosed(t)
		assert.Empty(t, below.requests())
		assert.Zero(t, transport.Manager().Stats().Granted)
	})
}

// If the base transport returns neither a response nor an error, the transport must return an error, as http.Client
// does. If the base transport returns both, the transport has to close the response's body, because http.Client ignores
// such a response.
func TestATransportBelowThatReturnsNothingOrTooMuchIsAnError(t *testing.T) {
	inBubbles(t, map[string]string{"of the API": "discord.com", "of a media host": "cdn.discordapp.com"},
		func(t *testing.T, host string) {
			var bodies ledger
			both := answerWith(http.StatusOK, func() io.ReadCloser { return bodies.open(endless{}) })
			for name, below := range map[string]responder{
				"a response and an error": func(r *http.Request) (*http.Response, error) {
					response, _ := both(r)
					return response, io.ErrUnexpectedEOF
				},
				"an empty response and an error": func(*http.Request) (*http.Response, error) {
					return new(http.Response), io.ErrUnexpectedEOF
				},
				"nothing": func(*http.Request) (*http.Response, error) { return nil, nil },
			} {
				if name == "nothing" && host != "discord.com" {
					continue // requests to media hosts are passed on unchanged
				}
				r := getChannel(t)
				r.URL.Host = host
				transport := newTransport(t, below, httpclient.WithAttempts(httpclient.Attempts{Retries: 1}))
				assert.NotPanics(t, func() {
					response, err := transport.RoundTrip(r)
					assert.Nil(t, response, name)
					require.Error(t, err, name)
					assert.Equal(t, name != "nothing", errors.Is(err, io.ErrUnexpectedEOF), name)
				})
			}
			bodies.assertClosed(t)
		})
}

// If a connection is lost, the server may have processed the request. Therefore the transport must return the error and
// must not repeat the request. The lost request must count against its limits, because the server may have counted it.
// Later requests must be sent as usual.
func TestALostConnectionIsAnErrorAndNothingElseStops(t *testing.T) {
	before, after := discordsim.ConnectionLostBefore, discordsim.ConnectionLostAfter
	inBubbles(t, map[string]discordsim.Fault{
		"the first request of all, before it was counted":  {Connection: before, Nth: []int{1}},
		"the first request of all, after it was counted":   {Connection: after, Nth: []int{1}},
		"before it was counted":                            {Connection: before, Nth: []int{3}},
		"after it was counted":                             {Connection: after, Nth: []int{3}},
		"twice in a row, and then the one after the reset": {Connection: after, Nth: []int{3, 4, 6}},
	}, func(t *testing.T, fault discordsim.Fault) {
		server := newDiscord(t, everything(discordsim.Fixed(5, time.Second), fault))
		// HTTP over in-memory connections, so that a connection really breaks.
		below := &http.Transport{DialContext: server.DialContext}
		transport := newTransport(t, below)
		t.Cleanup(below.CloseIdleConnections)
		lost := 0
		for range 12 {
			if c := send(transport, newMessage(t)).wait(); c.err != nil {
				lost++
			} else {
				assertStatus(t, http.StatusOK, c)
			}
		}
		assert.Equal(t, len(fault.Nth), lost)
		assert.EqualValues(t, lost, transport.Manager().Stats().Lost)
		assert.Zero(t, server.Report().Refused.Total())
		assertNothingHeld(t, transport)
	})
}
