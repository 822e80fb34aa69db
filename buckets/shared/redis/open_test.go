package redis_test

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets/shared"
	"github.com/ratelight/ratelight/buckets/shared/redis"
	"github.com/ratelight/ratelight/internal/redistest"
)

// numbers is a script that returns four numbers.
var numbers = &shared.Script{Name: "numbers",
	Source: "return {3, 4, tonumber(redis.call('INCR', KEYS[1])), tonumber(ARGV[1])}"}

const key = "rl2:{test-bot}:test"

func TestOpenReachesAnEngineByAllKindsOfURL(t *testing.T) {
	t.Parallel()
	socket := filepath.Join(t.TempDir(), "s")
	e := redistest.NewEngine(t, "--requirepass", "p@ss", "--unixsocket", socket,
		"--user", "me", "on", ">w#rd", "~*", "&*", "+@all")
	for _, url := range []string{
		"redis://:p%40ss@" + e.Address(),
		"valkey://default:p%40ss@" + e.Address() + "/0",
		"redis://me:w%23rd@" + e.Address() + "/3",
		"redis://me:w%23rd@" + e.Address() + "?db=4&client_name=bot&dial_timeout=1s&write_timeout=1s",
		"redis://me:w%23rd@" + e.Address() + "?protocol=2",
		"unix://me:w%23rd@" + socket + "?db=5",
	} {
		values, err := open(t, url).Runner().Run(within(t, 5*time.Second), numbers, []string{key}, "12")
		require.NoError(t, err, url)
		assert.Equal(t, []int64{3, 4}, values[:2])
		assert.Equal(t, int64(12), values[3])
	}
	ask := administrator(t, "redis://me:w%23rd@"+e.Address())
	for db, want := range map[string]int64{"0": 2 + 1, "3": 1, "4": 1, "5": 1} {
		require.NoError(t, ask("SELECT", db).Error())
		n, err := ask("GET", key).AsInt64()
		require.NoError(t, err)
		assert.Equal(t, want, n, "database %s", db)
	}
}

