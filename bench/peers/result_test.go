package main

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/bench/internal/load"
	"github.com/ratelight/ratelight/internal/discordsim"
)

func TestEfficiencyIsTheIdealsPartOfTheTimeIfAllWasDone(t *testing.T) {
	t.Parallel()
	r := result{Calls: 10, GivenUp: 2, OK: 8, Ideal: seconds(3 * time.Second), Took: seconds(4 * time.Second)}
	r.observe(discordsim.Report{}, load.Reading{})
	assert.Equal(t, 0.75, r.Efficiency)

	r.Efficiency, r.OK = 0, 7
	r.observe(discordsim.Report{}, load.Reading{})
	assert.Zero(t, r.Efficiency)
}

func TestWhatIsObservedIsTakenOver(t *testing.T) {
	t.Parallel()
	report := discordsim.Report{MaxInFlight: 12}
	report.Refused = discordsim.ByClass{User: 3, SubLimit: 1, Shared: 2, Global: 40, Edge: 5}
	report.Avoidable = discordsim.ByClass{Global: 7}
	var r result
	r.observe(report, load.Reading{Queued: load.Queued{Median: time.Second, P99: 3 * time.Second}})
	assert.Equal(t, "3 user, 1 sub-limit, 2 shared, 40 global, 5 edge", listed(r.Refused))
	assert.Equal(t, 51, total(r.Refused))
	assert.Equal(t, "7 global", listed(r.Avoidable))
	assert.Equal(t, "none", listed(nil))
	assert.Equal(t, seconds(time.Second), r.QueuedMedian)
	assert.Equal(t, seconds(3*time.Second), r.QueuedP99)
	assert.Equal(t, 12, r.LargestInFlight)
}

func TestResultsSurviveJSON(t *testing.T) {
	t.Parallel()
	r := result{
		Scenario: "mixed", Contender: "disgo", Calls: 5, GivenUp: 1, OK: 2, Failed: 1, NeverEnded: 1, Error: "no", Took: seconds(1234567 * time.Microsecond),
		Ideal: seconds(time.Second), Efficiency: 0.5, Late: seconds(-time.Second), Refused: map[string]int{"user": 2}, Avoidable: map[string]int{},
		QueuedMedian: seconds(time.Millisecond), QueuedP99: seconds(time.Minute), LargestInFlight: 3, Note: "crashed",
	}
	text, err := json.Marshal(r)
	require.NoError(t, err)
	assert.Contains(t, string(text), `"seconds":1.234567,`)
	var back result
	require.NoError(t, json.Unmarshal(text, &back))
	assert.Equal(t, r, back)
}

func TestCellsAndRemarksSayWhatWentWrong(t *testing.T) {
	t.Parallel()
	done := result{Calls: 10, OK: 10, Efficiency: 0.956}
	refused := done
	refused.Refused = map[string]int{"user": 3, "global": 4}
	failed := result{Calls: 10, OK: 7, GivenUp: 1}
	failed.fail(errors.New("status 429\nand a body"))
	failed.fail(errors.New("another"))
	late := done
	late.Late = seconds(1500 * time.Millisecond)
	for _, test := range []struct {
		r              result
		cell, remarked string
	}{
		{done, "0.96", ""},
		{refused, "0.96, 7 × 429", ""},
		{failed, "2 fail", "2 failed: status 429"},
		{result{Calls: 10, OK: 6, NeverEnded: 4, Refused: map[string]int{"user": 1}}, "hangs (4), 1 × 429", "4 never ended"},
		{result{Calls: 10, OK: 9, GivenUp: 1, NeverEnded: 1, Efficiency: 0.5}, "hangs (1)", "1 never ended"},
		{result{Calls: 10, Note: "crashed: exit status 2: panic: …"}, "crashed: exit statu…", "crashed: exit status 2: panic: …"},
		{late, "0.96", "given-up calls end up to 1.5 s late"},
	} {
		assert.Equal(t, test.cell, summary(test.r))
		assert.Equal(t, test.remarked, remarks(test.r))
	}
	assert.Equal(t, strings.Repeat("é", 9)+"…", shortened(strings.Repeat("é", 11), 10))
}
