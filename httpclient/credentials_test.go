package httpclient_test

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/httpclient"
	"github.com/ratelight/ratelight/internal/discordsim"
	"github.com/ratelight/ratelight/ratelimits"
)

const (
	webhook  = "/api/v10/webhooks/1/" + webhookSecret
	followUp = "/api/v10/webhooks/1/" + replySecret
	bad      = "Bot " + botSecret // the token that these tests refuse

	postingRoute = "POST /channels/{channel_id}/messages" // the route of posting
	noSuchToken  = `{"message":"401: Unauthorized","code":0}`
)

// as returns the request with the given Authorization, or without an Authorization if the text is empty.
func as(r *http.Request, authorization string) *http.Request {
	r.Header.Del("Authorization")
	if authorization != "" {
		r.Header.Set("Authorization", authorization)
	}
	return r
}

// posting returns a request that creates a message in a channel, with the token that these tests refuse.
func posting(t *testing.T, channel int) *http.Request {
	t.Helper()
	path := fmt.Sprintf("/api/v10/channels/%d/messages", channel)
	return as(newRequest(t, http.MethodPost, path, `{"content":"hello"}`), bad)
}

// getting returns a GET request with the token that these tests refuse.
func getting(t *testing.T, path string) *http.Request {
	t.Helper()
	return as(newRequest(t, http.MethodGet, "/api/v10"+path, ""), bad)
}

// toHook returns a request that sends a message to a webhook, without an Authorization.
func toHook(t *testing.T) *http.Request {
	t.Helper()
	return as(newRequest(t, http.MethodPost, webhook, "{}"), "")
}

