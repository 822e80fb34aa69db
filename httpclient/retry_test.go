package httpclient_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/httpclient"
	"github.com/ratelight/ratelight/ratelimits"
)

const channel = "/api/v10/channels/1"

// getChannel returns a request that does no harm when it is carried out twice.
func getChannel(t *testing.T) *http.Request {
	t.Helper()
	return newRequest(t, http.MethodGet, channel, "")
}

func lostConnection() error {
	return &net.OpError{Op: "read", Net: "tcp", Err: errors.New("connection reset by peer")}
}
func noConnection() error {
	return &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("connection refused")}
}

func TestOnlyStatusesThatWillPassAreRepeated(t *testing.T) {
	t.Parallel()
	passing := map[int]bool{500: true, 502: true, 503: true, 504: true, 520: true, 521: true, 522: true, 523: true,
		524: true, 529: true}
	synctest.Test(t, func(t *testing.T) {
		for status := 200; status < 1000; status++ {
			if status == http.StatusTooManyRequests {
				continue
			}
			below := newScript(answer(status, ""), answer(http.StatusOK, ""))
			transport := httpclient.NewTransport(httpclient.WithBase(below))
			c := send(transport, getChannel(t))
			if passing[status] {
				assertStatus(t, http.StatusOK, c)
				assert.Len(t, below.requests(), 2, "status %d", status)
			} else {
				assertStatus(t, status, c)
				assert.Len(t, below.requests(), 1, "status %d", status)
				assert.Zero(t, c.took)
			}
			assertNothingHeld(t, transport)
			require.NoError(t, transport.Close())
		}
	})
}

func TestARequestIsRepeatedIfItsMethodAllowsIt(t *testing.T) {
	t.Parallel()
	failures := map[string]responder{
		"a server error":       answer(http.StatusBadGateway, "<html>"),
		"a lost connection":    fail(lostConnection()),
		"the end of a stream":  fail(io.EOF),
		"half an answer":       fail(io.ErrUnexpectedEOF),
		"an unknown error":     fail(errors.New("http2: stream closed")),
		"no connection at all": fail(noConnection()),
		"no proxy":             fail(&net.OpError{Op: "proxyconnect", Net: "tcp", Err: errors.New("connection refused")}),
		"a wrapped one":        fail(&url.Error{Op: "Get", URL: "http://proxy", Err: noConnection()}),
	}
	neverSent := map[string]bool{"no connection at all": true, "no proxy": true, "a wrapped one": true}
	for method, safe := range map[string]bool{
		"": true, http.MethodGet: true, http.MethodHead: true, http.MethodOptions: true, http.MethodPut: true,
		http.MethodDelete: true,
		http.MethodPost:   false, http.MethodPatch: false,
	} {
		for name, failure := range failures {
			inBubble(t, method+" after "+name, func(t *testing.T) {
				below := newScript(failure, answer(http.StatusOK, "done"))
				transport := newTransport(t, below)
				r := newRequest(t, method, channel, "")
				r.Method = method
				c := send(transport, r).wait()
				if safe || neverSent[name] {
					assertStatus(t, http.StatusOK, c)
					assert.Equal(t, "done", c.body)
					assert.Len(t, below.requests(), 2)
					assert.InDelta(t, 0.5, c.took.Seconds(), 0.126)
					return
				}
				assert.Len(t, below.requests(), 1)
				assert.Zero(t, c.took)
				if c.err != nil { // the error is not wrapped, because nothing was repeated
					assert.NotErrorAs(t, c.err, new(*httpclient.RetryError))
					_, want := failure(r)
					assert.ErrorContains(t, c.err, want.Error())
					return
				}
				assertStatus(t, http.StatusBadGateway, c)
				assert.Equal(t, "<html>", c.body)
			})
		}
	}
}

func TestARequestIsRepeatedSoManyTimes(t *testing.T) {
	type story struct {
		options []httpclient.Option
		sent    int
	}
	inBubbles(t, map[string]story{
		"by default":           {nil, 4},
		"never":                {[]httpclient.Option{httpclient.WithRetries(0)}, 1},
		"negative":             {[]httpclient.Option{httpclient.WithRetries(-7)}, 1},
		"once":                 {[]httpclient.Option{httpclient.WithRetries(1)}, 2},
		"more than by default": {[]httpclient.Option{httpclient.WithRetries(6)}, 7},
	}, func(t *testing.T, c story) {
		below := newScript(answer(http.StatusBadGateway, "gateway"))
		assertStatus(t, http.StatusBadGateway, send(newTransport(t, below, c.options...), getChannel(t)))
		assert.Len(t, below.requests(), c.sent)

		lost := lostConnection()
		below = newScript(fail(lost))
		err := send(newTransport(t, below, c.options...), getChannel(t)).wait().err
		require.ErrorIs(t, err, lost)
		assert.Len(t, below.requests(), c.sent)
		var vain *httpclient.RetryError
		if c.sent == 1 {
			assert.False(t, errors.As(err, &vain), "no RetryError, because nothing was repeated")
			return
		}
		require.ErrorAs(t, err, &vain)
		assert.Equal(t, c.sent, vain.Attempts)
	})
}

