package main

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/bench/internal/command"
	"github.com/ratelight/ratelight/httpclient"
	"github.com/ratelight/ratelight/httpclient/trace"
	"github.com/ratelight/ratelight/internal/discordsim"
)

// twenty are requests for one webhook at one moment. Five can go in five seconds.
var twenty = strings.Repeat("2026-01-02T03:04:05Z,POST,/webhooks/1/hunter2\n", 20)

func write(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	return path
}

func TestTuneRecommendsAValue(t *testing.T) {
	t.Parallel()
	status, stdout, stderr := call(t.Context(), "tune", "-trace", write(t, "t.csv", twenty), "-max-rate-limits", "6s,16s,11s,1m", "-refused", "0.25")
	assert.Zero(t, status)
	assert.Empty(t, stderr)
	assert.Contains(t, stdout, "20 requests in 0 s; 1 route, 1 bucket\n")
	assert.Contains(t, stdout, "OK: 16 s refuses nothing, and nobody waits longer than 15.20 s; 11 s would refuse 25.0 %.\n")
	assert.NotContains(t, stdout, "hunter2")
}

func TestTuneFailsWhenNoValueWillDo(t *testing.T) {
	t.Parallel()
	status, stdout, _ := call(t.Context(), "tune", "-trace", write(t, "t.csv", twenty), "-max-rate-limits", "6s,11s")
	assert.Equal(t, command.StatusFailed, status)
	assert.Contains(t, stdout, "FAILED: no value refuses 1 % or less; the largest, 11 s, refuses 25.0 %.\n")
	assert.Contains(t, stdout, "The bottleneck is POST /webhooks/{webhook_id}/{webhook_token} of webhook 1 (5 refused).\n")
	assert.NotContains(t, stdout, "hunter2")

	status, stdout, stderr := call(t.Context(), "tune", "-json", "-trace", write(t, "t.csv", twenty), "-max-rate-limits", "6s,11s")
	assert.Equal(t, command.StatusFailed, status)
	assert.Empty(t, stderr)
	assert.NotContains(t, stdout, "hunter2")
	var document struct {
		Values []struct {
			Refused int `json:"refused_early"`
		}
		Recommended *float64 `json:"recommended_seconds"`
		Verdict     struct{ Passed bool }
	}
	require.NoError(t, json.Unmarshal([]byte(stdout), &document))
	assert.Len(t, document.Values, 2)
	assert.Equal(t, 5, document.Values[1].Refused)
	assert.Nil(t, document.Recommended)
	assert.False(t, document.Verdict.Passed)
}

func TestTuneMakesALoadUp(t *testing.T) {
	t.Parallel()
	arguments := []string{
		"tune", "-rate", "0.5", "-duration", "10m", "-channels", "3", "-burst", "10", "-burst-every", "1m", "-max-rate-limits", "5m",
		"-rule", "POST /channels/{channel.id}/messages=none",
	}
	status, stdout, _ := call(t.Context(), arguments...)
	assert.Zero(t, status)
	assert.Contains(t, stdout, "390 requests in 10m, 9 bursts among them; 1 route, 3 buckets\n5 per 5 s in each bucket but 1 route (fixed window)")
	_, again, _ := call(t.Context(), arguments...)
	assert.Equal(t, stdout, again)
}

func TestTraceFromStandardInput(t *testing.T) {
	t.Parallel()
	lines := strings.NewReader(`{"time":0,"method":"GET","path":"/gateway"}` + "\n")
	status, stdout, stderr := callWith(t.Context(), lines, "tune", "-trace", "-", "-json")
	assert.Zero(t, status)
	assert.Contains(t, stdout, `"requests": 1,`)
	assert.Empty(t, stderr)
}

func TestTuneSkipsBadLines(t *testing.T) {
	t.Parallel()
	trace := write(t, "t.csv", twenty+"yesterday,POST,/webhooks/1/hunter2\n")
	status, stdout, stderr := call(t.Context(), "tune", "-trace", trace, "-skip-bad-lines", "-max-rate-limits", "1m")
	assert.Zero(t, status)
	assert.Empty(t, stderr)
	assert.Contains(t, stdout, "20 requests in 0 s; 1 route, 1 bucket\n1 line skipped, the first because of this: "+trace+":21: the time cannot be read")
	assert.Contains(t, stdout, "The bottleneck is POST /webhooks/{webhook_id}/{webhook_token} of webhook 1: requests waited ")
	assert.NotContains(t, stdout, "hunter2")
}

