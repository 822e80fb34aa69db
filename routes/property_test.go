package routes_test

import (
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/ratelight/ratelight/routes"
)

var catalogue = slices.Collect(routes.All())

// parameter draws values that Compile accepts: ids, tokens, emoji, other texts without slashes, and words of the
// catalogue.
func parameter() *rapid.Generator[string] {
	text := rapid.String().Filter(func(s string) bool {
		return s != "" && s != "." && s != ".." && !strings.ContainsFunc(s, func(r rune) bool {
			return r < ' ' || r == 0x7f || r == '/' || r == '\\'
		})
	})
	return rapid.OneOf(
		rapid.StringMatching(`[0-9]{1,20}`),
		rapid.StringMatching(`(aW50ZXJhY3Rpb246)?[A-Za-z0-9_-]{1,80}`),
		rapid.SampledFrom([]string{"🔥", "name:123", "@me", "@original", "search", "pins", "templates", "%2F", "...", "api"}),
		word(),
		text,
	)
}

// word draws a literal segment of the catalogue.
func word() *rapid.Generator[string] {
	var words []string
	for _, route := range catalogue {
		for segment := range strings.SplitSeq(route.Template()[1:], "/") {
			if !strings.HasPrefix(segment, "{") {
				words = append(words, segment)
			}
		}
	}
	return rapid.SampledFrom(words)
}

// anyPath draws paths that are similar to those of the catalogue.
func anyPath() *rapid.Generator[string] {
	segment := rapid.OneOf(word(), word(), parameter().Filter(func(s string) bool { return !strings.Contains(s, "%") }))
	return rapid.Custom(func(t *rapid.T) string {
		return "/" + strings.Join(rapid.SliceOfN(segment, 1, 9).Draw(t, "segments"), "/")
	})
}

func TestMatchUndoesCompile(t *testing.T) {
	t.Parallel()
	now := time.Now()
	rapid.Check(t, func(t *rapid.T) {
		route := rapid.SampledFrom(catalogue).Draw(t, "route")
		count := strings.Count(route.Template(), "{")
		parameters := rapid.SliceOfN(parameter(), count, count).Draw(t, "parameters")

		compiled, err := route.Compile(parameters...)
		if route == routes.DeleteMessage {
			compiled, err = routes.DeleteMessageAt(parameters[0], parameters[1], now)
		}
		require.NoError(t, err)
		prefix := rapid.SampledFrom([]string{"", "/api", "/api/v10", "https://discord.com/api/v9"}).Draw(t, "prefix")
		suffix := rapid.SampledFrom([]string{"", "/", "?limit=1", "//#x"}).Draw(t, "suffix")
		matched, err := routes.MatchAt(route.Method(), prefix+compiled.Path()+suffix, now)
		require.NoError(t, err)
		require.Equal(t, compiled.Route(), matched.Route(), "%s and %s", compiled.Route(), matched.Route())
		require.Equal(t, compiled, matched)
	})
}

func TestMatchOfItsOwnPathChangesNothing(t *testing.T) {
	t.Parallel()
	now := time.Now()
	rapid.Check(t, func(t *rapid.T) {
		odd := rapid.StringMatching(`(/(api|v10|%[0-9a-fA-F]{2}|[a-z.]*))*`)
		path := rapid.OneOf(anyPath(), rapid.String(), odd).Draw(t, "path")
		method := rapid.SampledFrom([]string{"GET", "post", "HEAD", "DELETE", "QUERY"}).Draw(t, "method")
		first, err := routes.MatchAt(method, path, now)
		if err != nil {
			return
		}
		second, err := routes.MatchAt(method, first.Path(), now)
		require.NoError(t, err)
		require.Equal(t, first, second)
	})
}

// slowMatch is a simple version of Match that tries every template. If several templates match, it looks at the first
// segment in which one template has a literal and another has a parameter, and prefers the template with the literal.
func slowMatch(method, path string) (best routes.Route) {
	segments := strings.Split(path[1:], "/")
	rank := func(route routes.Route) string {
		literals := ""
		for segment := range strings.SplitSeq(route.Template()[1:], "/") {
			if strings.HasPrefix(segment, "{") {
				literals += "0"
			} else {
				literals += "1"
			}
		}
		return literals
	}
	for _, route := range catalogue {
		template := strings.Split(route.Template()[1:], "/")
		fits := route.Method() == method && len(template) == len(segments)
		for i := 0; fits && i < len(template); i++ {
			fits = strings.HasPrefix(template[i], "{") || template[i] == segments[i]
		}
		if fits && (best.IsZero() || rank(route) > rank(best)) {
			best = route
		}
	}
	return best
}

func TestTheTreeFindsWhatASearchThroughTheCatalogueFinds(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		// The path is a template in which words and numbers replace the parameters and some literals. So several templates
		// may match the path.
		model := rapid.SampledFrom(catalogue).Draw(t, "model")
		segments := strings.Split(model.Template(), "/")
		for i, segment := range segments {
			if strings.HasPrefix(segment, "{") || i > 1 && rapid.IntRange(0, 5).Draw(t, "change") == 0 {
				segments[i] = rapid.OneOf(word(), rapid.StringMatching(`[0-9]{5}`)).Draw(t, "segment")
			}
		}
		path := strings.Join(segments, "/")
		method := rapid.SampledFrom([]string{"GET", "POST", "PUT", "PATCH", "DELETE"}).Draw(t, "method")

		compiled, err := routes.MatchAt(method, path, time.Now())
		require.NoError(t, err)
		got, want := compiled.Route(), slowMatch(method, path)
		if got.Name() == "" && !want.IsZero() {
			// Match prefers a literal of an undocumented route, such as GET /applications/detectable, to a parameter.
			require.NotContains(t, got.Template(), "{value}")
			require.NotContains(t, got.Template(), "{rest}")
			return
		}
		require.Equal(t, want.Name(), got.Name(), "%s %s", method, path)
		if !want.IsZero() {
			require.Equal(t, want.Template(), got.Template())
		}
	})
}

// Segments must be encoded in the same way as by net/url.
func TestPathsAreEncodedAsNetURLDoes(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		code := parameter().Draw(t, "code")
		require.Equal(t, "/invites/"+url.PathEscape(code), compile(t, routes.InviteResolve, code).Path())
	})
}
