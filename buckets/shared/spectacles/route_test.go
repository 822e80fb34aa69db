package spectacles_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/ratelight/ratelight/buckets/shared"
	"github.com/ratelight/ratelight/buckets/shared/spectacles"
)

func TestNamesOfRoutes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ route, major, path, methodAndPath string }{
		{"POST /channels/{channel_id}/messages", "1", "/channels/1/messages", "POST /channels/1/messages"},
		{"GET /channels/{channel_id}/messages", "1", "/channels/1/messages", "GET /channels/1/messages"},
		{
			"PATCH /channels/{channel_id}/messages/{message_id}", "1",
			"/channels/1/messages/:id", "PATCH /channels/1/messages/:id",
		},
		{
			"DELETE /channels/{channel_id}/messages/{message_id} (older than 14 days)", "1",
			"DELETE/channels/1/messages/:id", "DELETE /channels/1/messages/:id",
		},
		{
			"PUT /channels/{channel_id}/messages/{message_id}/reactions/{emoji_name}/@me", "1",
			"/channels/1/messages/:id/reactions/:id/@me", "PUT /channels/1/messages/:id/reactions/:id/@me",
		},
		{"GET /guilds/{guild_id}/members/{user_id}", "2", "/guilds/2/members/:id", "GET /guilds/2/members/:id"},
		{"GET /webhooks/{webhook_id}", "3", "/webhooks/3", "GET /webhooks/3"},
		{"POST /webhooks/{webhook_id}/{webhook_token}", "3:0123456789abcde", "/webhooks/3/:token", "POST /webhooks/3/:token"},
		{
			"POST /interactions/{interaction_id}/{interaction_token}/callback", "4:0123456789abcdef",
			"/interactions/:id/:token/callback", "POST /interactions/:id/:token/callback",
		},
		{"GET /users/@me", "-", "/users/@me", "GET /users/@me"},
		{"GET /users/{user_id}", "", "/users/:id", "GET /users/:id"},
		{"", "1", "bucket:h:1", "bucket:h:1"}, // a bucket that several routes use
		{"nonsense", "1", "bucket:h:1", "bucket:h:1"},
	} {
		key := shared.Key{Hash: "h", Major: c.major, Route: c.route}
		assert.Equal(t, c.path, spectacles.ByPath(key), c.route)
		assert.Equal(t, c.methodAndPath, spectacles.ByMethodAndPath(key), c.route)
	}
}

func TestNamesOfKeysFollowTheOptions(t *testing.T) {
	inWorld(t, func(w *world) {
		p := w.process(spectacles.WithPrefix("bot:"), spectacles.WithRoute(func(shared.Key) string { return "r" }))
		p.learn()
		assert.ElementsMatch(t, []string{"bot:r:remaining", "bot:r:limit", "bot:r:x"}, w.engine.Redis.Keys())
	})
}

func TestCredentialsAreHidden(t *testing.T) {
	inWorld(t, func(w *world) {
		p := w.process()
		secret := p.session.Credential("Bot secret")
		assert.Len(t, secret, 16)
		assert.NotContains(t, secret, "secret")
		assert.Equal(t, secret, p.session.Credential("Bot secret"))
		assert.NotEqual(t, secret, p.session.Credential("Bot other"))
		assert.Empty(t, p.session.Credential(""))
		assert.Zero(t, p.session.Invalid())
		assert.Zero(t, p.session.Others())
	})
}
