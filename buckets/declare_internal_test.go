package buckets

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets/shared"
	"github.com/ratelight/ratelight/routes"
)

// asked describes a request in these tests.
type asked struct {
	path          string // "POST /channels/1/messages"
	authorization string
	server        string
	group         string
	inContext     string // the group that the context names
	fields        []string
}

func (a asked) request(t *testing.T) *Request {
	t.Helper()
	method, path, _ := strings.Cut(a.path, " ")
	route, err := routes.Match(method, path)
	require.NoError(t, err)
	r := &Request{Route: route, Authorization: a.authorization, Server: a.server, Group: a.group}
	if a.fields != nil {
		r.Fields = func() []string { return a.fields }
	}
	return r
}

// keysOf returns the keys of all windows of declared limits that apply to a request.
func keysOf(t *testing.T, m *RESTBucketManager, a asked) ([]limitKey, error) {
	t.Helper()
	ctx := context.Background()
	if a.inContext != "" {
		ctx = ContextWithGroup(ctx, a.inContext)
	}
	r := a.request(t)
	return m.limitKeys(ctx, r)
}

func declaring(t *testing.T, options ...Option) *RESTBucketManager {
	t.Helper()
	m := NewRESTBucketManager(options...)
	require.NoError(t, m.Start())
	t.Cleanup(func() { assert.NoError(t, m.Close()) })
	return m
}

func TestADeclaredLimitAppliesToWhatItMatches(t *testing.T) {
	t.Parallel()
	const interaction = "aW50ZXJhY3Rpb246MQ"
	aged := func(age time.Duration) string {
		return "DELETE /channels/1/messages/" + idOfAge(age)
	}
	for _, c := range []struct {
		name    string
		match   Match
		options []LimitOption
		yes, no []asked
	}{
		{"everything", ForAll(), nil,
			[]asked{{path: "GET /gateway"}, {path: "POST /nothing/known/1"},
				{path: "POST /interactions/1/" + interaction + "/callback"}}, nil},
		{"a route", ForRoute(routes.CreateMessage), nil,
			[]asked{{path: "POST /channels/1/messages"}, {path: "POST /api/v10/channels/2/messages/", authorization: "Bot a"}},
			[]asked{{path: "GET /channels/1/messages"}, {path: "POST /channels/1/messages/2/crosspost"}}},
		{"routes", ForRoute(routes.CreateMessage, routes.GetGuild), nil,
			[]asked{{path: "POST /channels/1/messages"}, {path: "GET /guilds/1"}}, []asked{{path: "PATCH /guilds/1"}}},
		{"a route for one age of messages", ForRoute(routes.DeleteMessage), nil, []asked{{path: aged(time.Hour)}},
			[]asked{{path: aged(-time.Hour)}, {path: aged(15 * 24 * time.Hour)}}},
		{"a webhook's route", ForRoute(routes.ExecuteWebhook), nil, []asked{{path: "POST /webhooks/1/token"}},
			[]asked{{path: "POST /webhooks/1/" + interaction}}},
		{"a route that the catalogue lacks", ForRoute(newRoute(t, "POST", "/guilds/{guild_id}/mfa")), nil,
			[]asked{{path: "POST /guilds/1/mfa"}}, []asked{{path: "POST /guilds/1/roles"}}},
		{"template", ForPattern("POST", "/channels/{channel_id}/messages"), nil, []asked{{path: "POST /channels/1/messages"}},
			[]asked{{path: "GET /channels/1/messages"}, {path: "POST /channels/1/messages/bulk-delete"}}},
		{"a template with another parameter name", ForPattern("post", "/channels/{c}/messages"), nil,
			[]asked{{path: "POST /channels/1/messages"}}, []asked{{path: "PUT /channels/1/messages"}}},
		{"a template for all ages of messages", ForPattern("DELETE", "/channels/{channel_id}/messages/{message_id}"), nil,
			[]asked{{path: aged(-time.Hour)}, {path: aged(time.Hour)}, {path: aged(15 * 24 * time.Hour)}},
			[]asked{{path: "DELETE /channels/1/messages/pins/2"}}},
		{"a template of webhooks", ForPattern("POST", "/webhooks/{id}/{token}"), nil,
			[]asked{{path: "POST /webhooks/1/token"}, {path: "POST /webhooks/1/" + interaction}},
			[]asked{{path: "POST /webhooks/1/token/slack"}}},
		{"any method", ForPattern("*", "/channels/{id}"), nil,
			[]asked{{path: "GET /channels/1"}, {path: "PATCH /channels/1"}, {path: "HEAD /channels/1"}},
			[]asked{{path: "GET /channels/1/messages"}, {path: "GET /guilds/1"}}},
		{"no method", ForPattern("", "/users/{id}"), nil, []asked{{path: "GET /users/1"}}, []asked{{path: "GET /users/@me"}}},
		{"any segment", ForPattern("GET", "/users/*"), nil,
			[]asked{{path: "GET /users/1"}, {path: "GET /users/@me"}, {path: "GET /users/@me/guilds"}},
			[]asked{{path: "GET /guilds/1"}}},
		{"any middle segment", ForPattern("*", "/channels/*/messages"), nil, []asked{{path: "GET /channels/1/messages"}},
			[]asked{{path: "GET /channels/1"}, {path: "GET /channels/1/messages/2"}, {path: "GET /channels/1/invites"}}},
		{"all paths below", ForPattern("*", "/lobbies/*"), nil,
			[]asked{{path: "GET /lobbies/1"}, {path: "POST /lobbies/1/members/bulk"}, {path: "GET /lobbies/1/a/b/c"}},
			[]asked{{path: "POST /lobbies"}}},
		{"groups", ForAll(), []LimitOption{PerGroup()},
			[]asked{{path: "GET /gateway", group: "a"}, {path: "GET /gateway", inContext: "a"}},
			[]asked{{path: "GET /gateway"}}},
		{"keys", ForAll(), []LimitOption{PerKey((*Request).key)},
			[]asked{{path: "GET /gateway", server: "a"}}, []asked{{path: "GET /gateway"}}},
		{"no options", ForAll(), []LimitOption{nil}, []asked{{path: "GET /gateway"}}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			m := declaring(t, WithLimit(c.match, 5, time.Second, append(c.options, Named("limit"))...))
			for _, a := range c.yes {
				keys, err := keysOf(t, m, a)
				require.NoError(t, err)
				if assert.Len(t, keys, 1, a) {
					assert.Equal(t, "limit", keys[0].rule.String())
				}
			}
			for _, a := range c.no {
				keys, err := keysOf(t, m, a)
				require.NoError(t, err)
				assert.Empty(t, keys, a)
			}
		})
	}
}

