package rest_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/httpclient"
	"github.com/ratelight/ratelight/httpclient/rest"
	"github.com/ratelight/ratelight/routes"
)

func TestClientClosesWhatItOwns(t *testing.T) {
	t.Parallel()
	own := rest.New("", over(fine()))
	require.True(t, own.Transport().Manager().IsAlive())
	require.NoError(t, own.Close())
	require.NoError(t, own.Close())
	assert.False(t, own.Transport().Manager().IsAlive())
	assert.ErrorIs(t, own.DoJSON(t.Context(), "GET", "/gateway", nil, nil), buckets.ErrClosed)

	manager := newManager(t)
	one := rest.New("", over(fine()), rest.WithTransport(httpclient.WithLimiter(manager)))
	two := rest.New("", over(fine()), rest.WithTransport(httpclient.WithLimiter(manager)))
	require.NoError(t, one.Close())
	assert.True(t, manager.IsAlive())
	assert.ErrorIs(t, one.DoJSON(t.Context(), "GET", "/gateway", nil, nil), buckets.ErrClosed)
	assert.NoError(t, two.DoJSON(t.Context(), "GET", "/gateway", nil, nil))
	require.NoError(t, two.Close())
}

// roundTripperFunc is a function that is used as a base transport.
type roundTripperFunc func(*http.Request) (*http.Response, error)

func (f roundTripperFunc) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// Discord was not ready, so the client pauses before it sends the request again. During the pause, no request is in the
// transport. Even so, Shutdown must wait for the client's call.
func TestShutdownWaitsForACallThatAsksAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		below := replies(reply(http.StatusAccepted, clientJSON, `{"code":110000,"retry_after":20}`),
			reply(http.StatusOK, clientJSON, "{}"))
		client := newClient(t, below)
		errs, over := make(chan error, 1), make(chan error, 1)
		go func() {
			_, err := client.Do(context.Background(), http.MethodGet, "/guilds/1/messages/search", nil)
			errs <- err
		}()
		time.Sleep(10 * time.Second)
		go func() { over <- client.Shutdown(context.Background()) }()
		synctest.Wait()
		_, err := client.Do(context.Background(), http.MethodGet, "/users/@me", nil)
		require.ErrorIs(t, err, buckets.ErrClosed)
		assert.ErrorContains(t, err, "shutting down")
		assert.Empty(t, over)
		assert.NoError(t, <-errs)
		assert.NoError(t, <-over)
		_, err = client.Do(context.Background(), http.MethodGet, "/users/@me", nil)
		assert.Equal(t, buckets.ErrClosed, err)
		assert.Len(t, below.sent(), 2)
	})
}

func TestShutdownOfAClientWhoseContextEndsCutsItsCallsOff(t *testing.T) {
	bubble(t, func(t *testing.T) {
		client := newClient(t, replies(reply(http.StatusAccepted, clientJSON, `{"code":110000,"retry_after":20}`)))
		errs := make(chan error, 1)
		go func() {
			_, err := client.Do(context.Background(), http.MethodGet, "/guilds/1/messages/search", nil)
			errs <- err
		}()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		assert.ErrorIs(t, client.Shutdown(ctx), context.DeadlineExceeded)
		assert.ErrorIs(t, <-errs, buckets.ErrClosed)
	})
}

// ResetCredential must use the Authorization that the client sends, which may differ from the token given to New.
func TestAClientResetsItsOwnCredential(t *testing.T) {
	bubble(t, func(t *testing.T) {
		refusal := reply(401, clientJSON, `{"code":0}`)
		client := rest.New("stopped", over(replies(refusal, refusal, reply(200, clientJSON, "{}"))))
		defer client.Close()
		get := func(path string) error { return client.DoJSON(t.Context(), "GET", path, nil, nil) }
		require.Error(t, get("/users/@me/guilds"))
		require.Error(t, get("/applications/@me"))
		require.ErrorAs(t, get("/channels/1"), new(*httpclient.CredentialError))
		client.ResetCredential()
		require.NoError(t, get("/channels/1"))
	})
}

