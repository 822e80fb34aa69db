package routes_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/ratelight/ratelight/routes"
)

// printed returns everything that fmt, slog and encoding/json print for a value.
func printed(t require.TestingT, value any) string {
	var out bytes.Buffer
	for _, format := range []string{
		"%v", "%+v", "%#v", "%s", "%q", "%+q", "%#q", "%d", "%t", "%f", "%c", "%U", "%y", "%-400s", "%T", "no verb",
	} {
		fmt.Fprintf(&out, format+"\n", value)
		fmt.Fprintf(&out, format+"\n", []any{value, &value, map[string]any{"key": value}, struct{ Exported any }{value}})
	}
	fmt.Fprint(&out, value)
	for _, handler := range []slog.Handler{slog.NewTextHandler(&out, nil), slog.NewJSONHandler(&out, nil)} {
		slog.New(handler).Info("text", "value", value, "values", []any{value}, slog.Group("group", "value", value))
	}
	text, err := json.Marshal(map[string]any{"value": value})
	require.NoError(t, err)
	out.Write(text)
	return out.String()
}

// printsNo asserts that neither a compiled route nor its parts print the secret.
func printsNo(t require.TestingT, secret string, c routes.CompiledRoute) {
	for _, value := range []any{c, c.Major(), c.Route()} {
		require.NotContains(t, printed(t, value), secret)
	}
}

func TestTheMajorParameterInLogsHasNoToken(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]string{
		"/users/@me": "-", "/channels/123/messages": "123", "/guilds/5": "5", "/webhooks/123": "123",
		"/webhooks/123/SECRET": "123:…", "/interactions/7/SECRET/callback": "7:…", "/webhooks/SECRET/123": "…",
		"/channels/SECRET/messages": "…",
	} {
		major := match(t, "POST", path).Major()
		assert.Equal(t, want, major.String(), path)
		assert.Contains(t, printed(t, major), want, path)
		assert.NotContains(t, printed(t, major), "SECRET", path)
	}
	assert.Equal(t, "-", routes.CompiledRoute{}.Major().String())
}

func TestPrintingShowsTheRouteAndTheIDButNotTheToken(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ method, path, want string }{
		{"POST", "/webhooks/123/SECRET", "POST /webhooks/123/…"},
		{"POST", "/webhooks/123/SECRET/slack", "POST /webhooks/123/…/slack"},
		{"PATCH", "/webhooks/123/SECRET/messages/456", "PATCH /webhooks/123/…/messages/{message_id}"},
		{"PATCH", "/webhooks/123/SECRET/messages/@original", "PATCH /webhooks/123/…/messages/@original"},
		{"POST", "/webhooks/123/aW50ZXJhY3Rpb246SECRET", "POST /webhooks/123/…"},
		{"POST", "/interactions/123/SECRET/callback", "POST /interactions/123/…/callback"},
		{"PUT", "/webhooks/123/SECRET/new-thing/SECRET", "PUT /webhooks/123/…/{value}/{value}"},
		{"GET", "/webhooks/SECRET/123", "GET /webhooks/{webhook_id}/…"}, // the caller has swapped id and token
		{"POST", "/proxied/webhooks/123/SECRET", "POST /{value}/{value}/{rest}"},
		{"GET", "/channels/123/new-thing/SECRET", "GET /channels/123/{value}/{value}"},
		{"POST", "/channels/123/messages", "POST /channels/123/messages"},
		{"PUT", "/channels/1/messages/2/reactions/🔥/@me", "PUT /channels/1/messages/2/reactions/%F0%9F%94%A5/@me"},
	} {
		compiled := match(t, c.method, c.path)
		assert.Equal(t, []string{c.want, c.want}, []string{compiled.String(), compiled.LogValue().String()})
		for format, want := range map[string]string{"%v": "%s", "%+v": "%s", "%s": "%s", "%q": "%q", "%#v": "%q"} {
			assert.Equal(t, fmt.Sprintf(want, c.want), fmt.Sprintf(format, compiled), format)
		}
		printsNo(t, "SECRET", compiled)
	}
}

func TestNoTokenIsEverPrinted(t *testing.T) {
	t.Parallel()
	var withToken []routes.Route
	for route := range routes.All() {
		if route.TokenInPath() {
			withToken = append(withToken, route)
		}
	}
	require.Len(t, withToken, 13)
	rapid.Check(t, func(t *rapid.T) {
		token := rapid.StringMatching(`(aW50ZXJhY3Rpb246)?[A-Za-z0-9_-]{20,200}`).Draw(t, "token")
		route := rapid.SampledFrom(withToken).Draw(t, "route")
		parameters := []string{"123", token, token}
		compiled := compile(t, route, parameters[:strings.Count(route.Template(), "{")]...)
		require.Equal(t, token, compiled.Major().Token)
		printsNo(t, token, compiled)

		tails := []string{"", "/", "/x", "/messages/" + token, "/a/" + token + "/b?" + token}
		tail := rapid.SampledFrom(tails).Draw(t, "tail")
		root := rapid.SampledFrom([]string{"/webhooks/123/", "/interactions/123/", "/webhooks/", "/x/"}).Draw(t, "root")
		printsNo(t, token, match(t, "PUT", root+token+tail))
	})
}

func TestNoErrorRepeatsAToken(t *testing.T) {
	t.Parallel()
	var all []error
	for _, path := range []string{
		"SECRET", "/webhooks/1/SECRET%", "/webhooks/1/SECRET%SECRET", "/webhooks/1/SECRET\n", "/webhooks/1/SECRET/..",
		"ftp://SECRET@discord.com/webhooks/1/SECRET", "https://SECRET@cdn.discordapp.com/SECRET", "https:///SECRET",
	} {
		_, err := routes.Match("POST", path)
		all = append(all, err)
		_, err = routes.Match(path, "POST") // the caller has swapped the arguments
		all = append(all, err)
		_, err = routes.New("POST", path)
		all = append(all, err)
	}
	for _, parameters := range [][]string{
		{"SECRET"}, {"1", "SECRET", "SECRET"}, {"1", "SECRET/"}, {"1", "SECRET\x00"}, {"SECRET\\", "1"},
	} {
		_, err := routes.ExecuteWebhook.Compile(parameters...)
		all = append(all, err)
	}
	for _, err := range all {
		require.Error(t, err)
		assert.NotContains(t, printed(t, err), "SECRET")
		for inner := err; inner != nil; inner = errors.Unwrap(inner) {
			assert.NotContains(t, inner.Error(), "SECRET")
		}
	}
}