func TestTheLastResponseIsReturnedWhole(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var bodies ledger
		page := strings.Repeat("bad gateway ", 10_000)
		below := newScript(answerWith(http.StatusBadGateway,
			func() io.ReadCloser { return bodies.open(strings.NewReader(page)) },
			"Anything: else", "Retry-After: 1"))
		response := roundTrip(t, newTransport(t, below), getChannel(t))
		require.Len(t, below.requests(), 4)
		assert.Equal(t, http.StatusBadGateway, response.StatusCode)
		assert.Equal(t, http.Header{"Anything": {"else"}, "Retry-After": {"1"}}, response.Header)
		assert.EqualValues(t, 3, bodies.closed.Load(), "the earlier responses are closed")
		content, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		assert.Equal(t, page, string(content))
		require.NoError(t, response.Body.Close())
		bodies.assertClosed(t)
	})
}

func TestTheLastErrorSaysWhatWasTried(t *testing.T) {
	lost := lostConnection()
	once := func(r *http.Request) { unreplayable(r, strings.NewReader("hello"), -1) }
	type story struct {
		options  []httpclient.Option
		change   func(*http.Request)
		takes    time.Duration
		attempts int
		reason   error
		timeout  bool
	}
	inBubbles(t, map[string]story{
		"used up":       {attempts: 4, reason: httpclient.ErrRetriesUsedUp},
		"took too long": {takes: time.Minute, attempts: 4, reason: httpclient.ErrRetriesUsedUp, timeout: true},
		"out of time": {
			options:  []httpclient.Option{httpclient.WithBackoff(90*time.Second, 90*time.Second)},
			attempts: 2, reason: httpclient.ErrMaxRetryDuration,
		},
		"not repeatable": {
			options: []httpclient.Option{httpclient.WithMaxBufferedBody(0)}, change: once, attempts: 1,
			reason: httpclient.ErrNotRepeatable,
		},
	}, func(t *testing.T, c story) {
		below := newScript(fail(lost))
		below.takes = c.takes
		transport := newTransport(t, below, c.options...)
		r := newRequest(t, http.MethodPut, channel+"/pins/2", "hello")
		if c.change != nil {
			c.change(r)
		}
		err := send(transport, r).wait().err
		vain := errorAs[*httpclient.RetryError](t, err)
		assert.Equal(t, "PUT /channels/{channel_id}/pins/{message_id}", vain.Route)
		assert.Equal(t, c.attempts, vain.Attempts)
		assert.Len(t, below.requests(), c.attempts)
		assert.Equal(t, c.reason, vain.Reason)
		assert.Equal(t, c.timeout, vain.Timeout())
		assert.ErrorIs(t, err, c.reason)
		assert.ErrorIs(t, err, vain.Err)
		if c.timeout {
			assert.ErrorAs(t, err, new(*httpclient.AttemptTimeoutError))
		} else {
			assert.ErrorIs(t, err, lost)
		}
		for _, part := range []string{vain.Route, c.reason.Error(), vain.Err.Error()} {
			assert.ErrorContains(t, err, part)
		}

		_, err = (&http.Client{Transport: transport}).Do(getChannel(t))
		outer := errorAs[*url.Error](t, err)
		assert.Equal(t, c.timeout, outer.Timeout())
	})
}

// The server has closed, so nothing listens at its address.
func TestAConnectionThatIsRefusedIsTriedAgain(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, listener.Close())
	dials := 0
	below := &http.Transport{DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		dials++
		return new(net.Dialer).DialContext(ctx, network, address)
	}}
	transport := newTransport(t, below, append(anyHost, httpclient.WithBackoff(time.Microsecond, time.Microsecond))...)
	r := newMessage(t)
	r.URL.Scheme, r.URL.Host = "http", listener.Addr().String()
	_, err = transport.RoundTrip(r)
	vain := errorAs[*httpclient.RetryError](t, err)
	assert.Equal(t, 4, vain.Attempts)
	assert.Equal(t, 4, dials)
	assert.Zero(t, transport.Manager().Stats().Lost)
}

