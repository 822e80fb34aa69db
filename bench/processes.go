package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"sync"

	"github.com/ratelight/ratelight/bench/internal/options"
	"github.com/ratelight/ratelight/bench/internal/output"
	"github.com/ratelight/ratelight/bench/internal/pages"
	"github.com/ratelight/ratelight/bench/internal/processes"
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

	runAll := runEach
	if o.Disturb {
		runAll = runTogether
	}
	results, logs, err := runAll(ctx, scenarios, engine, settings, o, unless(o.JSON, stderr))
	if err != nil {
		return failed(stderr, err)
	}
	demandOfProcesses(o, results)
	unwritten := writeReport(o.Report, stderr, func() pages.Page { return pages.Processes(settings, results, logs) })
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

// runTogether runs all scenarios at the same time, as accidents take a minute. Each but the first has an engine of its own: their
// calls do not say whose they are, and accidents happen to it.
func runTogether(ctx context.Context, scenarios []processes.Scenario, engine *processes.Engine, settings processes.Settings, o options.Options, stderr io.Writer) ([]processes.Result, []trace.Log, error) {
	engines, names := []*processes.Engine{engine}, make([]string, len(scenarios))
	for i := range scenarios {
		names[i] = scenarios[i].Name
		if i > 0 {
			another, err := processes.OpenEngine(ctx, o.Redis)
			if err != nil {
				return nil, nil, err
			}
			defer another.Close()
			engines = append(engines, another)
		}
	}
	progress := progressOf(scenarios, settings, stderr)
	defer progress.End()
	settings.Done = progress.Step
	progress.Begin(fmt.Sprintf("%s, about %v", strings.Join(names, " and "), settings.Length))
	results, logs, failures := make([]processes.Result, len(scenarios)), make([]trace.Log, len(scenarios)), make([]error, len(scenarios))
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var group sync.WaitGroup
	for i, scenario := range scenarios {
		group.Go(func() {
			traced := newTrace(o.Report)
			if results[i], failures[i] = processes.Run(ctx, scenario, engines[i], settings, traced); failures[i] != nil {
				failures[i] = fmt.Errorf("scenario %s: %w", scenario.Name, failures[i])
				cancel()
				return
			}
			if traced != nil {
				logs[i] = traced.Log()
			}
		})
	}
	group.Wait()
	return results, logs, errors.Join(failures...)
}

// progressOf begins to show progress over all requests of the scenarios.
func progressOf(scenarios []processes.Scenario, settings processes.Settings, stderr io.Writer) *output.Progress {
	requests := 0
	for i := range scenarios {
		requests += scenarios[i].Requests(settings)
	}
	return output.NewProgress(stderr, requests)
}

// runEach runs one scenario after the other, as the calls of an engine do not say whose they are.
func runEach(ctx context.Context, scenarios []processes.Scenario, engine *processes.Engine, settings processes.Settings, o options.Options, stderr io.Writer) (results []processes.Result, logs []trace.Log, err error) {
	progress := progressOf(scenarios, settings, stderr)
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
