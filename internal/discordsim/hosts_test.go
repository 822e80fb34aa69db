package discordsim

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Discord and a server that is not Discord's, in one client: it refuses for a day, wants a credential, and is where a
// redirect leads.
func TestOneClientReachesSeveralHosts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		discord, err := New(Config{Rules: []Rule{{
			Path: "/channels/{id}/messages/{id}", Status: 307, Faults: []Fault{{Set: map[string]string{"Location": "http://cdn.test/file"}}},
		}}})
		require.NoError(t, err)
		defer discord.Close()
		foreign, err := New(Config{
			Rules: []Rule{
				{Path: "/busy", Status: 429, Faults: []Fault{{Set: map[string]string{"Retry-After": "86400"}}}},
				{Path: "/private", Status: 401},
			},
			Default: &Rule{Path: "**", Body: "file"},
		})
		require.NoError(t, err)
		defer foreign.Close()
		client := &http.Client{Transport: Hosts{strings.TrimPrefix(BaseURL, "http://"): discord.RoundTripper(), "cdn.test": foreign.RoundTripper()}}

		status, _, err := get(client, messagesURL)
		require.NoError(t, err)
		assert.Equal(t, 200, status)
		status, content, err := get(client, BaseURL+"/channels/1/messages/2")
		require.NoError(t, err)
		assert.Equal(t, 200, status)
		assert.Equal(t, "file", content, "the redirect has been followed")
		response, err := client.Get("http://cdn.test:8080/busy")
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		assert.Equal(t, 429, response.StatusCode)
		assert.Equal(t, "86400", response.Header.Get("Retry-After"))
		assert.Empty(t, headers(&Response{Header: response.Header}, limitNames...))
		status, _, err = get(client, "http://cdn.test/private")
		require.NoError(t, err)
		assert.Equal(t, 401, status)
		assert.Equal(t, 2, discord.Report().Requests)
		assert.Equal(t, 3, foreign.Report().Requests)

		body := &watchedBody{}
		request, err := http.NewRequest("POST", "http://elsewhere.test/", io.NopCloser(strings.NewReader("")))
		require.NoError(t, err)
		request.Body = body
		_, err = client.Do(request)
		require.ErrorContains(t, err, "no such host")
		assert.True(t, body.closed)
	})
}

// Some routes, channels and credentials are answered with 401 on purpose while others succeed.
func TestUnauthorizedOnPurpose(t *testing.T) {
	t.Parallel()
	messages := Rule{Path: "/channels/{id}/messages", Hash: "m", Quota: Fixed(5, time.Second)}
	closed := messages
	closed.Path, closed.Status = "/channels/2/messages", 401
	w := newWorld(t, Config{Rules: []Rule{
		{Path: "/oauth2/@me", Status: 401},
		closed,
		messages,
		{Path: "/users/@me", Vary: func(c Call) (v Variant) {
			if c.Request.Authorization != "Bot a" {
				v.Status = 401
			}
			return v
		}},
	}})
	get := func(path, authorization string) *Response {
		return w.Handle(start, Request{Method: "GET", Path: path, Authorization: authorization})
	}
	assert.Equal(t, 401, get("/oauth2/@me", "Bot a").Status)
	assert.Equal(t, 200, get("/channels/1/messages", "Bot a").Status)
	refused := get("/channels/2/messages", "Bot a")
	assert.Equal(t, 401, refused.Status)
	assert.Equal(t, "4", refused.Header.Get("X-RateLimit-Remaining"), "it is counted like any other")
	assert.Equal(t, 200, get("/users/@me", "Bot a").Status)
	assert.Equal(t, 401, get("/users/@me", "Bot b").Status)
	assert.Equal(t, 3, w.Report().Invalid)
}