// What was recorded of a run is replayed as it was.
func TestARecordedRunCanBeTuned(t *testing.T) {
	t.Parallel()
	var file bytes.Buffer
	synctest.Test(t, func(t *testing.T) {
		server, err := discordsim.New(discordsim.Config{Rules: []discordsim.Rule{{Path: "**", Quota: discordsim.Fixed(5, 5*time.Second), Hash: "a"}}})
		require.NoError(t, err)
		defer server.Close()
		transport := httpclient.NewTransport(httpclient.WithBase(server.RoundTripper()))
		recorder := trace.New(&file)
		transport.AddHooks(recorder.Hooks())
		var all sync.WaitGroup
		for i := range 24 {
			all.Go(func() {
				path := "/api/v10/channels/" + strconv.Itoa(1+i%2) + "/messages"
				if i%6 == 0 {
					path = "/api/v10/webhooks/3/hunter2"
				}
				r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, discordsim.BaseURL+path, nil)
				if !assert.NoError(t, err) {
					return
				}
				if response, err := transport.RoundTrip(r); assert.NoError(t, err) {
					_ = response.Body.Close()
				}
			})
		}
		all.Wait()
		require.NoError(t, transport.Close())
		require.NoError(t, recorder.Close())
	})
	assert.NotContains(t, file.String(), "hunter2")
	status, stdout, stderr := call(t.Context(), "tune", "-trace", write(t, "recorded.csv", file.String()), "-max-rate-limits", "4s,1m")
	assert.Zero(t, status)
	assert.Empty(t, stderr)
	assert.Contains(t, stdout, "24 requests in 0 s; 2 routes, 3 buckets\n")
	assert.Contains(t, stdout, "OK: 60 s is the smallest value that refuses 1 % or less (0 %)")
	assert.Contains(t, stdout, "The bottleneck is POST /channels/{channel_id}/messages of channel ")
}

func TestMisusedTuneIsExplained(t *testing.T) {
	t.Parallel()
	trace := write(t, "t.csv", twenty+"yesterday,POST,/webhooks/1/hunter2\n")
	for _, test := range []struct {
		arguments []string
		want      string
	}{
		{[]string{"-refused", "2"}, "-refused"},
		{[]string{"-skip-bad-lines"}, "-skip-bad-lines has an effect only together with -trace"},
		{[]string{"-trace", "missing.csv"}, "-trace: open missing.csv"},
		{[]string{"-trace", trace}, "t.csv:21: the time cannot be read: expected RFC 3339"},
		{[]string{"-requests", "10", "-rule", "GET /channels/{id}=5/5s"}, "-rule, number 1: no request of the load is for that route: expected one of these:\n  POST /channels/{channel_id}/messages (2870)"},
		{[]string{"-requests", "10", "-kind", "leaky", "-limit", "1000000", "-window", "1ms", "-rule", "GET /users/@me=1/1s"}, "-rule, number 1"},
	} {
		status, stdout, stderr := call(t.Context(), append([]string{"tune"}, test.arguments...)...)
		assert.Equal(t, command.StatusUsage, status, test.arguments)
		assert.Empty(t, stdout)
		assert.Contains(t, stderr, test.want)
		assert.Contains(t, stderr, "-h")
		assert.NotContains(t, stderr, "hunter2")
	}
}

func TestInterruptedTuneSaysSo(t *testing.T) {
	t.Parallel()
	status, stdout, stderr := call(ended(t), "tune", "-requests", "100")
	assert.Equal(t, command.StatusInterrupted, status)
	assert.Empty(t, stdout)
	assert.Contains(t, stderr, "INTERRUPTED")
}

// What is asked for on top of a scenario's targets has to be something that it can reach.
func TestScenariosWithoutAnIdealHaveNoEfficiency(t *testing.T) {
	t.Parallel()
	status, stdout, stderr := call(t.Context(), "scenario", "phantom-limit", "-min-efficiency", "0.9")
	assert.Equal(t, command.StatusUsage, status)
	assert.Empty(t, stdout)
	assert.Contains(t, stderr, "-min-efficiency is given: expected requests with an ideal to compare with; none: whoever believes")
}
