package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"

	"github.com/ratelight/ratelight/bench/internal/options"
	"github.com/ratelight/ratelight/bench/internal/output"
	"github.com/ratelight/ratelight/bench/internal/processes"
	"github.com/ratelight/ratelight/bench/internal/report"
	"github.com/ratelight/ratelight/bench/internal/trace"
)

// child is the program when it is one of several processes. Ctrl-C in a terminal reaches all of them; it is the parent who ends
// the others.
func child() int {
	signal.Ignore(os.Interrupt)
	if err := processes.Child(os.Stdin, os.Stdout); err != nil {
		return failed(os.Stderr, err)
	}
	return 0
}

// shareBetween has several processes share limits, and judges how well.
func shareBetween(ctx context.Context, o options.Options, stdout, stderr io.Writer) int {
	settings := processes.Settings{Processes: o.Processes, Length: o.Length, Seed: o.Seed, Disturb: o.Disturb, Outage: o.Outage}
	if o.Scenario == "list" {
		return listOfProcesses(o, settings, stdout, stderr)
	}
	scenarios, err := processes.Find(o.Scenario, settings)
	if err != nil {
		return misused(stderr, fmt.Errorf("-scenario: %w", err))
	}
	if err := checkReport(o.Report); err != nil {
		return misused(stderr, err)
	}
	if settings.Executable, err = processes.Executable(); err != nil {
		return failed(stderr, err)
	}
	engine, err := processes.OpenEngine(ctx, o.Redis)
	if err != nil {
		return failed(stderr, err)
	}
	defer engine.Close()

	results, logs, err := runEach(ctx, scenarios, engine, settings, o, unless(o.JSON, stderr))
	if err != nil {
		return failed(stderr, err)
	}
	demandOfProcesses(o, results)
	unwritten := writeReport(o.Report, stderr, func() report.Page { return report.Processes(settings, results, logs) })
	if !o.JSON {
		output.Processes(stdout, settings, results)
	} else if err := output.ProcessesJSON(stdout, settings, results); err != nil {
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

// runEach runs one scenario after the other, as the calls of an engine do not say whose they are.
func runEach(ctx context.Context, scenarios []processes.Scenario, engine *processes.Engine, settings processes.Settings, o options.Options, stderr io.Writer) (results []processes.Result, logs []trace.Log, err error) {
	requests := 0
	for i := range scenarios {
		requests += scenarios[i].Requests(settings)
	}
	progress := output.NewProgress(stderr, requests)
	defer progress.End()
	settings.Done = progress.Step
	for i, scenario := range scenarios {
		if ctx.Err() != nil && len(results) > 0 {
			break
		}
		progress.Begin(fmt.Sprintf("%d of %d: %s, about %v", i+1, len(scenarios), scenario.Name, settings.Length))
		traced := newTrace(o.Report)
		result, err := processes.Run(ctx, scenario, engine, settings, traced)
		if err != nil {
			return nil, nil, fmt.Errorf("scenario %s: %w", scenario.Name, err)
		}
		results = append(results, result)
		if traced != nil {
			logs = append(logs, traced.Log())
		}
	}
	return results, logs, nil
}

// demandOfProcesses applies -fail-on-429 and -min-efficiency, on top of what the scenarios want.
func demandOfProcesses(o options.Options, results []processes.Result) {
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

func listOfProcesses(o options.Options, settings processes.Settings, stdout, stderr io.Writer) int {
	if o.Report != "" {
		return misused(stderr, errors.New("-report has no effect together with -scenario list: expected scenarios to run"))
	}
	scenarios := processes.Scenarios(settings)
	if !o.JSON {
		output.ProcessesList(stdout, settings, scenarios)
	} else if err := output.ProcessesListJSON(stdout, settings, scenarios); err != nil {
		return failed(stderr, err)
	}
	return 0
}
