package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/ratelight/ratelight/bench/internal/command"
	"github.com/ratelight/ratelight/bench/internal/share"
	"github.com/ratelight/ratelight/internal/redistest"
)

// This program is the processes as well.
func TestMain(m *testing.M) {
	if os.Getenv(share.ChildVariable) != "" {
		os.Exit(child())
	}
	goleak.VerifyTestMain(m)
}

func call(t *testing.T, arguments ...string) (status int, stdout, stderr string) {
	var out, errs bytes.Buffer
	p := program()
	p.Context, p.Stdout, p.Stderr = t.Context(), &out, &errs
	status = p.Run(arguments)
	return status, out.String(), errs.String()
}

// In this test, as nowhere else, there are real processes: this test's own program, started again.
func TestSeveralProcesses(t *testing.T) {
	t.Parallel()
	engine := redistest.NewEngine(t)
	path := filepath.Join(t.TempDir(), "out.html")
	status, stdout, stderr := call(t, "one-bucket", "-processes", "2", "-length", "3s", "-redis", engine.URL(),
		"-json", "-report", path)
	require.Contains(t, []int{0, command.StatusFailed}, status, stderr)
	var results []struct {
		Scenario           string
		Requests, Answered int
		Processes          int
		Engine             struct{ Calls int }
		Refused            struct{ All int }
	}
	require.NoError(t, json.Unmarshal([]byte(stdout), &results), stdout)
	require.Len(t, results, 1)
	r := results[0]
	assert.Equal(t, "one-bucket", r.Scenario)
	assert.Equal(t, 2, r.Processes)
	assert.Equal(t, 20, r.Requests)
	assert.Equal(t, 20, r.Answered)
	assert.Positive(t, r.Engine.Calls, "they share it")
	assert.Zero(t, r.Refused.All)
	page, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Contains(t, string(page), "2 processes that share limits")
}

// cutter interrupts a run as soon as it has begun.
type cutter struct {
	bytes.Buffer
	cut context.CancelFunc
}

func (c *cutter) Write(text []byte) (int, error) {
	c.cut()
	return c.Buffer.Write(text)
}

func TestAccidentsHappenInAllScenariosAtTheSameTime(t *testing.T) {
	t.Parallel()
	redistest.NewEngine(t).Close() // this knows when to skip and when to fail
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var stdout bytes.Buffer
	stderr := cutter{cut: cancel}
	p := program()
	p.Context, p.Stdout, p.Stderr = ctx, &stdout, &stderr
	require.Equal(t, command.StatusInterrupted, p.Run([]string{"-processes", "2", "-disturb"}), stderr.String())
	assert.Equal(t, "one-bucket and own-buckets and used-up, about 1m10s\n", stderr.String())
	for _, want := range []string{"one-bucket ", "own-buckets ", "used-up ", "cut off", "INTERRUPTED"} {
		assert.Contains(t, stdout.String(), want)
	}
}

func TestScenariosOfProcessesAreAnnouncedWithoutATerminal(t *testing.T) {
	t.Parallel()
	engine := redistest.NewEngine(t)
	_, _, stderr := call(t, "one-bucket-alone", "-processes", "1", "-length", "3s", "-redis", engine.URL())
	assert.Equal(t, "1 of 1: one-bucket-alone, about 3s\n", stderr)
}

func TestListOfWhatProcessesDo(t *testing.T) {
	t.Parallel()
	status, stdout, _ := call(t, "list")
	assert.Zero(t, status)
	assert.Contains(t, stdout, "foreign-traffic ")
	status, stdout, _ = call(t, "list", "-json")
	assert.Zero(t, status)
	var list []struct{ Scenario string }
	require.NoError(t, json.Unmarshal([]byte(stdout), &list))
	assert.Len(t, list, 5)
}

func TestMisuseOfProcessesIsExplained(t *testing.T) {
	t.Parallel()
	for want, arguments := range map[string][]string{
		`with these flags there is no scenario "x"`:                  {"x"},
		"-report has no effect together with list":                   {"list", "-report", "x.html"},
		"-report: expected a file that can be written: no file can ": {"-processes", "2", "-report", filepath.Join(t.TempDir(), "a", "b")},
	} {
		status, stdout, stderr := call(t, arguments...)
		assert.Equal(t, command.StatusUsage, status, arguments)
		assert.Empty(t, stdout)
		assert.Contains(t, stderr, want)
	}
	status, _, stderr := call(t, "-processes", "2", "-redis", "redis://me:hunter2@127.0.0.1:1")
	assert.Equal(t, command.StatusFailed, status)
	assert.Contains(t, stderr, "the server to share limits through: ")
	assert.NotContains(t, stderr, "hunter2")
}

func TestProcessesWithoutAnEngineAreExplained(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	t.Setenv(redistest.ServerVariable, "")
	status, stdout, stderr := call(t, "-processes", "2")
	assert.Equal(t, command.StatusFailed, status)
	assert.Empty(t, stdout)
	assert.Contains(t, stderr, "install Redis (redis-server) or Valkey (valkey-server), or name one that runs with -redis")
}

func TestMisusedFlagIsNamedWithWhatIsExpected(t *testing.T) {
	t.Parallel()
	for arguments, want := range map[string][]string{
		"-redishunter2":                     {"unknown flag -redis…", "-redis=URL"},
		"-requests 5":                       {"unknown flag -requests"},
		"list one-bucket":                   {"expected list alone"},
		"-processes 65":                     {"-processes", `"65"`, "from 1 to 64"},
		"-redis hunter2":                    {"-redis is not the URL of a server"},
		"-length 1s":                        {"-length", "from 3s to 10m"},
		"-processes 1 -disturb":             {"-disturb", "-processes is 1", "2 or more"},
		"-disturb -redis redis://127.0.0.1": {"-disturb is given together with -redis"},
		"-disturb -min-efficiency 0.9":      {"-min-efficiency has no effect together with -disturb"},
		"-disturb -length 39s":              {"-length is 39", "1m10s or more"},
		"-outage fail":                      {"-outage has an effect only together with -disturb"},
	} {
		status, stdout, stderr := call(t, strings.Fields(arguments)...)
		assert.Equal(t, command.StatusUsage, status, arguments)
		assert.Empty(t, stdout)
		for _, part := range want {
			assert.Contains(t, stderr, part, arguments)
		}
		assert.NotContains(t, stderr, "hunter2", "it may be a secret")
	}
}

func TestHelp(t *testing.T) {
	t.Parallel()
	for _, argument := range []string{"-h", "--help", "help"} {
		status, stdout, stderr := call(t, argument)
		assert.Zero(t, status)
		assert.Empty(t, stderr)
		for _, part := range []string{"list for their names", "-disturb", "1m10s", "-min-efficiency", "Examples:"} {
			assert.Contains(t, stdout, part, argument)
		}
		for line := range strings.Lines(stdout) {
			assert.LessOrEqual(t, utf8.RuneCountInString(line), 121, line)
		}
	}
}