// A client must limit the host of its base URL, even if an ingress or a gateway serves a proxy for Discord below a path
// of that host.
func TestAClientLimitsTheHostOfItsBaseURL(t *testing.T) {
	asDiscord := rest.WithTransport(httpclient.WithAPI(&url.URL{Scheme: "http", Host: "proxy:8080"}, ""))
	none := rest.WithTransport(httpclient.WithHosts(func(string) (string, bool) { return "", false }))
	type story struct {
		base    string
		options []rest.Option
		server  string
	}
	inBubbles(t, map[string]story{
		"Discord":              {"", nil, ""},
		"a proxy":              {"http://Proxy:8080/discord/api/v9/", nil, "proxy:8080"},
		"a proxy below a path": {"http://proxy/discord", nil, "proxy"},
		"a proxy to Discord":   {"http://proxy:8080", []rest.Option{asDiscord}, ""},
		"the usual port":       {"https://proxy.:443", nil, "proxy"},
		"and other hosts":      {"http://proxy", []rest.Option{none}, "proxy"},
	}, func(t *testing.T, c story) {
		heard := &listener{}
		client := rest.New(clientToken, append([]rest.Option{rest.WithBaseURL(c.base),
			rest.WithTransport(httpclient.WithLimiter(heard)), over(fine())}, c.options...)...)
		defer client.Close()
		require.NoError(t, client.DoJSON(t.Context(), "POST", clientMessages, 1, nil))
		assert.Equal(t, []string{c.server + " POST /channels/{channel_id}/messages of 1"}, heard.requests)
	})
}

func TestClientPutsPathsBelowTheBaseURL(t *testing.T) {
	const revoke = "https://discord.com/api/oauth2/token/revoke"
	const discord, emoji = "https://discord.com/api/v10", "/channels/1/messages/2/reactions/"
	type story struct{ base, path, want string }
	inBubbles(t, map[string]story{
		"default": {"", "/gateway", discord + "/gateway"},
		"query":   {"", clientMessages + "?limit=5&after=1", discord + "/channels/1/messages?limit=5&after=1"},
		"emoji":   {"", emoji + "👍/@me", discord + emoji + "%F0%9F%91%8D/@me"},
		"encoded": {"", emoji + "%23%EF%B8%8F%E2%83%A3/@me", discord + emoji + "%23%EF%B8%8F%E2%83%A3/@me"},
		"slashes in the query": {
			"", "/guilds/1/messages/search?content=https://a//b/", discord + "/guilds/1/messages/search?content=https://a//b/",
		},
		"with that path":    {"", "/api/v10/gateway", discord + "/gateway"},
		"proxy":             {"http://proxy:8080/discord/api/v9/", "/gateway", "http://proxy:8080/discord/api/v9/gateway"},
		"no path at all":    {"http://proxy", "/gateway", "http://proxy/gateway"},
		"whole":             {"", discord + "/gateway?x=1", discord + "/gateway?x=1"},
		"whole, upper case": {"", "https://DISCORD.com/api/v10/gateway", discord + "/gateway"},
		"another version":   {"http://proxy/api/v1", "http://proxy/api/v10/gateway", "http://proxy/api/v10/gateway"},
		"no version":        {"", revoke, revoke},
	}, func(t *testing.T, c story) {
		r := sent(t, []rest.Option{rest.WithBaseURL(c.base)}, "get", c.path, nil)
		assert.Equal(t, c.want, r.URL.String())
		assert.Equal(t, http.MethodGet, r.Method)
		assert.Equal(t, "Bot "+clientToken, r.Header.Get("Authorization"))
		assert.Contains(t, r.Header.Get("User-Agent"), "DiscordBot (https://github.com/ratelight/ratelight, ")
		assert.Nil(t, r.Body)
	})
}