// key is a function for PerKey.
func (r *Request) key() string { return r.Server }

func newRoute(t *testing.T, method, template string) routes.Route {
	t.Helper()
	route, err := routes.New(method, template)
	require.NoError(t, err)
	return route
}

// idOfAge returns the id of a message of the given age. Other tests run at the same time and may delay a test, so no
// test may depend on a few seconds of the age.
func idOfAge(age time.Duration) string {
	return strconv.FormatInt((time.Now().Add(-age).UnixMilli()-1420070400000)<<22, 10)
}

func TestDeclaredLimitsHaveWindowsOfTheirOwn(t *testing.T) {
	t.Parallel()
	base := asked{path: "POST /channels/1/messages", authorization: "Bot a", group: "g"}
	other := map[string]asked{
		"request":    base,
		"route":      {path: "GET /channels/1/messages", authorization: "Bot a", group: "g"},
		"credential": {path: "POST /channels/1/messages", authorization: "Bot b", group: "g"},
		"server":     {path: "POST /channels/1/messages", authorization: "Bot a", group: "g", server: "x"},
		"major":      {path: "POST /channels/2/messages", authorization: "Bot a", group: "g"},
		"group":      {path: "POST /channels/1/messages", authorization: "Bot a", group: "h"},
	}
	byMethod := func(r *Request) string { return r.Route.Method() }
	byGroup := func(r *Request) string { return "of " + r.Group }
	for _, c := range []struct {
		name    string
		options []LimitOption
		apart   []string // the requests in other that do not share base's window
	}{
		{"credentials", nil, []string{"credential", "server"}},
		{"servers", []LimitOption{AcrossCredentials()}, []string{"server"}},
		{"major parameters", []LimitOption{PerMajor()}, []string{"credential", "server", "major"}},
		{"groups", []LimitOption{PerGroup()}, []string{"credential", "server", "group"}},
		{"groups and major parameters", []LimitOption{PerGroup(), PerMajor(), AcrossCredentials()},
			[]string{"server", "major", "group"}},
		{"keys", []LimitOption{PerKey(byMethod)}, []string{"credential", "server", "route"}},
		{"keys and groups", []LimitOption{PerKey(byMethod), PerGroup()}, []string{"credential", "server", "route", "group"}},
		{"keys made from groups", []LimitOption{PerKey(byGroup), AcrossCredentials()}, []string{"server", "group"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			m := declaring(t, WithLimit(ForAll(), 5, time.Second, c.options...))
			shared := func(a asked) (limitKey, shared.Key) {
				keys, err := keysOf(t, m, a)
				require.NoError(t, err)
				require.Len(t, keys, 1)
				r := a.request(t)
				return keys[0], keys[0].sharedKey(fmt.Sprintf("%x", m.digest(r.Server+" "+r.Authorization)))
			}
			key, name := shared(base)
			for what, a := range other {
				otherKey, otherName := shared(a)
				if assert.Equal(t, slices.Contains(c.apart, what), key != otherKey, what) {
					assert.Equal(t, key != otherKey, name != otherName, what)
				}
				assert.Contains(t, otherName.Hash, "declared:all requests 5 per 1s")
			}
		})
	}
}

