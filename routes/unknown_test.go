package routes_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/ratelight/ratelight/routes"
)

func TestUnknownPathsAreNormalised(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		path, template string
		major          routes.MajorKind
	}{
		{"/", "/", routes.MajorNone},
		{"/api/v10/", "/", routes.MajorNone},
		{"/new-thing", "/{value}", routes.MajorNone},
		{"/12345", "/{id}", routes.MajorNone},
		{"/new-thing/123/name", "/{value}/{id}/{rest}", routes.MajorNone},
		{"/a/b/c/d/e/f/g/h", "/{value}/{value}/{rest}", routes.MajorNone},
		{"/members/123", "/members/{id}", routes.MajorNone},
		{"/channels/1/new-thing", "/channels/{channel_id}/{value}", routes.MajorChannel},
		{"/channels/1/new-thing/2", "/channels/{channel_id}/{value}/{id}", routes.MajorChannel},
		{"/channels/1/members", "/channels/{channel_id}/members", routes.MajorChannel},
		{"/channels/1/messages/2/new-thing", "/channels/{channel_id}/messages/{message_id}/{value}", routes.MajorChannel},
		{"/channels/1/messages/2/reactions/🔥/3/4",
			"/channels/{channel_id}/messages/{message_id}/reactions/{emoji_name}/{user_id}/{id}", routes.MajorChannel},
		{"/guilds/1/new-thing/🔥", "/guilds/{guild_id}/{value}/{value}", routes.MajorGuild},
		{"/guilds/templates/abc/new-thing", "/guilds/templates/{code}/{value}", routes.MajorNone},
		{"/webhooks/1/secret/new-thing", "/webhooks/{webhook_id}/{webhook_token}/{value}", routes.MajorWebhookToken},
		{"/webhooks/1/slack/secret", "/webhooks/{webhook_id}/{webhook_token}/{value}", routes.MajorWebhookToken},
		{"/interactions/1/secret/new-thing", "/interactions/{interaction_id}/{interaction_token}/{value}",
			routes.MajorWebhookToken},
		{"/interactions/1", "/interactions/{interaction_id}", routes.MajorNone},
		{"/users/@me/new-thing", "/users/@me/{value}", routes.MajorNone},
	} {
		route := match(t, "HEAD", c.path).Route()
		assert.Equal(t, c.template, route.Template(), c.path)
		assert.Equal(t, c.major, route.MajorKind(), c.path)
		assert.Equal(t, strings.Contains(c.template, "token}"), route.TokenInPath(), c.path)
		assert.Empty(t, route.Name())
		assert.False(t, route.OneShot())
	}
}

func TestUndocumentedEndpointsKeepTheirWords(t *testing.T) {
	t.Parallel()
	for path, template := range map[string]string{
		"/channels/1/messages/2/ack":              "/channels/{channel_id}/messages/{message_id}/ack",
		"/channels/1/messages/search":             "/channels/{channel_id}/messages/search",
		"/users/@me/guilds/premium/subscriptions": "/users/@me/guilds/premium/subscriptions",
		"/applications/detectable":                "/applications/detectable",
	} {
		assert.Equal(t, template, match(t, "HEAD", path).Route().Template())
		assert.Empty(t, match(t, "GET", path).Route().Name())
	}
	assert.NotEqual(t, routes.GetMessage, match(t, "GET", "/channels/1/messages/search").Route())
}

func TestUnknownInteractionEndpointsAreExemptAsTheKnownOnesAre(t *testing.T) {
	t.Parallel()
	assert.True(t, match(t, "POST", "/interactions/1/"+followUpToken+"/new-thing").Route().GlobalExempt())
	assert.True(t, match(t, "POST", "/webhooks/1/"+followUpToken+"/new-thing").Route().GlobalExempt())
	assert.False(t, match(t, "POST", "/webhooks/1/"+webhookToken+"/new-thing").Route().GlobalExempt())
	assert.False(t, match(t, "POST", "/channels/1/new-thing").Route().GlobalExempt())
}

func TestTheSameUnknownEndpointIsTheSameRoute(t *testing.T) {
	t.Parallel()
	assert.Equal(t, match(t, "GET", "/guilds/1/new-thing/2").Route(), match(t, "GET", "/guilds/3/other-thing/4").Route())
	assert.NotEqual(t, match(t, "GET", "/guilds/1/new-thing").Route(), match(t, "PUT", "/guilds/1/new-thing").Route())
}
