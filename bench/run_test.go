package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/bench/internal/command"
	"github.com/ratelight/ratelight/bench/internal/report"
)

// call runs the program. Its loads are small enough for one window, so that they take a few round trips of real time.
func call(ctx context.Context, arguments ...string) (status int, stdout, stderr string) {
	return callWith(ctx, nil, arguments...)
}

func callWith(ctx context.Context, stdin io.Reader, arguments ...string) (status int, stdout, stderr string) {
	var out, errs bytes.Buffer
	p := bench()
	p.Context, p.Stdin, p.Stdout, p.Stderr = ctx, stdin, &out, &errs
	status = p.Run(arguments)
	return status, out.String(), errs.String()
}

func ended(t *testing.T) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}

func TestLoadEndsWithAVerdict(t *testing.T) {
	t.Parallel()
	status, stdout, stderr := call(t.Context(), "-requests", "10")
	assert.Zero(t, status)
	assert.Contains(t, stdout, "10/10  10 with status 200")
	assert.Contains(t, stdout, "\nOK: 10 of 10 requests answered, no avoidable 429.\n")
	assert.Empty(t, stderr, "no progress without a terminal")
}

func TestJSONIsAllThereIs(t *testing.T) {
	t.Parallel()
	status, stdout, stderr := call(t.Context(), "-json", "-requests", "10", "-kind", "leaky")
	assert.Zero(t, status)
	assert.Empty(t, stderr)
	var document map[string]any
	require.NoError(t, json.Unmarshal([]byte(stdout), &document))
	assert.EqualValues(t, 10, document["answered"])
	assert.Equal(t, map[string]any{"passed": true, "reasons": []any{}, "status": "passed"}, document["verdict"])

	_, stdout, _ = call(t.Context(), "scenario", "list", "-json")
	var list []map[string]any
	require.NoError(t, json.Unmarshal([]byte(stdout), &list))
	assert.Equal(t, "fixed-small", list[0]["scenario"])

	_, stdout, _ = call(ended(t), "scenario", "-json")
	var results []map[string]any
	require.NoError(t, json.Unmarshal([]byte(stdout), &results))
	assert.Len(t, results, len(list))
}

func TestFailedVerdictIsTheExitStatus(t *testing.T) {
	t.Parallel()
	for want, handler := range map[string]http.HandlerFunc{
		"2 of 2 requests failed":                     func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"no answer was a success: 2 with status 404": http.NotFound,
		"2 429s, and -fail-on-429 wants none":        refuseOnce(2),
	} {
		server := httptest.NewServer(handler)
		status, stdout, _ := call(t.Context(), "-target", server.URL, "-requests", "2", "-fail-on-429")
		server.Close()
		assert.Equal(t, command.StatusFailed, status)
		assert.Contains(t, stdout, want)
		assert.Regexp(t, `(?m)^(FAILED|STALLED): `, stdout)
		assert.NotContains(t, stdout, " 0 s  until the last answer")
	}
}

func TestMisuseIsExplained(t *testing.T) {
	t.Parallel()
	for arguments, want := range map[string]string{
		"scenario list nope":        `["list" "nope"] are given: expected list alone`,
		"scenario list fixed-small": "expected list alone",
		"scenario none":             `there is no scenario "none": choose from all, list, fixed-small, `,
		"-requests 1000000 -buckets 1000 -min-efficiency 0.9": "-min-efficiency is given: expected",
		"-requests 5 -min-efficiency 0.9":                     "so short a load",
	} {
		status, stdout, stderr := call(t.Context(), strings.Fields(arguments)...)
		assert.Equal(t, command.StatusUsage, status, arguments)
		assert.Empty(t, stdout, arguments)
		assert.Contains(t, stderr, want, arguments)
		assert.Contains(t, stderr, "-h", arguments)
	}
}

func TestHelpIsNoError(t *testing.T) {
	t.Parallel()
	status, stdout, stderr := call(t.Context(), "-h")
	assert.Zero(t, status)
	assert.Contains(t, stdout, "Examples:")
	assert.Empty(t, stderr)
}

func TestInterruptionShowsWhatThereIs(t *testing.T) {
	t.Parallel()
	status, stdout, _ := call(ended(t))
	assert.Equal(t, command.StatusInterrupted, status)
	assert.Contains(t, stdout, "INTERRUPTED: 0 of 500 requests answered.")

	status, stdout, _ = call(ended(t), "-json")
	assert.Equal(t, command.StatusInterrupted, status)
	var document struct {
		Interrupted bool
		GivenUp     int `json:"given_up"`
	}
	require.NoError(t, json.Unmarshal([]byte(stdout), &document))
	assert.True(t, document.Interrupted)
	assert.Equal(t, 500, document.GivenUp)

	status, stdout, _ = call(ended(t), "scenario")
	assert.Equal(t, command.StatusInterrupted, status)
	assert.Contains(t, stdout, "INTERRUPTED")

	status, stdout, _ = call(ended(t), "soak")
	assert.Equal(t, command.StatusInterrupted, status)
	assert.Contains(t, stdout, "INTERRUPTED")
}