func TestClientRefusesWhatItCannotSendBeforeSending(t *testing.T) {
	const secret = "webhook-SeCrEt_0123456789"
	type story struct {
		token, method, path string // "": a valid one
		options             []rest.Option
		request             rest.RequestOption
		out                 any
		want                error
	}
	var nothing *struct{}
	stories := map[string]story{
		"another host":                     {path: "https://example.com/api/v10/" + secret, want: rest.ErrPath},
		"a host like ours":                 {path: "https://discord.com.example.com/" + secret, want: rest.ErrPath},
		"another port":                     {path: "https://discord.com:8443/api/v10/" + secret, want: rest.ErrPath},
		"without TLS":                      {path: "http://discord.com/api/v10/" + secret, want: rest.ErrPath},
		"a user":                           {path: "https://discord.com@example.com/" + secret, want: rest.ErrPath},
		"our host as a user":               {path: "https://" + secret + "@discord.com/api/v10/gateway", want: rest.ErrPath},
		"a space in the query":             {path: "/channels/1?a=" + secret + " ", want: rest.ErrPath},
		"no scheme":                        {path: "//example.com/" + secret, want: rest.ErrPath},
		"an empty parameter":               {path: "/webhooks//" + secret, want: rest.ErrPath},
		"an empty last parameter":          {path: "/webhooks/" + secret + "/", want: rest.ErrPath},
		"nothing":                          {path: "/", want: rest.ErrPath},
		"a fragment":                       {path: "/channels/1/messages/2/reactions/#/" + secret, want: rest.ErrPath},
		"a bad port":                       {path: "https://discord.com:x/" + secret, want: rest.ErrPath},
		"a control character in the query": {path: "/gateway?a=\x01" + secret, want: rest.ErrPath},
		"no slash":                         {path: "channels/" + secret, want: routes.ErrNotAbsolute},
		"empty":                            {path: "empty", want: routes.ErrEmptyPath},
		"dots":                             {path: "/channels/../" + secret, want: routes.ErrDotSegment},
		"encoding":                         {path: "/channels/%zz" + secret, want: routes.ErrEncoding},
		"CDN":                              {path: "https://cdn.discordapp.com/" + secret, want: routes.ErrNotAPI},
		"method":                           {method: "BR EW", path: "/channels/" + secret, want: routes.ErrMethod},
		"no method":                        {method: "none", path: "/channels/" + secret, want: routes.ErrMethod},
		"reason":                           {request: rest.Reason(strings.Repeat("u", 513)), want: rest.ErrReason},
		"out, no pointer":                  {out: struct{}{}, want: rest.ErrOut},
		"out, nil":                         {out: nothing, want: rest.ErrOut},
		"out, a map":                       {out: map[string]any{}, want: rest.ErrOut},
	}
	for _, base := range []string{
		"discord.com/api", "ftp://discord.com", "https://", "https:///api", "https://user:SeCrEt@discord.com/api/v10", ":",
		"https://discord.com/api?v=10", "https://discord.com/api?", "https://discord.com/#api", "https://discord.com/%zz",
		"https://cdn.discordapp.com",
	} {
		stories["base "+base] = story{options: []rest.Option{rest.WithBaseURL(base)}, want: rest.ErrBaseURL}
	}
	for _, token := range []string{
		"Bot", "Bot ", "bearer\t", "Basic SeCrEt", "Bot Bot SeCrEt", "SeC\nrEt", "SeCrEt\x00", "Sécret",
	} {
		stories["token "+token] = story{token: token, want: rest.ErrToken}
	}
	for _, agent := range [][3]string{{"a\nb"}, {"a, b"}, {"", "1)"}, {"", "", "a\r\nAuthorization: b"}} {
		options := []rest.Option{rest.WithUserAgent(agent[0], agent[1], agent[2])}
		stories[fmt.Sprint("user agent ", agent)] = story{options: options, want: rest.ErrUserAgent}
	}
	for _, header := range [][2]string{{"", "a"}, {"a b", "c"}, {"a:", "c"}, {"a", "b\r\nc: d"}, {"X-Ü", ""}} {
		stories[fmt.Sprint("header ", header)] = story{request: rest.Header(header[0], header[1]), want: rest.ErrHeader}
	}
	for _, host := range strings.Split("a b|a/b|a?b|a#b|user@a|http://a|a\x01| a|[::1|a:b:c|a:x", "|") {
		stories["host "+host] = story{request: rest.Header("Host", host), want: rest.ErrHeader}
	}
	inBubbles(t, stories, func(t *testing.T, c story) {
		below := fine()
		client := rest.New(cmp.Or(c.token, clientToken), append(c.options, over(below))...)
		defer client.Close()
		method := strings.TrimPrefix(cmp.Or(c.method, "GET"), "none")
		path := strings.TrimPrefix(cmp.Or(c.path, "/gateway"), "empty")
		err := client.DoJSON(t.Context(), method, path, nil, c.out, c.request)
		require.ErrorIs(t, err, c.want)
		assert.NotContains(t, err.Error(), "SeC")
		assert.Empty(t, below.sent())
	})
}