func TestOpenFailsIfTheEngineIsNotUsable(t *testing.T) {
	t.Parallel()
	password := []string{"--requirepass", "right"}
	for name, c := range map[string]struct {
		arguments []string
		url       string // HOST stands for the server's address; empty means redis://HOST
		prepare   []string
		problem   error
		says      []string
	}{
		"no password": {password, "", nil, redis.ErrAuthentication,
			[]string{"NOAUTH", "redis://user:password@host", "redis://:password@host"}},
		"wrong password": {password, "redis://:wr%2Fong@HOST", nil, redis.ErrAuthentication, []string{"WRONGPASS"}},
		"unknown user":   {password, "redis://who:wr%2Fong@HOST", nil, redis.ErrAuthentication, nil},
		"old password":   {password, "redis://:wr%2Fong@HOST?protocol=2", nil, redis.ErrAuthentication, nil},
		"replica": {[]string{"--replicaof", "127.0.0.1 1", "--replica-serve-stale-data", "yes"}, "",
			nil, redis.ErrReadOnly, []string{"primary"}},
		"stale replica": {[]string{"--replicaof", "127.0.0.1 1", "--replica-serve-stale-data", "no"}, "",
			nil, redis.ErrReadOnly, []string{"MASTERDOWN"}},
		"no eval":    {[]string{"--rename-command", "EVAL", ""}, "", nil, redis.ErrScripts, []string{"eval"}},
		"no evalsha": {[]string{"--rename-command", "EVALSHA", ""}, "", nil, redis.ErrScripts, []string{"evalsha"}},
		"no command": {[]string{"--rename-command", "PTTL", ""}, "", nil, redis.ErrRefused, []string{"pttl"}},
		"full":       {[]string{"--maxmemory", "1"}, "", nil, redis.ErrMemory, []string{"set", "maxmemory"}},
		"evicts": {[]string{"--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"}, "",
			nil, redis.ErrEviction, []string{"allkeys-lru", "noeviction"}},
		"database":        {nil, "redis://HOST/99", nil, redis.ErrDatabase, []string{"lower number"}},
		"cluster down":    {[]string{"--cluster-enabled", "yes"}, "", nil, redis.ErrCluster, []string{"CLUSTER INFO"}},
		"no cluster":      {nil, "redis://HOST?addr=HOST", nil, redis.ErrNoCluster, []string{"remove addr"}},
		"disk":            {[]string{"--min-replicas-to-write", "1"}, "", nil, redis.ErrRefused, []string{"NOREPLICAS"}},
		"full of clients": {[]string{"--maxclients", "1"}, "", nil, redis.ErrRefused, []string{"max number of clients"}},
		"tls":             {nil, "rediss://HOST", nil, redis.ErrUnreachable, []string{"is the port a TLS port?"}},
		"foreign text": {nil, "", []string{"SET", "rl2:{test-bot}:v", "hello"},
			redis.ErrForeignKey, []string{`"rl2:{test-bot}:v"`, "hello", "delete it"}},
		"foreign kind": {nil, "", []string{"RPUSH", "rl2:{test-bot}:v", "x"},
			redis.ErrForeignKey, []string{`"rl2:{test-bot}:v"`, "list"}},
		"not in a database": {[]string{"--databases", "1"}, "redis://HOST/1", nil, redis.ErrDatabase, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := redistest.NewEngine(t, c.arguments...)
			if c.prepare != nil || name == "full of clients" {
				ask := administrator(t, e.URL())
				if c.prepare != nil {
					require.NoError(t, ask(c.prepare...).Error())
				}
			}
			url := e.URL()
			if c.url != "" {
				url = strings.ReplaceAll(c.url, "HOST", e.Address())
			}
			start := time.Now()
			err := refused(t, url)
			assert.Less(t, time.Since(start), 4*time.Second)
			assert.ErrorIs(t, err, c.problem)
			assert.NotContains(t, err.Error(), "wr/ong")
			assert.NotContains(t, err.Error(), "wr%2Fong")
			for _, text := range c.says {
				assert.ErrorContains(t, err, text)
			}
		})
	}
}

// The test server replies like servers that this test cannot start. Open must fail with the right error.
func TestOpenFailsWithRepliesOfOtherEngines(t *testing.T) {
	t.Parallel()
	hello := "%3\r\n$6\r\nserver\r\n$5\r\nredis\r\n$7\r\nversion\r\n$5\r\n7.0.0\r\n$5\r\nproto\r\n:3\r\n"
	// one returns a function that replies to the command name with answer. To the other commands that Open uses, it
	// replies as Redis does.
	one := func(name, answer string) func([]string) string {
		return func(words []string) string {
			switch command := strings.ToUpper(words[0]); {
			case command == name:
				return answer
			case command == "HELLO" && len(words) > 1:
				return hello
			case command == "PING":
				return "+PONG\r\n"
			case command == "CLUSTER":
				return "-ERR This instance has cluster support disabled\r\n"
			}
			return ""
		}
	}
	always := func(answer string) func([]string) string { return func([]string) string { return answer } }
	denied := "-DENIED Redis is running in protected mode because protected mode is enabled and no password is set.\r\n"
	for name, c := range map[string]struct {
		greeting string
		answer   func([]string) string
		problem  error
	}{
		"protected mode": {denied, always(denied), redis.ErrProtectedMode},
		"loading":        {"", always("-LOADING Redis is loading the dataset in memory\r\n"), redis.ErrLoading},
		"loading, later": {"", one("EVAL", "-LOADING Redis is loading the dataset in memory\r\n"), redis.ErrLoading},
		"redis 4": {"", one("EVAL", "*3\r\n$0\r\n\r\n$3\r\nset\r\n$67\r\n"+
			"-ERR Write commands not allowed after non deterministic commands. etc\r\n"), redis.ErrTooOld},
		"cluster down":    {"", one("EVAL", "-CLUSTERDOWN Hash slot not served\r\n"), redis.ErrCluster},
		"half a failover": {"", one("EVAL", "-READONLY You can't write against a read only replica.\r\n"), redis.ErrReadOnly},
		"later ACL messages": {"", one("EVAL", "*3\r\n$0\r\n\r\n$4\r\nzadd\r\n$81\r\n"+
			"NOPERM ACL failure in script: User u has no permissions to run the 'zadd' command.\r\n"), redis.ErrPermission},
		"says nothing":     {"", one("EVAL", "*0\r\n"), redis.ErrScripts},
		"another protocol": {"HTTP/1.1 400 Bad Request\r\n\r\n", always("x"), redis.ErrProtocol},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := refused(t, "redis://"+pretend(t, c.greeting, c.answer))
			assert.ErrorIs(t, err, c.problem)
			var detailed *redis.Error
			require.ErrorAs(t, err, &detailed)
			assert.NotNil(t, detailed.Cause)
		})
	}
}

