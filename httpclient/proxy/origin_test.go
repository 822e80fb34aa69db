package proxy_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/httpclient/discordtest"
	"github.com/ratelight/ratelight/httpclient/proxy"
)

// A web page can make a browser on this machine send requests to the proxy, even if the page cannot read the responses.
func TestRequestsThatAWebPageMakesABrowserSendAreRefused(t *testing.T) {
	t.Parallel()
	const allowed, refused = 200, 400
	discord := discordtest.NewServer(t)
	handler, err := proxy.New(proxy.WithUpstream(discord.URL))
	require.NoError(t, err)
	defer handler.Close()
	const own, other = "http://127.0.0.1:8080", "https://evil.example"
	for name, c := range map[string]struct {
		site, origin string // Sec-Fetch-Site and Origin
		want         int
	}{
		"a bot":                                {"", "", allowed},
		"typed into a browser":                 {"none", "", allowed},
		"a page of the proxy's":                {"same-origin", own, allowed},
		"a page of the proxy's, older browser": {"", own, allowed},
		"a library that says Discord":          {"", discord.URL, allowed},
		"another page":                         {"cross-site", other, refused},
		"an image in another page":             {"cross-site", "", refused},
		"another page, older browser":          {"", other, refused},
		"a file":                               {"", "null", refused},
		"another port of this machine":         {"same-site", "http://127.0.0.1:3000", refused},
		"another port, older browser":          {"", "http://127.0.0.1:3000", refused},
		"an address, an older browser":         {"", "http://203.0.113.5", refused},
	} {
		for _, method := range []string{"GET", "POST", "OPTIONS", "HEAD"} {
			before := len(discord.Requests())
			r := httptest.NewRequest(method, "/api/v10/webhooks/1/token-token-token-token", nil)
			r.Host = "127.0.0.1:8080"
			for key, value := range map[string]string{"Sec-Fetch-Site": c.site, "Origin": c.origin} {
				if value != "" {
					r.Header.Set(key, value)
				}
			}
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, r)
			assert.Equal(t, c.want, w.Code, "%s, %s", name, method)
			if c.want == refused {
				assert.Equal(t, "origin", w.Header().Get("X-Ratelight-Proxy"), name)
				assert.True(t, before == len(discord.Requests()), "%s was sent", name)
			}
		}
	}
}

// By DNS rebinding, a web page's host name can point to this machine. The page then has the same origin as the proxy.
func TestOnlyNamesThatNoWebPageCanHaveAreServed(t *testing.T) {
	t.Parallel()
	served := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(204) })
	handler := proxy.RequireHost(served, "Limits.Example.com", "proxy.default.svc")
	for host, want := range map[string]int{
		"127.0.0.1": 204, "127.0.0.1:8080": 204, "[::1]:8080": 204, "[::1]": 204, "192.0.2.7:8080": 204, "": 204,
		"localhost": 204, "LOCALHOST:8080": 204, "bot.localhost": 204, "localhost.": 204,
		"proxy": 204, "proxy:8080": 204, "ratelight-proxy": 204,
		"limits.example.com": 204, "LIMITS.example.com.:8080": 204, "proxy.default.svc:8080": 204,
		"evil.example": 421, "evil.example:8080": 421, "127.0.0.1.evil.example": 421, "localhost.evil.example": 421,
		"evil-limits.example.com": 421, "a.limits.example.com": 421, "evillocalhost.example": 421, "proxy.default": 421,
	} {
		w := httptest.NewRecorder()
		r := httptest.NewRequest("GET", "/", nil)
		r.Host = host
		handler.ServeHTTP(w, r)
		assert.Equal(t, want, w.Code, "%q", host)
		if want == 421 {
			assert.Equal(t, "host", w.Header().Get("X-Ratelight-Proxy"), host)
		}
	}
}
