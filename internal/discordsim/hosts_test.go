package discordsim

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A client follows a redirect from Discord to another server. Each of the two servers must get one request.
func TestOneClientReachesSeveralHosts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		discord, err := New(Config{Rules: []Rule{{
			Path: "/channels/**", Status: 307,
			Faults: []Fault{{Set: map[string]string{"Location": "http://cdn.test:8080/file"}}},
		}}})
		require.NoError(t, err)
		defer discord.Close()
		foreign, err := New(Config{Default: &Rule{Path: "**", Body: "file", Status: 401}})
		require.NoError(t, err)
		defer foreign.Close()
		host := strings.TrimPrefix(BaseURL, "http://")
		client := &http.Client{Transport: Hosts{host: discord.RoundTripper(), "cdn.test": foreign.RoundTripper()}}

		status, content := get(t, client, messagesURL)
		assert.Equal(t, 401, status)
		assert.Equal(t, "file", content, "the answer of the other server")
		assert.Equal(t, 1, discord.Report().Requests)
		assert.Equal(t, 1, foreign.Report().Invalid)

		body := &watchedBody{}
		request, err := http.NewRequest("POST", "http://elsewhere.test/", strings.NewReader(""))
		require.NoError(t, err)
		request.Body = body
		_, err = client.Do(request)
		require.ErrorContains(t, err, "no such host")
		assert.True(t, body.closed)
	})
}
