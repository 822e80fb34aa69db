package redis_test

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets/shared"
	"github.com/ratelight/ratelight/buckets/shared/redis"
	"github.com/ratelight/ratelight/internal/enginetest"
	"github.com/ratelight/ratelight/internal/redistest"
)

func TestDocumentedPermissionsSuffice(t *testing.T) {
	t.Parallel()
	e := redistest.NewEngine(t)
	ask := administrator(t, e.URL())
	require.NoError(t, ask(append([]string{"ACL", "SETUSER", "bot", ">secret"}, rules(t, "test-bot")...)...).Error())
	url := "redis://bot:secret@" + e.Address()

	store := open(t, url)
	enginetest.Listen(t, store.Runner())("hello")

	denied, err := ask("ACL", "LOG").ToArray()
	require.NoError(t, err)
	for _, entry := range denied {
		what, err := entry.AsMap()
		require.NoError(t, err)
		object := what["object"]
		name, err := object.ToString()
		require.NoError(t, err)
		assert.Contains(t, []string{"cluster|slots", "info"}, name, "only these optional commands may be denied")
	}
	assert.NotEmpty(t, denied)

	require.NoError(t, ask("ACL", "SETUSER", "bot", "+cluster|slots", "+info").Error())
	require.NoError(t, ask("ACL", "LOG", "RESET").Error())
	open(t, url)
	denied, err = ask("ACL", "LOG").ToArray()
	require.NoError(t, err)
	assert.Empty(t, denied, "with the optional commands, nothing may be denied")
}

func TestErrorNamesEachMissingPermission(t *testing.T) {
	t.Parallel()
	e := redistest.NewEngine(t)
	ask := administrator(t, e.URL())
	url := "redis://bot:secret@" + e.Address()
	user := func(rules ...string) {
		t.Helper()
		require.NoError(t, ask("ACL", "DELUSER", "bot").Error())
		require.NoError(t, ask(append([]string{"ACL", "SETUSER", "bot", ">secret"}, rules...)...).Error())
	}
	all := rules(t, "test-bot")
	for _, name := range redis.Permissions {
		user(append(slices.Clone(all), "-"+name)...)
		err := refused(t, url)
		assert.ErrorIs(t, err, redis.ErrPermission, name)
		var detailed *redis.Error
		require.ErrorAs(t, err, &detailed, name)
		assert.Equal(t, name, detailed.Command)
		assert.ErrorContains(t, err, name+": ")
	}
	user(append(slices.Clone(all), "+select")...)
	open(t, url+"/3")
	user(all...)
	err := refused(t, url+"/3")
	assert.ErrorIs(t, err, redis.ErrPermission)
	assert.ErrorContains(t, err, "select")

	user(rules(t, "another-bot")...)
	err = refused(t, url)
	assert.ErrorIs(t, err, redis.ErrPermission)
	assert.ErrorContains(t, err, `"rl2:{test-bot}:*"`)

	user(slices.DeleteFunc(slices.Clone(all), func(rule string) bool { return strings.HasPrefix(rule, "~rl2:ip") })...)
	err = refused(t, url, redis.WithAddress("10.0.0.1"))
	assert.ErrorIs(t, err, redis.ErrPermission)
	assert.ErrorContains(t, err, `"rl2:ip:{10.0.0.1}"`)

	user(slices.DeleteFunc(slices.Clone(all), func(rule string) bool { return strings.HasPrefix(rule, "&") })...)
	err = refused(t, url)
	assert.ErrorIs(t, err, redis.ErrPermission)
	assert.ErrorContains(t, err, "channel")
	assert.ErrorContains(t, err, "rl2:{test-bot}:")
}

func TestErrorNamesAPermissionThatIsLostLater(t *testing.T) {
	t.Parallel()
	e := redistest.NewEngine(t)
	ask := administrator(t, e.URL())
	require.NoError(t, ask(append([]string{"ACL", "SETUSER", "bot", ">secret"}, rules(t, "test-bot")...)...).Error())
	store := open(t, "redis://bot:secret@"+e.Address())
	require.NoError(t, ask("ACL", "SETUSER", "bot", "-zadd", "-zcard").Error())
	for source, want := range map[string]string{
		"local one = 1\nlocal x = redis.call('ZADD', KEYS[1], one, 'm')\nreturn {x}": "zadd",
		"return {redis.call('zcard', KEYS[1]) + redis.call('ZCARD', KEYS[1])}":       "zcard",
		"return {redis.call('zcard', KEYS[1]), redis.call('zadd', KEYS[1], 1, 'm')}": "",
		"local run = redis.call\nreturn {run('zcard', KEYS[1])}":                     "",
	} {
		_, err := store.Runner().Run(within(t, 5*time.Second), &shared.Script{Name: "test", Source: source}, []string{key})
		assert.ErrorIs(t, err, redis.ErrPermission)
		var detailed *redis.Error
		require.ErrorAs(t, err, &detailed)
		assert.NotContains(t, err.Error(), "user_script")
		assert.ErrorContains(t, err, "script test: ", "the error must name the script once")
		if want != "" || !strings.Contains(detailed.Cause.Error(), "'") { // versions after 7.0 name the command
			assert.Equal(t, want, detailed.Command, source)
		}
		var said *rueidis.RedisError
		assert.ErrorAs(t, err, &said, "the error must wrap the server's error")
	}
}

// called matches the commands in the source of a script.
var called = regexp.MustCompile(`redis\.p?call\('([A-Z]+)'`)

func TestPermissionsAreTheCommandsOfScripts(t *testing.T) {
	t.Parallel()
	needed := map[string]bool{"eval": true, "evalsha": true, "ping": true, "subscribe": true}
	files, err := filepath.Glob("../lua/*.lua")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range append(files, "check.lua") {
		source, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, m := range called.FindAllStringSubmatch(string(source), -1) {
			needed[strings.ToLower(m[1])] = true
		}
	}
	delete(needed, "info") // optional
	assert.ElementsMatch(t, slices.Collect(maps.Keys(needed)), redis.Permissions)
	assert.ElementsMatch(t, redis.Permissions, append(redis.Probed(), "eval", "evalsha", "ping", "subscribe"),
		"Open must try each command")
}

func TestReadmeNamesThePermissions(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("README.md")
	require.NoError(t, err)
	_, rest, found := strings.Cut(string(text), "\nACL SETUSER my-bot on '>PASSWORD' ")
	require.True(t, found)
	line, end, found := strings.Cut(rest, "\n")
	require.True(t, found)
	assert.True(t, strings.HasPrefix(end, "```"), "the command must be a single line, so that it can be pasted")
	for _, rule := range strings.Fields(line) {
		if strings.ContainsAny(rule, "~&*{}") {
			assert.Regexp(t, `^'[^']+'$`, rule, "a shell needs quotes")
		}
	}
	assert.ElementsMatch(t, rules(t, "my-bot"), append(strings.Fields(strings.ReplaceAll(line, "'", "")), "on"))
}

func TestACLRulesOfAnInvalidNameFail(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"", "a{b*", "*", "a b", "a?", "[ab]", "a} ~*"} {
		rules, err := redis.ACLRules(name)
		assert.ErrorIs(t, err, redis.ErrApplication, name)
		assert.Empty(t, rules)
	}
}
