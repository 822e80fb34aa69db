package httpclient_test

import (
	"context"
	"errors"
	"io"
	"math"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/httpclient"
)

func assertAttemptTimeout(t *testing.T, after time.Duration, err error) {
	t.Helper()
	timeout := errorAs[*httpclient.AttemptTimeoutError](t, err)
	assert.Equal(t, "POST /channels/{channel_id}/messages", timeout.Route)
	assert.Equal(t, after, timeout.After)
	assert.True(t, timeout.Timeout())
	assert.NotErrorIs(t, err, context.DeadlineExceeded)
	assert.ErrorContains(t, err, after.String())
	assert.ErrorContains(t, err, timeout.Route)
}

func TestAnAttemptWithoutAnAnswerIsATimeout(t *testing.T) {
	type story struct {
		options []httpclient.Option
		takes   time.Duration
		after   time.Duration // 0: the request is answered
	}
	inBubbles(t, map[string]story{
		"in time":             {[]httpclient.Option{httpclient.WithAttemptTimeout(time.Second)}, 999 * time.Millisecond, 0},
		"too late":            {[]httpclient.Option{httpclient.WithAttemptTimeout(time.Second)}, 1001 * time.Millisecond, time.Second},
		"by default in time":  {nil, 14999 * time.Millisecond, 0},
		"by default too late": {nil, 15001 * time.Millisecond, 15 * time.Second},
		"no bound":            {[]httpclient.Option{httpclient.WithAttemptTimeout(0)}, 24 * time.Hour, 0},
		"negative, no bound":  {[]httpclient.Option{httpclient.WithAttemptTimeout(-time.Second)}, 24 * time.Hour, 0},
	}, func(t *testing.T, c story) {
		below := newScript(answer(http.StatusOK, "done"))
		below.takes = c.takes
		transport := newTransport(t, below, c.options...)
		sent := send(transport, newMessage(t)).wait()
		if c.after == 0 {
			assertStatus(t, http.StatusOK, sent)
			assert.Equal(t, "done", sent.body)
			assert.Equal(t, c.takes, sent.took)
			return
		}
		assertAttemptTimeout(t, c.after, sent.err)
		assert.Equal(t, c.after, sent.took)
		assert.EqualValues(t, 1, transport.Manager().Stats().Lost, "the server may have processed the request")

		_, err := (&http.Client{Transport: transport}).Do(newMessage(t))
		outer := errorAs[*url.Error](t, err)
		assert.True(t, outer.Timeout())
		assertAttemptTimeout(t, c.after, err)
	})
}

func TestPausesAreNoPartOfAnAttempt(t *testing.T) {
	bubble(t, func(t *testing.T) {
		below := newScript(refuse("user", "30"), answer(http.StatusServiceUnavailable, "", "Retry-After: 10"),
			answer(http.StatusOK, ""))
		below.takes = 900 * time.Millisecond
		sent := send(newTransport(t, below, httpclient.WithAttemptTimeout(time.Second)), getChannel(t))
		assertStatus(t, http.StatusOK, sent)
		assertTook(t, 42700*time.Millisecond, sent.took)
	})
}

func TestABodyIsReadWithinTheTimeOfItsAttempt(t *testing.T) {
	read := func(t *testing.T, below http.RoundTripper, r *http.Request, want string) error {
		response := roundTrip(t, newTransport(t, below, httpclient.WithAttemptTimeout(2*time.Second)), r)
		start := time.Now()
		content, err := io.ReadAll(response.Body)
		if err == nil {
			assert.Equal(t, want, string(content))
		} else {
			assert.LessOrEqual(t, time.Since(start), 2*time.Second)
		}
		require.NoError(t, response.Body.Close())
		return err
	}
	bubble(t, func(t *testing.T) {
		assert.NoError(t, read(t, newScript(answerSlowly(http.StatusOK, "done", time.Second)), newMessage(t), "done"))
		assertAttemptTimeout(t, 2*time.Second,
			read(t, newScript(answerSlowly(http.StatusOK, "", 3*time.Second)), newMessage(t), ""))
		assert.NoError(t, read(t, newScript(answerSlowly(http.StatusBadRequest, "{}", time.Second)), newMessage(t), "{}"))
		ctx := within(t, time.Second)
		err := read(t, newScript(answerSlowly(http.StatusOK, "", 3*time.Second)), newMessage(t).WithContext(ctx), "")
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		assert.NotErrorAs(t, err, new(*httpclient.AttemptTimeoutError))
	})
}