func TestAllDeclaredLimitsOfARequestAreFound(t *testing.T) {
	t.Parallel()
	m := declaring(t,
		WithLimit(ForAll(), 40, time.Second),
		WithLimit(ForRoute(routes.GetGuild, routes.UpdateGuild), 3, time.Second),
		WithLimit(ForPattern("POST", "/channels/*"), 4, 2*time.Second, PerMajor()))
	for path, want := range map[string][]string{
		"POST /channels/1/messages": {"all requests 40 per 1s", "POST /channels/* 4 per 2s per major parameter"},
		"GET /guilds/1":             {"all requests 40 per 1s", "GET /guilds/{guild_id} and 1 more 3 per 1s"},
		"GET /gateway":              {"all requests 40 per 1s"},
	} {
		keys, err := keysOf(t, m, asked{path: path})
		require.NoError(t, err)
		var names []string
		for _, key := range keys {
			names = append(names, key.rule.name)
		}
		assert.Equal(t, want, names, path)
	}
	r := asked{path: "GET /gateway"}.request(t)
	assert.Nil(t, declaring(t).rulesOf(r.Route.Route()))
}

func TestAPanicOfPerKeyIsAnErrorOfThatRequest(t *testing.T) {
	t.Parallel()
	m := declaring(t, WithLimit(ForAll(), 5, time.Second, Named("mine"), PerKey(func(r *Request) string {
		if r.Group == "" {
			panic("no group")
		}
		return r.Group
	})))
	keys, err := keysOf(t, m, asked{path: "GET /gateway"})
	assert.EqualError(t, err, `the PerKey function of the declared limit "mine" panicked: no group`)
	assert.Nil(t, keys)
	keys, err = keysOf(t, m, asked{path: "GET /gateway", inContext: "g"})
	assert.NoError(t, err)
	assert.Len(t, keys, 1)
	r := asked{path: "GET /gateway"}.request(t)
	_, err = m.AcquireRequest(t.Context(), r)
	assert.ErrorContains(t, err, "panicked: no group")
	lease, err := m.AcquireRequest(ContextWithGroup(t.Context(), "g"), r)
	assert.NoError(t, err)
	lease.Release()
	for _, path := range []string{"GET /gateway", "GET /gateway/bot"} { // the manager has never seen the second route
		_, _, err = m.Predict(asked{path: path}.request(t))
		assert.ErrorContains(t, err, "panicked: no group")
	}
}

// A PerKey function gets a copy of the Request. Changes to the copy must not reach the caller's Request.
func TestPerKeyGetsACopy(t *testing.T) {
	t.Parallel()
	m := declaring(t, WithLimit(ForAll(), 5, time.Second, PerKey(func(r *Request) string {
		key := r.Group
		*r = Request{}
		return key
	})))
	r := asked{path: "GET /gateway", authorization: "Bot a", group: "own"}.request(t)
	_, err := m.limitKeys(ContextWithGroup(context.Background(), "other"), r)
	require.NoError(t, err)
	assert.Equal(t, "own", r.Group)
	assert.Equal(t, "Bot a", r.Authorization)
}

func TestRulesAndTheirKeysShowNoSecret(t *testing.T) {
	t.Parallel()
	const secret = "MTk4NjIyNDgzNDcxOTI1MjQ4"
	m := declaring(t, WithLimit(ForAll(), 5, time.Second, PerMajor(), PerGroup(), PerKey((*Request).secret)))
	keys, err := keysOf(t, m, asked{path: "POST /webhooks/1/" + secret, authorization: secret, group: secret})
	require.NoError(t, err)
	require.Len(t, keys, 1)
	rule := keys[0].rule
	text := fmt.Sprintf("%v %+[1]v %#[1]v %v %+[2]v %#[2]v %v %+[3]v %#[3]v %+[4]v %#[4]v",
		keys[0], rule, *rule, keys[0].sharedKey("credential"))
	assert.NotContains(t, text, secret)
	assert.Contains(t, text, "per major parameter per group per key")
}

