package httpclient_test

import (
	"context"
	"errors"
	"io"
	"net/http"
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

// The time that is left for retries is no reason to wait longer than is allowed.
func TestARetryWaitsNoLongerThanTheMaxRateLimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		full := answer(http.StatusOK, "", limitHeaders("X-RateLimit-Remaining: 1", "X-RateLimit-Limit: 2", "X-RateLimit-Reset-After: 60")...)
		below := newScript(full, answer(http.StatusBadGateway, ""), full)
		transport := newTransport(t, below, httpclient.WithMaxRateLimit(10*time.Second))
		assertStatus(t, http.StatusOK, send(transport, getChannel(t)))
		c := send(transport, getChannel(t)).wait() // it takes the last permit; the next one comes in a minute
		assert.ErrorAs(t, c.err, new(*ratelimits.TooLongError))
		assert.Less(t, c.took, 2*time.Second)
		assert.Len(t, below.requests(), 2)
	})
}

// Refusals are always repeated within the max rate limit; a failure before one changes nothing about that.
func TestARefusalAfterAFailureIsRepeatedWheneverItSays(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		below := newScript(answer(http.StatusBadGateway, ""), refuse("user", "150"), answer(http.StatusOK, "done"))
		sent := send(newTransport(t, below), getChannel(t)) // two minutes for retries, five for limits
		assertStatus(t, http.StatusOK, sent)
		assert.Equal(t, "done", sent.body)
	})
}

// A caller who does not want to wait is told so, and not that the time for retries is over.
func TestARetryThatWouldWaitTooLongForTheCallerIsNotOutOfTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		below := newScript(oneLeft(), answer(http.StatusBadGateway, ""), answer(http.StatusOK, ""))
		transport := newTransport(t, below)
		assertStatus(t, http.StatusOK, send(transport, getChannel(t)))
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		err := send(transport, getChannel(t).WithContext(ctx)).wait().err
		require.ErrorIs(t, err, context.DeadlineExceeded)
		var vain *httpclient.RetryError
		if errors.As(err, &vain) {
			assert.NotEqual(t, httpclient.ErrMaxRetryDuration, vain.Reason)
		}
	})
}

// Discord remembers a nonce for minutes only: after that the same message would be a second one.
func TestANonceIsNotReliedOnForLong(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		below := newScript(answer(http.StatusBadGateway, ""), refuse("shared", "150"), answer(http.StatusOK, "twice"))
		r := newRequest(t, http.MethodPost, messages, `{"content":"hello","nonce":"1","enforce_nonce":true}`)
		err := send(newTransport(t, below), r).wait().err
		require.ErrorIs(t, err, httpclient.ErrMaxRetryDuration)
		assert.Len(t, below.requests(), 2)
	})
}

// slow is a limiter that cannot tell how long its second lease will take.
type slow struct{ turnstile }

func (l *slow) AcquireRequest(ctx context.Context, r *buckets.Request) (buckets.Lease, error) {
	if len(l.asked) == 1 {
		time.Sleep(time.Minute)
	}
	lease, err := l.turnstile.AcquireRequest(context.WithoutCancel(ctx), r)
	return lease, err
}

func TestALeaseThatComesAfterTheTimeForRetriesIsGivenBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var bodies ledger
		limiter := new(slow)
		below := newScript(answer(http.StatusBadGateway, ""))
		transport := httpclient.NewTransport(httpclient.WithBase(below), httpclient.WithLimiter(limiter), httpclient.WithMaxRetryDuration(30*time.Second))
		defer transport.Close()
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