// A retry must not wait longer than the max rate limit, even if there is more time for retries.
func TestARetryWaitsNoLongerThanTheMaxRateLimit(t *testing.T) {
	bubble(t, func(t *testing.T) {
		full := answer(http.StatusOK, "",
			limitHeaders("X-RateLimit-Remaining: 1", "X-RateLimit-Limit: 2", "X-RateLimit-Reset-After: 60")...)
		below := newScript(full, answer(http.StatusBadGateway, ""), full)
		transport := newTransport(t, below, httpclient.WithMaxRateLimit(10*time.Second))
		assertStatus(t, http.StatusOK, send(transport, getChannel(t)))
		c := send(transport, getChannel(t)).wait() // this request takes the last permit; the next permit comes in a minute
		assert.ErrorAs(t, c.err, new(*ratelimits.TooLongError))
		assert.Less(t, c.took, 2*time.Second)
		assert.Len(t, below.requests(), 2)
	})
}

// A refusal is always repeated within the max rate limit, also when a failure came before.
func TestARefusalAfterAFailureIsRepeatedWheneverItSays(t *testing.T) {
	bubble(t, func(t *testing.T) {
		below := newScript(answer(http.StatusBadGateway, ""), refuse("user", "150"), answer(http.StatusOK, "done"))
		sent := send(newTransport(t, below), getChannel(t)) // two minutes for retries, five for limits
		assertStatus(t, http.StatusOK, sent)
		assert.Equal(t, "done", sent.body)
	})
}

// If a retry would wait too long for the caller, the error must say that, not that the time for retries is over.
func TestARetryThatWouldWaitTooLongForTheCallerIsNotOutOfTime(t *testing.T) {
	bubble(t, func(t *testing.T) {
		below := newScript(oneLeft(), answer(http.StatusBadGateway, ""), answer(http.StatusOK, ""))
		transport := newTransport(t, below)
		assertStatus(t, http.StatusOK, send(transport, getChannel(t)))
		ctx := within(t, 20*time.Second)
		err := send(transport, getChannel(t).WithContext(ctx)).wait().err
		require.ErrorIs(t, err, context.DeadlineExceeded)
		var vain *httpclient.RetryError
		if errors.As(err, &vain) {
			assert.NotEqual(t, httpclient.ErrMaxRetryDuration, vain.Reason)
		}
	})
}

// Discord remembers a nonce only for minutes. After that, a retry would create a second message.
func TestANonceIsNotReliedOnForLong(t *testing.T) {
	bubble(t, func(t *testing.T) {
		below := newScript(answer(http.StatusBadGateway, ""), refuse("shared", "150"), answer(http.StatusOK, "twice"))
		r := newRequest(t, http.MethodPost, messages, `{"content":"hello","nonce":"1","enforce_nonce":true}`)
		err := send(newTransport(t, below), r).wait().err
		require.ErrorIs(t, err, httpclient.ErrMaxRetryDuration)
		assert.Len(t, below.requests(), 2)
	})
}

// slow is a limiter that lets the second request wait for three minutes without predicting it.
type slow struct{ turnstile }

func (l *slow) AcquireRequest(ctx context.Context, r *buckets.Request) (buckets.Lease, error) {
	if len(l.asked) == 1 {
		time.Sleep(3 * time.Minute)
	}
	lease, err := l.turnstile.AcquireRequest(context.WithoutCancel(ctx), r)
	return lease, err
}

func TestALeaseThatComesAfterTheTimeForRetriesIsGivenBack(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var bodies ledger
		limiter := new(slow)
		below := newScript(answer(http.StatusBadGateway, ""))
		transport := newTransport(t, below, httpclient.WithLimiter(limiter))
		r := newRequest(t, http.MethodPut, channel, "")
		r.GetBody = func() (io.ReadCloser, error) { return bodies.open(strings.NewReader("{}")), nil }
		r.Body, _ = r.GetBody()
		require.ErrorIs(t, send(transport, r).wait().err, httpclient.ErrMaxRetryDuration)
		assert.Len(t, below.requests(), 1)
		require.Len(t, limiter.ended, 2)
		assert.False(t, limiter.ended[1].sent)
		bodies.assertClosed(t)
	})
}
