package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
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
	status, stdout, stderr := call(t.Context(), nil, "-requests", "10", "-report", path, "-json")
	assert.Zero(t, status)
	assert.Equal(t, "The report is in "+path+".\n", stderr)
	assert.True(t, json.Valid([]byte(stdout)), "and nothing but JSON")
	assert.Contains(t, read(t, path), "10 of 10 requests answered")

	status, stdout, _ = call(t.Context(), nil, "-scenario", "cold-unlimited", "-report", path)
	assert.NotEqual(t, statusUsage, status)
	assert.Contains(t, stdout, "cold-unlimited")
	assert.Contains(t, read(t, path), "<h1>Scenario cold-unlimited</h1>")
}

func TestReportThatCannotBeWrittenStopsTheRunBeforeItBegins(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "missing", "out.html")
	for _, arguments := range [][]string{{"-requests", "10"}, {"-scenario", "all"}} {
		status, stdout, stderr := call(t.Context(), nil, append(arguments, "-report", path)...)
		assert.Equal(t, statusUsage, status)
		assert.Empty(t, stdout)
		assert.Contains(t, stderr, "-report: expected a file that can be written: no file can be created in the directory")
	}
}

func TestInterruptedRunGetsItsReport(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "out.html")
	for _, arguments := range [][]string{nil, {"-scenario", "all"}} {
		status, _, _ := call(ended(t), nil, append(arguments, "-report", path)...)
		assert.Equal(t, statusInterrupted, status)
		assert.Contains(t, read(t, path), "◼ Interrupted")
		require.NoError(t, os.Remove(path))
	}
}
