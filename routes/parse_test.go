package routes_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/routes"
)

func TestParseReturnsTheRouteOfAString(t *testing.T) {
	t.Parallel()
	all := append(slices.Collect(routes.All()), routes.DeleteYoungMessage, routes.DeleteOldMessage)
	for method, path := range map[string]string{
		"POST":  "/webhooks/1/aW50ZXJhY3Rpb246abc",
		"PATCH": "/webhooks/1/aW50ZXJhY3Rpb246abc/messages/@original",
		"GET":   "/channels/1/no-such-thing/2/more/and/more",
		"BREW":  "/guilds/1",
		"PUT":   "/something/new",
	} {
		all = append(all, match(t, method, path).Route())
	}
	for _, route := range all {
		parsed, err := routes.Parse(route.String())
		require.NoError(t, err, "%s", route)
		assert.Equal(t, route, parsed, "%s", route)
	}
}

func TestParseRefusesWhatNoRouteIsCalled(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"", "GET", "GET channels", "/channels", "G T /channels", "GET /channels/{channel_id",
		"GET /channels (older than 14 days)",
		"GET /channels/{channel_id} (interaction)", "GET /channels/{channel_id}/messages/{message_id} (younger than 10 s)",
	} {
		route, err := routes.Parse(text)
		assert.Error(t, err, "%q", text)
		assert.True(t, route.IsZero(), "%q", text)
	}
}
