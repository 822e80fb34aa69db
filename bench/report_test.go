package main

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/bench/internal/command"
)

func read(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(content)
}

func TestReportIsWrittenBesideOtherOutput(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "out.html")
	status, stdout, stderr := call(t.Context(), "-requests", "10", "-report", path, "-json")
	assert.Zero(t, status)
	assert.Equal(t, "The report is in "+path+".\n", stderr)
	assert.True(t, json.Valid([]byte(stdout)), "and nothing but JSON")
	assert.Contains(t, read(t, path), "10 of 10 requests answered")

	status, stdout, _ = call(t.Context(), "scenario", "cold-unlimited", "-report", path)
	assert.NotEqual(t, command.StatusUsage, status)
	assert.Contains(t, stdout, "cold-unlimited")
	assert.Contains(t, read(t, path), "<h1>Scenario cold-unlimited</h1>")
}

func TestReportOfTune(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "out.html")
	trace := write(t, "traffic.csv", twenty)
	status, stdout, stderr := call(t.Context(), "tune", "-trace", trace, "-max-rate-limits", "6s,16s", "-report", path, "-json")
	assert.Zero(t, status)
	assert.Equal(t, "The report is in "+path+".\n", stderr)
	assert.True(t, json.Valid([]byte(stdout)), "and nothing but JSON")
	assert.Contains(t, read(t, path), "16 s is the smallest value that refuses 1 % or less (0 %); 6 s refuses 50.0 %.")

	status, stdout, _ = call(t.Context(), "tune", "-trace", trace, "-max-rate-limits", "6s", "-report", path)
	assert.Equal(t, command.StatusFailed, status)
	assert.Contains(t, stdout, "FAILED: no value")
	page := read(t, path)
	assert.Contains(t, page, "The bottleneck is POST /webhooks/{webhook_id}/{webhook_token} of webhook 1")
	assert.Contains(t, page, "traffic.csv")
	assert.NotContains(t, page, "hunter2")

	status, _, stderr = call(ended(t), "tune", "-trace", trace, "-report", path)
	assert.Equal(t, command.StatusInterrupted, status)
	assert.Contains(t, stderr, "a report of it, only when all values have been compared")
	assert.Equal(t, page, read(t, path), "what was there is left alone")
}

// removing is standard input that removes a directory when it is read.
type removing struct {
	io.Reader
	directory string
}

func (r removing) Read(p []byte) (int, error) {
	_ = os.Remove(r.directory) // it is gone already the second time
	return r.Reader.Read(p)
}

func TestReportOfTuneThatCannotBeWrittenAfterAllIsAFailure(t *testing.T) {
	t.Parallel()
	stdin := removing{strings.NewReader(twenty), filepath.Join(t.TempDir(), "gone")}
	require.NoError(t, os.Mkdir(stdin.directory, 0o700))
	status, stdout, stderr := callWith(t.Context(), stdin, "tune", "-trace", "-", "-max-rate-limits", "16s", "-report", filepath.Join(stdin.directory, "out.html"))
	assert.Equal(t, command.StatusFailed, status)
	assert.Contains(t, stdout, "OK: 16 s", "the result is not lost")
	assert.Contains(t, stderr, "-report: no file can be created")
}

func TestReportThatCannotBeWrittenStopsTheRunBeforeItBegins(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "missing", "out.html")
	for _, arguments := range [][]string{{"-requests", "10"}, {"scenario"}, {"tune", "-requests", "10"}} {
		status, stdout, stderr := call(t.Context(), append(arguments, "-report", path)...)
		assert.Equal(t, command.StatusUsage, status)
		assert.Empty(t, stdout)
		assert.Contains(t, stderr, "-report: expected a file that can be written: no file can be created in the directory")
	}
}

func TestInterruptedRunGetsItsReport(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "out.html")
	for _, arguments := range [][]string{nil, {"scenario"}} {
		status, _, _ := call(ended(t), append(arguments, "-report", path)...)
		assert.Equal(t, command.StatusInterrupted, status)
		assert.Contains(t, read(t, path), "◼ Interrupted")
		require.NoError(t, os.Remove(path))
	}
}
