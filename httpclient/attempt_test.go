package httpclient_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/httpclient"
)

// parents are contexts of requests: one never ends, one can be cancelled, and one ends after the attempt.
var parents = map[string]func(t *testing.T) context.Context{
	"endless":         func(*testing.T) context.Context { return context.Background() },
	"cancellable":     func(t *testing.T) context.Context { return t.Context() },
	"with a deadline": func(t *testing.T) context.Context { return within(t, time.Hour) },
}

// forEachParent runs a test in virtual time, once for each context in parents.
func forEachParent(t *testing.T, test func(t *testing.T, parent context.Context)) {
	t.Helper()
	inBubbles(t, parents, func(t *testing.T, parent func(*testing.T) context.Context) { test(t, parent(t)) })
}

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

// silence waits until the request's context ends, and returns the error of the context.
func silence(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

func TestAnAttemptWithoutAnAnswerIsATimeout(t *testing.T) {
	type story struct {
		timeout time.Duration
		takes   time.Duration
		after   time.Duration // when the attempt times out; 0: it gets a response
	}
	inBubbles(t, map[string]story{
		"in time":             {time.Second, 999 * time.Millisecond, 0},
		"too late":            {time.Second, 1001 * time.Millisecond, time.Second},
		"by default in time":  {0, 14999 * time.Millisecond, 0},
		"by default too late": {0, 15001 * time.Millisecond, 15 * time.Second},
		"no bound":            {-time.Second, 24 * time.Hour, 0},
	}, func(t *testing.T, c story) {
		below := newScript(answer(http.StatusOK, "done"))
		below.takes = c.takes
		transport := newTransport(t, below, httpclient.WithAttempts(httpclient.Attempts{Timeout: c.timeout}))
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
	})
}

func TestPausesAreNoPartOfAnAttempt(t *testing.T) {
	bubble(t, func(t *testing.T) {
		below := newScript(refuse("user", "30"), answer(http.StatusServiceUnavailable, "", "Retry-After: 10"),
			answer(http.StatusOK, ""))
		below.takes = 900 * time.Millisecond
		transport := newTransport(t, below, httpclient.WithAttempts(httpclient.Attempts{Timeout: time.Second}))
		sent := send(transport, getChannel(t))
		assertStatus(t, http.StatusOK, sent)
		assertTook(t, 42700*time.Millisecond, sent.took)
	})
}

func TestABodyIsReadWithinTheTimeOfItsAttempt(t *testing.T) {
	type story struct {
		answer   responder
		deadline time.Duration
		want     string // the whole body; "": reading the body fails
	}
	inBubbles(t, map[string]story{
		"in time":                 {answerSlowly(http.StatusOK, "done", time.Second), time.Hour, "done"},
		"in time, of an error":    {answerSlowly(http.StatusBadRequest, "{}", time.Second), time.Hour, "{}"},
		"too late":                {answerSlowly(http.StatusOK, "", 3*time.Second), time.Hour, ""},
		"later than the deadline": {answerSlowly(http.StatusOK, "", 3*time.Second), time.Second, ""},
	}, func(t *testing.T, c story) {
		below := newScript(c.answer)
		transport := newTransport(t, below, httpclient.WithAttempts(httpclient.Attempts{Timeout: 2 * time.Second}))
		sent := send(transport, newMessage(t).WithContext(within(t, c.deadline))).wait()
		assert.LessOrEqual(t, sent.took, 2*time.Second)
		switch {
		case c.want != "":
			require.NoError(t, sent.err)
			assert.Equal(t, c.want, sent.body)
		case c.deadline == time.Second:
			assert.ErrorIs(t, sent.err, context.DeadlineExceeded)
			assert.NotErrorAs(t, sent.err, new(*httpclient.AttemptTimeoutError))
		default:
			assertAttemptTimeout(t, 2*time.Second, sent.err)
		}
	})
}

func TestTheCallersOwnEndIsNotAnAttemptTimeout(t *testing.T) {
	mine := errors.New("my own reason")
	inBubbles(t, map[string]error{
		"deadline": context.DeadlineExceeded, "cancelled": context.Canceled, "with a reason": mine,
	}, func(t *testing.T, want error) {
		below := newScript(answer(http.StatusOK, ""))
		below.takes = time.Minute
		ctx, end := context.WithCancelCause(t.Context())
		if want == context.DeadlineExceeded {
			ctx = within(t, time.Second)
		}
		time.AfterFunc(time.Second, func() { end(want) })
		transport := newTransport(t, below, httpclient.WithAttempts(httpclient.Attempts{Timeout: 2 * time.Second}))
		sent := send(transport, getChannel(t).WithContext(ctx)).wait()
		assert.ErrorIs(t, sent.err, want)
		assert.NotErrorAs(t, sent.err, new(*httpclient.AttemptTimeoutError))
		assert.Equal(t, time.Second, sent.took)
		assert.Len(t, below.requests(), 1)
	})
}

// The context of an attempt must say when it ends and that it has ended, even if the base transport only asks the
// context for its state, and does not return when the context ends.
func TestTheContextOfAnAttemptSaysWhenItEndsAndThatItHas(t *testing.T) {
	forEachParent(t, func(t *testing.T, parent context.Context) {
		type key struct{}
		start := time.Now()
		below := newScript(func(r *http.Request) (*http.Response, error) {
			ctx := r.Context()
			_, can := parent.Deadline()
			deadline, ok := ctx.Deadline()
			assert.Equal(t, can, ok, "the attempt's timeout can be extended, so it is no deadline")
			if can {
				assert.Equal(t, time.Hour, deadline.Sub(start))
			}
			assert.Equal(t, "value", ctx.Value(key{}))
			time.Sleep(2*time.Second - time.Nanosecond)
			assert.NoError(t, ctx.Err())
			time.Sleep(time.Nanosecond)
			synctest.Wait()
			assert.ErrorIs(t, ctx.Err(), context.Canceled)
			assert.ErrorAs(t, context.Cause(ctx), new(*httpclient.AttemptTimeoutError))
			return answer(http.StatusOK, "done")(r)
		})
		transport := newTransport(t, below, httpclient.WithAttempts(httpclient.Attempts{Timeout: 2 * time.Second}))
		r := newMessage(t).WithContext(context.WithValue(parent, key{}, "value"))
		assertStatus(t, http.StatusOK, send(transport, r))
	})
}

func TestAnAttemptUnderWayAtTheCloseStillEndsAtItsTime(t *testing.T) {
	bubble(t, func(t *testing.T) {
		transport := newTransport(t, responder(silence), noRetries)
		sent := send(transport, newMessage(t))
		synctest.Wait()
		require.NoError(t, transport.Close())
		assertAttemptTimeout(t, httpclient.DefaultAttemptTimeout, sent.wait().err)
	})
}

// When an attempt is over, its context must have ended, and neither the context nor its timer may stay in memory.
func TestNothingOfAnAttemptIsLeftWhenItIsOver(t *testing.T) {
	inBubbles(t, map[string]func(t *testing.T, body io.ReadCloser){
		"read to the end": func(t *testing.T, body io.ReadCloser) {
			_, err := io.ReadAll(body)
			assert.NoError(t, err)
		},
		"closed": func(t *testing.T, body io.ReadCloser) { assert.NoError(t, body.Close()) },
		"closed half-read": func(_ *testing.T, body io.ReadCloser) {
			_, _ = body.Read(make([]byte, 1))
			body.Close()
		},
		"closed repeatedly": func(_ *testing.T, body io.ReadCloser) { body.Close(); body.Close() },
	}, func(t *testing.T, end func(*testing.T, io.ReadCloser)) {
		for _, parent := range parents {
			below := newScript(answer(http.StatusOK, "done"))
			response := roundTrip(t, newTransport(t, below), getChannel(t).WithContext(parent(t)))
			attempt := below.requests()[0].request.Context()
			assert.NoError(t, attempt.Err(), "the context must not end before the body has been read")
			end(t, response.Body)
			assert.ErrorIs(t, attempt.Err(), context.Canceled)
		}
	})
}

func TestNothingIsLeftOfAttemptsThatAreRepeatedOrHaveNoBody(t *testing.T) {
	bubble(t, func(t *testing.T) {
		below := newScript(answer(http.StatusBadGateway, ""), fail(io.EOF), refuse("user", "1"),
			answerWith(http.StatusNoContent, func() io.ReadCloser { return http.NoBody }))
		response := roundTrip(t, newTransport(t, below), getChannel(t))
		assert.Equal(t, http.NoBody, response.Body)
		require.Len(t, below.requests(), 4)
		for i, s := range below.requests() {
			assert.ErrorIs(t, s.request.Context().Err(), context.Canceled, "attempt %d", i)
		}
	})
}

func TestWithoutAnAttemptTimeoutResponsesAndContextsAreTheCallers(t *testing.T) {
	bubble(t, func(t *testing.T) {
		body := io.NopCloser(strings.NewReader("done"))
		below := newScript(answerWith(http.StatusOK, func() io.ReadCloser { return body }))
		r := getChannel(t)
		response := roundTrip(t, newTransport(t, below, noTimeout), r)
		assert.Equal(t, body, response.Body)
		assert.Same(t, r, response.Request)
		assert.Equal(t, r.Context(), below.requests()[0].request.Context())
	})
}

// If a deadline causes an error, the method Timeout of that error itself must return true. url.Error calls Timeout of
// the error that the transport returns, but not of errors wrapped by that error.
func TestAnErrorForADeadlineIsATimeoutToAnHTTPClient(t *testing.T) {
	ok, used := answer(http.StatusOK, ""), usedUp(1, time.Minute)
	slowly := httpclient.WithAttempts(httpclient.Attempts{Timeout: time.Second})
	impatient := httpclient.WithMaxRateLimit(time.Second)
	inWait := answers(used, refuse("user", "60"))
	type story struct {
		answers  []responder
		options  []httpclient.Option
		deadline time.Duration // deadline of the context, 0: none
		timeout  time.Duration // Timeout of the client
		want     bool
	}
	inBubbles(t, map[string]story{
		"a deadline before its turn":          {answers: answers(used), deadline: 10 * time.Second, want: true},
		"the client's timeout":                {answers: answers(used), timeout: 10 * time.Second, want: true},
		"a deadline in a 429's wait":          {answers: inWait, deadline: 70 * time.Second, want: true},
		"a deadline in the attempt":           {answers: answers(ok, silence), deadline: time.Second, want: true},
		"the client's timeout in the attempt": {answers: answers(ok, silence), timeout: time.Second, want: true},
		"the attempt's timeout": {
			answers: answers(ok, silence), options: []httpclient.Option{slowly, noRetries}, want: true,
		},
		"the attempt's timeout, repeated": {answers: answers(ok, silence), options: []httpclient.Option{slowly}, want: true},
		"the max rate limit":              {answers: answers(used), options: []httpclient.Option{impatient}},
		"the max rate limit, before a deadline": {
			answers: answers(used), options: []httpclient.Option{impatient}, deadline: 10 * time.Second,
		},
		"a connection that was lost":      {answers: answers(ok, fail(lostConnection()))},
		"no connection":                   {answers: answers(ok, fail(noConnection()))},
		"a refusal of the edge":           {answers: answers(ok, answer(http.StatusTooManyRequests, "<html>"))},
		"a 429 beyond the max rate limit": {answers: answers(ok, refuse("user", "4000"))},
	}, func(t *testing.T, c story) {
		transport := newTransport(t, newScript(c.answers...), c.options...)
		assertStatus(t, http.StatusOK, send(transport, getChannel(t)))
		ctx := t.Context()
		if c.deadline > 0 {
			ctx = within(t, c.deadline)
		}
		client := &http.Client{Transport: transport, Timeout: c.timeout}
		_, err := client.Do(getChannel(t).WithContext(ctx))
		assert.Equal(t, c.want, errorAs[*url.Error](t, err).Timeout(), "%v", err)
	})
}
