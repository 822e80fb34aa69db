package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/ratelight/ratelight/bench/internal/options"
	"github.com/ratelight/ratelight/bench/internal/output"
	"github.com/ratelight/ratelight/bench/internal/pages"
	"github.com/ratelight/ratelight/bench/internal/scenario"
	"github.com/ratelight/ratelight/bench/internal/trace"
)

// judge runs scenarios, or lists them.
func judge(ctx context.Context, o options.Options, stdout, stderr io.Writer) int {
	if o.Scenario == "list" {
		return list(o, stdout, stderr)
	}
	scenarios, err := scenario.Find(o.Scenario)
	if err != nil {
		return misused(stderr, fmt.Errorf("-scenario: %w", err))
	}
	if o.MinEfficiency > 0 && len(scenarios) == 1 && scenarios[0].Targets.Certain == 0 {
		return misused(stderr, fmt.Errorf("-min-efficiency is given: expected a scenario with an ideal to compare with; of %s there is none (%s)",
			scenarios[0].Name, scenarios[0].IdealBy))
	}
	if err := checkReport(o.Report); err != nil {
		return misused(stderr, err)
	}
	traces := make([]*trace.Trace, len(scenarios))
	for i := range traces {
		traces[i] = newTrace(o.Report)
	}
	results, err := runAll(ctx, scenarios, o.Seed, traces, unless(o.JSON, stderr))
	if err != nil {
		return failed(stderr, err)
	}
	demand(o, results)
	unwritten := writeReport(o.Report, stderr, func() pages.Page { return scenariosPage(results, traces) })
	if !o.JSON {
		output.Scenarios(stdout, results)
	} else if err := output.ScenariosJSON(stdout, results); err != nil {
		return failed(stderr, err)
	}
	if unwritten != nil {
		return failed(stderr, unwritten)
	}
	if ctx.Err() != nil {
		return statusInterrupted
	}
	for _, result := range results {
		if len(result.Missed) > 0 {
			return statusFailed
		}
	}
	return 0
}

// demand applies -fail-on-429 and -min-efficiency, on top of what the scenarios want. It asks nothing of what was cut off, and no
// efficiency where no ideal is stated.
func demand(o options.Options, results []scenario.Result) {
	for i := range results {
		r := &results[i]
		if r.Interrupted {
			continue
		}
		if n := r.Refused.Total(); o.FailOn429 && n > 0 {
			r.Missed = append(r.Missed, fmt.Sprintf("%d 429s, and -fail-on-429 wants none", n))
		}
		if wanted := o.MinEfficiency; r.Certain() > 0 && r.Certain() < wanted {
			r.Missed = append(r.Missed, fmt.Sprintf("%.4f of the certain ideal, and -min-efficiency wants %g", r.Certain(), wanted))
		}
	}
}

func scenariosPage(results []scenario.Result, traces []*trace.Trace) pages.Page {
	logs := make([]trace.Log, len(traces))
	for i := range traces {
		logs[i] = traces[i].Log()
	}
	return pages.Scenarios(results, logs)
}

func list(o options.Options, stdout, stderr io.Writer) int {
	if !o.JSON {
		output.ScenarioList(stdout, scenario.All())
	} else if err := output.ScenarioListJSON(stdout, scenario.All()); err != nil {
		return failed(stderr, err)
	}
	return 0
}

// runAll runs scenarios side by side in real time. They hardly compete: together they make a few hundred requests a second.
func runAll(ctx context.Context, scenarios []scenario.Scenario, seed uint64, traces []*trace.Trace, stderr io.Writer) ([]scenario.Result, error) {
	requests := 0
	for i := range scenarios {
		requests += scenarios[i].Requests()
	}
	progress := output.NewProgress(stderr, requests)
	defer progress.End()
	results, errs := make([]scenario.Result, len(scenarios)), make([]error, len(scenarios))
	var group sync.WaitGroup
	for i := range scenarios {
		group.Go(func() {
			settings := scenario.Settings{Seed: seed, RealTime: true, Done: progress.Step, Trace: traces[i]}
			results[i], errs[i] = scenarios[i].Run(ctx, settings)
		})
	}
	group.Wait()
	return results, errors.Join(errs...)
}
