package rest_test

import (
	"context"
	"errors"
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

func TestClientPutsPathsBelowTheBaseURL(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ base, path, want string }{
		"default": {"", "/gateway", "https://discord.com/api/v10/gateway"},
		"query":   {"", clientMessages + "?limit=5&after=1", "https://discord.com/api/v10/channels/1/messages?limit=5&after=1"},
		"emoji": {
			"", "/channels/1/messages/2/reactions/👍/@me",
			"https://discord.com/api/v10/channels/1/messages/2/reactions/%F0%9F%91%8D/@me",
		},
		"encoded": {
			"", "/channels/1/messages/2/reactions/%23%EF%B8%8F%E2%83%A3/@me",
			"https://discord.com/api/v10/channels/1/messages/2/reactions/%23%EF%B8%8F%E2%83%A3/@me",
		},
		"slashes in the query": {
			"", "/guilds/1/messages/search?content=https://a//b/",
			"https://discord.com/api/v10/guilds/1/messages/search?content=https://a//b/",
		},
		"with that path":    {"", "/api/v10/gateway", "https://discord.com/api/v10/gateway"},
		"proxy":             {"http://proxy:8080/discord/api/v9/", "/gateway", "http://proxy:8080/discord/api/v9/gateway"},
		"no path at all":    {"http://proxy", "/gateway", "http://proxy/gateway"},
		"whole":             {"", "https://discord.com/api/v10/gateway?x=1", "https://discord.com/api/v10/gateway?x=1"},
		"whole, upper case": {"", "https://DISCORD.com/api/v10/gateway", "https://discord.com/api/v10/gateway"},
		"another version":   {"http://proxy/api/v1", "http://proxy/api/v10/gateway", "http://proxy/api/v10/gateway"},
		"no version":        {"", "https://discord.com/api/oauth2/token/revoke", "https://discord.com/api/oauth2/token/revoke"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			below := fine()
			client := newClient(t, below, rest.WithBaseURL(c.base))
			_, err := client.Do(t.Context(), "get", c.path, nil)
			require.NoError(t, err)
			r := below.only(t)
			assert.Equal(t, c.want, r.URL.String())
			assert.Equal(t, http.MethodGet, r.Method)
			assert.Equal(t, "Bot "+clientToken, r.Header.Get("Authorization"))
			assert.Nil(t, r.Body)
		})
	}
}

func TestClientRefusesAddressesThatLeadElsewhere(t *testing.T) {
	t.Parallel()
	const secret = "webhook-SeCrEt_0123456789"
	for name, c := range map[string]struct {
		method, path string
		want         error
	}{
		"another host":                     {"GET", "https://example.com/api/v10/" + secret, rest.ErrPath},
		"a host like ours":                 {"GET", "https://discord.com.example.com/" + secret, rest.ErrPath},
		"another port":                     {"GET", "https://discord.com:8443/api/v10/" + secret, rest.ErrPath},
		"without TLS":                      {"GET", "http://discord.com/api/v10/" + secret, rest.ErrPath},
		"a user":                           {"GET", "https://discord.com@example.com/" + secret, rest.ErrPath},
		"our host as a user":               {"GET", "https://" + secret + "@discord.com/api/v10/gateway", rest.ErrPath},
		"a space in the query":             {"GET", "/channels/1?a=" + secret + " ", rest.ErrPath},
		"no scheme":                        {"GET", "//example.com/" + secret, rest.ErrPath},
		"an empty parameter":               {"DELETE", "/webhooks//" + secret, rest.ErrPath},
		"an empty last parameter":          {"DELETE", "/webhooks/" + secret + "/", rest.ErrPath},
		"nothing":                          {"GET", "/", rest.ErrPath},
		"a fragment":                       {"PUT", "/channels/1/messages/2/reactions/#/" + secret, rest.ErrPath},
		"a bad port":                       {"GET", "https://discord.com:x/" + secret, rest.ErrPath},
		"a control character in the query": {"GET", "/gateway?a=\x01" + secret, rest.ErrPath},
		"no slash":                         {"GET", "channels/" + secret, routes.ErrNotAbsolute},
		"empty":                            {"GET", "", routes.ErrEmptyPath},
		"dots":                             {"GET", "/channels/../" + secret, routes.ErrDotSegment},
		"encoding":                         {"GET", "/channels/%zz" + secret, routes.ErrEncoding},
		"CDN":                              {"GET", "https://cdn.discordapp.com/" + secret, routes.ErrNotAPI},
		"method":                           {"BR EW", "/channels/" + secret, routes.ErrMethod},
		"no method":                        {"", "/channels/" + secret, routes.ErrMethod},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			below := fine()
			_, err := newClient(t, below).Do(t.Context(), c.method, c.path, nil)
			require.ErrorIs(t, err, c.want)
			assert.NotContains(t, err.Error(), "SeCrEt")
			assert.Empty(t, below.sent())
		})
	}
}

