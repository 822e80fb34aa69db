package httpclient_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/ratelight/ratelight/httpclient"
	"github.com/ratelight/ratelight/internal/discordsim"
	"github.com/ratelight/ratelight/ratelimits"
)

const (
	webhook  = "/api/v10/webhooks/1/" + webhookSecret
	followUp = "/api/v10/webhooks/1/" + replySecret
)

// as returns the request with this Authorization, or without one if it is empty.
func as(r *http.Request, authorization string) *http.Request {
	r.Header.Del("Authorization")
	if authorization != "" {
		r.Header.Set("Authorization", authorization)
	}
	return r
}

// byCredential answers with the status and the body to requests for which bad is true, and with 200 to all others.
func byCredential(status int, body string, bad func(r *http.Request) bool) *script {
	return newScript(func(r *http.Request) (*http.Response, error) {
		if bad(r) {
			return answer(status, body)(r)
		}
		return answer(http.StatusOK, "{}")(r)
	})
}

func withPath(parts ...string) func(*http.Request) bool {
	return func(r *http.Request) bool {
		for _, part := range parts {
			if strings.Contains(r.URL.Path, part) {
				return true
			}
		}
		return false
	}
}

// assertStopped asserts that the request fails without being sent or reaching the limiter.
func assertStopped(t *testing.T, transport *httpclient.Transport, below *script, r *http.Request,
	want httpclient.CredentialError) {
	t.Helper()
	synctest.Wait() // the garbage collector may be due at this instant
	sent, before := len(below.requests()), transport.Manager().Stats()
	var bodies ledger
	if r.Body != nil {
		r.Body = bodies.open(r.Body)
		defer bodies.assertClosed(t)
	}
	c := send(transport, r).wait()
	stopped := errorAs[*httpclient.CredentialError](t, c.err)
	assert.Equal(t, want, *stopped)
	assert.Zero(t, c.took)
	assert.Len(t, below.requests(), sent, "the stopped request was sent")
	assert.Equal(t, before, transport.Manager().Stats())
	assertNoSecretIn(t, stopped, stopped.Error())
}

// assertRests asserts that the requests are stopped for the next ten minutes, and returns when these are over.
func assertRests(t *testing.T, transport *httpclient.Transport, below *script, request func() *http.Request,
	stopped httpclient.CredentialError) {
	t.Helper()
	stopped.RetryAfter = 10 * time.Minute
	assertStopped(t, transport, below, request(), stopped)
	time.Sleep(10*time.Minute - time.Second)
	stopped.RetryAfter = time.Second
	assertStopped(t, transport, below, request(), stopped)
	time.Sleep(time.Second)
}

// unauthorized answers like Discord to an invalid token.
func unauthorized(r *http.Request) (*http.Response, error) {
	return answer(http.StatusUnauthorized, `{"message":"401: Unauthorized","code":0}`, "Content-Type: application/json",
		"Via: 1.1 google")(r)
}

// posting returns a message to a channel with the token that these tests refuse.
func posting(t *testing.T, channel int) *http.Request {
	t.Helper()
	return as(newRequest(t, http.MethodPost, fmt.Sprintf("/api/v10/channels/%d/messages", channel), `{"content":"hello"}`),
		bad)
}

// getting returns a GET request with the token that these tests refuse.
func getting(t *testing.T, path string) *http.Request {
	t.Helper()
	return as(newRequest(t, http.MethodGet, "/api/v10"+path, ""), bad)
}

const bad = "Bot " + botSecret

const postingRoute = "POST /channels/{channel_id}/messages" // the route of posting

func TestA401StopsItsPlaceForTenMinutes(t *testing.T) {
	bubble(t, func(t *testing.T) {
		below := byCredential(http.StatusUnauthorized, `{"message":"401: Unauthorized","code":0}`,
			func(r *http.Request) bool { return r.Header.Get("Authorization") == bad && withPath("/channels/1/")(r) })
		transport := newTransport(t, below)
		first := send(transport, posting(t, 1))
		assertStatus(t, http.StatusUnauthorized, first)
		assert.JSONEq(t, `{"message":"401: Unauthorized","code":0}`, first.body)

		for _, r := range []*http.Request{posting(t, 2), getting(t, "/guilds/1/roles"), getting(t, "/users/@me")} {
			assertStatus(t, http.StatusOK, send(transport, r))
		}
		for _, authorization := range []string{"Bot replacement", "Bearer " + botSecret, ""} {
			assertStatus(t, http.StatusOK, send(transport, as(posting(t, 1), authorization)))
		}
		again := func() *http.Request { return posting(t, 1) }
		assertRests(t, transport, below, again, httpclient.CredentialError{Route: postingRoute, Status: 401})
		assertStatus(t, http.StatusUnauthorized, send(transport, again()))
		assertRests(t, transport, below, again, httpclient.CredentialError{Route: postingRoute, Status: 401})
	})
}

