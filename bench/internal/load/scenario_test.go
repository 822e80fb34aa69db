package load

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/bench/internal/report"
	"github.com/ratelight/ratelight/internal/discordsim"
)

// seeds is how many draws of the latencies a scenario has to do well with.
const seeds = 10

// The regression test of the whole library: every scenario, in virtual time, reaches its targets.
func TestScenariosReachTheirTargets(t *testing.T) {
	t.Parallel()
	for _, s := range Scenarios() {
		t.Run(s.Name, func(t *testing.T) {
			t.Parallel()
			var missed []string
			for seed := range uint64(seeds) {
				result := inVirtualTime(t, s, Settings{Seed: seed})
				for _, text := range result.missed() {
					missed = append(missed, fmt.Sprintf("seed %d, after %v: %s", seed, result.Took, text))
				}
				if testing.Short() {
					break
				}
			}
			if len(missed) > 0 {
				t.Errorf("%s\nideal: %s\n%s", s.About, s.IdealBy, strings.Join(missed, "\n"))
			}
		})
	}
}

func inVirtualTime(t *testing.T, s Scenario, settings Settings) (result Result) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var err error
		result, err = s.Run(t.Context(), settings)
		require.NoError(t, err)
	})
	return result
}

// The scenario itself has the server's seconds begin with the work. No client can know when they do.
func TestGlobalLimitIsKeptInEveryPhase(t *testing.T) {
	t.Parallel()
	for tenths := range time.Duration(10) {
		s := find(t, "many-buckets")
		s.server.Global.Phase += tenths * 100 * ms
		result := inVirtualTime(t, s, Settings{Seed: 1})
		assert.Zero(t, result.Refused, "phase %v", tenths*100*ms)
		assert.Equal(t, result.Requests, result.Answered)
		assert.GreaterOrEqual(t, result.Certain(), leastCertain, "which does not depend on the phase")
	}
}

func TestScenariosAreDescribedAndShort(t *testing.T) {
	t.Parallel()
	names := make(map[string]bool)
	for _, s := range Scenarios() {
		assert.False(t, names[s.Name], "%s twice", s.Name)
		names[s.Name] = true
		assert.NotEmpty(t, s.About, s.Name)
		assert.NotEmpty(t, s.IdealBy, s.Name)
		assert.LessOrEqual(t, s.Requests(), 1000, s.Name)
		assert.Equal(t, s.ideal == nil, s.Targets.Certain == 0, "%s has a target where there is an ideal", s.Name)
		if s.ideal != nil {
			ideal, err := s.ideal(&s, discordsim.Report{})
			require.NoError(t, err, s.Name)
			assert.Positive(t, ideal.Certain, s.Name)
			assert.Less(t, ideal.Certain, 21*time.Second, s.Name)
			assert.Less(t, ideal.Omniscient, ideal.Certain+1, s.Name)
		}
	}
}

// With a round trip of 10 ms, the smallest of the usual ones.
func TestIdealsByHand(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		change func(*Scenario)
		report discordsim.Report
		want   Ideal
	}{
		// Three windows. The certain client needs 10 ms to be sure that one has closed and 10 ms for a probe.
		{"hidden", func(s *Scenario) {
			s.work, s.ideal = []discordsim.Work{work(discordsim.Fixed(2, 3*time.Second), 6)}, slower(2)
		}, discordsim.Report{}, Ideal{Certain: 2*3020*ms + 10*ms, Omniscient: 6010 * ms}},
		// Before 1.5 s ten of 20 are done; the rest takes two windows from 4 s on. The first answer after the block is
		// there 5 ms after it at the earliest. The certain client sends at 4.005 and 5.015 s.
		{"blocked", func(s *Scenario) {
			s.work[0].Count, s.ideal = 20, (*Scenario).blocked
			s.server.Blocks = []discordsim.GlobalBlock{{From: 1500 * ms, Until: 4 * time.Second}}
		}, discordsim.Report{}, Ideal{Certain: 5025 * ms, Omniscient: 5005 * ms}},
		// Ten of ours and five of theirs are three windows.
		{"contested", func(s *Scenario) { s.work[0].Count = 10 }, discordsim.Report{Foreign: 5}, Ideal{Certain: 2030 * ms, Omniscient: 2010 * ms}},
		// In the last of two windows, the third request leaves two round trips after the first.
		{"in turn", func(s *Scenario) { s.work[0].Count, s.ideal = 8, slower(2) }, discordsim.Report{}, Ideal{Certain: 1040 * ms, Omniscient: 1010 * ms}},
		{"certain only", func(s *Scenario) { s.ideal = (*Scenario).certainly }, discordsim.Report{}, Ideal{Certain: 1020 * ms}},
	}
	for _, test := range tests {
		s := burst("", "", small, 6).but(test.change)
		got, err := s.ideal(&s, test.report)
		require.NoError(t, err, test.name)
		assert.Equal(t, test.want, got, test.name)
	}
}

func find(t *testing.T, name string) Scenario {
	t.Helper()
	all := Scenarios()
	i := slices.IndexFunc(all, func(s Scenario) bool { return s.Name == name })
	require.GreaterOrEqual(t, i, 0)
	return all[i]
}

