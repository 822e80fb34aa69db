package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/ratelight/ratelight/bench/internal/command"
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
		Scenario                      string
		Requests, Answered, Processes int
		Engine                        struct{ Calls int }
		Refused                       struct{ All int }
		Efficiency                    float64
	}
	require.NoError(t, json.Unmarshal([]byte(stdout), &results), stdout)
	require.Len(t, results, 1)
	r := results[0]
	assert.Equal(t, "one-bucket", r.Scenario)
	assert.Equal(t, 2, r.Processes)
	assert.Equal(t, 50, r.Requests)
	assert.Equal(t, 50, r.Answered)
	assert.Positive(t, r.Engine.Calls, "they share it")
	assert.Zero(t, r.Refused.All)
	assert.Greater(t, r.Efficiency, 0.5)
}

func TestInterruptedRunIsNotJudged(t *testing.T) {
	t.Parallel()
	engine := redistest.NewEngine(t)
	ctx, cancel := context.WithCancel(t.Context())
	s := (&shareCommand{Processes: 2, Length: 10e9, Redis: engine.URL()}).all()
	part, err := runScenario(ctx, &s[0], &shareCommand{Redis: engine.URL(), Length: 10e9}, cancel) // after the first answer
	require.NoError(t, err)
	assert.Contains(t, part.Verdict.Line, "it was cut off")
	assert.Len(t, s, 3)
}

func TestChildThatCannotReachTheEngineSaysWhy(t *testing.T) {
	t.Parallel()
	_, err := launch(1, assignment{Discord: "http://127.0.0.1", Engine: "redis://127.0.0.1:1", Application: "x"}, nil)
	assert.ErrorContains(t, err, "process 2 is not ready: ")
	assert.ErrorContains(t, err, "connection refused")
}

func TestMisuseIsExplained(t *testing.T) {
	t.Parallel()
	for want, arguments := range map[string][]string{
		`there is no scenario "none": choose from one-bucket, own-buckets, foreign-traffic`: {"none"},
		"-redis is not the URL of a server":                                                 {"-redis", "hunter2"},
		`-length: "3s" is given`:                                                            {"-length", "3s"},
	} {
		status, _, stderr := call(t.Context(), arguments...)
		assert.Equal(t, command.StatusUsage, status)
		assert.Contains(t, stderr, want)
		assert.NotContains(t, stderr, "hunter2")
	}
}
