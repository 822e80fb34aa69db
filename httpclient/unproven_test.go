package httpclient_test

import (
	"bytes"
	"errors"
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
	"github.com/ratelight/ratelight/ratelimits"
)

// knowing is a Discord that accepts one bot and one webhook, and answers 401 to all other credentials.
func knowing(r *http.Request) (*http.Response, error) {
	if r.Header.Get("Authorization") == authorization || strings.HasSuffix(r.URL.Path, webhookSecret) {
		return answer(http.StatusOK, "{}", "Via: 1.1 google")(r)
	}
	return unauthorized(r)
}

// small is a budget of a hundred invalid responses in ten minutes.
var small = httpclient.WithBuckets(buckets.WithInvalidBudget(100, 10*time.Minute, 0))

// invent sends requests with invented credentials until the budget rejects one, and returns how many were sent.
func invent(t *testing.T, transport *httpclient.Transport, request func(i int) *http.Request) int {
	t.Helper()
	for i := range 1000 {
		c := send(transport, request(i)).wait()
		if over := new(ratelimits.BudgetError); errors.As(c.err, &over) {
			return i
		}
		assertStatus(t, http.StatusUnauthorized, c)
	}
	return 1000
}

// inventions are requests that a caller without a credential can send.
func inventions(t *testing.T) map[string]func(i int) *http.Request {
	return map[string]func(i int) *http.Request{
		"interactions": func(i int) *http.Request {
			path := fmt.Sprintf("/api/v10/interactions/%d/aW50ZXJhY3Rpb246%d/callback", i, i)
			return as(newRequest(t, "POST", path, "{}"), "")
		},
		"webhooks": func(i int) *http.Request {
			return as(newRequest(t, "POST", fmt.Sprintf("/api/v10/webhooks/%d/invented", i), "{}"), "")
		},
		"Authorizations": func(i int) *http.Request {
			return as(newRequest(t, "GET", "/api/v10/users/@me", ""), fmt.Sprint("Bot invented-", i))
		},
	}
}

func TestInventedCredentialsStopNobodyWhoseOwnHasWorked(t *testing.T) {
	t.Parallel()
	for name := range inventions(t) {
		for _, restart := range []bool{false, true} {
			inBubble(t, fmt.Sprint(name, ", restart ", restart), func(t *testing.T) {
				transport := newTransport(t, responder(knowing), small)
				hook := func() *http.Request { return as(newRequest(t, "POST", webhook, "{}"), "") }
				assertStatus(t, http.StatusOK, send(transport, newMessage(t)), send(transport, hook()))
				if restart {
					next := newTransport(t, responder(knowing), small)
					require.NoError(t, next.RestoreState(bytes.NewReader(stateOf(t, transport, true))))
					transport = next
				}
				assert.Equal(t, 50, invent(t, transport, inventions(t)[name]))
				for range 20 {
					assertStatus(t, http.StatusOK, send(transport, newMessage(t)), send(transport, hook()))
				}
			})
		}
	}
}

// A success proves nothing if its route needs no credential, or if it is a week old.
func TestWhatHasNotWorkedOfLateIsUnproven(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		path   string
		age    time.Duration
		proven bool
	}{
		"a bot's route, just now":       {"/users/@me", 0, true},
		"a bot's route, six days ago":   {"/users/@me", 6 * 24 * time.Hour, true},
		"a bot's route, eight days ago": {"/users/@me", 8 * 24 * time.Hour, false},
		"a public route":                {"/gateway", 0, false},
		"an undocumented route":         {"/something/new", 0, false},
	} {
		for _, restart := range []bool{false, true} {
			inBubble(t, fmt.Sprint(name, ", restart ", restart), func(t *testing.T) {
				transport := newTransport(t, responder(knowing), small)
				assert.False(t, transport.HasSucceeded(authorization))
				assertStatus(t, http.StatusOK, send(transport, newRequest(t, "GET", "/api/v10"+c.path, "")))
				for range 2 { // up to two restarts; the credential is not used between them
					time.Sleep(c.age / 2)
					if restart {
						next := newTransport(t, responder(knowing), small)
						require.NoError(t, next.RestoreState(bytes.NewReader(stateOf(t, transport, true))))
						transport = next
					}
				}
				assert.Equal(t, c.proven, transport.HasSucceeded(authorization))
				assert.False(t, transport.HasSucceeded(""))
				assert.Equal(t, 50, invent(t, transport, inventions(t)["Authorizations"]))
				own := send(transport, newMessage(t)).wait()
				assert.Equal(t, c.proven, own.err == nil, "all unproven credentials share a part of the budget")
			})
		}
	}
}

// The caller's own manager restores nothing from the transport's state. The transport still restores the credentials
// that worked.
func TestTheStateOfCredentialsThatWorkedIsAKeyedHash(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		key := httpclient.WithStateKey([]byte("secret"))
		first := newTransport(t, responder(knowing), small, key)
		assertStatus(t, http.StatusOK, send(first, newMessage(t)), send(first, newRequest(t, "POST", webhook, "{}")))
		state := stateOf(t, first, true)
		for _, secret := range []string{authorization, webhookSecret} {
			assert.NotContains(t, string(state), secret)
		}
		lent := newManager(t, buckets.WithInvalidBudget(100, 10*time.Minute, 0))
		second := newTransport(t, responder(knowing), key, httpclient.WithLimiter(lent))
		require.NoError(t, second.RestoreState(bytes.NewReader(state)))
		assert.Zero(t, lent.Stats().Buckets, "the caller's manager restores nothing")
		assert.Equal(t, 50, invent(t, second, inventions(t)["interactions"]))
		assertStatus(t, http.StatusOK, send(second, newMessage(t)))
	})
}
