package routes_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/routes"
)

func TestMatchAcceptsEverySpellingOfAPath(t *testing.T) {
	t.Parallel()
	want := match(t, "POST", "/channels/1/messages")
	for _, path := range []string{
		"/api/channels/1/messages",
		"/api/v10/channels/1/messages",
		"/api/v9/channels/1/messages",
		"/v10/channels/1/messages",
		"https://discord.com/api/v10/channels/1/messages",
		"HTTPS://DISCORD.COM/api/v10/channels/1/messages",
		"https://canary.discord.com/api/v10/channels/1/messages",
		"http://localhost:8080/api/v10/channels/1/messages",
		"http://[::1]:8080/channels/1/messages",
		"https://user:password@discord.com/channels/1/messages",
		"/channels/1/messages?limit=50&before=/2",
		"/channels/1/messages#top?",
		"/channels/1/messages/?x",
		"/channels/1/messages/",
		"/channels/1/messages///",
		"//api//v10/channels//1/messages",
		"/ch%61nnels/%31/m%65ss%61ges",
		"/%61pi/v10/channels/1/messages",
	} {
		assert.Equal(t, want, match(t, "POST", path), path)
	}
	assert.Equal(t, want, match(t, "post", "/channels/1/messages"))
	assert.Equal(t, want, match(t, "Post", "/channels/1/messages"))
	assert.Equal(t, "/channels/1/messages", want.Path())
	assert.Equal(t, routes.CreateMessage, want.Route())
}

// An ingress or gateway may serve a proxy below a path of its own. Match must ignore that part of the path.
func TestMatchLeavesOutWhatStandsBeforeTheAPI(t *testing.T) {
	t.Parallel()
	want := match(t, "POST", "/channels/1/messages")
	for _, path := range []string{
		"/discord/api/v10/channels/1/messages",
		"http://proxy.example/a/b/api/v9/channels/1/messages?x=/api/v1/y",
		"/api/v1/discord/api/v10/channels/1/messages",
		"/api/version/api/v10/v9/channels/1/messages",
		"/d%69scord//%61pi/v10/channels/1/messages/",
		"/channels/api/v10/channels/1/messages",
	} {
		assert.Equal(t, want, match(t, "POST", path), path)
	}
	for path, template := range map[string]string{
		"/webhooks/api/v1/github":        "/webhooks/{webhook_id}/{webhook_token}/github", // the path is in the catalogue
		"/discord/api/channels":          "/{value}/{value}/{rest}",                       // the path has no version
		"/discord/xapi/v10/channels/1":   "/{value}/{value}/{rest}",
		"/discord/api/v10x/channels/1":   "/{value}/{value}/{rest}",
		"/discord/api/v10":               "/{value}/{value}/{rest}",
		"/discord/api/v10/new/thing/1/2": "/{value}/{value}/{rest}",
	} {
		assert.Equal(t, template, match(t, "POST", path).Route().Template(), path)
	}
	assert.Equal(t, "/new/thing/1/2", match(t, "POST", "/discord/api/v10/new/thing/1/2").Path())
}

