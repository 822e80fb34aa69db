package load

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/ratelight/ratelight/bench/internal/report"
	"github.com/ratelight/ratelight/internal/discordsim"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const ms = time.Millisecond

// virtual runs a scenario in virtual time, for the given time at most; 0: until it ends.
func virtual(t *testing.T, s Scenario, settings Settings, within time.Duration) (result Result) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		if within > 0 {
			limited, cancel := context.WithTimeout(ctx, within)
			defer cancel()
			ctx = limited
		}
		var err error
		result, err = s.Run(ctx, settings)
		require.NoError(t, err)
	})
	return result
}

// This is the regression test of the whole library: every scenario must reach its targets in virtual time.
func TestScenariosReachTheirTargets(t *testing.T) {
	t.Parallel()
	for _, s := range Scenarios() {
		t.Run(s.Name, func(t *testing.T) {
			t.Parallel()
			var missed []string
			for seed := range uint64(10) {
				result := virtual(t, s, Settings{Seed: seed}, 0)
				assert.LessOrEqual(t, result.Efficiency(), 1.0, "no client is faster than the ideal one")
				for _, text := range result.missed() {
					missed = append(missed, fmt.Sprintf("seed %d, after %v: %s", seed, result.Took, text))
				}
				if testing.Short() {
					break
				}
			}
			assert.Empty(t, missed, "%s\nideal: %s", s.About, s.IdealBy)
		})
	}
}

// sixWindows returns a scenario with 60 requests to two channels, which fill six windows in each channel.
func sixWindows(changes ...func(*Config)) Scenario {
	config := Config{
		Requests: 60, MaxRateLimit: time.Minute, GlobalLimit: 50, Buckets: 2, Bucket: Bucket{Limit: 5, Window: time.Second},
		Network: Network{Latency: 20 * ms, Jitter: 10 * ms, Seed: 1},
	}
	for _, change := range changes {
		change(&config)
	}
	return config.Scenario()
}

func TestLoadIsMeasuredAgainstItsIdeal(t *testing.T) {
	t.Parallel()
	result := virtual(t, sixWindows(), Settings{Seed: 1}, 0)
	assert.Equal(t, 60, result.Answered)
	// Six windows of 1 s take five cycles. A cycle is a window and the smallest round trip. The second channel begins when
	// the first channel has discovered the route.
	assert.Equal(t, Ideal{Time: 10*ms + 5*1010*ms + 10*ms}, result.Ideal)
	assert.Greater(t, result.Efficiency(), 0.97)
	assert.Zero(t, result.seen.Refused.Total())
	assert.LessOrEqual(t, result.seen.MaxInFlight, 10)
	assert.Greater(t, result.Queued.Median, time.Second)
	assert.Less(t, result.Queued.Max, result.Took)

	result = virtual(t, sixWindows(func(c *Config) { c.MaxRateLimit = 0 }), Settings{}, 0)
	assert.Positive(t, result.RefusedEarly)
	assert.Equal(t, 60, result.Answered+result.RefusedEarly)
	assert.Contains(t, result.Ideal.Missing, "not all requests")
	assert.Contains(t, virtual(t, sixWindows(func(c *Config) { c.Requests = 9 }), Settings{}, 0).Ideal.Missing, "so short")
}

func TestPresetShowsTheKindsThatItMet(t *testing.T) {
	t.Parallel()
	preset := sixWindows(func(c *Config) { c.Preset, c.Requests, c.Buckets = true, 500, 10 })
	result := virtual(t, preset, Settings{Seed: 1, Record: true}, 0)
	assert.Equal(t, 500, result.Answered)
	assert.Zero(t, result.seen.Avoidable.Total())
	assert.Greater(t, result.Efficiency(), 0.97)
	r := result.Report()
	assert.Contains(t, r.About[1], "as measured at Discord")
	var kinds []string
	for _, row := range r.Tables[0].Rows {
		kinds = append(kinds, row[0].Text)
	}
	assert.Equal(t, []string{"fixed window", "fixed window, opens late", "only the global limit", "token bucket"}, kinds)
	var page strings.Builder
	require.NoError(t, r.WritePage(&page))
	assert.Contains(t, page.String(), "POST /channels/{id}/messages")
}

