package main

import (
	"bytes"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/httpclient/discordtest"
)

func TestTheFirstLineIsTheConfigurationWithoutSecrets(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "state")
	discord := discordtest.NewServer(t)
	r := start(t, "--upstream", discord.URL, "--secret", secret, "--state", file, "--state-key", "canary-key",
		"--global-limit", "60,80351110224678912:70", "--limit", "all=100/1m per group", "--known-limit", "reactions",
		"--max-wait", "20s", "--hide-limits")
	first, _, _ := strings.Cut(r.begin, "\n")
	assert.Contains(t, first, "level=INFO msg=configuration")
	for _, want := range []string{
		"listen=127.0.0.1:0", "upstream=" + discord.URL, "max-wait=20s", "max-queue=10000", "request-timeout=15s",
		"global-limit=60,80351110224678912:70", `limit="[all=100/1m per group]"`, "known-limit=[reactions]",
		"hide-limits=true",
		"secret=set", "state=" + file, "state-key=set", "redis=\"\"", "log-level=info", "insecure=false",
	} {
		assert.Contains(t, first, " "+want)
	}
	assert.NotContains(t, first, secret)
	assert.NotContains(t, first, "canary")

	_, help := runs(t, "--help")
	for _, flag := range regexp.MustCompile(`(?m)^ {6}--([a-z-]+)`).FindAllStringSubmatch(help, -1) {
		if flag[1] != "check" && flag[1] != "version" {
			assert.Contains(t, first, " "+flag[1]+"=")
		}
	}
}

func TestTheConfigurationHasNoSecretOfAURL(t *testing.T) {
	t.Parallel()
	c, err := parse([]string{
		"--redis", "rediss://user:canary@127.0.0.1:6380/1?password=canary", "--upstream", "http://proxy/canary",
	}, os.Stdout, os.Stderr)
	require.NoError(t, err)
	var log bytes.Buffer
	c.logger(&log).Info("configuration", c.attributes()...)
	assert.Contains(t, log.String(), "redis=rediss://127.0.0.1:6380/1 ")
	assert.Contains(t, log.String(), " upstream=http://proxy/… ", "the path may be another proxy's secret")
	assert.NotContains(t, log.String(), "canary")
}

// If many requests are refused for one reason, the log must have one line for the first of them at once, and one line
// for all others at the end. The last line of the log must have the counts.
func TestARefusalIsOneWarningForEachReasonAndTheLastLineCounts(t *testing.T) {
	t.Parallel()
	discord := discordtest.NewServer(t,
		discordtest.Window("GET /users/@me", 1, time.Hour), discordtest.Cut("GET /guilds/{id}"),
		discordtest.Window("PATCH /channels/{id}/messages/{id}", 1, 2*time.Second),
		discordtest.Handle("GET /gateway", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Ratelight-Proxy", "too-long")
		}))
	r := start(t, "--upstream", discord.URL)
	assert.Equal(t, 200, r.ask(t, "GET", "/users/@me"))
	for range 60 {
		assert.Equal(t, 429, r.ask(t, "GET", "/users/@me"))
	}
	assert.Equal(t, 400, r.ask(t, "GET", "/users/@me", "X-Ratelight-Max-Wait", "soon"))
	assert.Equal(t, 502, r.ask(t, "GET", "/guilds/1"))
	assert.Equal(t, 200, r.ask(t, "GET", "/gateway"), "an upstream's X-Ratelight-Proxy header does not count")
	statuses := make(chan int)
	for range 4 {
		go func() { statuses <- r.ask(t, "PATCH", "/channels/1/messages/2", "X-Ratelight-Latest", "true") }()
	}
	assert.ElementsMatch(t, []int{200, 200, 409, 409}, []int{<-statuses, <-statuses, <-statuses, <-statuses})
	log := r.end(t)
	lines := strings.Split(strings.TrimSpace(log), "\n")
	count := func(reason string) (n int) {
		for _, line := range lines {
			if strings.Contains(line, `level=WARN msg="request refused" reason=`+reason+" ") {
				n++
			}
		}
		return n
	}
	assert.Equal(t, 2, count("too-long"), "one line at once, and one for the other requests at the end: %s", log)
	assert.Contains(t, log, "repeated=58")
	assert.Contains(t, log, `route="GET /users/@me"`)
	assert.Equal(t, 1, count("bad-request"), log)
	assert.Equal(t, 0, count("unreachable"), "an unreachable upstream has a warning of its own")
	assert.Equal(t, 0, count("superseded"), "the client has asked for superseding")
	assert.Contains(t, lines[len(lines)-1], "level=INFO msg=stopped served=4 refused=63 failed=1 lost=0 "+
		"refused_for.bad-request=1 refused_for.superseded=2 refused_for.too-long=60")
}

func TestTheAccessLogHasNoQueryTokenOrSecret(t *testing.T) {
	t.Parallel()
	const canary = "canary-canary-canary-canary-canary-canary-canary-canary-canary-canary"
	discord := discordtest.NewServer(t)
	for _, on := range []bool{true, false} {
		arguments := []string{"--upstream", discord.URL, "--secret", secret}
		if on {
			arguments = append(arguments, "--access-log")
		}
		r := start(t, arguments...)
		for _, path := range []string{
			"/webhooks/1/" + canary + "?q=canary", "/new/" + canary,
			"/" + canary + "/api/v10/users/@me", "/users/@me?token=" + canary,
		} {
			r.ask(t, "POST", "/"+secret+path, "Authorization", "Bot "+canary, "X-Ratelight-Group", "80351110224678912")
		}
		assert.Equal(t, 400, r.ask(t, "GET", "/"+canary+"/users/@me"), "the path does not begin with the secret")
		assert.Equal(t, 400, r.ask(t, "CANARY", "/users/@me"))
		log := r.end(t)
		assert.NotContains(t, strings.ToLower(log), "canary")
		assert.NotContains(t, log, secret)
		lines := regexp.MustCompile(`(?m)^.*msg=request .*$`).FindAllString(log, -1)
		if !on {
			assert.Empty(t, lines)
			continue
		}
		require.Len(t, lines, 6, log)
		assert.Contains(t, lines[0], ` client=127.0.0.1 route="POST /webhooks/{webhook_id}/{webhook_token}" major=1:… `)
		assert.Contains(t, lines[0], " status=200 reason=\"\" attempts=1 waited=")
		assert.Contains(t, lines[4], ` route="" major="" status=400 reason=bad-request attempts=0 `)
	}
}

func TestATimeoutOfTheUpstreamIsNoRefusal(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	j := newJournal(slog.New(slog.NewTextHandler(&log, nil)), false)
	j.around(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Ratelight-Proxy", "timeout")
	})).ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil))
	j.end()
	assert.Contains(t, log.String(), "msg=stopped served=0 refused=0 failed=1 lost=0")
}

// A handler must be able to flush a response through the writer that the access log wraps.
func TestTheLogLeavesTheWriterAsItIs(t *testing.T) {
	t.Parallel()
	inner := httptest.NewRecorder()
	w := &statusRecorder{ResponseWriter: inner}
	require.NoError(t, http.NewResponseController(w).Flush())
	w.WriteHeader(http.StatusEarlyHints)
	assert.Zero(t, w.status, "an early response is not the final one")
}
