package httpclient_test

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/httpclient"
	"github.com/ratelight/ratelight/routes"
)

// to changes the scheme and the host of a request to those of address, and returns the request.
func to(t *testing.T, address string, r *http.Request) *http.Request {
	t.Helper()
	u, err := url.Parse(address)
	require.NoError(t, err)
	r.URL.Scheme, r.URL.Host = u.Scheme, u.Host
	return r
}

// address returns the parsed URL.
func address(t *testing.T, raw string) *url.URL {
	t.Helper()
	u, err := url.Parse(raw)
	require.NoError(t, err)
	return u
}

// listener is a limiter that grants all requests at once, and records their servers and routes.
type listener struct {
	buckets.Unlimited
	mu      sync.Mutex
	servers []string
	routes  []routes.CompiledRoute
}

func (l *listener) AcquireRequest(ctx context.Context, r *buckets.Request) (buckets.Lease, error) {
	l.mu.Lock()
	l.servers, l.routes = append(l.servers, r.Server), append(l.routes, r.Route)
	l.mu.Unlock()
	return l.Unlimited.AcquireRequest(ctx, r)
}

// servers sends a request to each address. For each address it returns the server whose limits applied, or "-" if the
// request was not limited.
func servers(t *testing.T, addresses []string, options ...httpclient.Option) (got []string) {
	t.Helper()
	heard, below := &listener{}, newScript(answer(http.StatusOK, "{}"))
	transport := httpclient.NewTransport(append(
		[]httpclient.Option{httpclient.WithBase(below), httpclient.WithLimiter(heard)}, options...)...)
	defer transport.Close()
	for i, address := range addresses {
		heard.servers = append(heard.servers[:0], "-")
		assertStatus(t, http.StatusOK, send(transport, to(t, address, getChannel(t))))
		require.Len(t, below.requests(), i+1)
		got = append(got, heard.servers[len(heard.servers)-1])
	}
	return got
}

func TestOnlyDiscordsHostsAreLimited(t *testing.T) {
	t.Parallel()
	ours := []string{"https://discord.com", "http://discord.com", "https://Discord.COM.:443", "https://canary.discord.com",
		"https://discordapp.com"}
	assert.Equal(t, []string{"", "", "", "", ""}, servers(t, ours))
	for _, address := range []string{
		"https://api.github.com", "https://example.com", "http://127.0.0.1:80", "http://[::1]:8080",
		"https://discord.com.example.com",
		"https://notdiscord.com", "https://cdn.discordapp.com", "https://media.discordapp.net", "https://discord.gg",
		"https://discord.com@example.com",
	} {
		assert.Equal(t, []string{"-"}, servers(t, []string{address}), address)
	}
}

func TestEachHostThatTheCallerAddsIsAServerOfItsOwn(t *testing.T) {
	t.Parallel()
	const proxy, compatible, other = "https://proxy.example:8443", "http://[2001:DB8::1]", "https://example.com"
	var asked []string
	add := httpclient.WithHosts(func(host string) (string, bool) {
		asked = append(asked, host)
		return host, host != "example.com"
	})
	all := []string{"https://discord.com", proxy, compatible, other, "https://cdn.discordapp.com"}
	assert.Equal(t, []string{"", "proxy.example:8443", "[2001:db8::1]", "-", "-"}, servers(t, all, add))
	assert.Equal(t, []string{"proxy.example:8443", "[2001:db8::1]", "example.com"}, asked,
		"WithHosts must not be asked about Discord's hosts")

	assert.Equal(t, []string{"", "", "one", "-", "-"}, servers(t, all, httpclient.WithHosts(func(h string) (string, bool) {
		return map[string]string{"[2001:db8::1]": "one"}[h], h != "example.com"
	})), "the proxy forwards to Discord")
	assert.Equal(t, []string{"", "-", "-", "-", "-"}, servers(t, all, add, httpclient.WithHosts(nil)),
		"the later one counts")
}

