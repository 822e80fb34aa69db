package rest_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/httpclient"
	"github.com/ratelight/ratelight/httpclient/rest"
	"github.com/ratelight/ratelight/ratelimits"
)

// clientSlack is how much longer than required a wait may take, because windows are rounded up by a millisecond.
const clientSlack = 5 * time.Millisecond

func TestClientWaitsUntilDiscordIsReady(t *testing.T) {
	type story struct {
		body string
		want time.Duration
	}
	inBubbles(t, map[string]story{
		"search":                   {clientUnindexed, 2 * time.Second},
		"without a code":           {`{"retry_after":1.5}`, 1500 * time.Millisecond},
		"as a string":              {`{"retry_after":"1.5"}`, 1500 * time.Millisecond},
		"zero":                     {`{"retry_after":0}`, 5 * time.Second},
		"absent, with a code":      {`{"code":110000}`, 5 * time.Second},
		"null, with a code":        {`{"code":119999,"retry_after":null}`, 5 * time.Second},
		"negative, with a code":    {`{"code":110002,"retry_after":-3}`, 5 * time.Second},
		"too large, with a code":   {`{"code":110002,"retry_after":1e400}`, 5 * time.Second},
		"milliseconds":             {`{"code":110001,"retry_after":1500}`, 1500 * time.Millisecond},
		"milliseconds, absent":     {`{"code":110001}`, 5 * time.Second},
		"milliseconds of a string": {`{"code":"110001","retry_after":250}`, 250 * time.Millisecond},
	}, func(t *testing.T, c story) {
		for _, path := range []string{clientSearch, "/interactions/1/abc/callback"} { // the second path has no limit
			unready := reply(http.StatusAccepted, clientJSON, c.body)
			below := replies(unready, unready, reply(http.StatusOK, clientJSON, `{"total_results":7}`))
			var out struct {
				Total int `json:"total_results"`
			}
			start := time.Now()
			require.NoError(t, newClient(t, below).DoJSON(t.Context(), "PUT", path, map[string]int{"a": 1}, &out))
			assert.Equal(t, 7, out.Total)
			assert.InDelta(t, 2*(c.want+clientSlack/2), time.Since(start), float64(clientSlack))
			require.Len(t, below.sent(), 3)
			for _, r := range below.sent() {
				assert.Equal(t, `{"a":1}`, r.body)
			}
		}
	})
}

func TestClientTakesOther202sForWhatTheyAre(t *testing.T) {
	type story struct {
		contentType, body string
	}
	inBubbles(t, map[string]story{
		"empty":            {"", ""},
		"object":           {clientJSON, `{"id":"1"}`},
		"another code":     {clientJSON, `{"code":10008}`},
		"a code above":     {clientJSON, `{"code":120000}`},
		"nonsense":         {clientJSON, `{"retry_after":"soon"}`},
		"nonsense, object": {clientJSON, `{"retry_after":{}}`},
		"negative":         {clientJSON, `{"retry_after":-1}`},
		"infinite":         {clientJSON, `{"retry_after":"Inf"}`},
		"list":             {clientJSON, `[110000]`},
		"page":             {"text/html", `<html>retry_after`},
	}, func(t *testing.T, c story) {
		below := replies(reply(http.StatusAccepted, c.contentType, c.body, "Retry-After: 5"))
		response, err := newClient(t, below).Do(t.Context(), "GET", clientSearch, nil)
		require.NoError(t, err)
		assert.Equal(t, http.StatusAccepted, response.Status)
		assert.Len(t, below.sent(), 1)
	})
	below := replies(reply(http.StatusOK, clientJSON, clientUnindexed))
	_, err := newClient(t, below).Do(t.Context(), "GET", clientSearch, nil)
	require.NoError(t, err)
	assert.Len(t, below.sent(), 1, "a 200 is final")
}

// While a client waits until Discord is ready, other requests of the route must not wait. The limiter must not count
// the client's request as waiting or in flight.
func TestClientWaitsForReadinessOutsideTheLimiter(t *testing.T) {
	bubble(t, func(t *testing.T) {
		below := replies(reply(http.StatusAccepted, clientJSON, clientUnindexed), reply(http.StatusOK, clientJSON, "{}"))
		client := newClient(t, below)
		done := make(chan struct{})
		go func() {
			defer close(done)
			assert.NoError(t, client.DoJSON(t.Context(), "GET", clientSearch, nil, nil))
		}()
		synctest.Wait()
		stats := client.Transport().Manager().Stats()
		assert.Zero(t, stats.Waiting)
		assert.Zero(t, stats.InFlight)
		start := time.Now()
		require.NoError(t, client.DoJSON(t.Context(), "GET", clientSearch, nil, nil))
		assert.Zero(t, time.Since(start))
		<-done
		assert.GreaterOrEqual(t, time.Since(start), 2*time.Second)
	})
}

func TestClientGivesUpOnWhatNeverGetsReady(t *testing.T) {
	bubble(t, func(t *testing.T) {
		below := replies(reply(http.StatusAccepted, clientJSON, clientUnindexed))
		start := time.Now()
		err := newClient(t, below).DoJSON(t.Context(), "GET", clientSearch, nil, nil)
		failure := errorAs[*rest.APIError](t, err)
		assert.Equal(t, http.StatusAccepted, failure.Status)
		assert.Equal(t, 110000, failure.Code)
		assert.Equal(t, "Index not yet available. Try again later", failure.Message)
		assert.Len(t, below.sent(), 30)
		assert.InDelta(t, 58*time.Second, time.Since(start), float64(29*clientSlack))
	})
}

