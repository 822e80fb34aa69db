package buckets

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestKnownLimitsApplyToWhatTheySay(t *testing.T) {
	t.Parallel()
	const interaction = "aW50ZXJhY3Rpb246MQ"
	edit := func(channel int, age time.Duration) string {
		return fmt.Sprintf("PATCH /channels/%d/messages/%s", channel, idOfAge(age))
	}
	for name, c := range map[KnownLimit]struct {
		limit  int
		period time.Duration
		same   []asked // all of one window
		apart  []asked // each of another one
		no     []asked
	}{
		ChannelNameAndTopic: {2, 10 * time.Minute,
			[]asked{{path: "PATCH /channels/1", fields: []string{"topic"}}, {path: "PATCH /channels/1", fields: []string{"nsfw", "name"}}},
			[]asked{{path: "PATCH /channels/2", fields: []string{"name"}}, {path: "PATCH /channels/1", fields: []string{"name"}, authorization: "Bot a"}},
			[]asked{{path: "PATCH /channels/1", fields: []string{"nsfw"}}, {path: "PATCH /channels/1"},
				{path: "POST /guilds/1/channels", fields: []string{"name"}}, {path: "PATCH /channels/1", fields: []string{"name"}, server: "x"}}},
		Reactions: {1, 250 * time.Millisecond,
			[]asked{{path: "PUT /channels/1/messages/2/reactions/%F0%9F%94%A5/@me"}, {path: "DELETE /channels/1/messages/3/reactions/a:1/@me"},
				{path: "DELETE /channels/1/messages/3/reactions"}, {path: "DELETE /channels/1/messages/3/reactions/a:1"},
				{path: "DELETE /channels/1/messages/3/reactions/a:1/5"}},
			[]asked{{path: "PUT /channels/9/messages/2/reactions/a:1/@me"}},
			[]asked{{path: "GET /channels/1/messages/2/reactions/a:1"}, {path: "POST /channels/1/messages"}}},
		OldMessageEdits: {3, 6 * time.Second,
			[]asked{{path: edit(1, 61*time.Minute)}, {path: edit(1, 100*time.Hour)}}, []asked{{path: edit(2, 2*time.Hour)}},
			[]asked{{path: edit(1, 0)}, {path: edit(1, 59*time.Minute)}, {path: "PATCH /channels/1/messages/@original"}}},
		OldMessageDeletes: {5, time.Second,
			[]asked{{path: "DELETE /channels/1/messages/" + idOfAge(15*24*time.Hour)}, {path: "DELETE /channels/1/messages/" + idOfAge(99*24*time.Hour)}},
			[]asked{{path: "DELETE /channels/2/messages/" + idOfAge(15*24*time.Hour)}},
			[]asked{{path: "DELETE /channels/1/messages/" + idOfAge(0)}, {path: "DELETE /channels/1/messages/" + idOfAge(time.Hour)}}},
		WebhookMessages: {30, time.Minute,
			[]asked{{path: "POST /webhooks/1/token"}, {path: "POST /webhooks/1/other", authorization: "Bot a"}, {path: "POST /webhooks/1/token/slack"},
				{path: "POST /webhooks/1/token/github"}},
			[]asked{{path: "POST /webhooks/2/token"}},
			[]asked{{path: "POST /webhooks/1/" + interaction}, {path: "PATCH /webhooks/1/token/messages/2"}, {path: "POST /channels/1/messages"}}},
		WebhookCreates: {50, time.Hour,
			[]asked{{path: "POST /channels/1/webhooks"}, {path: "POST /channels/1/webhooks", authorization: "Bot a"}},
			[]asked{{path: "POST /channels/2/webhooks"}},
			[]asked{{path: "GET /channels/1/webhooks"}, {path: "POST /webhooks/1/token"}}},
		Prunes: {1, 15 * time.Minute,
			[]asked{{path: "POST /guilds/1/prune"}, {path: "POST /guilds/1/prune", authorization: "Bot a"}},
			[]asked{{path: "POST /guilds/2/prune"}}, []asked{{path: "GET /guilds/1/prune"}}},
		Crossposts: {10, time.Hour,
			[]asked{{path: "POST /channels/1/messages/2/crosspost"}, {path: "POST /channels/1/messages/3/crosspost"}},
			[]asked{{path: "POST /channels/2/messages/2/crosspost"}}, []asked{{path: "POST /channels/1/messages"}}},
		Invites: {250, 10 * time.Minute,
			[]asked{{path: "GET /invites/a"}, {path: "GET /invites/b", authorization: "Bot a"}}, nil,
			[]asked{{path: "DELETE /invites/a"}, {path: "GET /guilds/1/invites"}}},
		CommandCreates: {200, 24 * time.Hour,
			[]asked{{path: "POST /applications/1/guilds/2/commands"}},
			[]asked{{path: "POST /applications/1/guilds/3/commands"}, {path: "POST /applications/1/commands"}},
			[]asked{{path: "PUT /applications/1/commands"}, {path: "PATCH /applications/1/commands/2"}}},
		Lobbies: {100, 2 * time.Hour,
			[]asked{{path: "POST /lobbies"}}, []asked{{path: "PUT /lobbies"}, {path: "GET /lobbies/1"}, {path: "POST /lobbies/1/members/bulk"}},
			[]asked{{path: "PATCH /lobbies/1/channel-linking"}, {path: "GET /gateway"}}},
		LobbyLinks: {20, 2 * time.Hour,
			[]asked{{path: "PATCH /lobbies/1/channel-linking"}, {path: "PATCH /lobbies/2/channel-linking"}}, nil, []asked{{path: "PATCH /lobbies/1"}}},
	} {
		t.Run(string(name), func(t *testing.T) {
			t.Parallel()
			m := declaring(t, WithKnownLimits(name))
			only := func(a asked) limitKey {
				keys, err := keysOf(t, m, a)
				require.NoError(t, err)
				require.Len(t, keys, 1, a)
				return keys[0]
			}
			first := only(c.same[0])
			assert.Equal(t, string(name), first.rule.name)
			assert.Equal(t, c.limit, first.rule.limit)
			assert.Equal(t, c.period, first.rule.period)
			for _, a := range c.same {
				assert.Equal(t, first, only(a), a)
			}
			for _, a := range c.apart {
				assert.NotEqual(t, first, only(a), a)
			}
			for _, a := range append(c.no, asked{path: c.same[0].path, fields: c.same[0].fields, server: "other"}) {
				keys, err := keysOf(t, m, a)
				require.NoError(t, err)
				assert.Empty(t, keys, a)
			}
		})
	}
}

func TestEveryKnownLimitCanBeUsedTogetherAndNoneIsOnByItself(t *testing.T) {
	t.Parallel()
	m := declaring(t, WithKnownLimits(KnownLimits()...))
	assert.Len(t, m.settings.limits, len(KnownLimits()))
	assert.Len(t, KnownLimits(), 12)
	assert.Empty(t, declaring(t, WithKnownLimits()).settings.limits)
	assert.Empty(t, declaring(t).settings.limits)
}