func TestAHostIsTheSameHoweverItIsSpelled(t *testing.T) {
	t.Parallel()
	add := httpclient.WithHosts(func(host string) (string, bool) {
		return host, strings.HasPrefix(host, "proxy") || strings.HasPrefix(host, "[")
	})
	for want, spellings := range map[string][]string{
		"proxy": {
			"http://proxy", "https://PROXY", "http://proxy:80", "https://proxy:443", "https://proxy.", "http://Proxy.:80",
			"http://proxy:",
		},
		"proxy:8080":     {"http://proxy:8080", "https://proxy.:8080", "http://user:password@PROXY:8080"},
		"proxy:443":      {"http://proxy:443"}, // over http, port 443 is not the default
		"proxy:80":       {"https://proxy:80"},
		"[::1]":          {"http://[::1]", "https://[::1]:443"},
		"[::1]:1":        {"http://[::1]:1"},
		"[fe80::1%eth0]": {"http://[FE80::1%25eth0]:80"},
	} {
		assert.Equal(t, slices.Repeat([]string{want}, len(spellings)), servers(t, spellings, add), want)
	}
}

// If a URL has an opaque part, net/http sends that part instead of the path, so the limits of that part must apply.
func TestARequestIsLimitedByThePathThatIsSent(t *testing.T) {
	t.Parallel()
	const path = "/api/v10/channels/1/messages/2/reactions/%F0%9F%94%A5/@me"
	for name, c := range map[string]struct {
		url  url.URL
		want string // method and path of the route; empty if there must be no route
	}{
		"path":           {url.URL{Path: "/api/v10/channels/1/messages"}, "PUT /channels/1/messages"},
		"encoded":        {url.URL{Path: "/api/v10/invites/a/b", RawPath: "/api/v10/invites/a%2Fb"}, "PUT /invites/{code}"},
		"opaque, a path": {url.URL{Opaque: path}, "PUT /channels/1/messages/2/reactions/%F0%9F%94%A5/@me"},
		"with a host":    {url.URL{Opaque: "//discord.com" + path}, "PUT /channels/1/messages/2/reactions/%F0%9F%94%A5/@me"},
		"another host":   {url.URL{Opaque: "//example.com/api/v10/channels/1"}, "PUT /channels/1"},
		"a host alone":   {url.URL{Opaque: "//discord.com"}, "PUT /"},
		"a whole URL": {url.URL{Opaque: "https://discord.com" + path},
			"PUT /channels/1/messages/2/reactions/%F0%9F%94%A5/@me"},
		"before the path": {url.URL{Opaque: "/api/v10/channels/1", Path: "/api/v10/channels/2"}, "PUT /channels/1"},
		"with a query":    {url.URL{Opaque: "/api/v10/channels/1?a=/b"}, "PUT /channels/1"},
		"no path":         {url.URL{Opaque: "channels/1"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			heard, below := &listener{}, newScript(answer(http.StatusOK, "{}"))
			transport := newTransport(t, below, httpclient.WithLimiter(heard))
			c.url.Scheme, c.url.Host = "https", "discord.com"
			r := newRequest(t, http.MethodPut, "/", "")
			r.URL = &c.url
			sent := send(transport, r).wait()
			if c.want == "" {
				require.ErrorIs(t, sent.err, routes.ErrNotAbsolute)
				return
			}
			require.NoError(t, sent.err)
			require.Len(t, heard.routes, 1)
			if got := heard.routes[0].String(); got != c.want {
				assert.Equal(t, c.want, heard.routes[0].Route().String())
			}
			assert.Same(t, r.URL, below.requests()[0].request.URL)
		})
	}
}

func TestMethodsThatAreNotKnownAreLimitedLikeOthers(t *testing.T) {
	bubble(t, func(t *testing.T) {
		below := newScript(answer(http.StatusOK, "{}", limitHeaders("X-RateLimit-Remaining: 0")...))
		transport := newTransport(t, below)
		var calls []*call
		for _, method := range []string{"QUERY", "PROPFIND"} {
			calls = append(calls, send(transport, newRequest(t, method, "/api/v10/channels/1", "")))
			synctest.Wait()
		}
		assertStatus(t, http.StatusOK, calls...)
		assert.Zero(t, calls[0].took)
		assert.NotZero(t, calls[1].took, "both may share a limit, so the second waits")
		for i, method := range []string{"QUERY", "PROPFIND"} {
			assert.Equal(t, method, below.requests()[i].request.Method)
		}
	})
}