// unauthorized answers like Discord to an invalid token.
func unauthorized(r *http.Request) (*http.Response, error) {
	return answer(http.StatusUnauthorized, noSuchToken, "Content-Type: application/json", "Via: 1.1 google")(r)
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

// assertStopped asserts that the request fails, and that it reaches neither the limiter nor the base transport.
func assertStopped(t *testing.T, transport *httpclient.Transport, below *script, r *http.Request,
	want httpclient.CredentialError) {
	t.Helper()
	synctest.Wait() // the garbage collector may be due at this instant
	sent, before := len(below.requests()), transport.Manager().Stats()
	if r.Body != nil {
		defer track(r).assertClosed(t)
	}
	c := send(transport, r).wait()
	stopped := errorAs[*httpclient.CredentialError](t, c.err)
	assert.Equal(t, want, *stopped)
	assert.Zero(t, c.took)
	assert.Len(t, below.requests(), sent, "the stopped request was sent")
	assert.Equal(t, before, transport.Manager().Stats())
	assertNoSecretIn(t, stopped, stopped.Error())
}

// assertRests asserts that the requests are stopped for the next ten minutes. It returns after that time.
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

// lookup calls RoundTrip with a request whose credential must be stopped, and returns the error.
func lookup(t *testing.T, transport *httpclient.Transport, r *http.Request) *httpclient.CredentialError {
	t.Helper()
	return errorAs[*httpclient.CredentialError](t, send(transport, r).wait().err)
}

func TestA401StopsItsPlaceForTenMinutes(t *testing.T) {
	bubble(t, func(t *testing.T) {
		below := byCredential(http.StatusUnauthorized, noSuchToken, func(r *http.Request) bool {
			return r.Header.Get("Authorization") == bad && strings.Contains(r.URL.Path, "/channels/1/")
		})
		transport := newTransport(t, below)
		first := send(transport, posting(t, 1))
		assertStatus(t, http.StatusUnauthorized, first)
		assert.JSONEq(t, noSuchToken, first.body)

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
	type story struct {
		refused []string
		stops   bool
	}
	inBubbles(t, map[string]story{
		"one place":              {[]string{"/channels/1/messages"}, false},
		"two places":             {[]string{"/channels/1/messages", "/channels/2/messages"}, false},
		"three places":           {[]string{"/channels/1", "/channels/2", "/channels/3"}, false},
		"two routes":             {[]string{"/channels/1/messages", "/guilds/1/roles"}, true},
		"two routes, no channel": {[]string{"/oauth2/@me", "/users/@me"}, true},
	}, func(t *testing.T, c story) {
		below := newScript(unauthorized)
		transport := newTransport(t, below)
		for _, path := range c.refused {
			time.Sleep(time.Second)
			assertStatus(t, http.StatusUnauthorized, send(transport, getting(t, path)))
		}
		elsewhere := func() *http.Request { return posting(t, 9) }
		if !c.stops {
			assertStatus(t, http.StatusUnauthorized, send(transport, elsewhere()))
			return
		}
		stopped := httpclient.CredentialError{Route: postingRoute, Status: 401, Everywhere: true}
		assertRests(t, transport, below, elsewhere, stopped)
		// There has been no success since the latest 401, so one more 401 is enough, even on the same route.
		assertStatus(t, http.StatusUnauthorized, send(transport, getting(t, c.refused[len(c.refused)-1])))
		below.answers = answers(answer(http.StatusOK, "{}"))
		for _, authorization := range []string{"Bot replacement", ""} {
			assertStatus(t, http.StatusOK, send(transport, as(posting(t, 1), authorization)))
		}
		assertRests(t, transport, below, elsewhere, stopped)
		assertStatus(t, http.StatusOK, send(transport, elsewhere()))
	})
}

// Discord has separate limits for deleting messages of different ages. But 401s to such deletions in one channel must
// not count as 401s on several routes, because this would stop the Authorization everywhere.
func TestDeletionsOfMessagesOfAllAgesAreOnePlace(t *testing.T) {
	bubble(t, func(t *testing.T) {
		time.Sleep(26 * 365 * 24 * time.Hour) // the bubble's clock starts in 2000, before Discord's first snowflakes
		now := time.Now()
		below := newScript(unauthorized)
		below.takes = time.Second
		transport := newTransport(t, below)
		var calls []*call
		for _, age := range []time.Duration{0, time.Hour, 30 * 24 * time.Hour} {
			path := fmt.Sprintf("%s/%d", messages, discordsim.SnowflakeAt(now.Add(-age)))
			calls = append(calls, send(transport, as(newRequest(t, http.MethodDelete, path, ""), bad)))
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
		"together":            {true, 2000, nil, 4}, // until a 401's body has been read, one more request can be sent
		// The global limit admits 51 requests before the first response.
		"together, in buckets": {true, 2000, limitHeaders(roomLeft, "X-RateLimit-Reset-After: 5"), 51},
	}, func(t *testing.T, c story) {
		below := newScript(answer(http.StatusUnauthorized, noSuchToken, c.header...))
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
		proxy := answer(http.StatusProxyAuthRequired, "{}", limitHeaders("X-RateLimit-Remaining: 0")...)
		transport := newTransport(t, newScript(unauthorized, proxy, proxy, unauthorized))
		assertStatus(t, http.StatusUnauthorized, send(transport, getting(t, "/guilds/1")))
		for range 2 {
			c := send(transport, posting(t, 1))
			assertStatus(t, http.StatusProxyAuthRequired, c)
			assert.Zero(t, c.took, "the 407 says nothing about the bucket")
		}
		stats := transport.Manager().Stats()
		assert.EqualValues(t, 1, stats.Responses[ratelimits.ClassOK], "answers")
		assert.Zero(t, stats.Lost, "the server has not counted the request")
		assertStatus(t, http.StatusUnauthorized, send(transport, getting(t, "/channels/1")))
		assert.True(t, lookup(t, transport, posting(t, 1)).Everywhere, "there was no success between the two 401s")
	})
}

// step is one request of a test. The response has the given status, and arrives after a time (takes).
type step struct {
	path   string
	takes  time.Duration
	status int
}

// sendAll sends the requests of the steps, one each second, and waits for the last response. Requests that are sent
// afterwards succeed.
func sendAll(t *testing.T, steps []step) (transport *httpclient.Transport) {
	t.Helper()
	var script []responder
	for _, s := range steps {
		script = append(script, func(r *http.Request) (*http.Response, error) {
			time.Sleep(s.takes)
			if s.status == http.StatusUnauthorized {
				return unauthorized(r)
			}
			return answer(s.status, "{}")(r)
		})
	}
	transport = newTransport(t, newScript(append(script, answer(http.StatusOK, "{}"))...))
	var calls []*call
	for _, s := range steps {
		calls = append(calls, send(transport, getting(t, s.path)))
		time.Sleep(time.Second)
	}
	for i, c := range calls {
		assertStatus(t, steps[i].status, c)
	}
	return transport
}

func TestASuccessClearsWhat401sHaveAddedUpTo(t *testing.T) {
	const soon, late = 100 * time.Millisecond, 10 * time.Second
	const guild, guild2, guild9, channel, user = "/guilds/1", "/guilds/2", "/guilds/9", "/channels/1", "/users/1"
	type story struct {
		steps   []step
		stopped bool
	}
	inBubbles(t, map[string]story{
		"no success":                       {[]step{{guild, soon, 401}, {channel, soon, 401}}, true},
		"between the 401s":                 {[]step{{guild, soon, 401}, {user, soon, 200}, {channel, soon, 401}}, false},
		"before the 401s":                  {[]step{{user, soon, 200}, {guild, soon, 401}, {channel, soon, 401}}, true},
		"sent between the 401s, late":      {[]step{{guild, soon, 401}, {user, late, 200}, {channel, soon, 401}}, false},
		"sent before the 401s, late":       {[]step{{user, late, 200}, {guild, soon, 401}, {channel, soon, 401}}, true},
		"sent before the 401s, in between": {[]step{{user, soon, 200}, {guild, 0, 401}, {channel, soon, 401}}, true},
		"sent after both 401s, late":       {[]step{{guild, late, 401}, {channel, late, 401}, {user, late, 200}}, false},
		"overtakes the first 401":          {[]step{{guild, late, 401}, {user, soon, 200}, {channel, soon, 401}}, false},
		"overtakes both 401s":              {[]step{{guild, late, 401}, {channel, late, 401}, {user, soon, 200}}, false},
		"a redirect is no success":         {[]step{{guild, soon, 401}, {user, soon, 302}, {channel, soon, 401}}, true},
		"a 404 is no success":              {[]step{{guild, soon, 401}, {user, soon, 404}, {channel, soon, 401}}, true},
		"a success on a public route":      {[]step{{guild, soon, 401}, {"/gateway", soon, 200}, {channel, soon, 401}}, true},
		"a success with a token in the path": {
			[]step{{guild, soon, 401}, {"/webhooks/1/" + webhookSecret, soon, 200}, {channel, soon, 401}}, true,
		},
		"401s in three places of one route": {
			[]step{{guild, 3 * soon, 401}, {guild2, late, 401}, {"/guilds/3", soon, 401}}, false,
		},
		"between the latest 401s of both routes": {
			[]step{{guild, soon, 401}, {guild2, late, 401}, {user, soon, 200}, {channel, soon, 401}}, false,
		},
		"before the latest 401s of both routes": {
			[]step{{guild, soon, 401}, {user, soon, 200}, {channel, soon, 401}, {guild2, soon, 401}}, true,
		},
		"an earlier 401 that arrives late": {
			[]step{{guild9, 0, 200}, {guild, late, 401}, {user, soon, 200}, {guild2, soon, 401}, {channel, soon, 401}}, true,
		},
	}, func(t *testing.T, c story) {
		transport := sendAll(t, c.steps)
		if c.stopped {
			assert.True(t, lookup(t, transport, getting(t, "/users/@me/guilds")).Everywhere)
		} else {
			assertStatus(t, http.StatusOK, send(transport, getting(t, "/users/@me/guilds")))
		}
	})
}

// An Authorization is stopped in one place. If a request in that place succeeds, and was sent after the latest refused
// request, the Authorization must be used there again. The order of the responses does not matter.
func TestASuccessInAPlaceLiftsItsStop(t *testing.T) {
	const path = "/guilds/1"
	type story struct {
		steps  []step
		lifted bool
	}
	inBubbles(t, map[string]story{
		"sent after the 401": {[]step{{path, 0, 200}, {path, 3 * time.Second, 401}, {path, 5 * time.Second, 200}}, true},
		"sent before the last of two 401s": {
			[]step{{path, 0, 200}, {path, 5 * time.Second, 401}, {path, 8 * time.Second, 200}, {path, 0, 401}}, false,
		},
	}, func(t *testing.T, c story) {
		transport := sendAll(t, c.steps)
		if c.lifted {
			assertStatus(t, http.StatusOK, send(transport, getting(t, path)))
		} else {
			assert.Equal(t, 401, lookup(t, transport, getting(t, path)).Status)
		}
	})
}

func TestWhatIsStoppedIsNotSaved(t *testing.T) {
	bubble(t, func(t *testing.T) {
		all := func(transport *httpclient.Transport) (calls []*call) {
			for _, r := range []*http.Request{getting(t, "/users/@me"), getting(t, "/guilds/1"), toHook(t)} {
				calls = append(calls, send(transport, r).wait())
			}
			return calls
		}
		first, second := newTransport(t, newScript(unauthorized)), newTransport(t, newScript(answer(http.StatusOK, "{}")))
		assertStatus(t, http.StatusUnauthorized, all(first)...)
		require.NoError(t, second.RestoreState(bytes.NewReader(stateOf(t, first, true))))
		assertStatus(t, http.StatusOK, all(second)...)
	})
}

func TestAResetLiftsAPlaceToo(t *testing.T) {
	bubble(t, func(t *testing.T) {
		transport := newTransport(t, newScript(unauthorized, unauthorized, answer(http.StatusOK, "{}")))
		assertStatus(t, http.StatusUnauthorized, send(transport, posting(t, 1)))
		transport.ResetCredential(bad)
		// The next 401 counts as the first one, because the reset has cleared the count.
		assertStatus(t, http.StatusUnauthorized, send(transport, getting(t, "/guilds/1")))
		assertStatus(t, http.StatusOK, send(transport, posting(t, 1)), send(transport, posting(t, 2)))
	})
}

func TestA401UnderWayAtAResetStopsNothing(t *testing.T) {
	inBubbles(t, map[string]string{"of a guild": "/guilds/1", "of all": "/users/@me"}, func(t *testing.T, path string) {
		below := newScript(unauthorized, answer(http.StatusOK, "{}"))
		below.takes = time.Second
		transport := newTransport(t, below)
		late := send(transport, getting(t, path))
		time.Sleep(500 * time.Millisecond)
		transport.ResetCredential(bad)
		assertStatus(t, http.StatusUnauthorized, late)
		assertStatus(t, http.StatusOK, send(transport, getting(t, path)), send(transport, posting(t, 1)))
	})
}

// lifted is a limiter that counts the calls of LiftHolds.
type lifted struct {
	buckets.Unlimited
	times int
}

func (l *lifted) LiftHolds() { l.times++ }

func TestAllThatIsStoppedCanBeLiftedByHand(t *testing.T) {
	bubble(t, func(t *testing.T) {
		limiter, below := &lifted{}, newScript(unauthorized)
		transport := newTransport(t, below, httpclient.WithLimiter(limiter))
		all := func() (calls []*call) {
			for _, path := range []string{"/guilds/1", "/users/@me"} {
				calls = append(calls, send(transport, getting(t, path)).wait())
			}
			for _, path := range []string{webhook, followUp, callback} {
				calls = append(calls, send(transport, as(newRequest(t, http.MethodPost, path, "{}"), "")).wait())
			}
			return calls
		}
		assertStatus(t, http.StatusUnauthorized, all()...)
		below.answers = answers(answer(http.StatusOK, "{}"))
		for _, c := range all() {
			assert.ErrorAs(t, c.err, new(*httpclient.CredentialError))
		}
		transport.LiftHolds()
		assert.Equal(t, 1, limiter.times)
		assertStatus(t, http.StatusOK, all()...)
		newTransport(t, below).LiftHolds() // the limiter of this transport is a manager, which also has LiftHolds
	})
}
