package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/ratelight/ratelight/bench/internal/command"
	"github.com/ratelight/ratelight/httpclient"
	"github.com/ratelight/ratelight/httpclient/discordtest"
	"github.com/ratelight/ratelight/httpclient/trace"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// call runs the program. The loads of the tests are small enough for one window, so they take only a few round trips.
func call(ctx context.Context, arguments ...string) (status int, stdout, stderr string) {
	var out, errs bytes.Buffer
	p := bench()
	p.Context, p.Stdin, p.Stdout, p.Stderr = ctx, strings.NewReader(""), &out, &errs
	status = p.Run(arguments)
	return status, out.String(), errs.String()
}

func write(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	return path
}

func TestLoadEndsWithAVerdict(t *testing.T) {
	t.Parallel()
	page := filepath.Join(t.TempDir(), "out.html")
	status, stdout, stderr := call(t.Context(), "-requests", "10", "-report", page)
	assert.Zero(t, status)
	assert.Contains(t, stdout, "10/10")
	assert.Contains(t, stdout, "kinds of limits met")
	assert.Contains(t, stdout, "\nOK: 10 of 10 requests answered, avoidable 429s: 0.\n")
	assert.Equal(t, "The report is in "+page+".\n", stderr)
	content, err := os.ReadFile(page)
	require.NoError(t, err)
	assert.Contains(t, string(content), "10 of 10 requests answered")

	status, stdout, _ = call(t.Context(), "-limit", "5", "-buckets", "1", "-requests", "10", "-max-rate-limit", "0s")
	assert.Zero(t, status)
	assert.Contains(t, stdout, "OK: 1 of 10 requests answered, 9 refused at once, "+
		"as they would have waited longer than 0 s, avoidable 429s: 0.")
}

func TestJSONStandsAlone(t *testing.T) {
	t.Parallel()
	// The status is not checked. It may be a failure, because goroutines of other tests count as leaks.
	_, stdout, stderr := call(t.Context(), "-json", "-length", "1s", "-rate", "20")
	assert.Empty(t, stderr)
	var document map[string]any
	require.NoError(t, json.Unmarshal([]byte(stdout), &document))
	assert.EqualValues(t, 20, document["answered"])
	assert.Contains(t, document, "leaks")
	status, stdout, _ := call(t.Context(), "help", "tune")
	assert.Zero(t, status)
	assert.Contains(t, stdout, "time,method,path")
}

func TestInterruption(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	trace := write(t, "t.csv", recorded(t))
	for _, arguments := range [][]string{nil, {"-length", "10m"}, {"scenario"}, {"tune", "-trace", trace}} {
		status, stdout, stderr := call(ctx, arguments...)
		assert.Equal(t, command.StatusInterrupted, status)
		assert.Contains(t, stdout+stderr, "INTERRUPTED")
	}
}

// recorded returns the trace of a bot that sends bursts with minutes between them. The token of its webhook is secret.
func recorded(t *testing.T) string {
	var file bytes.Buffer
	synctest.Test(t, func(t *testing.T) {
		server := discordtest.NewServer(t, discordtest.Discord())
		transport := httpclient.NewTransport(httpclient.WithBase(server.Client().Transport))
		recorder := trace.New(&file)
		transport.AddHooks(recorder.Hooks())
		var group sync.WaitGroup
		send := func(path string) {
			request, err := http.NewRequest(http.MethodPost, "https://discord.com/api/v10"+path, strings.NewReader("{}"))
			require.NoError(t, err)
			request.Header.Set("Content-Type", "application/json")
			response, err := transport.RoundTrip(request)
			if assert.NoError(t, err) {
				_, _ = io.Copy(io.Discard, response.Body)
				assert.NoError(t, response.Body.Close())
			}
		}
		for burst := range 3 {
			for i := range 12 {
				path := fmt.Sprintf("/channels/%d/messages", 1+i%2)
				if i%6 == 0 {
					path = "/webhooks/3/hunter2"
				}
				group.Go(func() { send(path) })
			}
			time.Sleep(time.Duration(1+burst) * time.Minute)
		}
		group.Wait()
		require.NoError(t, transport.Close())
		require.NoError(t, recorder.Close())
	})
	return file.String()
}

func TestRecordedTraceIsTuned(t *testing.T) {
	t.Parallel()
	content, page := recorded(t), filepath.Join(t.TempDir(), "out.html")
	assert.NotContains(t, content, "hunter2")
	path := write(t, "recorded.csv", content+"yesterday,POST,/webhooks/1/hunter2\n")
	status, stdout, _ := call(t.Context(), "tune", "-trace", path, "-report", page)
	assert.Zero(t, status)
	assert.Contains(t, stdout, "36 requests in 3m; 2 routes, 3 buckets\n"+
		"1 line skipped, the first because of this: recorded.csv:38: the time cannot be read")
	assert.Regexp(t,
		`OK: (4.9|5) s is the smallest max rate limit that refuses nothing that could have left within 10 s`, stdout)
	content2, err := os.ReadFile(page)
	require.NoError(t, err)
	assert.Contains(t, string(content2), "Too small, too large")
	assert.NotContains(t, stdout+string(content2), "hunter2")
}

func TestMisuseIsExplained(t *testing.T) {
	t.Parallel()
	for arguments, want := range map[string]string{
		"-requests 0":                            `-requests: "0" is given: expected a whole number from 1 to 1000000`,
		"-jitter 1s":                             "-jitter is 1s: expected at most the latency, which is 20ms",
		"-report=":                               "-report is empty",
		"soak":                                   "unexpected argument soak",
		"-faults":                                "-rate and -faults have an effect only together with -length",
		"-length 1m -limit 5":                    "-limit has no effect together with -length",
		"scenario none":                          `there is no scenario "none": choose from fixed-small, `,
		"-requests 10 -report /missing/out.html": "-report: expected a file that can be written: open /missing/out.html",
		"tune":                                   "-trace is not given: expected a recording",
		"tune -trace missing.csv":                "-trace: open missing.csv",
		"tune -trace a -max-rate-limits 1s,5":    `"5" is given`,
		"tune -trace a -rule POST|/webhooks/1/hunter2=5/5s":           "-rule, number 1: it contains a token",
		"tune -trace a -rule FETCH|/channels/{id}=1/1s":               "unknown method",
		"tune -trace a -rule GET|/channels/{id}=0/5s":                 "expected a limit from 1",
		"tune -trace a -rule GET|/channels/{id}=5/5":                  "expected a window with its unit",
		"tune -trace a -rule GET|/channels/{id}=5/5s -rule GET|/a=|b": "-rule, number 2",
	} {
		split := strings.Fields(arguments)
		for i := range split {
			split[i] = strings.ReplaceAll(split[i], "|", " ")
		}
		status, stdout, stderr := call(t.Context(), split...)
		assert.Equal(t, command.StatusUsage, status, arguments)
		assert.Empty(t, stdout, arguments)
		assert.Contains(t, stderr, want, arguments)
		assert.NotContains(t, stderr, "hunter2", "the text may be a secret")
	}
}