func TestClientReportsABaseURLThatIsNoneBeforeSending(t *testing.T) {
	t.Parallel()
	for _, base := range []string{
		"discord.com/api", "ftp://discord.com", "https://", "https:///api", "https://user:SeCrEt@discord.com/api/v10",
		"https://discord.com/api?v=10",
		"https://discord.com/api?", "https://discord.com/#api", "https://discord.com/%zz", "https://cdn.discordapp.com", ":",
	} {
		t.Run(base, func(t *testing.T) {
			t.Parallel()
			below := fine()
			_, err := newClient(t, below, rest.WithBaseURL(base)).Do(t.Context(), "GET", "/gateway", nil)
			require.ErrorIs(t, err, rest.ErrBaseURL)
			assert.NotContains(t, err.Error(), "SeCrEt")
			assert.Empty(t, below.sent())
		})
	}
}

func TestClientSendsTheTokenWithAPrefix(t *testing.T) {
	t.Parallel()
	for token, want := range map[string]string{
		"abc.def-_":      "Bot abc.def-_",
		"Bot abc":        "Bot abc",
		"bot abc":        "Bot abc",
		"Bearer abc":     "Bearer abc",
		"BEARER abc":     "Bearer abc",
		"  Bot   abc \n": "Bot abc",
		"Bottle":         "Bot Bottle",
		"":               "",
		"  ":             "",
	} {
		t.Run(token, func(t *testing.T) {
			t.Parallel()
			below := fine()
			client := rest.New(token, over(below))
			defer client.Close()
			require.NoError(t, client.DoJSON(t.Context(), "GET", "/gateway/bot", nil, nil))
			assert.Equal(t, want, below.only(t).Header.Get("Authorization"))
			assert.Equal(t, want != "", len(below.only(t).Header["Authorization"]) == 1)
		})
	}
}

func TestClientReportsATokenThatIsNoneBeforeSending(t *testing.T) {
	t.Parallel()
	for _, token := range []string{
		"Bot", "Bot ", "bearer\t", "Basic SeCrEt", "Bot Bot SeCrEt", "SeC\nrEt", "SeCrEt\x00", "Sécret",
	} {
		below := fine()
		client := rest.New(token, over(below))
		defer client.Close()
		err := client.DoJSON(t.Context(), "GET", "/gateway/bot", nil, nil)
		require.ErrorIs(t, err, rest.ErrToken, "%q", token)
		assert.NotContains(t, err.Error(), "SeC")
		assert.Empty(t, below.sent())
	}
}

func TestClientSendsItsCredentialWhereItIsNeeded(t *testing.T) {
	t.Parallel()
	const webhook = "/webhooks/1/" + "webhook-SeCrEt_0123456789"
	own := rest.Header("Authorization", "Bearer other")
	for name, c := range map[string]struct {
		path    string
		options []rest.RequestOption
		want    []string
	}{
		"bot":                           {clientMessages, nil, []string{"Bot " + clientToken}},
		"nil option":                    {clientMessages, []rest.RequestOption{nil}, []string{"Bot " + clientToken}},
		"without":                       {clientMessages, []rest.RequestOption{rest.WithoutAuthorization()}, nil},
		"own Authorization":             {clientMessages, []rest.RequestOption{own}, []string{"Bearer other"}},
		"own Authorization and without": {clientMessages, []rest.RequestOption{own, rest.WithoutAuthorization()}, []string{"Bearer other"}},
		"empty Authorization":           {clientMessages, []rest.RequestOption{rest.Header("authorization", "")}, nil},
		"webhook":                       {webhook, nil, nil},
		"webhook, own Authorization":    {webhook, []rest.RequestOption{own}, nil},
		"interaction's callback":        {"/interactions/1/aW50ZXJhY3Rpb246abc/callback", nil, nil},
		"webhook without the token":     {"/webhooks/1", nil, []string{"Bot " + clientToken}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			below := fine()
			client := newClient(t, below)
			require.NoError(t, client.DoJSON(t.Context(), "POST", c.path, map[string]int{}, nil, c.options...))
			assert.Equal(t, c.want, below.only(t).Header["Authorization"])
			// The bucket belongs to the credential that was sent; without one, to the token in the path.
			for b := range client.Transport().Manager().Buckets() {
				assert.Equal(t, c.want == nil || c.path == webhook, b.Authentication == "-")
			}
		})
	}
}

