package main

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/bench/internal/load"
	"github.com/ratelight/ratelight/bench/internal/options"
	"github.com/ratelight/ratelight/internal/discordsim"
)

// call runs the program. Its loads are small enough for one window, so that they take a few round trips of real time.
func call(ctx context.Context, environment map[string]string, arguments ...string) (status int, stdout, stderr string) {
	var out, errs bytes.Buffer
	status = run(ctx, arguments, func(name string) string { return environment[name] }, &out, &errs)
	return status, out.String(), errs.String()
}

func ended(t *testing.T) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}

func TestLoadEndsWithAVerdict(t *testing.T) {
	t.Parallel()
	status, stdout, stderr := call(t.Context(), nil, "-requests", "10")
	assert.Zero(t, status)
	assert.Contains(t, stdout, "10  of 10 requests: 10 with status 200")
	assert.Contains(t, stdout, "\nOK: 10 of 10 requests answered, no avoidable 429.\n")
	assert.Empty(t, stderr, "no progress without a terminal")
}

func TestJSONIsAllThereIs(t *testing.T) {
	t.Parallel()
	status, stdout, stderr := call(t.Context(), nil, "-json", "-requests", "10", "-kind", "leaky")
	assert.Zero(t, status)
	assert.Empty(t, stderr)
	var document map[string]any
	require.NoError(t, json.Unmarshal([]byte(stdout), &document))
	assert.EqualValues(t, 10, document["answered"])
	assert.Equal(t, map[string]any{"passed": true, "reasons": []any{}}, document["verdict"])

	_, stdout, _ = call(t.Context(), nil, "-json", "-scenario", "list")
	var list []map[string]any
	require.NoError(t, json.Unmarshal([]byte(stdout), &list))
	assert.Equal(t, "fixed-small", list[0]["scenario"])

	_, stdout, _ = call(ended(t), nil, "-json", "-scenario", "all")
	var results []map[string]any
	require.NoError(t, json.Unmarshal([]byte(stdout), &results))
	assert.Len(t, results, len(list))
}

func TestFailedVerdictIsTheExitStatus(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
	defer server.Close()
	status, stdout, _ := call(t.Context(), nil, "-target", server.URL, "-requests", "2")
	assert.Equal(t, statusFailed, status)
	assert.Contains(t, stdout, "\nFAILED: 2 of 2 requests failed.\n")
}

func TestVerdicts(t *testing.T) {
	t.Parallel()
	good := load.Result{Requests: 5, Answered: 5}
	refused := load.Result{Requests: 5, Answered: 5, Refused: discordsim.ByClass{Shared: 2}}
	tests := []struct {
		name    string
		options options.Options
		result  load.Result
		want    []string
	}{
		{"good", options.Options{FailOn429: true}, good, []string{}},
		{"refused", options.Options{}, refused, []string{}},
		{"refused and minded", options.Options{FailOn429: true}, refused, []string{"2 429s, and -fail-on-429 wants none"}},
		{"inefficient", options.Options{MinEfficiency: 0.5}, good, []string{"0.000 of the certain ideal, and -min-efficiency wants 0.5"}},
		{"failed", options.Options{}, load.Result{Requests: 5, Answered: 3, Errors: map[string]int{"x": 2}}, []string{"2 of 5 requests failed"}},
		{"all refused early", options.Options{}, load.Result{Requests: 5, RefusedEarly: 5}, []string{"no request was answered"}},
	}
	for _, test := range tests {
		verdict := verdictOf(test.options, test.result)
		assert.Equal(t, test.want, verdict.Reasons, test.name)
		assert.Equal(t, len(test.want) == 0, verdict.Passed, test.name)
	}
}

func TestMisuseIsExplained(t *testing.T) {
	t.Parallel()
	for arguments, want := range map[string]string{
		"-requests none": "-requests",
		"-scenario none": `-scenario: there is no scenario "none": choose one of fixed-small, `,
		"-requests 1000000 -buckets 1000 -min-efficiency 0.9": "-min-efficiency is given: expected",
		"-requests 5 -min-efficiency 0.9":                     "so short a load",
	} {
		status, stdout, stderr := call(t.Context(), nil, strings.Fields(arguments)...)
		assert.Equal(t, statusUsage, status, arguments)
		assert.Empty(t, stdout, arguments)
		assert.Contains(t, stderr, want, arguments)
		assert.Contains(t, stderr, "-h", arguments)
	}
}

func TestHelpIsNoError(t *testing.T) {
	t.Parallel()
	status, stdout, stderr := call(t.Context(), nil, "-h")
	assert.Zero(t, status)
	assert.Contains(t, stdout, "Examples:")
	assert.Empty(t, stderr)
}

func TestInterruptionShowsWhatThereIs(t *testing.T) {
	t.Parallel()
	status, stdout, _ := call(ended(t), nil)
	assert.Equal(t, statusInterrupted, status)
	assert.Contains(t, stdout, "INTERRUPTED: 0 of 500 requests answered.")

	status, stdout, _ = call(ended(t), nil, "-json")
	assert.Equal(t, statusInterrupted, status)
	var document struct {
		Interrupted bool
		GivenUp     int `json:"given_up"`
	}
	require.NoError(t, json.Unmarshal([]byte(stdout), &document))
	assert.True(t, document.Interrupted)
	assert.Equal(t, 500, document.GivenUp)

	status, stdout, _ = call(ended(t), nil, "-scenario", "all")
	assert.Equal(t, statusInterrupted, status)
	assert.Contains(t, stdout, "INTERRUPTED")

	status, stdout, _ = call(ended(t), nil, "-soak", "10m")
	assert.Equal(t, statusInterrupted, status)
	assert.Contains(t, stdout, "INTERRUPTED")
}

// Whatever happens to the requests, what was secret does not come out again.
func TestTokenNeverAppears(t *testing.T) {
	t.Parallel()
	const secret = "hunter2"
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
			t.Parallel()
			server := httptest.NewServer(handler)
			defer server.Close()
			arguments := []string{"-target", server.URL, "-path", "/api/v10/webhooks/123/" + secret, "-requests", "2", "-max-rate-limit", "100ms"}
			path := filepath.Join(t.TempDir(), "out.html")
			for _, more := range [][]string{nil, {"-json"}, {"-token", "Bot " + secret}, {"-report", path}} {
				environment := map[string]string{options.TokenVariable: "Bot " + secret}
				_, stdout, stderr := call(t.Context(), environment, append(arguments, more...)...)
				assert.NotEmpty(t, stdout)
				assert.NotContains(t, stdout+stderr, secret)
			}
			assert.NotContains(t, read(t, path), secret)
		})
	}
}

func TestOutputThatCannotBeWrittenIsAFailure(t *testing.T) {
	t.Parallel()
	var stderr bytes.Buffer
	status := run(t.Context(), []string{"-json", "-scenario", "list"}, func(string) string { return "" }, broken{}, &stderr)
	assert.Equal(t, statusFailed, status)
	assert.Contains(t, stderr.String(), assert.AnError.Error())
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, assert.AnError }
