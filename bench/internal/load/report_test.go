package load

import (
	"bytes"
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/bench/internal/report"
)

// answers is a result of requests that were all answered.
func answers(change func(*Result)) Result {
	r := newResult(&Scenario{offers: messages(10, 1), config: Config{MaxRateLimit: time.Minute}}, nil)
	r.Answered, r.Statuses, r.Took, r.Judged = 10, map[int]int{http.StatusOK: 10}, time.Second, true
	r.Ideal, r.Queued.Max = Ideal{Certain: 950 * ms, Omniscient: 900 * ms}, 800*ms
	change(&r)
	return r
}

func TestLoadIsJudgedByWhatCameOfIt(t *testing.T) {
	t.Parallel()
	stalled := Stalls{Longest: 340 * ms, Total: 400 * ms, over: time.Second}
	for _, test := range []struct {
		name   string
		change func(*Result)
		demand report.Demand
		want   report.Verdict
	}{
		{"good", func(*Result) {}, report.Demand{}, report.Verdict{Status: report.Passed, Line: "10 of 10 requests answered, no avoidable 429, 0.950 of the certain ideal"}},
		{"half refused", func(r *Result) { r.Answered, r.RefusedEarly = 5, 5 }, report.Demand{}, report.Verdict{Status: report.Passed,
			Line: "5 of 10 requests answered, 5 refused at once, as they would have waited longer than 60 s, no avoidable 429"}},
		{"nothing there", func(r *Result) { r.Statuses = map[int]int{404: 9, 400: 1} }, report.Demand{},
			report.Verdict{Status: report.Failed, Reasons: []string{"no answer was a success: 1 with status 400, 9 with status 404"}}},
		{"some not there", func(r *Result) { r.Statuses = map[int]int{200: 8, 404: 2} }, report.Demand{}, report.Verdict{Status: report.Passed,
			Line: "10 of 10 requests answered, 2 of them no success, no avoidable 429, 0.950 of the certain ideal"}},
		{"none came through", func(r *Result) { r.Answered, r.RefusedEarly = 0, 10 }, report.Demand{},
			report.Verdict{Status: report.Failed, Reasons: []string{"no request was answered"}}},
		{"failures, on a machine that stalled", func(r *Result) { r.Answered, r.Errors["no route"], r.Stalls = 7, 3, stalled }, report.Demand{},
			report.Verdict{Status: report.Failed, Reasons: []string{"3 of 10 requests failed"}}},
		{"slow", func(*Result) {}, report.Demand{MinEfficiency: 0.97},
			report.Verdict{Status: report.Failed, Reasons: []string{"0.9500 of the certain ideal, and -min-efficiency wants 0.97"}}},
		{"slow, on a machine that stalled", func(r *Result) { r.Stalls = stalled }, report.Demand{MinEfficiency: 0.97}, report.Verdict{Status: report.Stalled,
			Line:    "this machine stalled for 340ms at once and 400ms in all; run it again when it has less to do",
			Reasons: []string{"0.9500 of the certain ideal, and -min-efficiency wants 0.97"}}},
		{"slower than a machine that stalled can explain", func(r *Result) { r.Stalls, r.Took = stalled, 2*time.Second }, report.Demand{MinEfficiency: 0.97},
			report.Verdict{Status: report.Failed, Reasons: []string{"0.4750 of the certain ideal, and -min-efficiency wants 0.97"}}},
		{"good, on a machine that stalled", func(r *Result) { r.Stalls = stalled }, report.Demand{},
			report.Verdict{Status: report.Passed, Line: "10 of 10 requests answered, no avoidable 429, 0.950 of the certain ideal"}},
		{"moved away", func(r *Result) { r.Statuses = map[int]int{301: 10} }, report.Demand{},
			report.Verdict{Status: report.Failed, Reasons: []string{"no answer was a success: 10 with status 301"}}},
		{"without the efficiency that is wanted", func(r *Result) { r.Answered, r.RefusedEarly, r.Stalls = 5, 5, stalled }, report.Demand{MinEfficiency: 0.97},
			report.Verdict{Status: report.Failed, Reasons: []string{"5 of 10 requests refused at once, so there is no efficiency, and -min-efficiency wants 0.97"}}},
		{"429s that no stall explains", func(r *Result) { r.Refused.User, r.Stalls = 1, stalled }, report.Demand{No429s: true},
			report.Verdict{Status: report.Failed, Reasons: []string{"1 429s, and -fail-on-429 wants none"}}},
		{"429s that a stall may explain", func(r *Result) { r.Refused.User, r.Avoidable.User, r.Stalls = 1, 1, stalled }, report.Demand{No429s: true},
			report.Verdict{Status: report.Stalled, Line: "this machine stalled for 340ms at once and 400ms in all; run it again when it has less to do",
				Reasons: []string{"1 429s, and -fail-on-429 wants none"}}},
		{"cut off", func(r *Result) { r.Interrupted, r.Answered = true, 4 }, report.Demand{}, report.Verdict{Status: report.Interrupted, Line: "4 of 10 requests answered"}},
	} {
		r := answers(test.change)
		assert.Equal(t, test.want, r.verdict(test.demand), test.name)
	}
}