func (r *Request) secret() string { return r.Authorization + r.Group }

func TestKnownLimitsApplyToWhatTheySay(t *testing.T) {
	t.Parallel()
	const interaction = "aW50ZXJhY3Rpb246MQ"
	edit := func(channel int, age time.Duration) string {
		return fmt.Sprintf("PATCH /channels/%d/messages/%s", channel, idOfAge(age))
	}
	for name, c := range map[KnownLimit]struct {
		limit  int
		period time.Duration
		same   []asked // requests that share one window
		apart  []asked // requests that have other windows
		no     []asked // requests to which the limit does not apply
	}{
		ChannelNameAndTopic: {2, 10 * time.Minute,
			[]asked{{path: "PATCH /channels/1", fields: []string{"topic"}},
				{path: "PATCH /channels/1", fields: []string{"nsfw", "name"}}},
			[]asked{{path: "PATCH /channels/2", fields: []string{"name"}},
				{path: "PATCH /channels/1", fields: []string{"name"}, authorization: "Bot a"}},
			[]asked{{path: "PATCH /channels/1", fields: []string{"nsfw"}}, {path: "PATCH /channels/1"},
				{path: "POST /guilds/1/channels", fields: []string{"name"}},
				{path: "PATCH /channels/1", fields: []string{"name"}, server: "x"}}},
		Reactions: {1, 250 * time.Millisecond,
			[]asked{{path: "PUT /channels/1/messages/2/reactions/%F0%9F%94%A5/@me"},
				{path: "DELETE /channels/1/messages/3/reactions/a:1/@me"},
				{path: "DELETE /channels/1/messages/3/reactions"}, {path: "DELETE /channels/1/messages/3/reactions/a:1"},
				{path: "DELETE /channels/1/messages/3/reactions/a:1/5"}},
			[]asked{{path: "PUT /channels/9/messages/2/reactions/a:1/@me"}},
			[]asked{{path: "GET /channels/1/messages/2/reactions/a:1"}, {path: "POST /channels/1/messages"}}},
		OldMessageEdits: {3, 6 * time.Second,
			[]asked{{path: edit(1, 61*time.Minute)}, {path: edit(1, 100*time.Hour)}}, []asked{{path: edit(2, 2*time.Hour)}},
			[]asked{{path: edit(1, 0)}, {path: edit(1, 50*time.Minute)}, {path: "PATCH /channels/1/messages/@original"}}},
		OldMessageDeletes: {5, time.Second,
			[]asked{{path: "DELETE /channels/1/messages/" + idOfAge(15*24*time.Hour)},
				{path: "DELETE /channels/1/messages/" + idOfAge(99*24*time.Hour)}},
			[]asked{{path: "DELETE /channels/2/messages/" + idOfAge(15*24*time.Hour)}},
			[]asked{{path: "DELETE /channels/1/messages/" + idOfAge(0)},
				{path: "DELETE /channels/1/messages/" + idOfAge(time.Hour)}}},
		WebhookMessages: {30, time.Minute,
			[]asked{{path: "POST /webhooks/1/token"}, {path: "POST /webhooks/1/other", authorization: "Bot a"},
				{path: "POST /webhooks/1/token/slack"}, {path: "POST /webhooks/1/token/github"}},
			[]asked{{path: "POST /webhooks/2/token"}},
			[]asked{{path: "POST /webhooks/1/" + interaction},
				{path: "PATCH /webhooks/1/token/messages/2"}, {path: "POST /channels/1/messages"}}},
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
			[]asked{{path: "POST /lobbies"}},
			[]asked{{path: "PUT /lobbies"}, {path: "GET /lobbies/1"}, {path: "POST /lobbies/1/members/bulk"}},
			[]asked{{path: "PATCH /lobbies/1/channel-linking"}, {path: "GET /gateway"}}},
		LobbyLinks: {20, 2 * time.Hour,
			[]asked{{path: "PATCH /lobbies/1/channel-linking"}, {path: "PATCH /lobbies/2/channel-linking"}}, nil,
			[]asked{{path: "PATCH /lobbies/1"}}},
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
	assert.Len(t, KnownLimits(), len(knownLimits))
	assert.Empty(t, declaring(t, WithKnownLimits()).settings.limits)
	assert.Empty(t, declaring(t).settings.limits)
}
