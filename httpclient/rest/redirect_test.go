package rest_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/httpclient/rest"
)

func TestClientFollowsRedirectsThatChangeNothing(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		status                 int
		base, method, location string
		followed               bool
	}{
		"path":                            {308, "", "POST", "/api/v10/channels/2/messages", true},
		"whole URL":                       {307, "", "POST", "https://discord.com/api/v10/channels/2/messages", true},
		"GET":                             {301, "", "GET", "/api/v9/channels/2/messages", true},
		"POST that would be a GET":        {301, "", "POST", "/api/v10/channels/2/messages", false},
		"PUT that would be a GET":         {303, "", "PUT", "/api/v10/channels/2/messages", false},
		"another host":                    {307, "", "POST", "https://example.com/api/v10/channels/2/messages", false},
		"GET to another host":             {302, "", "GET", "https://example.com/api/v10/channels/2/messages", false},
		"a host below":                    {307, "", "GET", "https://canary.discord.com/api/v10/channels/2/messages", false},
		"another port":                    {307, "", "GET", "https://discord.com:444/api/v10/channels/2/messages", false},
		"without TLS":                     {307, "", "GET", "http://discord.com/api/v10/channels/2/messages", false},
		"with TLS":                        {307, "http://discord.com/api/v10", "GET", "https://discord.com/api/v10/channels/2/messages", false},
		"nowhere":                         {304, "", "GET", "https://example.com", false},
		"another host, protocol relative": {307, "", "GET", "//example.com/api/v10/channels/2/messages", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			below := replies(reply(c.status, "", "", "Location: "+c.location), reply(http.StatusOK, clientJSON, "{}"))
			client := newClient(t, below, rest.WithBaseURL(c.base))
			var in any
			want := ""
			if c.method != "GET" {
				in, want = map[string]int{"a": 1}, `{"a":1}`
			}
			err := client.DoJSON(t.Context(), c.method, clientMessages, in, nil)
			for _, r := range below.sent() {
				assert.Equal(t, "discord.com", r.URL.Host)
				assert.Equal(t, c.method, r.Method)
				assert.Equal(t, want, r.body)
				assert.Equal(t, "Bot "+clientToken, r.Header.Get("Authorization"))
			}
			if c.followed {
				require.NoError(t, err)
				assert.Len(t, below.sent(), 2)
				return
			}
			assert.Len(t, below.sent(), 1)
			if c.status == http.StatusNotModified {
				require.NoError(t, err)
				return
			}
			var failure *rest.APIError
			require.ErrorAs(t, err, &failure)
			assert.Equal(t, c.status, failure.Status)
			assert.Equal(t, c.location, failure.Response.Header.Get("Location"))
		})
	}
}

func TestClientFollowsTenRedirects(t *testing.T) {
	t.Parallel()
	below := replies(reply(http.StatusTemporaryRedirect, "", "", "Location: /api/v10/gateway"))
	_, err := newClient(t, below).Do(t.Context(), "GET", "/gateway", nil)
	require.ErrorAs(t, err, new(*rest.APIError))
	assert.Len(t, below.sent(), 11)
}