func TestOpenFailsWithoutAnEngine(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := l.Addr().String()
	l.Close()
	err = refused(t, "redis://u:secret@"+address)
	assert.ErrorIs(t, err, redis.ErrUnreachable)
	assert.ErrorContains(t, err, address)
	assert.NotContains(t, err.Error(), "secret")

	web := httptest.NewServer(http.NotFoundHandler())
	defer web.Close()
	assert.ErrorIs(t, refused(t, "redis://"+web.Listener.Addr().String()), redis.ErrProtocol)
}

func TestOpenEndsWithItsContext(t *testing.T) {
	t.Parallel()
	e := redistest.NewEngine(t)
	require.NoError(t, e.Pause())
	for name, url := range map[string]string{
		"one":      e.URL(),
		"sentinel": e.URL() + "?master_set=m",
		"several":  e.URL() + "?addr=" + e.Address(),
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			start := time.Now()
			_, err := redis.Open(ctx, url, application)
			assert.ErrorIs(t, err, redis.ErrUnreachable)
			assert.ErrorIs(t, err, context.DeadlineExceeded)
			assert.Less(t, time.Since(start), 800*time.Millisecond)

			ctx, cancel = context.WithCancel(t.Context())
			time.AfterFunc(50*time.Millisecond, cancel)
			_, err = redis.Open(ctx, url, application)
			assert.ErrorIs(t, err, context.Canceled)
			assert.NotErrorIs(t, err, redis.ErrUnreachable)
		})
	}
	t.Run("by itself", func(t *testing.T) {
		start := time.Now()
		assert.ErrorIs(t, refused(t, e.URL()), redis.ErrUnreachable)
		assert.Less(t, time.Since(start), 6*time.Second)
	})
}

func TestOpenFailsWithAnInvalidOption(t *testing.T) {
	t.Parallel()
	const token = "MTk4NjIyNDgzNDcxOTI1MjQ4.Cl2FMQ.ZnCjm1XVW7vRze4b7Cq4se7kKWsabc"
	_, err := redis.Open(t.Context(), "redis://127.0.0.1:1")
	assert.ErrorIs(t, err, redis.ErrApplication)
	for _, name := range []string{"", "a b", "a{b", "b}", "b*", "what?", "[x]", `a\b`, "a\n", "a\x00", `"a"`,
		strings.Repeat("x", 100), token, "Bot " + token} {
		_, err := redis.Open(t.Context(), "redis://127.0.0.1:1", redis.WithApplication(name))
		assert.ErrorIs(t, err, redis.ErrApplication, name)
	}
	for _, name := range []string{token, "Bot " + token, "Bearer " + token, "bot:" + token, token + "}",
		"Bearer hunter2", "Bearer " + strings.Repeat("hunter2", 20)} {
		_, err = redis.Open(t.Context(), "redis://127.0.0.1:1", redis.WithApplication(name))
		assert.ErrorIs(t, err, redis.ErrApplication, name)
		assert.NotContains(t, err.Error(), token, name)
		assert.NotContains(t, err.Error(), "hunter2", name)
		if strings.Contains(name, token) {
			assert.ErrorContains(t, err, "looks like a token", name)
		}
	}
	_, err = redis.Open(t.Context(), "redis://127.0.0.1:1", application, redis.WithCallTimeout(-1))
	assert.ErrorContains(t, err, "shared: ")

	e := redistest.NewEngine(t)
	for _, name := range []string{"my-bot", "198622483471925248", "Büro:1/x.y_z@#"} {
		store, err := redis.Open(t.Context(), e.URL(), redis.WithApplication(name))
		require.NoError(t, err, name)
		store.Close()
	}
}