func TestLiteralsWinOverParametersWhereTheyLeadSomewhere(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		method, path string
		want         routes.Route
	}{
		{"GET", "/users/@me", routes.GetMyUser},
		{"GET", "/users/%40me", routes.GetMyUser},
		{"GET", "/users/1", routes.GetUser},
		{"GET", "/guilds/templates/abc", routes.GetGuildTemplate},
		{"GET", "/guilds/1/templates", routes.ListGuildTemplates},
		{"GET", "/guilds/templates", routes.GetGuild},
		{"POST", "/channels/1/messages/bulk-delete", routes.BulkDeleteMessages},
		{"GET", "/channels/1/messages/pins", routes.ListPins},
		{"PATCH", "/channels/1/messages/pins", routes.UpdateMessage},
		{"PUT", "/channels/1/messages/pins/2", routes.CreatePin},
		{"DELETE", "/channels/1/messages/2/reactions/🔥/@me", routes.DeleteMyMessageReaction},
		{"DELETE", "/channels/1/messages/2/reactions/🔥/3", routes.DeleteUserMessageReaction},
		{"PATCH", "/webhooks/1/t/messages/@original", routes.UpdateOriginalWebhookMessage},
		{"PATCH", "/webhooks/1/t/messages/2", routes.UpdateWebhookMessage},
		{"PATCH", "/guilds/1/members/@me", routes.UpdateMyGuildMember},
		{"GET", "/guilds/1/members/@me", routes.GetGuildMember},
		{"GET", "/guilds/1/members/search", routes.SearchGuildMembers},
		{"GET", "/guilds/1/roles/member-counts", routes.GuildRoleMemberCounts},
		{"GET", "/guilds/1/scheduled-events/2/users/counts", routes.CountGuildScheduledEventUsers},
		{"GET", "/guilds/1/scheduled-events/2/3/users", routes.ListGuildScheduledEventExceptionUsers},
		{"GET", "/guilds/1/scheduled-events/2/users/users", routes.ListGuildScheduledEventExceptionUsers},
		{"GET", "/applications/1/guilds/2/commands/permissions", routes.ListGuildApplicationCommandPermissions},
		{"DELETE", "/applications/1/guilds/2/commands/permissions", routes.DeleteGuildApplicationCommand},
	} {
		got := match(t, c.method, c.path).Route()
		assert.Equal(t, c.want, got, "%s %s: got %s", c.method, c.path, got)
	}
}

func TestMajorValueOfAPath(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ method, path, id, token string }{
		{"POST", "/channels/12/messages", "12", ""},
		{"GET", "/channels/12", "12", ""},
		{"GET", "/guilds/34/members/56", "34", ""},
		{"GET", "/webhooks/78", "78", ""},
		{"POST", "/webhooks/78/secret", "78", "secret"},
		{"PATCH", "/webhooks/78/secret/messages/@original", "78", "secret"},
		{"POST", "/interactions/9/secret/callback", "9", "secret"},
		{"GET", "/stage-instances/12", "", ""},
		{"GET", "/applications/1/guilds/2/commands", "", ""},
		{"GET", "/users/@me", "", ""},
		{"GET", "/guilds/templates/abc", "", ""},
		{"GET", "/", "", ""},
	} {
		compiled := match(t, c.method, c.path)
		assert.Equal(t, routes.Major{ID: c.id, Token: c.token}, compiled.Major(), c.path)
	}
}

func TestInteractionFollowUpsAreRoutesOfTheirOwn(t *testing.T) {
	t.Parallel()
	plain := match(t, "POST", "/webhooks/1/"+webhookToken)
	followUp := match(t, "POST", "/webhooks/1/"+followUpToken)

	assert.Equal(t, routes.ExecuteWebhook, plain.Route())
	assert.False(t, plain.Route().GlobalExempt())
	assert.NotEqual(t, routes.ExecuteWebhook, followUp.Route())
	assert.True(t, followUp.Route().GlobalExempt())
	assert.Equal(t, plain.Route().Template(), followUp.Route().Template())
	assert.Equal(t, plain.Route().Name(), followUp.Route().Name())
	assert.Equal(t, "POST /webhooks/{webhook_id}/{webhook_token} (interaction)", followUp.Route().String())
	assert.Equal(t, "1", followUp.Major().ID)
	assert.Equal(t, followUpToken, followUp.Major().Token)
	for _, compiled := range []routes.CompiledRoute{plain, followUp} {
		assert.True(t, compiled.Route().TokenInPath())
		assert.False(t, compiled.Route().OneShot())
		assert.Equal(t, routes.MajorWebhookToken, compiled.Route().MajorKind())
	}
}

func TestCallbacksOfTwoInteractionsHaveNothingInCommonButTheRoute(t *testing.T) {
	t.Parallel()
	first := match(t, "POST", "/interactions/1/"+followUpToken+"/callback")
	second := match(t, "POST", "/interactions/2/"+followUpToken+"/callback")
	assert.Equal(t, routes.CreateInteractionResponse, first.Route())
	assert.Equal(t, first.Route(), second.Route())
	assert.NotEqual(t, first.Major(), second.Major())
	assert.True(t, first.Route().OneShot() && first.Route().GlobalExempt() && first.Route().TokenInPath())
}

