package spectacles_test

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets/shared/redis"
	"github.com/ratelight/ratelight/buckets/shared/spectacles"
	"github.com/ratelight/ratelight/internal/redistest"
	"github.com/ratelight/ratelight/ratelimits"
)

// readmeRules returns the ACL rules of the README: for a bot with a prefix, and for a bot without a prefix.
func readmeRules(t *testing.T) (users [][]string) {
	t.Helper()
	text, err := os.ReadFile("README.md")
	require.NoError(t, err)
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "ACL SETUSER my-bot on '>PASSWORD' "); ok {
			users = append(users, strings.Fields(strings.ReplaceAll(rest, "'", "")))
		}
	}
	require.Len(t, users, 2)
	return users
}

// called matches the commands in the source of a script.
var called = regexp.MustCompile(`redis\.p?call\('([a-z]+)'`)

func TestReadmeNamesTheCommandsThatScriptsNeed(t *testing.T) {
	t.Parallel()
	needed := map[string]bool{"+eval": true, "+evalsha": true, "+ping": true}
	files, err := filepath.Glob("lua/*.lua")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		source, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, m := range called.FindAllStringSubmatch(string(source), -1) {
			needed["+"+m[1]] = true
		}
	}
	for _, rules := range readmeRules(t) {
		commands := slices.DeleteFunc(rules, func(rule string) bool { return !strings.HasPrefix(rule, "+") })
		assert.ElementsMatch(t, slices.Collect(maps.Keys(needed)), commands)
	}
}

func TestPermissionsOfTheReadmeSuffice(t *testing.T) {
	t.Parallel()
	e := redistest.NewEngine(t)
	prefixes := []string{"my-bot:", ""}
	for i, rules := range readmeRules(t) {
		_, err := e.Do("ACL", "DELUSER", "bot")
		require.NoError(t, err)
		_, err = e.Do(append([]string{"ACL", "SETUSER", "bot", "on", ">secret"}, rules...)...)
		require.NoError(t, err)
		runner, err := redis.Connect(t.Context(), "redis://bot:secret@"+e.Address())
		require.NoError(t, err)
		defer runner.Close()

		p := (&world{t: t, context: t.Context()}).processOn(runner, spectacles.WithPrefix(prefixes[i]))
		for _, outcome := range []ratelimits.Response{
			headers(4, time.Minute, stamp(time.Minute)), {},
			hold(ratelimits.ClassGlobal, time.Millisecond),
		} {
			p.report(p.mustAcquire(), outcome)
		}
		p.session.Close()
		assert.Empty(t, denied(t, e), "with the prefix %q", prefixes[i])
	}
}

// denied returns the commands and keys that the engine has denied since the previous call, except for cluster|slots.
func denied(t *testing.T, e *redistest.Engine) (objects []any) {
	t.Helper()
	entries, err := e.Do("ACL", "LOG")
	require.NoError(t, err)
	for _, entry := range entries.([]any) {
		fields := entry.([]any)
		if i := slices.Index(fields, any("object")); fields[i+1] != any("cluster|slots") {
			objects = append(objects, fields[i+1])
		}
	}
	_, err = e.Do("ACL", "LOG", "RESET")
	require.NoError(t, err)
	return objects
}