func TestNilIsRefusedOrIgnored(t *testing.T) {
	t.Parallel()
	e := redistest.NewEngine(t)
	open(t, e.URL(), nil, redis.WithClientOption(nil), nil)
	client, err := redis.Connect(t.Context(), e.URL(), nil)
	require.NoError(t, err)
	client.Close()

	assert.ErrorContains(t, refused(t, e.URL(), redis.WithTLS(nil)), "&tls.Config{}")
	var none context.Context
	_, err = redis.Open(none, e.URL(), application)
	assert.ErrorContains(t, err, "context is nil: pass")
	_, err = redis.Connect(none, e.URL())
	assert.ErrorContains(t, err, "context is nil: pass")
}

func TestURLsAreNotRepeatedInErrors(t *testing.T) {
	t.Parallel()
	const secret = "hunter2"
	for _, url := range []string{
		"redis://:12#" + secret + "@127.0.0.1:1",
		"redis://:12/" + secret + "@127.0.0.1:1",
		"redis://:12?" + secret + "@127.0.0.1:1",
		"redis://:12?" + secret,
		"redis://:%zz" + secret + "@127.0.0.1:1",
		"redis://u:" + secret + "@127.0.0.1:port",
		"redis://u:" + secret + "@127.0.0.1:1/x",
		"redis://u:" + secret + "@127.0.0.1:1/1/2",
		"redis://u:" + secret + "@127.0.0.1:1?dial_timeout=" + secret,
		"redis://u:" + secret + "@127.0.0.1:1?master-set=x",
		"redis://u:" + secret + "@127.0.0.1:1?db=%zz",
		"redis://u:" + secret + "@",
		"u:" + secret + "@127.0.0.1:1",
		"http://u:" + secret + "@127.0.0.1:1",
		"unix://u:" + secret + "@",
		"redis:u:" + secret + "@127.0.0.1:1",
		"\x7f" + secret,
		"",
	} {
		err := refused(t, url)
		assert.ErrorIs(t, err, redis.ErrURL, url)
		assert.NotContains(t, err.Error(), secret, url)
	}
	for _, url := range []string{"127.0.0.1:6379", "localhost:6379", " redis://127.0.0.1:1", "\tredis://127.0.0.1:1",
		"127.0.0.1", "http://127.0.0.1:1", ""} {
		assert.ErrorContains(t, refused(t, url), "it must begin with redis://", url)
	}
	assert.ErrorContains(t, refused(t, "redis://127.0.0.1:abc"), "the port is not a number")
	assert.ErrorContains(t, refused(t, "redis://127.0.0.1:%zz@"), "it does not parse; ")
	assert.ErrorContains(t, refused(t, "redis://127.0.0.1:1?master-set=x"), "master-set")
	assert.ErrorContains(t, refused(t, "redis://127.0.0.1:1/x"), "number of the database")
	assert.ErrorContains(t, refused(t, "redis://127.0.0.1:1?dial_timeout=1"), "dial_timeout")
}

func TestOpenFailsIfTheKeyOfTheAddressIsForeign(t *testing.T) {
	t.Parallel()
	e := redistest.NewEngine(t)
	ask := administrator(t, e.URL())
	for _, c := range []struct {
		command []string
		says    string
	}{
		{[]string{"SET", "rl2:ip:{10.0.0.1}", "x"}, `the string "x"`},
		{[]string{"LPUSH", "rl2:ip:{10.0.0.1}", "x"}, "a list"},
	} {
		require.NoError(t, ask("DEL", "rl2:ip:{10.0.0.1}").Error())
		require.NoError(t, ask(c.command...).Error())
		err := refused(t, e.URL(), redis.WithAddress("10.0.0.1"))
		assert.ErrorIs(t, err, redis.ErrForeignKey)
		assert.ErrorContains(t, err, `"rl2:ip:{10.0.0.1}"`)
		assert.ErrorContains(t, err, c.says)
		open(t, e.URL())
	}
}

