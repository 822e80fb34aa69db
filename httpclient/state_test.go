package httpclient_test

import (
	"bytes"
	"errors"
	"fmt"
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
	"github.com/ratelight/ratelight/internal/discordsim"
	"github.com/ratelight/ratelight/internal/wire"
	"github.com/ratelight/ratelight/ratelimits"
)

// stateOf returns the state of a transport. If clean is true, the result is the state after Close, otherwise the state
// that a killed process leaves.
func stateOf(t *testing.T, transport *httpclient.Transport, clean bool) []byte {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, transport.WriteState(&b))
	if clean {
		require.NoError(t, transport.Close())
		b.Reset()
		require.NoError(t, transport.WriteState(&b))
	}
	return b.Bytes()
}

func TestStateOfATransportIsThatOfItsManagerToo(t *testing.T) {
	bubble(t, func(t *testing.T) {
		server := newDiscord(t, everything(discordsim.Fixed(5, time.Minute)))
		key := httpclient.WithStateKey([]byte("secret"))
		first := newTransport(t, server.RoundTripper(), key)
		for range 5 {
			assertStatus(t, http.StatusOK, send(first, getChannel(t)))
		}
		state := stateOf(t, first, true)
		for name, option := range map[string]httpclient.Option{
			"none": nil, "another": httpclient.WithStateKey([]byte("wrong")),
		} {
			err := newTransport(t, server.RoundTripper(), option).RestoreState(bytes.NewReader(state))
			assert.ErrorIs(t, err, buckets.ErrState, "%s key", name)
		}
		damaged := newTransport(t, server.RoundTripper(), key).RestoreState(bytes.NewReader(state[:len(state)-1]))
		assert.ErrorIs(t, damaged, buckets.ErrState)
		second := newTransport(t, server.RoundTripper(), key)
		require.NoError(t, second.RestoreState(bytes.NewReader(state)))
		assert.NotZero(t, second.Manager().Stats().Buckets)
		waited := send(second, getChannel(t))
		assertStatus(t, http.StatusOK, waited)
		assert.InDelta(t, time.Minute, waited.took, float64(time.Second))
		assert.Error(t, second.RestoreState(bytes.NewReader(state)), "the manager is in use")
	})
}

func FuzzRestoreStateOfATransport(f *testing.F) {
	f.Add([]byte{})
	f.Add(bytes.Repeat([]byte{1}, 64))
	f.Fuzz(func(t *testing.T, contents []byte) {
		if len(contents) > 1<<16 {
			return
		}
		transport := httpclient.NewTransport()
		defer transport.Close()
		var b bytes.Buffer
		require.NoError(t, transport.WriteState(&b))
		head := b.Bytes()[6 : 6+16+8] // the header with the hash of this transport's key
		state := wire.EndBlock(append(append(wire.BeginBlock('T', 2), head...), contents...))
		if transport.RestoreState(bytes.NewReader(state)) == nil {
			require.NoError(t, transport.WriteState(io.Discard))
		}
		_ = transport.RestoreState(bytes.NewReader(contents))
	})
}

func TestStateThatCannotBeWrittenIsAnError(t *testing.T) {
	t.Parallel()
	transport := newTransport(t, newScript(unauthorized))
	full := errors.New("disk full")
	reader, writer := io.Pipe()
	require.NoError(t, reader.CloseWithError(full))
	assert.ErrorIs(t, transport.WriteState(writer), full)

	unasked := newTransport(t, newScript(unauthorized))
	require.NoError(t, unasked.Close())
	assert.ErrorIs(t, unasked.WriteState(io.Discard), buckets.ErrClosed, "no state was written or restored before Close")
}

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

// A credential must count as unproven if its only success was more than a week ago, or on a route that may need no
// credential.
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
				for range 2 { // if restart is true, there are two restarts, and the credential is not used in between
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

// If WithLimiter sets the manager, RestoreState must not change that manager, but must restore which credentials have
// worked. The state must contain only keyed hashes of these credentials.
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
		assert.Zero(t, lent.Stats().Buckets, "nothing must be restored in the caller's manager")
		assert.Equal(t, 50, invent(t, second, inventions(t)["interactions"]))
		assertStatus(t, http.StatusOK, send(second, newMessage(t)))
	})
}