func TestInterruptionKeepsWhatWasMeasured(t *testing.T) {
	t.Parallel()
	result := virtual(t, sixWindows(), Settings{}, 2500*ms)
	assert.True(t, result.Interrupted)
	assert.Equal(t, 30, result.Answered, "three windows of two channels")
	assert.Equal(t, 30, result.GivenUp())
	assert.Equal(t, report.Interrupted, result.Report().Verdict.Status)

	slow := sixWindows(func(c *Config) { c.Network = Network{Latency: time.Minute} })
	assert.Zero(t, virtual(t, slow, Settings{}, 100*ms).Answered, "only the grace is waited for")
}

func TestScenarioWithoutAnswersFails(t *testing.T) {
	t.Parallel()
	s := burst("test", "", discordsim.Fixed(2, time.Second), 4)
	s.server.Latency = discordsim.RoundTrip(time.Hour)
	result := virtual(t, s, Settings{}, 0)
	assert.Contains(t, result.missed(), "4 had no outcome within 3m0s")

	s = burst("test", "", discordsim.Fixed(2, time.Second), 4)
	s.server.Faults = []discordsim.Fault{{Nth: []int{2}, Status: http.StatusBadGateway}}
	assert.Equal(t, map[string]int{"status 502": 1}, virtual(t, s, Settings{}, 0).Errors)

	s.server.Latency.Jitter = -1
	_, err := s.Run(t.Context(), Settings{})
	require.ErrorIs(t, err, discordsim.ErrConfig)
}

// A long load must leave nothing behind, and the client must forget the channels that it no longer uses.
func TestLongLoadLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	const length = 30 * time.Minute
	for _, faults := range []bool{false, true} {
		s := sixWindows(func(c *Config) { c.Length, c.Rate, c.Buckets, c.Preset, c.Faults = length, 5, 10, true, faults })
		result := virtual(t, s, Settings{Seed: 1}, 0)
		assert.Equal(t, 5*1800, result.Requests)
		assert.Zero(t, result.GivenUp())
		assert.Zero(t, result.Leaks.Waiting)
		assert.Zero(t, result.Leaks.InFlight)
		assert.Less(t, result.Leaks.Buckets, 150, "of about 350")
		assert.Equal(t, faults, result.Failed() > 0)
		if !faults {
			assert.Zero(t, result.seen.Avoidable.Total())
		}
		assert.Greater(t, result.Answered, result.Requests*9/10)
	}
}

// finished returns a result of a scenario that has reached its targets.
func finished() Result {
	return Result{
		scenario: &Scenario{Name: "a", Targets: Targets{Efficiency: 0.97, P99: 100 * ms, InOrder: true}},
		Requests: 10, Answered: 10, Took: time.Second,
		seen:  discordsim.Report{Tally: discordsim.Tally{Refused: discordsim.ByClass{Shared: 3}}},
		Ideal: Ideal{Time: 980 * ms}, Queued: Queued{P99: 100 * ms},
	}
}

func TestVerdictNamesEveryMissedTarget(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(*Result){
		"0.9690 of the ideal, at least 0.97 wanted":                func(r *Result) { r.Ideal.Time = 969 * ms },
		"avoidable 429s: 2, none wanted":                           func(r *Result) { r.seen.Avoidable.User = 2 },
		"queued for 101ms (99th percentile), at most 100ms wanted": func(r *Result) { r.Queued.P99 = 101 * ms },
	} {
		r := finished()
		assert.Equal(t, report.Passed, r.verdict().Status)
		change(&r)
		verdict := r.verdict()
		assert.Equal(t, report.Failed, verdict.Status)
		assert.Equal(t, []string{want}, verdict.Reasons)
		r.Stalled = time.Second
		assert.Contains(t, r.verdict().Reasons[1], "this machine stalled for 1.00 s")
	}
}