func TestAnAuthorizationIsStoppedWhen401sFollowOneAnother(t *testing.T) {
	roles, posting1, posting2, posting3 := "/guilds/1/roles", 1, 2, 3
	type story struct {
		refused []any // paths (getting) and channels (posting)
		stops   bool
	}
	inBubbles(t, map[string]story{
		"one place":              {[]any{posting1}, false},
		"two places":             {[]any{posting1, posting2}, false},
		"three places":           {[]any{posting1, posting2, posting3}, false},
		"two routes":             {[]any{posting1, roles}, true},
		"two routes, no channel": {[]any{"/oauth2/@me", "/users/@me"}, true},
	}, func(t *testing.T, c story) {
		below := newScript(unauthorized)
		transport := newTransport(t, below)
		for _, place := range c.refused {
			if channel, ok := place.(int); ok {
				assertStatus(t, http.StatusUnauthorized, send(transport, posting(t, channel)))
			} else {
				assertStatus(t, http.StatusUnauthorized, send(transport, getting(t, place.(string))))
			}
		}
		if !c.stops {
			assertStatus(t, http.StatusUnauthorized, send(transport, posting(t, 9)))
			return
		}
		elsewhere := func() *http.Request { return posting(t, 9) }
		stopped := httpclient.CredentialError{Route: postingRoute, Status: 401, Everywhere: true}
		assertRests(t, transport, below, elsewhere, stopped)
		// There was no success since, so one 401 is enough.
		assertStatus(t, http.StatusUnauthorized, send(transport, posting(t, 10)))
		below.answers = answers(answer(http.StatusOK, "{}"))
		for _, authorization := range []string{"Bot replacement", ""} {
			assertStatus(t, http.StatusOK, send(transport, as(posting(t, 1), authorization)))
		}
		assertRests(t, transport, below, elsewhere, stopped)
		assertStatus(t, http.StatusOK, send(transport, elsewhere()))
	})
}

// Discord has separate limits for deleting messages of different ages. A missing permission concerns all of them.
func TestDeletionsOfMessagesOfAllAgesAreOnePlace(t *testing.T) {
	bubble(t, func(t *testing.T) {
		time.Sleep(26 * 365 * 24 * time.Hour) // the bubble's clock starts in 2000, before Discord's first snowflakes
		now := time.Now()
		below := newScript(unauthorized)
		below.takes = time.Second
		transport := newTransport(t, below)
		var calls []*call
		for _, age := range []time.Duration{0, time.Hour, 30 * 24 * time.Hour} {
			id := discordsim.SnowflakeAt(now.Add(-age))
			calls = append(calls,
				send(transport, as(newRequest(t, http.MethodDelete, fmt.Sprintf("%s/%d", messages, id), ""), bad)))
		}
		assertStatus(t, http.StatusUnauthorized, calls...)
		assertStatus(t, http.StatusUnauthorized, send(transport, getting(t, "/guilds/1")))
		assert.Len(t, below.requests(), 4)
	})
}

// Discord counts every 401 against the IP address, so a dead token must cause only a few.
func TestADeadTokenDrawsAHandfulOf401s(t *testing.T) {
	type story struct {
		together bool
		requests int
		header   []string
		most     int
	}
	inBubbles(t, map[string]story{
		"one after the other": {false, 10_000, nil, 2},
		"together":            {true, 2000, nil, 4}, // one more request may leave after each 401 until its body has been read
		// 51 is what the global limit lets leave before the first response.
		"together, in buckets": {true, 2000, []string{
			"Content-Type: application/json", "X-RateLimit-Bucket: a", "X-RateLimit-Limit: 5",
			"X-RateLimit-Remaining: 4", "X-RateLimit-Reset-After: 5",
		}, 51},
	}, func(t *testing.T, c story) {
		below := newScript(answer(http.StatusUnauthorized, `{"message":"401: Unauthorized","code":0}`, c.header...))
		below.takes = 100 * time.Millisecond
		transport := newTransport(t, below)
		var calls []*call
		for n := range c.requests {
			r := posting(t, n)
			if n%2 == 1 {
				r = getting(t, fmt.Sprintf("/guilds/%d/roles", n))
			}
			calls = append(calls, send(transport, r))
			if !c.together {
				calls[n].wait()
			}
		}
		refused := 0
		for _, call := range calls {
			if call.wait().err != nil {
				assert.ErrorAs(t, call.err, new(*httpclient.CredentialError))
				refused++
			}
		}
		assert.LessOrEqual(t, len(below.requests()), c.most)
		assert.Equal(t, c.requests, refused+len(below.requests()))
	})
}

// A 407 comes from a proxy that wants its own credentials. The request has not reached the server.
func TestA407IsNoAnswerOfTheServers(t *testing.T) {
	bubble(t, func(t *testing.T) {
		proxy := answer(http.StatusProxyAuthRequired, "{}", "X-RateLimit-Bucket: b", "X-RateLimit-Limit: 1",
			"X-RateLimit-Remaining: 0", "X-RateLimit-Reset-After: 60")
		below := newScript(unauthorized, proxy, proxy, unauthorized)
		transport := newTransport(t, below)
		assertStatus(t, http.StatusUnauthorized, send(transport, getting(t, "/guilds/1")))
		for range 2 {
			c := send(transport, posting(t, 1))
			assertStatus(t, http.StatusProxyAuthRequired, c)
			assert.Zero(t, c.took, "the 407 says nothing about the bucket")
		}
		stats := transport.Manager().Stats()
		assert.EqualValues(t, 1, stats.Responses[ratelimits.ClassOK], "answers")
		assert.Zero(t, stats.Lost, "the server has counted nothing")
		assertStatus(t, http.StatusUnauthorized, send(transport, getting(t, "/channels/1")))
		stopped := errorAs[*httpclient.CredentialError](t, send(transport, posting(t, 1)).wait().err)
		assert.True(t, stopped.Everywhere, "there was no success between the two 401s")
	})
}

// Without an Authorization a 401 stops nothing.
func TestOnlyA401StopsAnAuthorization(t *testing.T) {
	t.Parallel()
	stopsNothing := func(status int, authorization string) {
		inBubble(t, fmt.Sprintf("%d %q", status, authorization), func(t *testing.T) {
			transport := newTransport(t, newScript(answer(status, `{"code":10015}`)), httpclient.WithRetries(0))
			for range 3 {
				assertStatus(t, status, send(transport, as(newMessage(t), authorization)))
			}
		})
	}
	for _, status := range []int{200, 204, 400, 402, 403, 404, 407, 410, 500, 502} {
		stopsNothing(status, authorization)
	}
	stopsNothing(401, "")
}
