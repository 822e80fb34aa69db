package main

import (
	"bytes"
	"context"
	"encoding/json"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/internal/redistest"
)

// In this test, as nowhere else, there are real processes: this test's own program, started again.
func TestSeveralProcesses(t *testing.T) {
	t.Parallel()
	engine := redistest.NewEngine(t)
	path := filepath.Join(t.TempDir(), "out.html")
	status, stdout, stderr := call(t.Context(), "share", "one-bucket", "-processes", "2", "-length", "3s", "-redis", engine.URL(),
		"-json", "-report", path)
	require.Contains(t, []int{0, statusFailed}, status, stderr)
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
	assert.Contains(t, read(t, path), "2 processes that share limits")
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
	p := &program{ctx: ctx, stdout: &stdout, stderr: &stderr}
	require.Equal(t, statusInterrupted, p.run([]string{"share", "-processes", "2", "-disturb"}), stderr.String())
	assert.Equal(t, "one-bucket and own-buckets and used-up, about 1m10s\n", stderr.String())
	for _, want := range []string{"one-bucket ", "own-buckets ", "used-up ", "cut off", "INTERRUPTED"} {
		assert.Contains(t, stdout.String(), want)
	}
}

func TestScenariosOfProcessesAreAnnouncedWithoutATerminal(t *testing.T) {
	t.Parallel()
	engine := redistest.NewEngine(t)
	_, _, stderr := call(t.Context(), "share", "one-bucket-alone", "-processes", "1", "-length", "3s", "-redis", engine.URL())
	assert.Equal(t, "1 of 1: one-bucket-alone, about 3s\n", stderr)
}

func TestListOfWhatProcessesDo(t *testing.T) {
	t.Parallel()
	status, stdout, _ := call(t.Context(), "share", "list")
	assert.Zero(t, status)
	assert.Contains(t, stdout, "foreign-traffic ")
	status, stdout, _ = call(t.Context(), "share", "list", "-json")
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
		status, stdout, stderr := call(t.Context(), append([]string{"share"}, arguments...)...)
		assert.Equal(t, statusUsage, status, arguments)
		assert.Empty(t, stdout)
		assert.Contains(t, stderr, want)
	}
	status, _, stderr := call(t.Context(), "share", "-processes", "2", "-redis", "redis://me:hunter2@127.0.0.1:1")
	assert.Equal(t, statusFailed, status)
	assert.Contains(t, stderr, "the server to share limits through: ")
	assert.NotContains(t, stderr, "hunter2")
}

func TestProcessesWithoutAnEngineAreExplained(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	t.Setenv(redistest.ServerVariable, "")
	status, stdout, stderr := call(t.Context(), "share", "-processes", "2")
	assert.Equal(t, statusFailed, status)
	assert.Empty(t, stdout)
	assert.Contains(t, stderr, "install Redis (redis-server) or Valkey (valkey-server), or name one that runs with -redis")
}