func TestClientNamesItselfAsDiscordInsistsOn(t *testing.T) {
	t.Parallel()
	const ours = `^DiscordBot \(https://github\.com/ratelight/ratelight, \d+\.\d+\.\d+\)`
	for name, c := range map[string]struct {
		options []rest.Option
		request []rest.RequestOption
		want    string
	}{
		"default":     {nil, nil, ours + "$"},
		"empty":       {[]rest.Option{rest.WithUserAgent("", "", "")}, nil, ours + "$"},
		"suffix":      {[]rest.Option{rest.WithUserAgent("", "", "go/1.26 mybot")}, nil, ours + ` go/1\.26 mybot$`},
		"own":         {[]rest.Option{rest.WithUserAgent("https://example.com", "2", "x")}, nil, `^DiscordBot \(https://example\.com, 2\) x$`},
		"per request": {nil, []rest.RequestOption{rest.Header("user-agent", "DiscordBot (a, 1)")}, `^DiscordBot \(a, 1\)$`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			below := fine()
			require.NoError(t, newClient(t, below, c.options...).DoJSON(t.Context(), "GET", "/gateway", nil, nil, c.request...))
			assert.Regexp(t, c.want, below.only(t).Header.Get("User-Agent"))
		})
	}
	for _, bad := range []rest.Option{
		rest.WithUserAgent("a\nb", "", ""), rest.WithUserAgent("a, b", "", ""), rest.WithUserAgent("", "1)", ""),
		rest.WithUserAgent("", "", "a\r\nAuthorization: b"),
	} {
		below := fine()
		assert.ErrorIs(t, newClient(t, below, bad).DoJSON(t.Context(), "GET", "/gateway", nil, nil), rest.ErrUserAgent)
		assert.Empty(t, below.sent())
	}
}

func TestClientSendsReasonsPercentEncoded(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		reason string
		want   []string
	}{
		"ASCII":         {"was rude", []string{"was%20rude"}},
		"other scripts": {"größer 🔨", []string{"gr%C3%B6%C3%9Fer%20%F0%9F%94%A8"}},
		"special":       {"a+b & 100%\r\nX: y", []string{"a%2Bb%20%26%20100%25%0D%0AX%3A%20y"}},
		"not UTF-8":     {"a\xff", []string{"a%EF%BF%BD"}},
		"none":          {"", nil},
		"the longest":   {strings.Repeat("ü", rest.MaxReason), []string{strings.Repeat("%C3%BC", rest.MaxReason)}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			below := fine()
			require.NoError(t,
				newClient(t, below).DoJSON(t.Context(), "DELETE", "/guilds/1/bans/2", nil, nil, rest.Reason(c.reason)))
			assert.Equal(t, c.want, below.only(t).Header["X-Audit-Log-Reason"])
		})
	}
	below := fine()
	err := newClient(t, below).DoJSON(t.Context(), "DELETE", "/guilds/1/bans/2", nil, nil,
		rest.Reason(strings.Repeat("u", 513)))
	require.ErrorIs(t, err, rest.ErrReason)
	assert.Empty(t, below.sent())
}

func TestClientSendsHeadersOfTheRequest(t *testing.T) {
	t.Parallel()
	below := fine()
	client := newClient(t, below)
	for _, bad := range []rest.RequestOption{
		rest.Header("", "a"), rest.Header("a b", "c"), rest.Header("a:", "c"), rest.Header("a", "b\r\nc: d"),
		rest.Header("X-Ü", ""),
	} {
		_, err := client.Do(t.Context(), "GET", "/gateway", nil, bad)
		require.ErrorIs(t, err, rest.ErrHeader)
	}
	require.Empty(t, below.sent())

	_, err := client.Do(t.Context(), "POST", clientMessages, rest.Bytes("text/plain", []byte("x")),
		rest.Header("x-a", "1"), rest.Header("X-A", "2"), rest.Header("Content-Type", "text/csv"))
	require.NoError(t, err)
	assert.Equal(t, []string{"2"}, below.only(t).Header["X-A"])
	assert.Equal(t, "text/csv", below.only(t).Header.Get("Content-Type"))
}

