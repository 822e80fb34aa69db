package httpclient_test

import (
	"context"
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/ratelight/ratelight/httpclient"
)

// url.Error calls Timeout of the error that the transport returns, not of an error that this one wraps.
func TestAnErrorForADeadlineIsATimeoutToAnHTTPClient(t *testing.T) {
	used := answer(http.StatusOK, "",
		limitHeaders("X-RateLimit-Limit: 1", "X-RateLimit-Remaining: 0", "X-RateLimit-Reset-After: 60")...)
	slowly := httpclient.WithAttemptTimeout(time.Second)
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
		"a deadline in a 429's wait":          {answers: answers(used, refuse("user", "60")), deadline: 70 * time.Second, want: true},
		"a deadline in the attempt":           {answers: answers(answer(http.StatusOK, ""), silence), deadline: time.Second, want: true},
		"the client's timeout in the attempt": {answers: answers(answer(http.StatusOK, ""), silence), timeout: time.Second, want: true},
		"the attempt's timeout": {
			answers: answers(answer(http.StatusOK, ""), silence),
			options: []httpclient.Option{slowly, httpclient.WithRetries(0)}, want: true,
		},
		"the attempt's timeout, repeated": {
			answers: answers(answer(http.StatusOK, ""), silence), options: []httpclient.Option{slowly}, want: true,
		},
		"the max rate limit": {answers: answers(used), options: []httpclient.Option{httpclient.WithMaxRateLimit(time.Second)}},
		"the max rate limit, before a deadline": {
			answers: answers(used), options: []httpclient.Option{httpclient.WithMaxRateLimit(time.Second)},
			deadline: 10 * time.Second,
		},
		"a connection that was lost":      {answers: answers(answer(http.StatusOK, ""), fail(lostConnection()))},
		"no connection":                   {answers: answers(answer(http.StatusOK, ""), fail(noConnection()))},
		"a refusal of the edge":           {answers: answers(answer(http.StatusOK, ""), answer(http.StatusTooManyRequests, "<html>"))},
		"a 429 beyond the max rate limit": {answers: answers(answer(http.StatusOK, ""), refuse("user", "4000"))},
	}, func(t *testing.T, c story) {
		transport := newTransport(t, newScript(c.answers...), c.options...)
		assertStatus(t, http.StatusOK, send(transport, getChannel(t)))
		ctx := t.Context()
		if c.deadline > 0 {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, c.deadline)
			defer cancel()
		}
		client := &http.Client{Transport: transport, Timeout: c.timeout}
		_, err := client.Do(getChannel(t).WithContext(ctx))
		outer := errorAs[*url.Error](t, err)
		assert.Equal(t, c.want, outer.Timeout(), "%v", err)
	})
}
