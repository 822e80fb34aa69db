package proxy_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/httpclient"
	"github.com/ratelight/ratelight/httpclient/discordtest"
	"github.com/ratelight/ratelight/httpclient/proxy"
)

const secret = "0123456789-abcdef.~_"

func TestOnlyRequestsWithTheSecretPass(t *testing.T) {
	t.Parallel()
	var seen []string
	guarded, err := proxy.RequireSecret(secret, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		seen = append(seen, r.URL.EscapedPath())
	}))
	require.NoError(t, err)
	send := func(path, header string) int {
		r := httptest.NewRequest("GET", "http://proxy"+path, nil)
		r.URL.Scheme, r.URL.Host = "", "" // as in a server's request
		if header != "" {
			r.Header.Set("X-Ratelight-Secret", header)
		}
		w := httptest.NewRecorder()
		guarded.ServeHTTP(w, r)
		assert.NotContains(t, w.Body.String(), secret)
		return w.Code
	}
	for _, path := range []string{
		"/api/v10/users/%40me", "//api/v10/users/%40me", "/" + secret + "/api/v10/users/%40me",
		"//" + secret + "//api/v10/users/%40me",
	} {
		header := ""
		if !strings.Contains(path, secret) {
			header = secret
		}
		assert.Equal(t, 200, send(path, header), path)
	}
	assert.Equal(t,
		[]string{"/api/v10/users/%40me", "//api/v10/users/%40me", "/api/v10/users/%40me", "//api/v10/users/%40me"}, seen)
	seen = nil
	for _, path := range []string{
		"/", "/api/v10/users/@me", "/" + secret[1:] + "/api", "/" + secret + "x/api", "/api/" + secret,
		"/" + strings.ToUpper(secret) + "/api",
	} {
		assert.Equal(t, 400, send(path, ""), path)
		assert.Equal(t, 400, send(path, "wrong"), path)
	}
	assert.Empty(t, seen)
}

func TestSecretsThatCannotBeInEveryURLAreRefused(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{
		"", "short", "with a space in it", "with/a/slash/in/it", "percent%percent%percent", "umlaut-umläut-umlaut",
	} {
		handler, err := proxy.RequireSecret(bad, http.NotFoundHandler())
		assert.ErrorIs(t, err, proxy.ErrOptions)
		assert.Nil(t, handler)
		if bad != "" {
			assert.NotContains(t, err.Error(), bad)
		}
	}
}

// Nothing that the proxy writes may contain a token.
func TestTokensShowNowhere(t *testing.T) {
	play(t, func(t *testing.T) {
		const webhook = "canary-webhook-canary-webhook-canary-webhook"
		var log, shown bytes.Buffer
		w := newWorld(t, []discordtest.Rule{
			discordtest.Window("execute_webhook", 1, time.Hour), discordtest.Window("GET /users/@me", 1, time.Hour),
			discordtest.Cut("GET /guilds/{id}"), discordtest.Cut("GET /webhooks/{id}/{token}"),
			discordtest.Answer("GET /users/{id}", 401, map[string]any{"message": "401: Unauthorized", "code": 0}),
			discordtest.Answer("PATCH /webhooks/{id}/{token}", 404, map[string]any{"message": "Unknown Webhook", "code": 10015}),
		}, proxy.WithLogger(slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))),
			proxy.WithTransport(httpclient.WithAttempts(httpclient.Attempts{Mode: httpclient.SafeRetries, Retries: 1})))
		reasons := make(map[string]bool)
		for _, request := range []string{
			"GET /users/@me", "GET /users/@me", "GET /guilds/1", "GET /users/2", "GET /users/2", "GET /a/../b", "GET /",
			"GET /users/%zz" + webhook,
			"POST /webhooks/1/" + webhook, "POST /webhooks/1/" + webhook, "GET /webhooks/1/" + webhook,
			"PATCH /webhooks/2/" + webhook, "PATCH /webhooks/2/" + webhook, "PATCH /webhooks/2/" + webhook + "/../x",
		} {
			method, path, _ := strings.Cut(request, " ")
			if strings.Contains(path, "%zz") {
				_, got := w.raw(request + " HTTP/1.1\r\nHost: proxy\r\nAuthorization: " + token + "\r\n\r\n")
				_, _ = io.CopyN(&shown, got.Body, got.ContentLength)
				continue
			}
			got := w.send(method, path, "")
			reasons[got.Header.Get("X-Ratelight-Proxy")] = true
			fmt.Fprintln(&shown, got.Status, got.Header, got.text)
		}
		for _, reason := range []string{"too-long", "unreachable", "credential", "bad-request", "no-path"} {
			assert.True(t, reasons[reason], reason)
		}
		manager := w.handler.Transport().Manager()
		stats, err := json.Marshal(manager.Stats())
		require.NoError(t, err)
		fmt.Fprintf(&shown, "%s %+v %#v\n", stats, w.handler.Upstream(), w.handler.Upstream())
		for b := range manager.Buckets() {
			fmt.Fprintf(&shown, "%+v\n", b)
		}
		fmt.Fprintf(&shown, "%+v", w.handler)
		assert.Contains(t, log.String(), "upstream failed")
		for _, canary := range []string{"canary", "MTIzNDU2Nzg5"} {
			assert.NotContains(t, log.String(), canary)
			lines := slices.DeleteFunc(strings.Split(shown.String(), "\n"),
				func(line string) bool { return !strings.Contains(line, canary) })
			assert.Empty(t, lines)
		}
	})
}

// If an upstream sends back the request instead of a response, net/http quotes the request in an error. The query of
// the request must not appear in anything that the proxy writes.
func TestAQueryThatTheUpstreamSendsBackShowsNowhere(t *testing.T) {
	play(t, func(t *testing.T) {
		var log bytes.Buffer
		w := serve(t, proxy.WithLogger(slog.New(slog.NewTextHandler(&log, nil))),
			proxy.WithTransport(httpclient.WithBase(echo{})))
		got := w.send("GET", "/users/@me?signature=canary-signature", "")
		assertOwn(t, got, 502, "unreachable")
		shown := log.String() + got.text + w.handler.Upstream().Failure
		assert.Contains(t, shown, "malformed HTTP response")
		assert.NotContains(t, shown, "canary")
	})
}

type echo struct{}

func (echo) RoundTrip(r *http.Request) (*http.Response, error) {
	return nil, fmt.Errorf("malformed HTTP response %q", r.Method+" "+r.URL.RequestURI())
}

// A web page can make a browser on this machine send requests to the proxy, even if the page cannot read the responses.
// The proxy must refuse such requests.
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

// By DNS rebinding, a web page's host name can point to this machine. The page then has the same origin as the proxy,
// so the proxy must serve only host names that no web page can have.
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
