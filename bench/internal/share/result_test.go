package share

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/bench/internal/report"
	"github.com/ratelight/ratelight/buckets/shared"
	"github.com/ratelight/ratelight/internal/discordsim"
)

// good is a result with nothing wrong.
func good() *result {
	return &result{
		Scenario: Scenario{Name: "x", targets: targets{certain: 0.97, callsEach: 0.1, inOrder: true}, works: make([]work, 2)}, length: 20 * time.Second,
		requests: 100, answered: 100, took: 20 * time.Second, ideal: discordsim.Plan{Makespan: 19600 * time.Millisecond},
		calls: shared.Calls{Calls: 10}, pairs: 50,
	}
}

func TestResultIsJudgedByItsTargets(t *testing.T) {
	t.Parallel()
	two := accident{name: "x", allowed: 2}
	for name, test := range map[string]struct {
		change func(*result)
		status report.Status
		want   string
	}{
		"good":                      {func(*result) {}, report.Passed, ""},
		"slow":                      {func(r *result) { r.took = 21 * time.Second }, report.Failed, "0.9333 of the certain ideal, at least 0.97 wanted"},
		"slow, short":               {func(r *result) { r.took, r.length = 21*time.Second, 3*time.Second }, report.NotJudged, ""},
		"talkative":                 {func(r *result) { r.calls.Calls = 11 }, report.Failed, "0.110 engine calls per request, at most 0.10 wanted"},
		"disorder":                  {func(r *result) { r.inverted = 1 }, report.Failed, "inverted pairs from the second window on: 1 of 50, none wanted"},
		"refused":                   {func(r *result) { r.refused.User = 2 }, report.Failed, "429s: 2, none wanted"},
		"refused after an accident": {func(r *result) { r.refused.User, r.costs = 2, []cost{{accident: two, refused: 2}} }, report.Passed, ""},
		"refused before it": {func(r *result) { r.refused.User, r.costs = 3, []cost{{accident: two, refused: 2}} },
			report.Failed, "429s before all accidents: 1, none wanted"},
		"failed": {func(r *result) { r.answered, r.errors = 98, map[string]int{"away": 2} },
			report.Failed, "not answered: 2 of 100 requests; 2 ended with: away"},
		"interrupted": {func(r *result) { r.answered, r.interrupted = 98, true }, report.Interrupted, ""},
		"the machine stalled": {func(r *result) { r.took, r.stalled = 21*time.Second, time.Second },
			report.Stalled, "0.9333 of the certain ideal, at least 0.97 wanted"},
		"it stalled, and answers are missing": {func(r *result) { r.answered, r.stalled = 98, time.Second },
			report.Failed, "not answered: 2 of 100 requests"},
		"it stalled for less than that": {func(r *result) { r.took, r.stalled = 22*time.Second, time.Second },
			report.Failed, "0.8909 of the certain ideal, at least 0.97 wanted"},
		"it stalled, and was talkative": {func(r *result) { r.calls.Calls, r.stalled = 11, time.Second },
			report.Failed, "0.110 engine calls per request, at most 0.10 wanted"},
		"it stalled, and there was disorder": {func(r *result) { r.inverted, r.stalled = 1, time.Second },
			report.Failed, "inverted pairs from the second window on: 1 of 50, none wanted"},
		"it stalled, and something was refused": {func(r *result) { r.refused.User, r.stalled = 2, time.Second }, report.Stalled, "429s: 2, none wanted"},
		"it stalled in vain":                    {func(r *result) { r.stalled = time.Second }, report.Passed, ""},
		"anything will do":                      {func(r *result) { r.took, r.targets = 21*time.Second, targets{anything: true} }, report.NotJudged, ""},
	} {
		r := good()
		test.change(r)
		verdict := r.report(report.Demand{}).Verdict
		assert.Equal(t, test.status, verdict.Status, name)
		assert.Equal(t, test.want, strings.Join(verdict.Reasons, "; "), name)
	}
	r := good()
	r.refused = discordsim.ByClass{Global: 1}
	assert.Equal(t, []string{"429s: 1, none wanted", "1 429s, and -fail-on-429 wants none"}, r.report(report.Demand{No429s: true}).Verdict.Reasons)
}

func TestResultIsShown(t *testing.T) {
	t.Parallel()
	r := good()
	r.seconds = [][3]int{{5, 0, 0}, {4, 1, 0}}
	r.costs = []cost{{accident: accident{name: "it is frozen", at: 8 * time.Second, until: 9 * time.Second}, before: 4.5, back: -1, served: time.Second}}
	var text, json strings.Builder
	parts := &report.Report{Parts: []*report.Report{r.report(report.Demand{}), good().report(report.Demand{})}}
	require.NoError(t, parts.WriteText(&text))
	require.NoError(t, parts.WriteJSON(&json))
	assert.Regexp(t, `(?m)^x +ok +100/100 +0\.980 +0 +20\.00 s +0 % `, text.String())
	assert.Regexp(t, `(?m)^it is frozen +8 s +9 s +4\.5/s +0 +– +1\.00 s `, text.String())
	for _, want := range []string{
		`"scenario": "x"`, `"calls_per_request": 0.1`, `"back_after": null`, `"rate_before": 4.5`, `"requests": 100`,
	} {
		assert.Contains(t, json.String(), want)
	}
}
