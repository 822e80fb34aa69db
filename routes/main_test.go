package routes_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/ratelight/ratelight/routes"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func match(t require.TestingT, method, path string) routes.CompiledRoute {
	compiled, err := routes.Match(method, path)
	require.NoError(t, err, "%s %s", method, path)
	return compiled
}

func compile(t require.TestingT, route routes.Route, parameters ...string) routes.CompiledRoute {
	compiled, err := route.Compile(parameters...)
	require.NoError(t, err, "%s %q", route, parameters)
	return compiled
}

func made(t require.TestingT, method, template string, flags ...routes.Flag) routes.Route {
	route, err := routes.New(method, template, flags...)
	require.NoError(t, err, "%s %s", method, template)
	return route
}

// readTable returns the columns of each line of a file. It leaves out lines that are comments.
func readTable(t *testing.T, name string) (lines [][]string) {
	t.Helper()
	text, err := os.ReadFile(name)
	require.NoError(t, err)
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(line, "#") {
			lines = append(lines, strings.Split(strings.TrimSuffix(line, "\n"), "\t"))
		}
	}
	return lines
}