// cutShort are scenarios of which some were over when the others were cut off.
func cutShort() *report.Report {
	parts := []*report.Report{
		{Name: "a", Verdict: report.Judge("", "slow")}, {Name: "b", Verdict: report.Judge("good")},
		{Name: "c", Verdict: report.Verdict{Status: report.Interrupted, Line: "it was cut off"}},
		{Name: "d", Verdict: report.Verdict{Status: report.NotJudged, Line: "it was too short"}},
	}
	return &report.Report{Parts: parts, Verdict: report.Together(parts)}
}

func TestInterruptionSaysHowManyHadFailed(t *testing.T) {
	t.Parallel()
	var stdout bytes.Buffer
	p := &command.Program{Context: t.Context(), Stdout: &stdout, Stderr: io.Discard}
	assert.Equal(t, command.StatusError(command.StatusInterrupted), (&command.Output{}).Show(p, cutShort()))
	assert.Contains(t, stdout.String(), "\na: slow\nc: it was cut off\n")
	assert.True(t, strings.HasSuffix(stdout.String(), "\nINTERRUPTED: 1 of 4 scenarios had missed a target before; what was cut off is not judged.\n"), stdout.String())
}

func TestWhatHasNotPassedHasAReasonInJSON(t *testing.T) {
	t.Parallel()
	var stdout bytes.Buffer
	p := &command.Program{Context: t.Context(), Stdout: &stdout, Stderr: io.Discard}
	require.Error(t, (&command.Output{JSON: true}).Show(p, cutShort()))
	var parts []struct{ Verdict struct{ Reasons []string } }
	require.NoError(t, json.Unmarshal(stdout.Bytes(), &parts))
	for i, want := range [][]string{{"slow"}, {}, {"it was cut off"}, {"it was too short"}} {
		assert.Equal(t, want, parts[i].Verdict.Reasons)
	}
}

// Whatever happens to the requests, what was secret does not come out again.
func TestTokenNeverAppears(t *testing.T) {
	const secret = "hunter2"
	t.Setenv("RATELIGHT_TOKEN", "Bot "+secret)
	for name, handler := range map[string]http.HandlerFunc{
		"answers":      func(http.ResponseWriter, *http.Request) {},
		"unauthorized": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) },
		"hangs up":     func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"refuses without a time": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			w.WriteHeader(http.StatusTooManyRequests)
		},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(handler)
			defer server.Close()
			arguments := []string{"-target", server.URL, "-path", "/api/v10/webhooks/123/" + secret, "-requests", "2", "-max-rate-limit", "100ms"}
			path := filepath.Join(t.TempDir(), "out.html")
			var calls sync.WaitGroup
			for _, more := range [][]string{nil, {"-json"}, {"-token", "Bot " + secret}, {"-report", path}} {
				calls.Go(func() {
					_, stdout, stderr := call(t.Context(), slices.Concat(arguments, more)...)
					assert.NotEmpty(t, stdout)
					assert.NotContains(t, stdout+stderr, secret)
				})
			}
			calls.Wait()
			assert.NotContains(t, read(t, path), secret)
		})
	}
}

func TestOutputThatCannotBeWrittenIsAFailure(t *testing.T) {
	t.Parallel()
	var stderr bytes.Buffer
	p := bench()
	p.Context, p.Stdout, p.Stderr = t.Context(), broken{}, &stderr
	assert.Equal(t, command.StatusFailed, p.Run([]string{"scenario", "list", "-json"}))
	assert.Contains(t, stderr.String(), assert.AnError.Error())
}

// refuseOnce refuses so many requests, and lets all others through.
func refuseOnce(n int64) http.HandlerFunc {
	var requests atomic.Int64
	return func(w http.ResponseWriter, _ *http.Request) {
		if requests.Add(1) > n {
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("X-RateLimit-Scope", "shared")
		w.Header().Set("Retry-After", "0.01")
		w.WriteHeader(http.StatusTooManyRequests)
		_, _ = io.WriteString(w, `{"message": "You are being rate limited.", "retry_after": 0.01, "global": false}`)
	}
}

// A run in which much was refused at once says so.
func TestVerdictSaysWhatWasRefusedAtOnce(t *testing.T) {
	t.Parallel()
	status, stdout, _ := call(t.Context(), "-limit", "5", "-buckets", "1", "-requests", "10", "-max-rate-limit", "0s")
	assert.Zero(t, status)
	assert.Contains(t, stdout, "OK: 1 of 10 requests answered, 9 refused at once, as they would have waited longer than 0 s, no avoidable 429.")
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, assert.AnError }
