package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/ratelight/ratelight/bench/internal/options"
	"github.com/ratelight/ratelight/bench/internal/output"
	"github.com/ratelight/ratelight/bench/internal/scenario"
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
	results, err := runAll(ctx, scenarios, o.Seed, stderr)
	if err != nil {
		return failed(stderr, err)
	}
	if !o.JSON {
		output.Scenarios(stdout, results)
	} else if err := output.ScenariosJSON(stdout, results); err != nil {
		return failed(stderr, err)
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

func list(o options.Options, stdout, stderr io.Writer) int {
	if !o.JSON {
		output.ScenarioList(stdout, scenario.All())
	} else if err := output.ScenarioListJSON(stdout, scenario.All()); err != nil {
		return failed(stderr, err)
	}
	return 0
}

// runAll runs scenarios side by side in real time. They hardly compete: together they make a few hundred requests a second.
func runAll(ctx context.Context, scenarios []scenario.Scenario, seed uint64, stderr io.Writer) ([]scenario.Result, error) {
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
			results[i], errs[i] = scenarios[i].Run(ctx, scenario.Settings{Seed: seed, RealTime: true, Done: progress.Step})
		})
	}
	group.Wait()
	return results, errors.Join(errs...)
}
