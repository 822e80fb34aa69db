package httpclient_test

import (
	"bytes"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/httpclient"
)

// toHook returns a message to a webhook, without an Authorization.
func toHook(t *testing.T) *http.Request {
	t.Helper()
	return as(newRequest(t, http.MethodPost, webhook, "{}"), "")
}

func TestA401CountsOnlyIfItIsDiscords(t *testing.T) {
	t.Parallel()
	const via, json, html = "Via: 1.1 google", "Content-Type: application/json", "Content-Type: text/html"
	const brotli = "\x8b\x00\x80{}\x03"
	for name, c := range map[string]struct {
		body   string
		header []string
		counts bool
	}{
		"JSON with a code":                {`{"message":"401: Unauthorized","code":0}`, []string{json}, true},
		"JSON with another content type":  {` {"code":"0"}`, []string{"Content-Type: text/plain"}, true},
		"Via":                             {`{"message":"401: Unauthorized"}`, []string{json, via}, true},
		"Via, nothing":                    {"", []string{via}, true},
		"Via, not decoded":                {brotli, []string{via, json, "Content-Encoding: br"}, true},
		"a page that came by a proxy":     {"<html>log in", []string{html, "Via: 1.1 squid"}, false},
		"a page":                          {"<html>log in", []string{html}, false},
		"a page with a JSON content type": {"<html>log in", []string{json}, false},
		"JSON without a code":             {`{"error":"unauthorized"}`, []string{json}, false},
		"a code that is not a number":     {`{"code":"UNAUTHENTICATED"}`, []string{json}, false},
		"not an object":                   {`[{"code":0}]`, []string{json}, false},
		"half an object":                  {`{"code":0`, []string{json}, false},
		"nothing":                         {"", []string{json}, false},
		"not decoded":                     {brotli, []string{json, "Content-Encoding: br"}, false},
	} {
		for kind, request := range map[string]func(*testing.T) *http.Request{
			"Authorization": func(t *testing.T) *http.Request { return posting(t, 1) }, "webhook": toHook,
		} {
			inBubble(t, name+", "+kind, func(t *testing.T) {
				refusing := answer(http.StatusUnauthorized, c.body, c.header...)
				transport := newTransport(t, newScript(refusing, answer(http.StatusOK, "{}")))
				first := send(transport, request(t))
				assertStatus(t, http.StatusUnauthorized, first)
				assert.Equal(t, c.body, first.body)
				again := send(transport, request(t)).wait()
				if c.counts {
					require.ErrorAs(t, again.err, new(*httpclient.CredentialError))
				} else {
					assertStatus(t, http.StatusOK, again)
				}
			})
		}
	}
}

// A 401 of another server must not stop the token at Discord.
func TestA401OfAServerThatIsNotDiscordStopsNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		transport := newTransport(t, newScript(unauthorized),
			httpclient.WithHosts(func(host string) (string, bool) { return host, true }))
		for range 2 {
			for _, r := range []*http.Request{posting(t, 1), getting(t, "/users/@me"), toHook(t)} {
				assertStatus(t, http.StatusUnauthorized, send(transport, to(t, "https://compatible.example", r)))
			}
		}
		assertStatus(t, http.StatusUnauthorized, send(transport, posting(t, 1))) // Discord's own 401 counts
		require.ErrorAs(t, send(transport, posting(t, 1)).wait().err, new(*httpclient.CredentialError))
	})
}

func TestWhatIsStoppedIsNotSaved(t *testing.T) {
	bubble(t, func(t *testing.T) {
		first := newTransport(t, newScript(unauthorized))
		all := func(transport *httpclient.Transport) (calls []*call) {
			for _, r := range []*http.Request{getting(t, "/users/@me"), getting(t, "/guilds/1"), toHook(t)} {
				calls = append(calls, send(transport, r).wait())
			}
			return calls
		}
		assertStatus(t, http.StatusUnauthorized, all(first)...)
		second := newTransport(t, newScript(answer(http.StatusOK, "{}")))
		require.NoError(t, second.RestoreState(bytes.NewReader(stateOf(t, first, true))))
		assertStatus(t, http.StatusOK, all(second)...)
	})
}