func TestPathsAreSpelledOneWay(t *testing.T) {
	t.Parallel()
	slash := match(t, "GET", "/invites/a%2fb") // an encoded slash does not split a segment
	assert.Equal(t, routes.InviteResolve, slash.Route())
	assert.Equal(t, "/invites/a%2Fb", slash.Path())
	want := compile(t, routes.AddMyMessageReaction, "1", "2", "🔥")
	assert.Equal(t, "/channels/1/messages/2/reactions/%F0%9F%94%A5/@me", want.Path())
	for _, emoji := range []string{"🔥", "%F0%9F%94%A5", "%f0%9f%94%a5", "%F0\x9f%94%A5"} {
		assert.Equal(t, want, match(t, "PUT", "/channels/1/messages/2/reactions/"+emoji+"/@me"), emoji)
	}
	assert.Equal(t, match(t, "GET", "/channels/1/messages/2/reactions/name:123"),
		match(t, "GET", "/channels/1/messages/2/reactions/name%3A123"))
}

func TestOtherMethodsAreUnknownRoutesOfTheirOwn(t *testing.T) {
	t.Parallel()
	for _, method := range []string{"HEAD", "OPTIONS", "CONNECT", "TRACE"} {
		route := match(t, strings.ToLower(method), "/channels/1/messages").Route()
		assert.Equal(t, method, route.Method())
		assert.Equal(t, "/channels/{channel_id}/messages", route.Template())
		assert.Empty(t, route.Name())
		assert.Equal(t, routes.MajorChannel, route.MajorKind())
	}
}

// For each template, all methods that the package does not know must share one route. Otherwise a client could create
// any number of routes by inventing methods.
func TestMethodsThatAreNotKnownShareOneRouteForEachPath(t *testing.T) {
	t.Parallel()
	query := match(t, "QUERY", "/channels/1/messages")
	assert.Equal(t, "{method} /channels/{channel_id}/messages", query.Route().String())
	assert.Equal(t, "{method}", query.Method())
	assert.Equal(t, "1", query.Major().ID)
	for _, method := range []string{
		"query", "PROPFIND", "M-SEARCH", "BREW", "!#$%&'*+-.^_`|~09az", strings.Repeat("X", 1000), query.Method(),
	} {
		assert.Equal(t, query, match(t, method, "/channels/1/messages"), method)
	}
	for _, known := range []string{"GET", "POST", "HEAD"} {
		assert.NotEqual(t, query.Route(), match(t, known, "/channels/1/messages").Route())
	}
	assert.Equal(t, query.Route(), made(t, "PROPFIND", "/channels/{channel_id}/messages"))
}

func TestARouteOfAnUnknownMethodCompilesToWhatMatchSays(t *testing.T) {
	t.Parallel()
	route := made(t, "PROPFIND", "/users/{user_id}")
	for _, user := range []string{"1", "@me"} { // with GET, "@me" would lead to another route
		compiled := compile(t, route, user)
		assert.Equal(t, "{method}", compiled.Method())
		assert.Equal(t, "/users/"+user, compiled.Path())
	}
}