// burstOf is a scenario of four requests to a bucket of two per second.
func burstOf(changes ...func(*discordsim.Config)) Scenario {
	quota := discordsim.Fixed(2, time.Second)
	s := burst("test", "", quota, 4)
	for _, change := range changes {
		change(&s.server)
	}
	return s
}

func TestEveryRequestIsReported(t *testing.T) {
	t.Parallel()
	done := make(chan struct{}, 10)
	var result Result
	synctest.Test(t, func(t *testing.T) {
		s := burst("test", "", discordsim.Fixed(2, time.Second), 8) // at the first opening one goes first, which is a round trip
		var err error
		result, err = s.Run(t.Context(), Settings{Seed: 1, Done: func() { done <- struct{}{} }})
		require.NoError(t, err)
	})
	assert.Len(t, done, 8)
	assert.Equal(t, 8, result.Answered)
	assert.Equal(t, result.Requests, result.Answered)
	assert.Empty(t, result.missed())
	assert.InDelta(t, 3*(time.Second+20*ms), result.Took, float64(60*ms))
}

func TestInterruptedScenarioIsNotJudged(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(500*ms, cancel)
		s := burstOf()
		result, err := s.Run(ctx, Settings{})
		require.NoError(t, err)
		assert.True(t, result.Interrupted)
		assert.Equal(t, 2, result.Answered)
		assert.Equal(t, report.Interrupted, result.Report(report.Demand{}).Verdict.Status)
		assert.Zero(t, result.Certain())
	})
}

func TestRequestsWithoutAnOutcomeAreGivenUp(t *testing.T) {
	t.Parallel()
	result := inVirtualTime(t, burstOf(func(c *discordsim.Config) { c.Latency = discordsim.RoundTrip(time.Hour) }), Settings{})
	assert.Equal(t, 4, result.Requests-result.Answered)
	assert.Contains(t, result.missed(), "4 had no outcome within 3m0s")
	assert.Contains(t, result.missed(), "not answered: 4 of 4 requests")
}

func TestErrorAnswersAreNoAnswers(t *testing.T) {
	t.Parallel()
	s := burstOf(func(c *discordsim.Config) {
		c.Faults = []discordsim.Fault{{Nth: []int{2}, Status: http.StatusBadGateway}}
	})
	result := inVirtualTime(t, s, Settings{})
	assert.Equal(t, map[string]int{"status 502": 1}, result.Errors)
}

func TestScenarioThatMakesNoSenseIsAnError(t *testing.T) {
	t.Parallel()
	s := burstOf(func(c *discordsim.Config) { c.Latency.Jitter = -1 })
	_, err := s.Run(t.Context(), Settings{})
	require.ErrorIs(t, err, discordsim.ErrConfig)
}

func TestJudgeNamesEveryMissedTarget(t *testing.T) {
	t.Parallel()
	tests := []struct {
		change func(*Result)
		want   []string
	}{
		{func(*Result) {}, nil},
		{func(r *Result) { r.Ideal.Certain = 969 * ms }, []string{"0.9690 of the certain ideal, at least 0.97 wanted"}},
		{func(r *Result) { r.Ideal.Omniscient = 900 * ms }, []string{"0.9000 of the omniscient ideal, at least 0.95 wanted"}},
		{func(r *Result) { r.Avoidable.User = 2 }, []string{"avoidable 429s: 2, none wanted"}},
		{func(r *Result) { r.Queued.P99 = 101 * ms }, []string{"queued for 101ms (99th percentile), at most 100ms wanted"}},
		{func(r *Result) { r.Inversions = 1 }, []string{"overtaken requests: 1, none wanted"}},
		{func(r *Result) { r.Answered, r.Errors = 8, map[string]int{"x": 2} }, []string{"not answered: 2 of 10 requests", "2 ended with: x"}},
		{func(r *Result) {
			r.scenario.Targets, r.Ideal, r.Inversions, r.Queued.P99 = Targets{}, Ideal{}, 9, time.Hour
		}, nil},
	}
	for _, test := range tests {
		r := Result{
			scenario: &Scenario{Targets: Targets{Certain: 0.97, Omniscient: 0.95, P99: 100 * ms, InOrder: true}},
			Requests: 10, Answered: 10, Took: time.Second, Refused: discordsim.ByClass{Shared: 3},
			Ideal: Ideal{Certain: 980 * ms, Omniscient: 960 * ms}, Reading: Reading{Queued: Queued{P99: 100 * ms}},
		}
		test.change(&r)
		assert.Equal(t, test.want, r.missed())
	}
}

func TestTargetsAreListed(t *testing.T) {
	t.Parallel()
	assert.Equal(t, []string{"every request answered", "no avoidable 429"}, Targets{}.List())
	assert.Equal(t, []string{
		"every request answered", "no avoidable 429", "0.97 of the certain ideal", "0.95 of the omniscient ideal",
		"99 % queued for 100ms at most", "no request overtaken",
	}, Targets{0.97, 0.95, 100 * ms, true}.List())
}
