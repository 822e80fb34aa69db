package routes_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/routes"
)

type row struct{ method, template, name string }

// documented reads the operations of Discord's published API description.
func documented(t *testing.T) (rows []row) {
	t.Helper()
	for _, line := range readTable(t, "testdata/discord-routes.tsv") {
		require.Len(t, line, 3)
		rows = append(rows, row{line[0], line[1], line[2]})
	}
	require.Len(t, rows, 242)
	return rows
}

func TestCatalogueHasTheDocumentedOperationsAndNoOthers(t *testing.T) {
	t.Parallel()
	var catalogue []row
	seen := make(map[routes.Route]bool)
	for route := range routes.All() {
		catalogue = append(catalogue, row{route.Method(), route.Template(), route.Name()})
		assert.False(t, seen[route], "the catalogue lists %s twice", route)
		seen[route] = true
	}
	assert.ElementsMatch(t, documented(t), catalogue)
}

// The test reads the source, because a test at run time cannot find a variable that has a wrong name, or that All does
// not list.
func TestVariablesAreNamedAfterTheirOperations(t *testing.T) {
	t.Parallel()
	file, err := parser.ParseFile(token.NewFileSet(), "catalogue.go", nil, 0)
	require.NoError(t, err)

	var want, names []string
	for _, operation := range documented(t) {
		want = append(want, operation.name)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || spec.Type != nil { // the constants, which are prefixes of templates, have a type
			return true
		}
		name := ""
		for _, argument := range spec.Values[0].(*ast.CallExpr).Args {
			if text, ok := argument.(*ast.BasicLit); ok { // the name is the last one, because flags are no literals
				name, err = strconv.Unquote(text.Value)
				require.NoError(t, err)
			}
		}
		assert.Equal(t, strings.ReplaceAll(name, "_", ""), strings.ToLower(spec.Names[0].Name))
		names = append(names, name)
		return true
	})
	assert.ElementsMatch(t, want, names)
}

func TestMajorParametersAndFlagsOfTheCatalogue(t *testing.T) {
	t.Parallel()
	for route := range routes.All() {
		template := route.Template()
		want := routes.MajorNone
		switch {
		case strings.HasPrefix(template, "/channels/{channel_id}"):
			want = routes.MajorChannel
		case strings.HasPrefix(template, "/guilds/{guild_id}"):
			want = routes.MajorGuild
		case strings.HasPrefix(template, "/webhooks/{webhook_id}/{webhook_token}"),
			strings.HasPrefix(template, "/interactions/{interaction_id}/{interaction_token}"):
			want = routes.MajorWebhookToken
		case strings.HasPrefix(template, "/webhooks/{webhook_id}"):
			want = routes.MajorWebhook
		}
		assert.Equal(t, want, route.MajorKind(), "%s", route)
		assert.Equal(t, strings.Contains(template, "token}"), route.TokenInPath(), "%s", route)
		callback := route == routes.CreateInteractionResponse
		assert.Equal(t, callback, route.GlobalExempt(), "%s", route)
		assert.Equal(t, callback, route.OneShot(), "%s", route)
	}
	assert.Equal(t, routes.MajorNone, routes.GetStageInstance.MajorKind(), "the channel id is not after /channels")
	assert.Equal(t, routes.MajorNone, routes.ListGuildApplicationCommands.MajorKind(), "the guild id is not after /guilds")
	assert.Equal(t, routes.MajorNone, routes.GetGuildTemplate.MajorKind(), "\"templates\" is not a guild id")
}

func TestRoutesAreSmallAndComparable(t *testing.T) {
	t.Parallel()
	assert.EqualValues(t, 8, unsafe.Sizeof(routes.Route{}))
	assert.LessOrEqual(t, unsafe.Sizeof(routes.CompiledRoute{}), uintptr(32))
	assert.NotEqual(t, routes.GetMessage, routes.UpdateMessage, "same template, but another method")
	_ = map[routes.Route]int{routes.GetMessage: 1}
	_ = map[routes.CompiledRoute]int{}
}

func TestRouteSaysWhatItIs(t *testing.T) {
	t.Parallel()
	route := routes.CreateMessage
	assert.Equal(t, "POST", route.Method())
	assert.Equal(t, "/channels/{channel_id}/messages", route.Template())
	assert.Equal(t, "create_message", route.Name())
	assert.Equal(t, "POST /channels/{channel_id}/messages", route.String())
	assert.Equal(t, "POST /channels/{channel_id}/messages", route.LogValue().String())
	assert.Equal(t, "DELETE /channels/{channel_id}/messages/{message_id} (younger than 10 s)",
		routes.DeleteYoungMessage.String())
	assert.Equal(t, "DELETE /channels/{channel_id}/messages/{message_id} (older than 14 days)",
		routes.DeleteOldMessage.String())
	for kind, want := range map[routes.MajorKind]string{
		routes.MajorNone: "none", routes.MajorChannel: "channel", routes.MajorGuild: "guild",
		routes.MajorWebhook: "webhook", routes.MajorWebhookToken: "webhook token", 99: "unknown",
	} {
		assert.Equal(t, want, kind.String())
	}
}

func TestZeroValuesAreHarmless(t *testing.T) {
	t.Parallel()
	var route routes.Route
	assert.True(t, route.IsZero())
	assert.False(t, routes.GetGateway.IsZero())
	assert.Empty(t, route.Method()+route.Template()+route.Name()+route.String()+route.Family())
	assert.Zero(t, route.Hash())
	assert.Equal(t, routes.MajorNone, route.MajorKind())
	assert.False(t, route.GlobalExempt() || route.TokenInPath() || route.OneShot())
	_, err := route.Compile("1")
	require.ErrorIs(t, err, routes.ErrZeroRoute)

	var compiled routes.CompiledRoute
	assert.True(t, compiled.IsZero())
	assert.True(t, compiled.Route().IsZero())
	assert.Empty(t, compiled.Method()+compiled.Path()+compiled.String())
	assert.Zero(t, compiled.Major())
}

// Different routes must have different hashes. Equal routes must have the same hash, even if they were made in
// different ways.
func TestHashTellsRoutesApart(t *testing.T) {
	t.Parallel()
	flagged := made(t, "GET", "/new-thing/{id}", routes.OneShot)
	all := append(slices.Collect(routes.All()), flagged, routes.DeleteYoungMessage, routes.DeleteOldMessage,
		match(t, "GET", "/members/1").Route(), match(t, "POST", "/webhooks/2/"+followUpToken).Route())
	byHash := map[uint64]routes.Route{0: {}}
	for _, r := range all {
		require.NotContains(t, byHash, r.Hash(), "%v and %v", r, byHash[r.Hash()])
		byHash[r.Hash()] = r
	}
	assert.Equal(t, flagged.Hash(), made(t, "get", "/new-thing/{id}", routes.OneShot).Hash())
	assert.NotContains(t, byHash, made(t, "GET", "/new-thing/{id}").Hash())
}
