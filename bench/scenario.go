package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/ratelight/ratelight/bench/internal/command"
	"github.com/ratelight/ratelight/bench/internal/load"
	"github.com/ratelight/ratelight/bench/internal/report"
	"github.com/ratelight/ratelight/internal/discordsim"
)

// scenarioCommand judges the limiter by scenarios.
type scenarioCommand struct {
	Names []string `arg:"" name:"name" optional:"" help:"Scenarios to run, all of them at once without a name (about 20 s), or list for their names."`
	Seed  uint64   `group:"Simulated Discord" default:"1" help:"Seed of the random numbers."`

	judged `embed:""`
}

func (c *scenarioCommand) Check(map[string]bool) error { return c.CheckList(c.Names) }

// find returns the named scenarios, each once and in their usual order. Without names it returns all.
func find(names []string) (found []load.Scenario, err error) {
	all, known := load.Scenarios(), []string{"all", "list"}
	for _, s := range all {
		known = append(known, s.Name)
		if len(names) == 0 || slices.Contains(names, "all") || slices.Contains(names, s.Name) {
			found = append(found, s)
		}
	}
	for _, name := range names {
		if !slices.Contains(known, name) {
			return nil, command.Misuse(fmt.Errorf("there is no scenario %q: choose from %s", name, strings.Join(known, ", ")))
		}
	}
	return found, nil
}

// Run runs scenarios, or lists them.
func (c *scenarioCommand) Run(p *command.Program) error {
	if slices.Contains(c.Names, "list") {
		return c.Show(p, load.List(load.Scenarios()))
	}
	scenarios, err := find(c.Names)
	if err != nil {
		return err
	}
	parts, err := c.runAll(p, c.Seed, scenarios...)
	if err != nil {
		return err
	}
	title := report.Counted(len(parts), "scenario")
	if len(parts) == 1 {
		title = parts[0].Title
	}
	return c.Show(p, &report.Report{Title: title, Parts: parts, Verdict: report.Together(parts)})
}

// runAll runs scenarios concurrently in real time. They make so few requests per second that they hardly compete.
func (j *judged) runAll(p *command.Program, seed uint64, scenarios ...load.Scenario) ([]*report.Report, error) {
	requests := 0
	for i := range scenarios {
		requests += scenarios[i].Requests()
	}
	if ideal, err := scenarios[0].Ideal(discordsim.Report{}); err == nil && ideal.Missing != "" && len(scenarios) == 1 && j.MinEfficiency > 0 {
		return nil, command.Misuse(fmt.Errorf("-min-efficiency is given: expected requests with an ideal to compare with; %s", ideal.Missing))
	}
	progress := j.Progress(p, requests)
	defer progress.End()
	parts, errs := make([]*report.Report, len(scenarios)), make([]error, len(scenarios))
	var group sync.WaitGroup
	for i := range scenarios {
		group.Go(func() {
			result, err := scenarios[i].Run(p.Context, load.Settings{Seed: seed, RealTime: true, Done: progress.Step, Record: j.Report != ""})
			if errs[i] = err; err == nil {
				parts[i] = result.Report(j.Demand)
			}
		})
	}
	group.Wait()
	return parts, errors.Join(errs...)
}
