package routes_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/routes"
)

func TestCompileFillsInTheTemplate(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		route      routes.Route
		parameters []string
		path       string
		major      routes.Major
	}{
		{routes.GetGateway, nil, "/gateway", routes.Major{}},
		{routes.CreateMessage, []string{"1"}, "/channels/1/messages", routes.Major{ID: "1"}},
		{routes.AddGuildMemberRole, []string{"1", "2", "3"}, "/guilds/1/members/2/roles/3", routes.Major{ID: "1"}},
		{routes.GetWebhook, []string{"1"}, "/webhooks/1", routes.Major{ID: "1"}},
		{routes.ExecuteWebhook, []string{"1", "secret"}, "/webhooks/1/secret", routes.Major{ID: "1", Token: "secret"}},
		{
			routes.CreateInteractionResponse, []string{"1", "secret"}, "/interactions/1/secret/callback",
			routes.Major{ID: "1", Token: "secret"},
		},
		{
			routes.AddMyMessageReaction, []string{"1", "2", "name:3"},
			"/channels/1/messages/2/reactions/name:3/@me", routes.Major{ID: "1"},
		},
		{routes.InviteResolve, []string{"50% off?#;, x"}, "/invites/50%25%20off%3F%23%3B%2C%20x", routes.Major{}},
	} {
		compiled := compile(t, c.route, c.parameters...)
		assert.Equal(t, c.path, compiled.Path())
		assert.Equal(t, c.major, compiled.Major())
		assert.Equal(t, c.route, compiled.Route())
		assert.Equal(t, c.route.Method(), compiled.Method())
	}
}

func TestCompileRefusesParametersThatDoNotFit(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name       string
		parameters []string
		problem    routes.Problem
		parameter  string
		text       string
	}{
		{"none", nil, routes.ParameterMissing, "channel_id", "got 0 parameters, expected 2"},
		{"one", []string{"1"}, routes.ParameterMissing, "message_id", "got 1 parameters, expected 2"},
		{"three", []string{"1", "2", "3"}, routes.ParameterSurplus, "", "got 3 parameters, expected 2"},
		{"empty", []string{"1", ""}, routes.ParameterEmpty, "message_id", "expected a value"},
		{"slash", []string{"1/2", "2"}, routes.ParameterIllegal, "channel_id", "slash"},
		{"backslash", []string{`1\2`, "2"}, routes.ParameterIllegal, "channel_id", "backslash"},
		{"line feed", []string{"1", "2\n"}, routes.ParameterIllegal, "message_id", "control character"},
		{"delete", []string{"1", "\x7f"}, routes.ParameterIllegal, "message_id", "control character"},
		{"dot", []string{".", "2"}, routes.ParameterIllegal, "channel_id", "dot segment"},
		{"dots", []string{"1", ".."}, routes.ParameterIllegal, "message_id", "dot segment"},
		{"long", []string{"1", strings.Repeat("2", 8192)}, routes.ParameterIllegal, "message_id", "8192 bytes"},
	} {
		compiled, err := routes.GetMessage.Compile(c.parameters...)
		var parameterError *routes.ParameterError
		require.ErrorAs(t, err, &parameterError, c.name)
		assert.Equal(t, c.problem, parameterError.Problem, c.name)
		assert.Equal(t, c.parameter, parameterError.Parameter, c.name)
		assert.Equal(t, routes.GetMessage, parameterError.Route, c.name)
		assert.ErrorContains(t, err, c.text, c.name)
		assert.ErrorContains(t, err, c.problem.String(), c.name)
		assert.ErrorContains(t, err, "GET /channels/{channel_id}/messages/{message_id}", c.name)
		assert.True(t, compiled.IsZero(), c.name)
	}
}

// The value of a parameter may be a literal segment of another route, such as "@me". In that case, Compile must return
// the route that Match finds for the path, and not the route on which it was called.
func TestCompileAgreesWithMatchAboutWordsThatStandForThemselves(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		route      routes.Route
		parameters []string
		want       routes.Route
	}{
		{routes.GetUser, []string{"@me"}, routes.GetMyUser},
		{routes.UpdateGuildMember, []string{"1", "@me"}, routes.UpdateMyGuildMember},
		{routes.GetGuildMember, []string{"1", "@me"}, routes.GetGuildMember},
		{routes.GetWebhookMessage, []string{"1", "t", "@original"}, routes.GetOriginalWebhookMessage},
		{routes.GetGuild, []string{"templates"}, routes.GetGuild},
	} {
		compiled := compile(t, c.route, c.parameters...)
		assert.Equal(t, c.want, compiled.Route(), "got %s", compiled.Route())
		assert.Equal(t, match(t, c.route.Method(), compiled.Path()), compiled)
	}
}