func TestClientSendsTheTokenWithAPrefix(t *testing.T) {
	t.Parallel()
	for token, want := range map[string]string{
		"abc.def-_": "Bot abc.def-_", "Bot abc": "Bot abc", "bot abc": "Bot abc", "Bearer abc": "Bearer abc",
		"BEARER abc": "Bearer abc", "  Bot   abc \n": "Bot abc", "Bottle": "Bot Bottle", "": "", "  ": "",
	} {
		below := fine()
		client := rest.New(token, over(below))
		require.NoError(t, client.DoJSON(t.Context(), "GET", "/gateway/bot", nil, nil))
		require.NoError(t, client.Close())
		assert.Equal(t, want, below.only(t).Header.Get("Authorization"), token)
		assert.Equal(t, want != "", len(below.only(t).Header["Authorization"]) == 1)
	}
}

func TestClientSendsItsCredentialWhereItIsNeeded(t *testing.T) {
	own, without := rest.Header("Authorization", "Bearer other"), rest.WithoutAuthorization()
	bot := []string{"Bot " + clientToken}
	type story struct {
		path    string
		options []rest.RequestOption
		want    []string
	}
	inBubbles(t, map[string]story{
		"bot":                        {clientMessages, nil, bot},
		"nil option":                 {clientMessages, []rest.RequestOption{nil}, bot},
		"without":                    {clientMessages, []rest.RequestOption{without}, nil},
		"own":                        {clientMessages, []rest.RequestOption{own}, []string{"Bearer other"}},
		"own and without":            {clientMessages, []rest.RequestOption{own, without}, []string{"Bearer other"}},
		"empty":                      {clientMessages, []rest.RequestOption{rest.Header("authorization", "")}, nil},
		"webhook":                    {clientWebhook, nil, nil},
		"webhook, own Authorization": {clientWebhook, []rest.RequestOption{own}, nil},
		"interaction's callback":     {"/interactions/1/aW50ZXJhY3Rpb246abc/callback", nil, nil},
		"webhook without the token":  {"/webhooks/1", nil, bot},
	}, func(t *testing.T, c story) {
		below := fine()
		client := newClient(t, below)
		require.NoError(t, client.DoJSON(t.Context(), "POST", c.path, map[string]int{}, nil, c.options...))
		assert.Equal(t, c.want, below.only(t).Header["Authorization"])
		// The bucket belongs to the credential that was sent. If no credential was sent, the bucket belongs to the token in
		// the path.
		for b := range client.Transport().Manager().Buckets() {
			assert.Equal(t, c.want == nil, b.Authentication == "-")
		}
	})
}

func TestClientNamesItselfAsDiscordInsistsOn(t *testing.T) {
	const ours = `^DiscordBot \(https://github\.com/ratelight/ratelight, \d+\.\d+\.\d+\)`
	type story struct {
		agent   [3]string // of WithUserAgent
		request rest.RequestOption
		want    string
	}
	inBubbles(t, map[string]story{
		"default":     {want: ours + "$"},
		"suffix":      {agent: [3]string{2: "go/1.26 mybot"}, want: ours + ` go/1\.26 mybot$`},
		"own":         {agent: [3]string{"https://a.example", "2", "x"}, want: `^DiscordBot \(https://a\.example, 2\) x$`},
		"per request": {request: rest.Header("user-agent", "DiscordBot (a, 1)"), want: `^DiscordBot \(a, 1\)$`},
	}, func(t *testing.T, c story) {
		agent := []rest.Option{rest.WithUserAgent(c.agent[0], c.agent[1], c.agent[2])}
		assert.Regexp(t, c.want, sent(t, agent, "GET", "/gateway", nil, c.request).Header.Get("User-Agent"))
	})
}