// While a new version of the protocol is introduced, both versions use the same server. Open must not touch the keys of
// the other version.
func TestOpenDoesNotTouchKeysOfAnotherVersion(t *testing.T) {
	t.Parallel()
	e := redistest.NewEngine(t)
	ask := administrator(t, e.URL())
	require.NoError(t, ask("SET", "rl:{test-bot}:v", "ratelight 1").Error())
	open(t, e.URL())
	old, err := ask("GET", "rl:{test-bot}:v").ToString()
	require.NoError(t, err)
	assert.Equal(t, "ratelight 1", old)
}

func TestOpenWarnsOfAnEngineThatMayEvict(t *testing.T) {
	t.Parallel()
	e := redistest.NewEngine(t, "--maxmemory", "100mb", "--maxmemory-policy", "volatile-lru")
	var log bytes.Buffer
	logger := redis.WithLogger(slog.New(slog.NewTextHandler(&log, nil)))
	open(t, e.URL(), logger)
	assert.Contains(t, log.String(), "volatile-lru")
	assert.Contains(t, log.String(), "level=WARN")

	ask := administrator(t, e.URL())
	log.Reset()
	open(t, e.URL(), logger, redis.WithEviction())
	require.NoError(t, ask("CONFIG", "SET", "maxmemory-policy", "noeviction").Error())
	open(t, e.URL(), logger)
	require.NoError(t, ask("CONFIG", "SET", "maxmemory-policy", "allkeys-random").Error())
	open(t, e.URL(), logger, redis.WithEviction())
	require.NoError(t, ask("CONFIG", "SET", "maxmemory", "0").Error())
	open(t, e.URL(), logger)
	assert.Empty(t, log.String())
}

func TestOpenLeavesOnlyTheMarkerBehind(t *testing.T) {
	t.Parallel()
	e := redistest.NewEngine(t)
	open(t, e.URL())
	ask := administrator(t, e.URL())
	keys, err := ask("KEYS", "*").AsStrSlice()
	require.NoError(t, err)
	assert.Equal(t, []string{"rl2:{test-bot}:v"}, keys)

	require.NoError(t, ask("PEXPIRE", "rl2:{test-bot}:v", "5000").Error())
	open(t, e.URL())
	life, err := ask("PTTL", "rl2:{test-bot}:v").AsInt64()
	require.NoError(t, err)
	assert.Greater(t, life, int64(time.Hour/time.Millisecond), "Open must renew the marker")
}

func TestConnectIsForOtherStores(t *testing.T) {
	t.Parallel()
	e := redistest.NewEngine(t, "--requirepass", "secret")
	client, err := redis.Connect(t.Context(), "redis://:secret@"+e.Address())
	require.NoError(t, err)
	defer client.Close()
	values, err := client.Run(within(t, 5*time.Second), numbers, []string{"any"}, "1")
	require.NoError(t, err)
	assert.Equal(t, []int64{3, 4, 1, 1}, values)
	n, err := client.Run(within(t, 5*time.Second), &shared.Script{Name: "n", Source: "return {redis.call('DBSIZE')}"}, nil)
	require.NoError(t, err)
	assert.Equal(t, []int64{1}, n, "Connect must store no keys")

	_, err = redis.Connect(t.Context(), e.URL())
	assert.ErrorIs(t, err, redis.ErrAuthentication)
	_, err = redis.Connect(t.Context(), "redis:")
	assert.ErrorIs(t, err, redis.ErrURL)
	client.Close()
	_, err = client.Run(within(t, 5*time.Second), numbers, []string{"any"}, "1")
	assert.ErrorIs(t, err, redis.ErrClosed)
}