// A Host header names one of the servers at an address. Limits depend on the address.
func TestClientSendsAHostOfTheCallersOwn(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ host, want string }{
		"a name":         {"discord.com", "discord.com"},
		"with a port":    {"Example.com:8443", "Example.com:8443"},
		"an IP address":  {"[::1]:80", "[::1]:80"},
		"none":           {"", "proxy:8080"},
		"other alphabet": {"bücher.example", "bücher.example"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			heard, below := &listener{}, fine()
			client := rest.New(clientToken, over(below), rest.WithBaseURL("http://proxy:8080/api"),
				rest.WithTransport(httpclient.WithLimiter(heard)))
			defer client.Close()
			_, err := client.Do(t.Context(), "GET", "/gateway", nil, rest.Header("host", c.host))
			require.NoError(t, err)
			r := below.only(t)
			assert.Equal(t, c.want, r.Host)
			assert.NotContains(t, r.Header, "Host")
			assert.Equal(t, "proxy:8080", r.URL.Host)
			assert.Equal(t, []string{"proxy:8080"}, heard.servers)
		})
	}
	for _, bad := range []string{"a b", "a/b", "a?b", "a#b", "user@a", "http://a", "a\x01", " a", "[::1", "a:b:c", "a:x"} {
		below := fine()
		_, err := newClient(t, below).Do(t.Context(), "GET", "/gateway", nil, rest.Header("Host", bad))
		require.ErrorIs(t, err, rest.ErrHeader, bad)
		assert.Empty(t, below.sent())
	}
}

func TestClientSendsAnyMethodAsItIsWritten(t *testing.T) {
	t.Parallel()
	for method, want := range map[string]string{
		"get": "GET", "QUERY": "QUERY", "PROPFIND": "PROPFIND", "m-search": "m-search",
	} {
		below := fine()
		client := newClient(t, below)
		err := client.DoJSON(t.Context(), method, clientMessages, map[string]int{"a": 1}, nil)
		require.NoError(t, err)
		assert.Equal(t, want, below.only(t).Method)
		assert.Equal(t, `{"a":1}`, below.only(t).body)
		assert.EqualValues(t, 1, client.Transport().Manager().Stats().Granted)
	}
	below := replies(reply(404, clientJSON, `{"message":"nothing"}`))
	err := newClient(t, below).DoJSON(t.Context(), "QUERY", clientMessages, nil, nil)
	assert.EqualError(t, err, "{method} /channels/{channel_id}/messages: 404 Not Found: nothing")
}

func TestClientRefusesToWorkWithoutAContext(t *testing.T) {
	t.Parallel()
	var none context.Context
	_, err := newClient(t, fine()).Do(none, "GET", "/gateway", nil)
	assert.ErrorIs(t, err, buckets.ErrNoContext)
}

func TestClientClosesWhatItOwns(t *testing.T) {
	t.Parallel()
	own := rest.New("", over(fine()))
	require.True(t, own.Transport().Manager().IsAlive())
	require.NoError(t, own.Close())
	require.NoError(t, own.Close())
	assert.False(t, own.Transport().Manager().IsAlive())
	assert.ErrorIs(t, own.DoJSON(t.Context(), "GET", "/gateway", nil, nil), buckets.ErrClosed)

	manager := buckets.NewRESTBucketManager()
	require.NoError(t, manager.Start())
	defer manager.Close()
	one := rest.New("", over(fine()), rest.WithTransport(httpclient.WithLimiter(manager)))
	two := rest.New("", over(fine()), rest.WithTransport(httpclient.WithLimiter(manager)))
	require.NoError(t, one.Close())
	assert.True(t, manager.IsAlive())
	assert.ErrorIs(t, one.DoJSON(t.Context(), "GET", "/gateway", nil, nil), buckets.ErrClosed)
	assert.NoError(t, two.DoJSON(t.Context(), "GET", "/gateway", nil, nil))
	require.NoError(t, two.Close())
}

func TestClientSaysWhichRouteAConnectionErrorBelongsTo(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	client := newClient(t, roundTripperFunc(func(*http.Request) (*http.Response, error) { return nil, broken }))
	_, err := client.Do(t.Context(), "POST", clientMessages, nil)
	require.ErrorIs(t, err, broken)
	assert.Equal(t, "POST /channels/{channel_id}/messages: broken", err.Error())
}

// roundTripperFunc makes a transport below of a function.
type roundTripperFunc func(*http.Request) (*http.Response, error)