func TestClientSendsReasonsPercentEncoded(t *testing.T) {
	t.Parallel()
	for reason, want := range map[string][]string{
		"was rude":                          {"was%20rude"},
		"größer 🔨":                          {"gr%C3%B6%C3%9Fer%20%F0%9F%94%A8"},
		"a+b & 100%\r\nX: y":                {"a%2Bb%20%26%20100%25%0D%0AX%3A%20y"},
		"not UTF-8: \xff":                   {"not%20UTF-8%3A%20%EF%BF%BD"},
		"":                                  nil,
		strings.Repeat("ü", rest.MaxReason): {strings.Repeat("%C3%BC", rest.MaxReason)},
	} {
		r := sent(t, nil, "DELETE", "/guilds/1/bans/2", nil, rest.Reason(reason))
		assert.Equal(t, want, r.Header["X-Audit-Log-Reason"])
	}
}

func TestClientSendsHeadersOfTheRequest(t *testing.T) {
	t.Parallel()
	r := sent(t, nil, "POST", clientMessages, rest.Bytes("text/plain", []byte("x")),
		rest.Header("x-a", "1"), rest.Header("X-A", "2"), rest.Header("Content-Type", "text/csv"))
	assert.Equal(t, []string{"2"}, r.Header["X-A"])
	assert.Equal(t, "text/csv", r.Header.Get("Content-Type"))
}

// The client must send an empty body as http.NoBody. If an empty body is of another type, net/http takes its length for
// unknown.
func TestClientSendsAnEmptyBodyAsOne(t *testing.T) {
	t.Parallel()
	r := sent(t, nil, "POST", clientMessages, rest.Bytes("text/plain", nil))
	assert.Zero(t, r.ContentLength)
	assert.Equal(t, http.NoBody, r.Body)
	assert.Equal(t, "text/plain", r.Header.Get("Content-Type"))
}

// A Host header names one of several servers at the same address. The client must send the header, but the limits must
// be those of the address.
func TestClientSendsAHostOfTheCallersOwn(t *testing.T) {
	t.Parallel()
	for host, want := range map[string]string{
		"discord.com": "discord.com", "Example.com:8443": "Example.com:8443", "[::1]:80": "[::1]:80", "": "proxy:8080",
		"bücher.example": "bücher.example",
	} {
		heard := &listener{}
		options := []rest.Option{rest.WithBaseURL("http://proxy:8080/api"), rest.WithTransport(httpclient.WithLimiter(heard))}
		r := sent(t, options, "GET", "/gateway", nil, rest.Header("host", host))
		assert.Equal(t, want, r.Host)
		assert.NotContains(t, r.Header, "Host")
		assert.Equal(t, "proxy:8080", r.URL.Host)
		assert.Equal(t, []string{"proxy:8080 GET /gateway of "}, heard.requests)
	}
}

func TestClientSendsAnyMethodAsItIsWritten(t *testing.T) {
	t.Parallel()
	for method, want := range map[string]string{
		"get": "GET", "QUERY": "QUERY", "PROPFIND": "PROPFIND", "m-search": "m-search",
	} {
		heard := &listener{}
		options := []rest.Option{rest.WithTransport(httpclient.WithLimiter(heard))}
		r := sent(t, options, method, clientMessages, map[string]int{"a": 1})
		assert.Equal(t, want, r.Method)
		assert.Equal(t, `{"a":1}`, r.body)
		assert.Len(t, heard.requests, 1)
	}
}

func TestClientSaysWhichRouteAnErrorBelongsTo(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	client := newClient(t, roundTripperFunc(func(*http.Request) (*http.Response, error) { return nil, broken }))
	err := client.DoJSON(t.Context(), "POST", clientMessages, nil, nil)
	require.ErrorIs(t, err, broken)
	assert.EqualError(t, err, "POST /channels/{channel_id}/messages: broken")

	below := replies(reply(404, clientJSON, `{"message":"nothing"}`))
	err = newClient(t, below).DoJSON(t.Context(), "QUERY", clientMessages, nil, nil)
	assert.EqualError(t, err, "{method} /channels/{channel_id}/messages: 404 Not Found: nothing")

	var none context.Context
	assert.ErrorIs(t, client.DoJSON(none, "GET", "/gateway", nil, nil), buckets.ErrNoContext)
}