func callerPanics() bool { panic("caller") }

func TestTheHostOfAnAPIIsLimitedLikeThoseOfWithHosts(t *testing.T) {
	t.Parallel()
	var options []httpclient.Option
	for _, base := range []string{"http://Proxy:8080/discord/", "https://other.:443", "/nowhere"} {
		options = append(options, httpclient.WithAPI(address(t, base), address(t, base).Host))
	}
	options = append(options, httpclient.WithAPI(nil, "x"), httpclient.WithHosts(func(host string) (string, bool) {
		return host, host == "third"
	}))
	addresses := []string{"http://proxy:8080", "https://other", "http://third", "http://proxy", "https://discord.com"}
	assert.Equal(t, []string{"proxy:8080", "other", "third", "-", ""}, servers(t, addresses, options...))
	options = append(options, httpclient.WithAPI(address(t, "http://proxy:8080"), ""),
		httpclient.WithAPI(address(t, "https://other/x"), "Mine"), httpclient.WithAPI(address(t, "https://discord.com"), "y"))
	assert.Equal(t, []string{"", "mine", "third", "-", ""}, servers(t, addresses, options...), "the last option counts")
}

// An ingress or a gateway may serve a proxy for Discord below a path. That path must not be taken for a part of the
// route.
func TestRoutesAreFoundBelowThePathOfAnAPI(t *testing.T) {
	t.Parallel()
	for name, bases := range map[string][]string{
		"one":                   {"http://proxy/discord/"},
		"below the host's root": {"http://proxy", "http://proxy/discord"},
		"below another API":     {"http://proxy/discord", "http://proxy/discord/canary"},
		"above another API":     {"http://proxy/discord/canary", "http://proxy/discord"},
		"beside other servers":  {"http://other", "http://proxy/discord", "http://other/discord/canary"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			heard := &listener{}
			options := []httpclient.Option{httpclient.WithBase(newScript(answer(http.StatusOK, "{}"))),
				httpclient.WithLimiter(heard)}
			paths := []string{"/api/v10", ""}
			for _, base := range bases {
				options = append(options, httpclient.WithAPI(address(t, base), ""))
				if u := address(t, base); u.Host == "proxy" {
					paths = append(paths, strings.TrimSuffix(u.Path, "/"))
				}
			}
			transport := httpclient.NewTransport(options...)
			defer transport.Close()
			for _, path := range paths {
				r, err := http.NewRequest(http.MethodPost, "http://proxy"+path+"/channels/1/messages", nil)
				require.NoError(t, err)
				assertStatus(t, http.StatusOK, send(transport, r))
				assert.Equal(t, routes.CreateMessage, heard.routes[len(heard.routes)-1].Route(), path)
			}
			// Neither of these paths is below the path of the API.
			for _, path := range []string{"/discord", "/discordant/channels/1/messages"} {
				r, err := http.NewRequest(http.MethodPost, "http://proxy"+path, nil)
				require.NoError(t, err)
				assertStatus(t, http.StatusOK, send(transport, r))
				assert.NotEqual(t, routes.CreateMessage, heard.routes[len(heard.routes)-1].Route(), path)
			}
		})
	}
}

// A request without a host must not count as a request to the server "", which means Discord. The Host header must not
// decide about limits, because only the URL says where a request is sent.
func TestOnlyTheHostOfTheURLDecidesWhoIsLimited(t *testing.T) {
	t.Parallel()
	add := httpclient.WithHosts(func(host string) (string, bool) { return host, host != "example.com" })
	assert.Equal(t, []string{"-", "-", "-"}, servers(t, []string{"http://", "http://:80", "http://:8080"}, add))
	below := newScript(answer(http.StatusOK, "{}"))
	transport := newTransport(t, below, add)
	opaque, none, foreign, ours := getChannel(t), getChannel(t), to(t, "https://example.com", getChannel(t)), getChannel(t)
	opaque.URL = &url.URL{Scheme: "http", Opaque: "//discord.com/api/v10/channels/1"}
	none.URL = nil
	foreign.Host, ours.Host = "discord.com", "example.com"
	for _, r := range []*http.Request{opaque, none, foreign} {
		assertStatus(t, http.StatusOK, send(transport, r))
	}
	assert.Zero(t, transport.Manager().Stats().Granted)
	assertStatus(t, http.StatusOK, send(transport, ours))
	assert.EqualValues(t, 1, transport.Manager().Stats().Granted)
	assert.Equal(t, "discord.com", below.requests()[2].request.Host)
	assert.Equal(t, "example.com", below.requests()[3].request.Host)
}