func TestCompileChoosesTheInteractionVariantByTheToken(t *testing.T) {
	t.Parallel()
	followUp := compile(t, routes.ExecuteWebhook, "1", followUpToken)
	assert.True(t, followUp.Route().GlobalExempt())
	assert.Equal(t, match(t, "POST", "/webhooks/1/"+followUpToken), followUp)
	assert.Equal(t, routes.ExecuteWebhook, compile(t, followUp.Route(), "1", webhookToken).Route())
	assert.Equal(t, followUp, compile(t, followUp.Route(), "1", followUpToken))
	assert.Equal(t, match(t, "GET", "/webhooks/1/"+followUpToken+"/messages/@original"),
		compile(t, routes.GetWebhookMessage, "1", followUpToken, "@original"))
}

func TestNewMakesRoutesThatTheCatalogueLacks(t *testing.T) {
	t.Parallel()
	route := made(t, "post", "/channels/{channel_id}/new-thing/{id}", routes.OneShot)
	assert.Equal(t, "POST /channels/{channel_id}/new-thing/{id}", route.String())
	assert.Empty(t, route.Name())
	assert.Equal(t, routes.MajorChannel, route.MajorKind())
	assert.True(t, route.OneShot())
	assert.False(t, route.GlobalExempt() || route.TokenInPath())
	assert.Equal(t, route, made(t, "POST", "/channels/{channel_id}/new-thing/{id}", routes.OneShot))
	compiled := compile(t, route, "1", "a b")
	assert.Equal(t, "/channels/1/new-thing/a%20b", compiled.Path())
	assert.Equal(t, routes.Major{ID: "1"}, compiled.Major())
}

func TestNewFindsTheCatalogueByShape(t *testing.T) {
	t.Parallel()
	for _, template := range []string{"/channels/{channel_id}/messages", "/channels/{c}/messages"} {
		assert.Equal(t, routes.CreateMessage, made(t, "POST", template))
	}
	marked := made(t, "POST", "/channels/{channel_id}/messages", routes.GlobalExempt, routes.TokenInPath)
	assert.NotEqual(t, routes.CreateMessage, marked)
	assert.True(t, marked.GlobalExempt() && marked.TokenInPath())
	assert.Equal(t, "create_message", marked.Name())
	for _, channel := range []string{"1", "users"} { // "users" is a literal in other templates, but not in this position
		assert.Equal(t, marked, compile(t, marked, channel).Route(), channel)
	}
}

// "@me" must have its special meaning for Compile even if it is not the last parameter.
func TestRouteOfNewCompilesToWhatMatchFinds(t *testing.T) {
	t.Parallel()
	route := made(t, "GET", "/users/{user_id}/guilds/{guild_id}/member")
	compiled := compile(t, route, "@me", "1")
	assert.Equal(t, routes.GetMyGuildMember, compiled.Route())
	assert.Equal(t, match(t, "GET", compiled.Path()), compiled)
	assert.Equal(t, route, compile(t, route, "2", "1").Route())
}

func TestNewDerivesTheMajorParameter(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		template      string
		major         routes.MajorKind
		token, exempt bool
	}{
		{"/channels/{channel_id}/x", routes.MajorChannel, false, false},
		{"/guilds/{guild_id}/x", routes.MajorGuild, false, false},
		{"/guilds/x/{guild_id}", routes.MajorNone, false, false},
		{"/webhooks/{id}/x", routes.MajorWebhook, false, false},
		{"/webhooks/{id}/{token}/x", routes.MajorWebhookToken, true, false},
		{"/interactions/{id}/{token}/x", routes.MajorWebhookToken, true, true},
		{"/interactions/{id}/x", routes.MajorNone, false, false},
		{"/applications/{id}/guilds/{guild_id}/x", routes.MajorNone, false, false},
		{"/x/{channel_id}", routes.MajorNone, false, false},
	} {
		route := made(t, "GET", c.template)
		assert.Equal(t, c.major, route.MajorKind(), c.template)
		assert.Equal(t, c.token, route.TokenInPath(), c.template)
		assert.Equal(t, c.exempt, route.GlobalExempt(), c.template)
	}
}

func TestNewRefusesBadTemplates(t *testing.T) {
	t.Parallel()
	for template, offset := range map[string]int{
		"": 0, "x": 0, "/": 1, "/x/": 3, "/x//y": 3, "/{}": 1, "/{id": 1, "/x/{id}.json": 3, "/x/a{id}": 3,
		"/{i d}": 1, "/a b": 1, "/a?b": 1, "/a%20b": 1, "/x/..": 3, "/./x": 1, "/api/v10/x": 1, "/v9/x": 1, "/x\n": 1,
		"/{a|b}": 1, "/{é}": 1,
	} {
		_, err := routes.New("GET", template)
		require.ErrorIs(t, err, routes.ErrTemplate, "%q", template)
		var pathError *routes.PathError
		require.ErrorAs(t, err, &pathError)
		assert.Equal(t, offset, pathError.Offset, "%q", template)
	}
	_, err := routes.New("BR EW", "/x")
	require.ErrorIs(t, err, routes.ErrMethod)
	_, err = routes.New("GET", "/"+strings.Repeat("x", 9000))
	require.ErrorIs(t, err, routes.ErrTooLong)
}
