package load

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/ratelight/ratelight/bench/internal/report"
	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/httpclient"
	"github.com/ratelight/ratelight/internal/discordsim"
)

const (
	// patience is longer than any scenario takes. Who has no answer by then never gets one.
	patience = 3 * time.Minute
	// realTolerance is how late, in real time, a goroutine may be to see an answer before it is held to have read it.
	realTolerance = stallTolerated
)

// Settings are about the run of a scenario and not about the scenario.
type Settings struct {
	Seed uint64
	// RealTime: the scheduler may delay the client, which the judge has to allow for.
	RealTime bool
	// Done is called for every request that has an outcome, one call at a time. It may be nil.
	Done func()
	// Record makes a Result.Log.
	Record bool
}

// Judged is what happened in a scenario.
type Judged struct {
	Scenario Scenario
	Result
	// Missed says which targets were missed and by how much. Empty: all were reached, or the run was interrupted.
	Missed []string
}

// Run runs the scenario and judges it. It stops early when the context ends; Result.Interrupted then says so. The error is
// about a scenario that makes no sense.
func (s *Scenario) Run(ctx context.Context, settings Settings) (Judged, error) {
	config, log := s.begin(time.Now()), report.NewLog(settings.Record)
	config.Seed = settings.Seed
	if settings.RealTime {
		config.Tolerance = realTolerance
	}
	log.Observe(&config)
	server, err := discordsim.New(config)
	if err != nil {
		return Judged{}, fmt.Errorf("scenario %s: %w", s.Name, err)
	}
	defer server.Close()
	limits := []buckets.Option{buckets.WithLogger(nil), buckets.WithGlobalLimit(config.Global.Limit)}
	if s.Targets.InOrder {
		limits = append(limits, buckets.WithOrdered())
	}
	// What is judged is the limiter alone.
	r := newRun(s.Requests(), log, server.RoundTripper(),
		httpclient.WithBuckets(limits...), httpclient.WithRetries(0), httpclient.WithAttemptTimeout(0))
	r.done = settings.Done
	patient, giveUp := context.WithTimeout(ctx, patience)
	defer giveUp()
	r.sendAll(patient, s.Requests(), true, func(n int) offer { return s.offers[n] })

	result := Judged{Scenario: *s, Result: r.end(ctx, server, config.Latency.RoundTrip+config.Latency.Jitter)}
	if s.ideal != nil {
		if result.Ideal, err = s.ideal(s, server.Report()); err != nil {
			return Judged{}, fmt.Errorf("ideal of scenario %s: %w", s.Name, err)
		}
	}
	result.judge()
	return result, nil
}

// begin returns the server for work that begins now.
func (s *Scenario) begin(now time.Time) discordsim.Config {
	config := s.server
	config.Global.Phase += phase(now)
	config.Rules = slices.Clone(config.Rules)
	for i := range config.Rules {
		if quota := &config.Rules[i].Quota; quota.Aligned {
			quota.Phase += phase(now)
		}
	}
	return config
}

// phase moves aligned seconds so that one of them begins at a moment.
func phase(start time.Time) time.Duration { return time.Duration(start.UnixNano()) % time.Second }

// judge compares the result with the targets.
func (r *Judged) judge() {
	targets := r.Scenario.Targets
	miss := func(missed bool, format string, values ...any) {
		if missed {
			r.Missed = append(r.Missed, fmt.Sprintf(format, values...))
		}
	}
	if r.Interrupted {
		return
	}
	unanswered := r.Requests - r.Answered
	miss(unanswered > 0, "not answered: %d of %d requests", unanswered, r.Requests)
	miss(r.GivenUp() > 0, "%d had no outcome within %v", r.GivenUp(), patience)
	for _, text := range slices.Sorted(maps.Keys(r.Errors)) {
		miss(true, "%d ended with: %s", r.Errors[text], text)
	}
	if unanswered == 0 {
		miss(r.Certain() < targets.Certain, "%.4f of the certain ideal, at least %.2f wanted", r.Certain(), targets.Certain)
		miss(r.Omniscient() < targets.Omniscient, "%.4f of the omniscient ideal, at least %.2f wanted", r.Omniscient(), targets.Omniscient)
	}
	miss(r.Avoidable.Total() > 0, "avoidable 429s: %d, none wanted", r.Avoidable.Total())
	p99 := r.Queued.P99.Round(time.Millisecond)
	miss(targets.P99 > 0 && r.Queued.P99 > targets.P99, "queued for %v (99th percentile), at most %v wanted", p99, targets.P99)
	miss(targets.InOrder && r.Inversions > 0, "overtaken requests: %d, none wanted", r.Inversions)
}