func (f roundTripperFunc) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// ResetCredential must use the Authorization that the client sends, which may differ from the token given to New.
func TestAClientResetsItsOwnCredential(t *testing.T) {
	bubble(t, func(t *testing.T) {
		below := replies(reply(401, clientJSON, `{"code":0}`), reply(401, clientJSON, `{"code":0}`),
			reply(200, clientJSON, "{}"))
		client := rest.New("stopped", over(below))
		defer client.Close()
		for _, path := range []string{"/users/@me/guilds", "/applications/@me"} {
			_, err := client.Do(t.Context(), "GET", path, nil)
			require.Error(t, err)
		}
		_, err := client.Do(t.Context(), "GET", "/channels/1", nil)
		var stopped *httpclient.CredentialError
		require.ErrorAs(t, err, &stopped)
		client.ResetCredential()
		_, err = client.Do(t.Context(), "GET", "/channels/1", nil)
		require.NoError(t, err)
	})
}

func TestAClientLimitsTheHostOfItsBaseURL(t *testing.T) {
	t.Parallel()
	behind, err := url.Parse("http://proxy:8080")
	require.NoError(t, err)
	asDiscord := rest.WithTransport(httpclient.WithAPI(behind, ""))
	none := rest.WithTransport(httpclient.WithHosts(func(string) (string, bool) { return "", false }))
	for name, c := range map[string]struct {
		base    string
		options []rest.Option
		want    string
	}{
		"Discord":            {"", nil, ""},
		"a proxy":            {"http://Proxy:8080/discord/api/v9/", nil, "proxy:8080"},
		"a proxy to Discord": {"http://proxy:8080", []rest.Option{asDiscord}, ""},
		"the usual port":     {"https://proxy.:443", nil, "proxy"},
		"and other hosts":    {"http://proxy", []rest.Option{none}, "proxy"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			heard := &listener{}
			options := append([]rest.Option{rest.WithBaseURL(c.base), rest.WithTransport(httpclient.WithLimiter(heard)),
				over(fine())}, c.options...)
			client := rest.New(clientToken, options...)
			defer client.Close()
			require.NoError(t, client.DoJSON(t.Context(), "GET", "/gateway", nil, nil))
			assert.Equal(t, []string{c.want}, heard.servers)
		})
	}
}

// An ingress or a gateway may serve a proxy for Discord below a path.
func TestChannelsAreSeparateBelowABaseURLWithAPath(t *testing.T) {
	t.Parallel()
	for _, base := range []string{
		"http://proxy.example/api/v10", "http://proxy.example/discord/api/v10", "http://proxy.example/discord",
	} {
		inBubble(t, base, func(t *testing.T) {
			below := replies(reply(http.StatusOK, clientJSON, "{}", "X-RateLimit-Bucket: messages", "X-RateLimit-Limit: 1",
				"X-RateLimit-Remaining: 0", "X-RateLimit-Reset-After: 5"))
			client := newClient(t, below, rest.WithBaseURL(base))
			start := time.Now()
			for _, channel := range []string{"1", "2", "3"} {
				_, err := client.Do(t.Context(), http.MethodPost, "/channels/"+channel+"/messages",
					rest.JSON(map[string]any{"content": "x"}))
				require.NoError(t, err)
				time.Sleep(time.Millisecond)
			}
			assert.Less(t, time.Since(start), time.Second, "requests to different channels waited for each other")
		})
	}
}

func TestAResponseWithoutHeadersDoesNoHarmToAClient(t *testing.T) {
	t.Parallel()
	for _, status := range []int{0, 101, 200, 202, 204, 302, 401, 404, 429, 502, 999} {
		synctest.Test(t, func(t *testing.T) {
			bare := func(*http.Request) (*http.Response, error) { return &http.Response{StatusCode: status}, nil }
			client := rest.New("token", over(roundTripperFunc(bare)))
			assert.NotPanics(t, func() { _, _ = client.Do(t.Context(), http.MethodGet, "/channels/1", nil) })
			assert.NoError(t, client.Close())
		})
	}
}

func TestAClientFailsWithOptionsOfItsTransportThatExcludeEachOther(t *testing.T) {
	t.Parallel()
	below := fine()
	client := rest.New("token", over(below),
		rest.WithTransport(httpclient.WithMaxRateLimit(1), httpclient.WithLimiter(buckets.Unlimited{})))
	defer client.Close()
	_, err := client.Do(t.Context(), "GET", "/gateway", nil)
	require.ErrorIs(t, err, httpclient.ErrOptions)
	assert.ErrorContains(t, err, "GET /gateway: bad options: WithMaxRateLimit and WithLimiter exclude each other")
	assert.Empty(t, below.sent())
}

// Discord was not ready, so the client pauses before it asks again. Meanwhile the transport has no request, but
// Shutdown must wait.
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
