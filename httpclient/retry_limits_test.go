package httpclient_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/httpclient"
)

// oneLeft is a response of a bucket of two requests per minute, where one is left.
func oneLeft() func(*http.Request) (*http.Response, error) {
	return answer(http.StatusOK, "",
		limitHeaders("X-RateLimit-Remaining: 1", "X-RateLimit-Limit: 2", "X-RateLimit-Reset-After: 60")...)
}

// Both failures take the bucket's last permit. Only a request that was never sent gives its permit back.
func TestOnlyARequestThatNeverLeftGivesItsPermitBack(t *testing.T) {
	type story struct {
		failure     responder
		least, most time.Duration
		lost        uint64
		method      string
	}
	inBubbles(t, map[string]story{
		"no connection":        {fail(noConnection()), 375 * time.Millisecond, time.Second, 0, http.MethodPatch},
		"no connection, a GET": {fail(noConnection()), 59 * time.Second, 61 * time.Second, 1, http.MethodGet},
		"lost":                 {fail(lostConnection()), 59 * time.Second, 61 * time.Second, 1, http.MethodGet},
		"server error":         {answer(http.StatusBadGateway, ""), 59 * time.Second, 61 * time.Second, 0, http.MethodGet},
	}, func(t *testing.T, c story) {
		below := newScript(oneLeft(), c.failure, answer(http.StatusOK, "done"))
		transport := newTransport(t, below)
		first := getChannel(t)
		first.Method = c.method
		assertStatus(t, http.StatusOK, send(transport, first))
		// Not with GET: net/http may have sent a GET before the error that it reports.
		again := getChannel(t)
		again.Method = c.method
		sent := send(transport, again.WithContext(httpclient.ContextWithUnsafeRetries(t.Context())))
		assertStatus(t, http.StatusOK, sent)
		assert.GreaterOrEqual(t, sent.took, c.least)
		assert.LessOrEqual(t, sent.took, c.most)
		assert.Equal(t, c.lost, transport.Manager().Stats().Lost)
	})
}

// The bucket allows one request in ten seconds. The second request fails or is refused. Like the others it waits for
// the next window, but is sent before the requests that came after it.
func TestARequestThatFailedKeepsItsPlaceInTheQueue(t *testing.T) {
	full := answer(http.StatusOK, "",
		limitHeaders("X-RateLimit-Remaining: 0", "X-RateLimit-Limit: 1", "X-RateLimit-Reset-After: 10")...)
	inBubbles(t, map[string]responder{
		"server error": answer(http.StatusBadGateway, ""), "lost": fail(lostConnection()), "refused": refuse("user", "10"),
	}, func(t *testing.T, failure responder) {
		below := newScript(full, failure, full)
		below.takes = 10 * time.Millisecond
		transport := newTransport(t, below)
		var calls []*call
		for i := range 6 {
			calls = append(calls, send(transport, newRequest(t, http.MethodPut, channel, strconv.Itoa(i+1))))
			synctest.Wait()
		}
		assertStatus(t, http.StatusOK, calls...)
		order := ""
		for _, s := range below.requests() {
			order += s.body
		}
		assert.Equal(t, "1223456", order)
	})
}

func TestRefusalsAreNotCountedAsRetries(t *testing.T) {
	bubble(t, func(t *testing.T) {
		no, bad := refuse("user", "1"), answer(http.StatusBadGateway, "")
		below := newScript(no, no, no, bad, no, no, fail(errors.New("lost")), no, no, answer(http.StatusOK, "done"))
		transport := newTransport(t, below, httpclient.WithRetries(2))
		sent := send(transport, getChannel(t))
		assertStatus(t, http.StatusOK, sent)
		assert.Equal(t, "done", sent.body)
		assert.Len(t, below.requests(), 10)
	})
}

func TestNothingIsHeldDuringAPause(t *testing.T) {
	bubble(t, func(t *testing.T) {
		failed := newRequest(t, http.MethodPut, channel, "failed")
		below := responder(func(r *http.Request) (*http.Response, error) {
			if r.Method == http.MethodPut {
				return answer(http.StatusBadGateway, "")(r)
			}
			return answer(http.StatusOK, "")(r)
		})
		transport := newTransport(t, below, httpclient.WithBackoff(10*time.Second, 10*time.Second))
		paused := send(transport, failed)
		synctest.Wait()
		assertNothingHeld(t, transport)
		other := send(transport, getChannel(t))
		assertStatus(t, http.StatusOK, other)
		assert.Zero(t, other.took)
		assertStatus(t, http.StatusBadGateway, paused)
	})
}

func TestAGetBodyThatFailsLaterEndsTheRequest(t *testing.T) {
	bubble(t, func(t *testing.T) {
		below := newScript(answer(http.StatusBadGateway, ""), answer(http.StatusOK, ""))
		gone := errors.New("the file was removed")
		r := newRequest(t, http.MethodPut, channel, "hello")
		r.GetBody = func() (io.ReadCloser, error) { return nil, gone }
		transport := newTransport(t, below)
		assert.ErrorIs(t, send(transport, r).wait().err, gone)
		assert.Len(t, below.requests(), 1)
		assertStatus(t, http.StatusOK, send(transport, getChannel(t)))
	})
}

func TestADeadlineWhileConnectingIsTheCallers(t *testing.T) {
	bubble(t, func(t *testing.T) {
		ctx := within(t, time.Second)
		below := responder(func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, &net.OpError{Op: "dial", Err: r.Context().Err()}
		})
		transport := newTransport(t, below)
		c := send(transport, newMessage(t).WithContext(ctx)).wait()
		assert.ErrorIs(t, c.err, context.DeadlineExceeded)
		assert.False(t, errors.As(c.err, new(*httpclient.RetryError)))
		assert.Zero(t, transport.Manager().Stats().Lost)
	})
}

// RoundTrip promises a *RetryError "if the request was repeated".
func TestAnErrorAfterARepetitionSaysSo(t *testing.T) {
	bubble(t, func(t *testing.T) {
		lost := lostConnection()
		below := newScript(fail(noConnection()), fail(lost))
		err := send(newTransport(t, below), newMessage(t)).wait().err
		require.ErrorIs(t, err, lost)
		vain := errorAs[*httpclient.RetryError](t, err)
		assert.Equal(t, 2, vain.Attempts)
	})
}

// A failed attempt is repeated, so nothing needs the body of its response. The transport must not wait for it.
func TestAFailureWhoseBodyNeverComesIsRepeatedAllTheSame(t *testing.T) {
	inBubbles(t, map[string][]httpclient.Option{
		"by default": nil, "without a bound for attempts": {httpclient.WithAttemptTimeout(0)},
	}, func(t *testing.T, options []httpclient.Option) {
		ctx := within(t, time.Minute)
		below := newScript(answerSlowly(http.StatusBadGateway, "", time.Hour), answer(http.StatusOK, "done"))
		sent := send(newTransport(t, below, options...), getChannel(t).WithContext(ctx)).wait()
		assertStatus(t, http.StatusOK, sent)
		assert.LessOrEqual(t, sent.took, 16*time.Second)
	})
}
