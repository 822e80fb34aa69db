package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/ratelight/ratelight/bench/internal/command"
	"github.com/ratelight/ratelight/bench/internal/load"
	"github.com/ratelight/ratelight/internal/redistest"
)

// TestMain runs a child if the test has started this program as one.
func TestMain(m *testing.M) {
	if os.Getenv(childVariable) != "" {
		if err := child(os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

func call(ctx context.Context, arguments ...string) (status int, stdout, stderr string) {
	var out, errs bytes.Buffer
	p := program()
	p.Context, p.Stdout, p.Stderr = ctx, &out, &errs
	status = p.Run(arguments)
	return status, out.String(), errs.String()
}

func TestProcessesShareLimits(t *testing.T) {
	t.Parallel()
	engine := redistest.NewEngine(t)
	status, stdout, stderr := call(t.Context(), "one-bucket", "-processes", "2", "-length", "10s", "-redis", engine.URL(), "-json")
	require.Contains(t, []int{0, command.StatusFailed}, status, stderr) // a busy machine may miss the targets of time
	var results []struct {
		Scenario           string
		Requests, Answered int
		Calls              float64 `json:"calls_per_request"`
		Refused            struct{ All int }
		Efficiency         float64
	}
	require.NoError(t, json.Unmarshal([]byte(stdout), &results), stdout)
	require.Len(t, results, 1)
	r := results[0]
	assert.Equal(t, "one-bucket", r.Scenario)
	assert.Equal(t, 50, r.Requests)
	assert.Equal(t, 50, r.Answered)
	assert.Positive(t, r.Calls, "they share it")
	assert.Zero(t, r.Refused.All)
	assert.Greater(t, r.Efficiency, 0.5)
}

func TestInterruptedRunIsNotJudged(t *testing.T) {
	t.Parallel()
	engine := redistest.NewEngine(t)
	ctx, cancel := context.WithCancel(t.Context())
	c := shareCommand{Processes: 2, Redis: engine.URL()}
	part, err := c.run(ctx, &load.Shared(2, 10*time.Second, 1)[0], cancel) // after the first answer
	require.NoError(t, err)
	assert.Contains(t, part.Verdict.Line, "it was cut off")
}

func TestChildThatCannotReachTheEngineSaysWhy(t *testing.T) {
	t.Parallel()
	_, err := start(t.Context(), 1, assignment{Discord: "http://127.0.0.1", Engine: "redis://127.0.0.1:1"})
	assert.ErrorContains(t, err, "process 1 is not ready: ")
	assert.ErrorContains(t, err, "connection refused")
}

func TestMisuseIsExplained(t *testing.T) {
	t.Parallel()
	for want, arguments := range map[string][]string{
		`there is no scenario "none": see -h`: {"none"},
		"-redis is not the URL of a server":   {"-redis", "hunter2"},
		`-length: "3s" is given`:              {"-length", "3s"},
	} {
		status, _, stderr := call(t.Context(), arguments...)
		assert.Equal(t, command.StatusUsage, status)
		assert.Contains(t, stderr, want)
		assert.NotContains(t, stderr, "hunter2")
	}
}
