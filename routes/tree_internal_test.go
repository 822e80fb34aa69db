package routes

import (
	"iter"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func knownRoutes() iter.Seq[Route] {
	return slices.Values(slices.Concat(catalogue[:], seen[:]))
}

func TestPlainBytesAreWhatThePackageSays(t *testing.T) {
	t.Parallel()
	for c := range 256 {
		escaped := string(appendByte(nil, byte(c)))
		assert.Equal(t, plain[c], escaped == string([]byte{byte(c)}))
		back, width := decode(escaped)
		assert.Equal(t, byte(c), back)
		assert.Equal(t, len(escaped), width)
		assert.Equal(t, !plain[c] && !isControl(byte(c)), isClean("/"+escaped) && len(escaped) == 3)
	}
}

// If templates have the same beginning and a parameter follows, that parameter must have the same name in all of them.
// Otherwise Match would use one of the names at random.
func TestParametersHaveOneNameInOnePlace(t *testing.T) {
	t.Parallel()
	for route := range knownRoutes() {
		n := tree
		for segment := range strings.SplitSeq(route.Template()[1:], "/") {
			if isParameter(segment) {
				assert.Equal(t, n.name, segment, "%s", route)
				n = n.parameter
			} else {
				n = n.literals[segment]
			}
			require.NotNil(t, n, "%s", route)
		}
	}
}

func TestKnownTemplatesAreValidAndDifferent(t *testing.T) {
	t.Parallel()
	found := make(map[Route]bool)
	for route := range knownRoutes() {
		require.NoError(t, checkTemplate(route.Template()), "%s", route)
		assert.False(t, found[route], "%s is listed twice", route)
		found[route] = true
		v, ok := parseVerb(route.Method())
		require.True(t, ok)
		assert.Equal(t, route, tree.shaped(route.Template(), v), "%s", route)
	}
}

// In the places of ids and tokens, the tree must have no literals. Otherwise the token of an unknown path could become
// a part of a template.
func TestTokensStandWhereTheTreeHasOnlyParameters(t *testing.T) {
	t.Parallel()
	for _, root := range []string{"webhooks", "interactions"} {
		id := tree.literals[root]
		require.Empty(t, id.literals)
		require.Empty(t, id.parameter.literals)
		require.Equal(t, "_token}", id.parameter.name[len(id.parameter.name)-7:])
	}
}

func TestTemplatesOfUnknownPathsStayWithinTheBoundThatTheirCommentNames(t *testing.T) {
	t.Parallel()
	nodes := 0
	tree.visit(func(*node) { nodes++ })
	t.Logf("%d nodes, %d words", nodes, len(words))
	require.Less(t, len(verbs)*nodes*(1+(len(words)+2)*5), 2_000_000)

	var vocabulary []string
	for word := range words {
		vocabulary = append(vocabulary, word)
	}
	slices.Sort(vocabulary)
	number, name := rapid.StringMatching(`[0-9]{1,20}`), rapid.StringMatching(`[a-z]{9}`)
	segment := rapid.OneOf(rapid.SampledFrom(vocabulary), number, name)
	tails := []string{"", "/{id}", "/{value}", "/{id}/{rest}", "/{value}/{rest}"}
	rapid.Check(t, func(t *rapid.T) {
		path := "/" + strings.Join(rapid.SliceOfN(segment, 1, 12).Draw(t, "path"), "/")
		template := unknown(0, path).Template()

		n, rest := tree, template
		for rest != "" {
			segment, after := cutSegment(rest)
			next := n.literals[segment]
			if segment == n.name {
				next = n.parameter
			}
			if next == nil {
				break
			}
			n, rest = next, after
		}
		if rest == "" {
			return
		}
		first, tail := cutSegment(rest)
		require.True(t, words[first] || first == "{id}" || first == "{value}", template)
		require.Contains(t, tails, tail, template)
	})
}
