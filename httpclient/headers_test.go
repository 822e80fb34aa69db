package httpclient_test

import (
	"fmt"
	"net/http"
	"net/http/cookiejar"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A token that was read from a file may end in a line break. A line break makes an Authorization invalid. But if the
// path has a token, the Authorization is not sent, so the request must not fail.
func TestAnAuthorizationThatIsLeftOutMayBeNone(t *testing.T) {
	bubble(t, func(t *testing.T) {
		below := newScript(fail(lostConnection()), answer(http.StatusOK, "{}"))
		transport := newTransport(t, below)
		r := newRequest(t, http.MethodGet, webhook, "")
		r.Header.Set("Authorization", authorization+"\n")
		assertStatus(t, http.StatusOK, send(transport, r))
		assert.EqualValues(t, 1, transport.Manager().Stats().Lost, "the server may have counted it")
	})
}

// A global 429 for the bot must not delay webhook requests that are sent without the bot's Authorization.
func TestWebhooksWithoutAuthorizationAreNotTheBots(t *testing.T) {
	bubble(t, func(t *testing.T) {
		transport := newTransport(t, newScript(refuse("global", "20"), answer(http.StatusOK, "")))
		bot := send(transport, newMessage(t))
		synctest.Wait()
		hook := send(transport, newRequest(t, http.MethodPost, webhook, "{}"))
		assertStatus(t, http.StatusOK, bot, hook)
		assertTook(t, 20*time.Second, bot.took)
		assert.Zero(t, hook.took)
	})
}

// The transport must remove secrets from redirects to another host. Old versions of http.Client copied all headers on a
// redirect, and net/http sends some headers under two spellings.
func TestRedirectsCarrySecretsToTheSameHostOnly(t *testing.T) {
	t.Parallel()
	secrets := []string{
		"Authorization", "Proxy-Authorization", "X-Discord-Mfa-Authorization", "Cookie", "Cookie2", "Proxy-Authenticate",
		"Www-Authenticate", "Referer", "authorization", "proxy-authorization",
	}
	for location, carried := range map[string]bool{
		"/api/v10/channels/2":                                   true,
		"https://discord.com/api/v10/channels/2":                true,
		"https://DISCORD.com/api/v10/channels/2":                true,
		"https://discord.com:443/api/v10/channels/2":            true,
		"https://discord.com./api/v10/channels/2":               true,
		"http://discord.com/api/v10/channels/2":                 false,
		"https://evil.discord.com/api/v10/channels/2":           false,
		"https://evil.example/api/v10/channels/2":               false,
		"https://discord.com:8443/api/v10/channels/2":           false,
		"https://cdn.discordapp.com/attachments/1/2/file.png":   false,
		"https://media.discordapp.net/attachments/1/2/file.png": false,
		"https://discordapp.com/api/v10/channels/2":             false, // Discord's former name
	} {
		for _, status := range []int{
			http.StatusMovedPermanently, http.StatusFound, http.StatusTemporaryRedirect, http.StatusPermanentRedirect,
		} {
			inBubble(t, fmt.Sprintf("%s, %d", location, status), func(t *testing.T) {
				below := newScript(answer(status, "", "Location: "+location), answer(http.StatusOK, "{}"))
				client := &http.Client{Transport: newTransport(t, below)}
				var redirected *http.Request
				client.CheckRedirect = func(r *http.Request, via []*http.Request) error {
					r.Header = via[0].Header.Clone()
					redirected = r
					return nil
				}
				r := getChannel(t)
				r.URL.Scheme = "https"
				for _, name := range secrets {
					r.Header[name] = []string{"SeCrEt"}
				}
				const properties = "which client it is, as all requests of its kind say"
				r.Header.Set("X-Super-Properties", properties)
				header := r.Header.Clone()
				response, err := client.Do(r)
				require.NoError(t, err)
				require.NoError(t, response.Body.Close())
				assert.Equal(t, header, redirected.Header, "the caller's header must not change")
				require.Len(t, below.requests(), 2)
				assert.Equal(t, header, below.requests()[0].request.Header)
				if !carried {
					header = http.Header{"X-Super-Properties": {properties}}
				}
				assert.Equal(t, header, below.requests()[1].request.Header)
			})
		}
	}
}

// In a login, an application redirects to another server, which redirects back to the application. The application then
// needs its own cookie, so the transport must not remove this cookie.
func TestCookiesOfOtherHostsSurviveTheirRedirects(t *testing.T) {
	t.Parallel()
	for _, login := range []string{"https://login.example", "https://discord.com"} {
		t.Run(login, func(t *testing.T) {
			t.Parallel()
			const application = "https://application.example"
			below := newScript(
				answer(http.StatusFound, "", "Set-Cookie: state=of-the-application; Path=/",
					"Location: "+login+"/oauth2/authorize"),
				answer(http.StatusFound, "", "Set-Cookie: session=of-the-login; Path=/", "Location: "+login+"/oauth2/done"),
				answer(http.StatusFound, "", "Location: "+application+"/callback"),
				answer(http.StatusOK, "{}"))
			jar, err := cookiejar.New(nil)
			require.NoError(t, err)
			client := &http.Client{Transport: newTransport(t, below), Jar: jar}
			response, err := client.Get(application)
			require.NoError(t, err)
			require.NoError(t, response.Body.Close())
			var got []string
			for _, s := range below.requests() {
				got = append(got, s.request.Header.Get("Cookie"))
			}
			assert.Equal(t, []string{"", "", "session=of-the-login", "state=of-the-application"}, got)
		})
	}
}

// If the path has a token, the Authorization must not be sent, unless its scheme is Basic. An Authorization with Basic
// is for a proxy: http.Client makes it from a name and a password in the URL.
func TestAuthorizationIsLeftOutWhereThePathHasAToken(t *testing.T) {
	const basic = "Basic dXNlcjpwYXNzd29yZA=="
	type story struct {
		path, authorization string
		sent                bool
	}
	inBubbles(t, map[string]story{
		"webhook":                       {webhook, authorization, false},
		"webhook, for another proxy":    {webhook, basic, true},
		"webhook, without":              {webhook, "", false},
		"message of a webhook":          {webhook + "/messages/2", authorization, false},
		"Slack":                         {webhook + "/slack", authorization, false},
		"follow-up":                     {followUp, authorization, false},
		"callback":                      {callback, authorization, false},
		"message":                       {messages, authorization, true},
		"webhook by its id":             {"/api/v10/webhooks/1", authorization, true},
		"webhooks of a channel":         {channel + "/webhooks", authorization, true},
		"something new without a token": {"/api/v10/somethings/1", authorization, true},
	}, func(t *testing.T, c story) {
		below := newScript(refuse("user", "1"), answer(http.StatusOK, ""))
		r := as(newRequest(t, http.MethodPatch, c.path, "{}"), c.authorization)
		r.Header.Set("Cookie", "a=b")
		header := r.Header.Clone()
		assertStatus(t, http.StatusOK, send(newTransport(t, below), r))
		assert.Equal(t, header, r.Header, "the caller's header must not change")
		if !c.sent {
			header.Del("Authorization")
		}
		require.Len(t, below.requests(), 2)
		for _, s := range below.requests() {
			assert.Equal(t, header, s.request.Header)
		}
	})
	r, below := newRequest(t, http.MethodGet, webhook, ""), newScript(answer(http.StatusOK, ""))
	r.Header = nil
	assertStatus(t, http.StatusOK, send(newTransport(t, below), r))
	assert.Empty(t, below.requests()[0].request.Header)
}

// The first redirect leads to another host, and the second redirect leads from that host to the same host again. The
// secrets were not meant for that host. But http.Client copies the headers of the first request for each redirect, so
// the transport must remove the secrets again. The transport must do so even if the Request of a redirect is nil, as it
// is in the tests of many programs.
func TestASecondRedirectDoesNotCarrySecretsToAnotherHost(t *testing.T) {
	type story struct {
		host   string
		change func(*http.Response)
	}
	inBubbles(t, map[string]story{
		"that names its request":          {"evil.discord.com", func(*http.Response) {}},
		"that names its request, foreign": {"evil.example", func(*http.Response) {}},
		"that names none":                 {"evil.example", func(r *http.Response) { r.Request = nil }},
		"that names one without its URL":  {"evil.example", func(r *http.Response) { r.Request = &http.Request{} }},
	}, func(t *testing.T, c story) {
		redirect := func(path string) responder {
			return func(r *http.Request) (*http.Response, error) {
				response, err := answer(http.StatusFound, "", "Location: https://"+c.host+"/api/v10/"+path)(r)
				c.change(response)
				return response, err
			}
		}
		below := newScript(redirect("a"), redirect("b"), answer(http.StatusOK, "{}"))
		r := getChannel(t)
		r.Header.Set("Cookie", "session=SeCrEt")
		response, err := (&http.Client{Transport: newTransport(t, below)}).Do(r)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		require.Len(t, below.requests(), 3)
		for _, s := range below.requests()[1:] {
			if s.request.Response.Request != nil && s.request.Response.Request.URL != nil {
				assert.Empty(t, s.request.Header.Get("Authorization"), s.request.URL)
				assert.Empty(t, s.request.Header.Get("Cookie"), s.request.URL)
			}
		}
	})
}