func TestTheCallersOwnEndIsNotAnAttemptTimeout(t *testing.T) {
	mine := errors.New("my own reason")
	type story struct {
		end  func(ctx context.Context) (context.Context, context.CancelFunc)
		want error
	}
	inBubbles(t, map[string]story{
		"deadline": {func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, time.Second)
		}, context.DeadlineExceeded},
		"cancelled": {func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(ctx)
			time.AfterFunc(time.Second, cancel)
			return ctx, cancel
		}, context.Canceled},
		"with a reason": {func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeoutCause(ctx, time.Second, mine)
		}, mine},
	}, func(t *testing.T, c story) {
		below := newScript(answer(http.StatusOK, ""))
		below.takes = time.Minute
		ctx, cancel := c.end(t.Context())
		defer cancel()
		sent := send(newTransport(t, below, httpclient.WithAttemptTimeout(2*time.Second)),
			getChannel(t).WithContext(ctx)).wait()
		assert.ErrorIs(t, sent.err, c.want)
		assert.NotErrorAs(t, sent.err, new(*httpclient.AttemptTimeoutError))
		assert.Equal(t, time.Second, sent.took)
		assert.Len(t, below.requests(), 1)
	})
}

// When an attempt is over, neither its context nor its timer may be kept in memory.
func TestNothingOfAnAttemptIsLeftWhenItIsOver(t *testing.T) {
	t.Parallel()
	finish := map[string]func(t *testing.T, response *http.Response){
		"read to the end": func(t *testing.T, response *http.Response) {
			_, err := io.ReadAll(response.Body)
			assert.NoError(t, err)
		},
		"closed": func(t *testing.T, response *http.Response) { assert.NoError(t, response.Body.Close()) },
		"closed half-read": func(t *testing.T, response *http.Response) {
			_, _ = response.Body.Read(make([]byte, 1))
			response.Body.Close()
		},
		"closed repeatedly": func(_ *testing.T, response *http.Response) { response.Body.Close(); response.Body.Close() },
	}
	for name, end := range finish {
		inBubble(t, name, func(t *testing.T) {
			below := newScript(answer(http.StatusOK, "done"))
			response := roundTrip(t, newTransport(t, below), getChannel(t))
			attempt := below.requests()[0].request.Context()
			assert.NoError(t, attempt.Err(), "the body is still to be read")
			end(t, response)
			assert.ErrorIs(t, attempt.Err(), context.Canceled)
		})
	}
	inBubble(t, "repeated or refused", func(t *testing.T) {
		below := newScript(answer(http.StatusBadGateway, ""), fail(io.EOF), refuse("user", "1"), answer(http.StatusOK, ""))
		assertStatus(t, http.StatusOK, send(newTransport(t, below), getChannel(t)))
		require.Len(t, below.requests(), 4)
		for i, s := range below.requests() {
			assert.ErrorIs(t, s.request.Context().Err(), context.Canceled, "attempt %d", i)
		}
	})
}

func TestAResponseWithoutABodyKeepsNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		below := newScript(answerWith(http.StatusNoContent, func() io.ReadCloser { return http.NoBody }))
		response := roundTrip(t, newTransport(t, below), getChannel(t))
		assert.Equal(t, http.NoBody, response.Body)
		assert.Error(t, below.requests()[0].request.Context().Err())
	})
}

func TestWithoutAnAttemptTimeoutResponsesAndContextsAreTheCallers(t *testing.T) {
	bubble(t, func(t *testing.T) {
		body := io.NopCloser(strings.NewReader("done"))
		below := newScript(answerWith(http.StatusOK, func() io.ReadCloser { return body }))
		r := getChannel(t)
		response := roundTrip(t, newTransport(t, below, httpclient.WithAttemptTimeout(0)), r)
		assert.Equal(t, body, response.Body)
		assert.Same(t, r, response.Request)
		assert.Equal(t, r.Context(), below.requests()[0].request.Context())
	})
}

func TestARequestsOwnTimeForAnAttemptCounts(t *testing.T) {
	bubble(t, func(t *testing.T) {
		below := newScript(answer(http.StatusOK, "done"))
		below.takes = 30 * time.Second
		transport := newTransport(t, below, httpclient.WithRetries(0))
		r := getChannel(t)
		assert.Error(t, send(transport, r).wait().err)
		patient := httpclient.ContextWithoutRetries(httpclient.ContextWithAttemptTimeout(t.Context(), time.Minute))
		assertStatus(t, http.StatusOK, send(transport, getChannel(t).WithContext(patient)))
		for _, unbounded := range []time.Duration{-1, math.MaxInt64} {
			ctx := httpclient.ContextWithAttemptTimeout(t.Context(), unbounded)
			assertStatus(t, http.StatusOK, send(transport, getChannel(t).WithContext(ctx)))
		}
	})
}