func TestClientDoesNotWaitForReadinessWithABodyThatIsGone(t *testing.T) {
	t.Parallel()
	below := replies(reply(http.StatusAccepted, clientJSON, clientUnindexed))
	body := rest.Multipart(nil, rest.File{Content: &stream{Reader: strings.NewReader("too large")}})
	_, err := newClient(t, below, rest.WithTransport(httpclient.WithBufferedBodies(1, 1))).
		Do(t.Context(), "POST", clientMessages, body)
	failure := errorAs[*rest.APIError](t, err)
	assert.Equal(t, http.StatusAccepted, failure.Status)
	assert.Len(t, below.sent(), 1)
}

func TestClientRefusesToWaitTooLongUntilDiscordIsReady(t *testing.T) {
	const second, minute, longest = time.Second, time.Minute, ratelimits.LongestTrust
	none := func(t *testing.T) context.Context { return t.Context() }
	deadline := func(d time.Duration) func(*testing.T) context.Context {
		return func(t *testing.T) context.Context {
			ctx, cancel := context.WithTimeout(t.Context(), d)
			t.Cleanup(cancel)
			return ctx
		}
	}
	maxWait := func(d time.Duration) func(*testing.T) context.Context {
		return func(t *testing.T) context.Context { return buckets.ContextWithMaxWait(t.Context(), d) }
	}
	type story struct {
		body     string
		max      time.Duration
		context  func(*testing.T) context.Context
		wait     time.Duration // the wait that the error names
		want     time.Duration // the maximum that the error names; 0: no error
		deadline bool
	}
	inBubbles(t, map[string]story{
		"max rate limit":                  {clientUnindexed, time.Second, none, 2 * time.Second, time.Second, false},
		"max rate limit, long enough":     {clientUnindexed, 3 * time.Second, none, 0, 0, false},
		"context's wait":                  {clientUnindexed, minute, maxWait(second), 2 * second, second, false},
		"context's wait, more than usual": {clientUnindexed, time.Second, maxWait(minute), 0, 0, false},
		"deadline":                        {clientUnindexed, minute, deadline(second), 2 * second, second, true},
		"deadline, late enough":           {clientUnindexed, minute, deadline(3 * time.Second), 0, 0, false},
		"more than a day":                 {`{"code":110002,"retry_after":1e300}`, minute, none, longest, minute, false},
	}, func(t *testing.T, c story) {
		below := replies(reply(http.StatusAccepted, clientJSON, c.body), reply(http.StatusOK, clientJSON, "{}"))
		client := newClient(t, below, rest.WithTransport(httpclient.WithMaxRateLimit(c.max)))
		start := time.Now()
		err := client.DoJSON(c.context(t), "GET", clientSearch, nil, nil)
		if c.want == 0 {
			require.NoError(t, err)
			return
		}
		tooLong := errorAs[*ratelimits.TooLongError](t, err)
		assert.Zero(t, time.Since(start), "it fails at once")
		assert.Equal(t, "GET /guilds/{guild_id}/messages/search", tooLong.Route)
		assert.Equal(t, ratelimits.ClassOK, tooLong.Class)
		assert.InDelta(t, c.wait, tooLong.Wait, float64(clientSlack))
		assert.Equal(t, c.want, tooLong.Max)
		assert.Equal(t, c.deadline, tooLong.Deadline)
		assert.Equal(t, c.deadline, errors.Is(err, context.DeadlineExceeded))
		assert.Len(t, below.sent(), 1)
	})
}

func TestClientStopsWaitingForReadinessWithTheContextAndTheClient(t *testing.T) {
	ends := map[string]error{"context": context.Canceled, "client": buckets.ErrClosed}
	inBubbles(t, ends, func(t *testing.T, want error) {
		manager := newManager(t)
		below := replies(reply(http.StatusAccepted, clientJSON, clientUnindexed))
		client := newClient(t, below, rest.WithTransport(httpclient.WithLimiter(manager)))
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		end := cancel
		if want == buckets.ErrClosed {
			end = func() { assert.NoError(t, client.Close()) }
		}
		time.AfterFunc(time.Second, end)
		start := time.Now()
		_, err := client.Do(ctx, "GET", clientSearch, nil)
		require.ErrorIs(t, err, want)
		assert.Equal(t, time.Second, time.Since(start))
		assert.True(t, manager.IsAlive())
		assert.Len(t, below.sent(), 1)
	})
}

// Discord may carry out a POST to which it has responded with 202, so the client must not send the POST again.
func TestClientDoesNotRepeatWhatMayBeCarriedOutTwice(t *testing.T) {
	methods := map[string]bool{"GET": true, "PUT": true, "DELETE": true, "POST": false, "PATCH": false}
	bubble(t, func(t *testing.T) {
		for method, repeated := range methods {
			below := replies(reply(http.StatusAccepted, clientJSON, clientUnindexed), reply(http.StatusOK, clientJSON, "{}"))
			_, err := newClient(t, below).Do(t.Context(), method, clientSearch, nil)
			if repeated {
				require.NoError(t, err)
				assert.Len(t, below.sent(), 2)
				continue
			}
			assert.Equal(t, http.StatusAccepted, errorAs[*rest.APIError](t, err).Status)
			assert.Len(t, below.sent(), 1)
		}
	})
}