// Requests to other hosts must have no timeout, because attachments are large and slow. They must not be repeated,
// because the caller decides what to do after failures. Such a host may accept paths and methods that Discord does not
// have.
func TestRequestsToOtherHostsAreNeitherTimedNorRepeatedNorRefused(t *testing.T) {
	bubble(t, func(t *testing.T) {
		below := newScript(answer(http.StatusBadGateway, "{}"))
		below.takes = 24 * time.Hour
		transport := newTransport(t, below)
		for _, method := range []string{http.MethodGet, "QUERY", "PROPFIND"} {
			for _, path := range []string{"/a/../b", "/a%2fb//c/", "/" + strings.Repeat("x", 10_000)} {
				r := to(t, "https://files.example", newRequest(t, http.MethodGet, path, ""))
				r.Method = method
				c := send(transport, r)
				assertStatus(t, http.StatusBadGateway, c)
				assert.Equal(t, 24*time.Hour, c.took)
				all := below.requests()
				assert.Same(t, r, all[len(all)-1].request)
			}
		}
		assert.Len(t, below.requests(), 9)
	})
}

func TestARefusalOfAnotherHostIsTheCallersAndHoldsNothing(t *testing.T) {
	inBubbles(t, map[string]int{"a 429": 429, "a 401": 401}, func(t *testing.T, status int) {
		refusal := answer(status, `{"code":0}`, "Retry-After: 86400", "X-RateLimit-Scope: global", "X-RateLimit-Remaining: 0")
		transport := newTransport(t, responder(func(r *http.Request) (*http.Response, error) {
			if r.URL.Host != "discord.com" {
				return refusal(r)
			}
			return answer(http.StatusOK, "{}")(r)
		}), httpclient.WithoutRateLimitHeaders())
		for _, address := range []string{
			"https://cdn.discordapp.com", "https://api.github.com", "https://uploads.example:8443", "http://127.0.0.1:8080",
			"http://[::1]",
		} {
			for _, r := range []*http.Request{newMessage(t), newRequest(t, http.MethodGet, "/api/v10/users/@me", "")} {
				response := roundTrip(t, transport, to(t, address, r))
				require.NoError(t, response.Body.Close())
				assert.Equal(t, status, response.StatusCode)
				assert.Equal(t, "86400", response.Header.Get("Retry-After"), "nothing is hidden")
				assert.Equal(t, "global", response.Header.Get("X-RateLimit-Scope"))
			}
		}
		assert.Zero(t, transport.Manager().EdgeWait(""))
		message := send(transport, newMessage(t))
		assertStatus(t, http.StatusOK, message)
		assert.Zero(t, message.took)
	})
}

func TestAPanicOfTheCallersFunctionsLeavesNothingTaken(t *testing.T) {
	inBubbles(t, map[string]func(host string) bool{
		"WithHosts":  func(string) bool { panic("caller") },
		"a redirect": func(host string) bool { return host == "panics" && callerPanics() },
	}, func(t *testing.T, limited func(host string) bool) {
		below := newScript(answer(http.StatusOK, "{}"))
		transport := newTransport(t, below,
			httpclient.WithHosts(func(host string) (string, bool) { return host, limited(host) }))
		r := to(t, "http://proxy", newMessage(t))
		bodies := track(r)
		r.Response = &http.Response{Request: to(t, "http://panics", newMessage(t))}
		assert.PanicsWithValue(t, "caller", func() { _, _ = transport.RoundTrip(r) })
		bodies.assertClosed(t)
		assert.Empty(t, below.requests())
		assert.Zero(t, transport.Manager().Stats().Granted)
		assertStatus(t, http.StatusOK, send(transport, newMessage(t)))
	})
}