func TestMatchRefusesWhatIsNoAPIPath(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		method, path string
		want         error
		offset       int
	}{
		{"", "/gateway", routes.ErrMethod, -1},
		{"GET ", "/gateway", routes.ErrMethod, -1},
		{"BR EW", "/gateway", routes.ErrMethod, -1},
		{"BREW\r\nHost: x", "/gateway", routes.ErrMethod, -1},
		{"GET/", "/gateway", routes.ErrMethod, -1},
		{"{value}", "/gateway", routes.ErrMethod, -1},
		{"PO\u017fT", "/gateway", routes.ErrMethod, -1},
		{"GET", "", routes.ErrEmptyPath, -1},
		{"GET", "gateway", routes.ErrNotAbsolute, 0},
		{"GET", "?a=/b", routes.ErrNotAbsolute, 0},
		{"GET", "ftp://discord.com/gateway", routes.ErrNotAbsolute, 0},
		{"GET", "mailto:x@discord.com", routes.ErrNotAbsolute, 0},
		{"GET", "https:///gateway", routes.ErrNotAbsolute, 8},
		{"GET", "https://user@/gateway", routes.ErrNotAbsolute, 8},
		{"GET", "/users/%", routes.ErrEncoding, 7},
		{"GET", "/users/%4", routes.ErrEncoding, 7},
		{"GET", "/users/%zz", routes.ErrEncoding, 7},
		{"GET", "https://d.com/users/1%4g", routes.ErrEncoding, 21},
		{"GET", "/users/a\nb", routes.ErrControlCharacter, 8},
		{"GET", "/users/\x7f", routes.ErrControlCharacter, 7},
		{"GET", "/users/%00", routes.ErrControlCharacter, 7},
		{"GET", "/users/%0D%0A", routes.ErrControlCharacter, 7},
		{"GET", "/users/./1", routes.ErrDotSegment, 7},
		{"GET", "/users/..", routes.ErrDotSegment, 7},
		{"GET", "/users/%2e%2E/1", routes.ErrDotSegment, 7},
		{"GET", "/" + strings.Repeat("a", 8192), routes.ErrTooLong, 8192},
		{"GET", "/" + strings.Repeat(" ", 8000), routes.ErrTooLong, 0},
		{"GET", "https://cdn.discordapp.com/attachments/1/2/a.png", routes.ErrNotAPI, 8},
		{"GET", "https://CDN.discordapp.com.:443/icons/1", routes.ErrNotAPI, 8},
		{"GET", "https://media.discordapp.net/attachments/1/2/a.png", routes.ErrNotAPI, 8},
		{"GET", "https://images-ext-1.discordapp.net/external/x", routes.ErrNotAPI, 8},
		{"GET", "https://x@cdn.discordapp.com?y", routes.ErrNotAPI, 8},
		{"GET", "https://x:p@ss@cdn.discordapp.com/icons/1", routes.ErrNotAPI, 8},
	} {
		compiled, err := routes.Match(c.method, c.path)
		require.ErrorIs(t, err, c.want, "%q %.40q", c.method, c.path)
		var pathError *routes.PathError
		require.ErrorAs(t, err, &pathError)
		assert.Equal(t, c.offset, pathError.Offset, "%q", c.path)
		assert.Contains(t, err.Error(), "routes: ")
		assert.True(t, compiled.IsZero())
	}
}

func TestLongestPathIsMatched(t *testing.T) {
	t.Parallel()
	path := "/" + strings.Repeat("a", 8191)
	assert.Equal(t, path, match(t, "GET", path).Path())
}

func TestAPIHostsAreDiscordsWithoutThoseOfItsFiles(t *testing.T) {
	t.Parallel()
	for kind, hosts := range map[struct{ api, media bool }][]string{
		{api: true}: {
			"discord.com", "DISCORD.com", "discord.com.", "discord.com:443", "discord.com:8443", "discord.com.:443",
			"canary.discord.com", "ptb.discord.com", "a.b.discord.com", "discordapp.com", "Canary.DiscordApp.com:80",
			"xcdn.discordapp.com", "cdn.x.discordapp.com",
		},
		{}: {
			"", ".", ":443", "com", "discord.com.example.org", "notdiscord.com", "-discord.com", ".discord.com",
			"discord.com..", "discord.gg", "discordapp.net", "discord.co", "discord.com@example.org",
			"example.org@discord.com", "x@discord.com", "[::1]:443", "[::1]", "::1", "[discord.com]", "127.0.0.1",
			"localhost:8080", "discord.com/", "discord.com/.discord.com", "api.github.com", "discord.com:443:443",
		},
		{media: true}: {
			"cdn.discordapp.com", "CDN.discordapp.com.:443", "media.discordapp.net", "images-ext-1.discordapp.net",
			"cdn.discord.com", "media.discord.com", "a.cdn.discordapp.com",
		},
	} {
		for _, host := range hosts {
			assert.Equal(t, kind.api, routes.IsAPIHost(host), host)
			assert.Equal(t, kind.media, routes.IsMediaHost(host), host)
		}
	}
}

func TestDotsInsideASegmentAreAllowed(t *testing.T) {
	t.Parallel()
	assert.Equal(t, routes.GetGuildWidgetPNG, match(t, "GET", "/guilds/1/widget.png").Route())
	for _, code := range []string{"...", ".a", "..a", "a.."} {
		assert.Equal(t, "/invites/"+code, match(t, "GET", "/invites/"+code).Path())
	}
}
