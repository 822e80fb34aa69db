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
	"github.com/ratelight/ratelight/bench/internal/report"
	"github.com/ratelight/ratelight/internal/redistest"
)

// TestMain runs a child if a test has started this program as a child.
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
	redistest.NewEngine(t).Close() // skips or fails the test if no server is installed
	status, _, stderr := call(t.Context(), "none")
	assert.Equal(t, command.StatusUsage, status)
	assert.Contains(t, stderr, `there is no scenario "none": see -h`)
	status, stdout, stderr := call(t.Context(), "one-bucket", "-processes", "2", "-length", "10s", "-json")
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
	assert.Positive(t, r.Calls, "the processes must share the bucket")
	assert.Zero(t, r.Refused.All)
	assert.Greater(t, r.Efficiency, 0.5)
}

func TestInterruptedRunIsNotJudged(t *testing.T) {
	t.Parallel()
	redistest.NewEngine(t).Close() // skips or fails the test if no server is installed
	ctx, cancel := context.WithCancel(t.Context())
	c := shareCommand{Processes: 2}
	time.AfterFunc(3*time.Second, cancel)
	part, err := c.run(ctx, &load.Shared(2, 10*time.Second, 1)[0])
	require.NoError(t, err)
	assert.Equal(t, report.Interrupted, part.Verdict.Status)
}

func TestChildThatCannotReachTheEngineSaysWhy(t *testing.T) {
	t.Parallel()
	_, err := launch(assignment{Discord: "http://127.0.0.1", Engine: "redis://127.0.0.1:1"})
	assert.ErrorContains(t, err, "connection refused")
}