func TestScenarioThatMissedOnlyTimesIsNotJudgedOnAMachineThatStalled(t *testing.T) {
	t.Parallel()
	targets := Targets{Certain: 0.97}
	status := func(change func(*Result)) report.Status {
		r := answers(change)
		r.scenario.Name, r.scenario.Targets = "a", targets
		return r.Report(report.Demand{}).Verdict.Status
	}
	stall := func(r *Result) { r.Stalls.Longest = 30 * ms }
	assert.Equal(t, report.Failed, status(func(*Result) {}))
	assert.Equal(t, report.Stalled, status(stall))
	assert.Equal(t, report.Passed, status(func(r *Result) { stall(r); r.Took = 960 * ms }))
	assert.Equal(t, report.Failed, status(func(r *Result) { stall(r); r.Took = 1010 * ms }), "30 ms more than it may and no stall explains it")
	assert.Equal(t, report.Failed, status(func(r *Result) { stall(r); r.Stalls.Total, r.Took = 30*ms, 1010*ms }), "one stall is not two")
	assert.Equal(t, report.Failed, status(func(r *Result) { stall(r); r.Answered = 9 }), "an answer that is missing is no question of time")
	assert.Equal(t, report.Stalled, status(func(r *Result) { stall(r); r.Avoidable.User, r.Took = 1, 960*ms }), "whether it was avoidable is")
	many := func(r *Result) {
		r.Stalls = Stalls{Longest: 15 * ms, Total: 100 * ms, over: time.Second}
		r.Took = 960 * ms
	}
	assert.Equal(t, report.Failed, status(func(r *Result) { many(r); r.Avoidable.User = 1 }), "which many short stalls do not excuse")
	targets.InOrder = true
	assert.Equal(t, report.Failed, status(func(r *Result) { stall(r); r.Took, r.Inversions = 960*ms, 1 }), "no stall lets one overtake another")
	targets = Targets{P99: 100 * ms}
	assert.Equal(t, report.Stalled, status(func(r *Result) { stall(r); r.Queued.P99 = 130 * ms }))
	assert.Equal(t, report.Failed, status(func(r *Result) { many(r); r.Queued.P99 = 130 * ms }), "it takes one stall as long as that")
}

func TestARunThatFailedAsAWholeTookItsTime(t *testing.T) {
	t.Parallel()
	result, err := runLoad(t.Context(), real(t, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }), Settings{})
	require.NoError(t, err)
	assert.Equal(t, 3, result.Failed())
	assert.Positive(t, result.Took)
	assert.LessOrEqual(t, result.Queued.Max, result.Took)
}

func TestNobodyIsQueuedForLongerThanTheRunTook(t *testing.T) {
	t.Parallel()
	for _, change := range []func(*Config){
		func(*Config) {}, func(c *Config) { c.MaxRateLimit = 2 * time.Second }, func(c *Config) { c.Network = Network{} },
	} {
		result := measure(t, forever, sixWindows(change))
		assert.LessOrEqual(t, result.Queued.Max, result.Took)
		assert.LessOrEqual(t, result.Queued.P99, result.Queued.Max)
	}
	result := measure(t, within(2500*ms), sixWindows(func(c *Config) { c.Network = Network{Latency: 20 * ms} }))
	assert.LessOrEqual(t, result.Queued.Max, result.Took, "interrupted")
}

// The fields that scripts read.
func TestJSONKeepsItsFields(t *testing.T) {
	t.Parallel()
	fields := func(r *report.Report) (names []string) {
		var b bytes.Buffer
		require.NoError(t, r.WriteJSON(&b))
		var object map[string]any
		require.NoError(t, json.Unmarshal(b.Bytes(), &object))
		for name := range object {
			names = append(names, name)
		}
		return names
	}
	r := answers(func(*Result) {})
	both := []string{"requests", "answered", "errors", "seconds", "ideal_seconds", "efficiency", "refused", "avoidable", "queued_seconds", "largest_in_flight",
		"interrupted", "verdict", "excused", "stalled_seconds"}
	assert.ElementsMatch(t, append([]string{"target", "refused_early", "given_up", "statuses"}, both...), fields(r.Report(report.Demand{})))
	judged := r
	judged.scenario = &Scenarios()[0]
	assert.ElementsMatch(t, append([]string{"scenario", "about", "ideal_by", "targets", "overtaken"}, both...), fields(judged.Report(report.Demand{})))
}
