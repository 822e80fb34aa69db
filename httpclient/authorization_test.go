package httpclient_test

import (
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/ratelight/ratelight/httpclient"
)

// step is one request of a test. Its response has the status, and comes after the time takes.
type step struct {
	path   string
	takes  time.Duration
	status int
}

// sendAll sends one request each second, and waits for the last response.
func sendAll(t *testing.T, steps ...step) (transport *httpclient.Transport) {
	t.Helper()
	var sent atomic.Int32
	transport = newTransport(t, responder(func(r *http.Request) (*http.Response, error) {
		n := int(sent.Add(1))
		if n > len(steps) {
			return answer(http.StatusOK, "{}")(r)
		}
		s := steps[n-1]
		time.Sleep(s.takes)
		if s.status == http.StatusUnauthorized {
			return unauthorized(r)
		}
		return answer(s.status, "{}")(r)
	}))
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
	type story struct {
		steps   []step
		stopped bool
	}
	inBubbles(t, map[string]story{
		"no success":                             {[]step{{"/guilds/1", soon, 401}, {"/channels/1", soon, 401}}, true},
		"between the 401s":                       {[]step{{"/guilds/1", soon, 401}, {"/users/1", soon, 200}, {"/channels/1", soon, 401}}, false},
		"before the 401s":                        {[]step{{"/users/1", soon, 200}, {"/guilds/1", soon, 401}, {"/channels/1", soon, 401}}, true},
		"sent between the 401s, answered after":  {[]step{{"/guilds/1", soon, 401}, {"/users/1", late, 200}, {"/channels/1", soon, 401}}, false},
		"sent before the 401s, answered after":   {[]step{{"/users/1", late, 200}, {"/guilds/1", soon, 401}, {"/channels/1", soon, 401}}, true},
		"sent before the 401s, answered between": {[]step{{"/users/1", soon, 200}, {"/guilds/1", 0, 401}, {"/channels/1", soon, 401}}, true},
		"sent while both 401s are in flight":     {[]step{{"/guilds/1", late, 401}, {"/channels/1", late, 401}, {"/users/1", late, 200}}, false},
		"overtakes the first 401":                {[]step{{"/guilds/1", late, 401}, {"/users/1", soon, 200}, {"/channels/1", soon, 401}}, false},
		"overtakes both 401s":                    {[]step{{"/guilds/1", late, 401}, {"/channels/1", late, 401}, {"/users/1", soon, 200}}, false},
		"a redirect is no success":               {[]step{{"/guilds/1", soon, 401}, {"/users/1", soon, 302}, {"/channels/1", soon, 401}}, true},
		"a 404 is no success":                    {[]step{{"/guilds/1", soon, 401}, {"/users/1", soon, 404}, {"/channels/1", soon, 401}}, true},
		"401s in three places of one route": {
			[]step{{"/guilds/1", 3 * soon, 401}, {"/guilds/2", late, 401}, {"/guilds/3", soon, 401}}, false,
		},
		"between the latest 401s of both routes": {
			[]step{{"/guilds/1", soon, 401}, {"/guilds/2", late, 401}, {"/users/1", soon, 200}, {"/channels/1", soon, 401}},
			false,
		},
		"before the latest 401s of both routes": {
			[]step{{"/guilds/1", soon, 401}, {"/users/1", soon, 200}, {"/channels/1", soon, 401}, {"/guilds/2", soon, 401}},
			true,
		},
		"an earlier 401 that arrives late": {[]step{
			{"/guilds/9", 0, 200}, {"/guilds/1", late, 401}, {"/users/1", soon, 200}, {"/guilds/2", soon, 401},
			{"/channels/1", soon, 401},
		}, true},
		"a success on a public route": {[]step{{"/guilds/1", soon, 401}, {"/gateway", soon, 200}, {"/channels/1", soon, 401}}, true},
		"a success with a token in the path": {
			[]step{{"/guilds/1", soon, 401}, {"/webhooks/1/" + webhookSecret, soon, 200}, {"/channels/1", soon, 401}}, true,
		},
	}, func(t *testing.T, c story) {
		transport := sendAll(t, c.steps...)
		if c.stopped {
			assert.True(t, lookup(t, transport, http.MethodGet, "/api/v10/users/@me/guilds").Everywhere)
		} else {
			assertStatus(t, http.StatusOK, send(transport, getting(t, "/users/@me/guilds")))
		}
	})
}

// An Authorization that is stopped in one place is used there again once a request succeeds that was sent after the
// latest refused one. The order of the responses does not matter.
func TestASuccessInAPlaceLiftsItsStop(t *testing.T) {
	const path = "/guilds/1"
	type story struct {
		steps  []step
		status int
	}
	inBubbles(t, map[string]story{
		"sent after the 401": {[]step{{path, 0, 200}, {path, 3 * time.Second, 401}, {path, 5 * time.Second, 200}}, 200},
		"sent before the last of two 401s": {
			[]step{{path, 0, 200}, {path, 5 * time.Second, 401}, {path, 8 * time.Second, 200}, {path, 0, 401}}, 401,
		},
	}, func(t *testing.T, c story) {
		transport := sendAll(t, c.steps...)
		if c.status == http.StatusOK {
			assertStatus(t, http.StatusOK, send(transport, getting(t, path)))
		} else {
			assert.Equal(t, c.status, lookup(t, transport, http.MethodGet, "/api/v10"+path).Status)
		}
	})
}
