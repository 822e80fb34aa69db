package main

import (
	"errors"
	"slices"
	"sync"

	"github.com/ratelight/ratelight/bench/internal/load"
	"github.com/ratelight/ratelight/bench/internal/report"
)

// scenarioCommand judges the limiter.
type scenarioCommand struct {
	Names []string `arg:"" name:"name" optional:"" help:"Scenarios to run, all of them at once without a name (about 20 s), or list for their names."`
	Seed  uint64   `group:"Simulated Discord" default:"1" help:"Seed of the random numbers."`

	demand `embed:""`
	output `embed:""`
}

func (c *scenarioCommand) check(map[string]bool) error {
	return checkList(c.Names, c.Report)
}

// checkList refuses a page of a list.
func checkList(names []string, page string) error {
	if slices.Contains(names, "list") && page != "" {
		return errors.New("-report has no effect together with list: expected scenarios to run")
	}
	return nil
}

// find finds scenarios by their names; each one once, and all of them without a name.
func find(names []string) (all []load.Scenario, err error) {
	if len(names) == 0 || slices.Contains(names, "all") {
		return load.FindScenarios("all")
	}
	for _, name := range slices.Compact(slices.Sorted(slices.Values(names))) {
		more, err := load.FindScenarios(name)
		if err != nil {
			return nil, misuseError{err}
		}
		all = append(all, more...)
	}
	return all, nil
}

// Run runs scenarios, or lists them.
func (c *scenarioCommand) Run(p *program) error {
	if slices.Contains(c.Names, "list") {
		return c.show(p, load.List(load.Scenarios()))
	}
	scenarios, err := find(c.Names)
	if err != nil {
		return err
	}
	if s := scenarios[0]; c.MinEfficiency > 0 && len(scenarios) == 1 && s.Targets.Certain == 0 {
		return misused("-min-efficiency is given: expected a scenario with an ideal to compare with; of %s there is none (%s)", s.Name, s.IdealBy)
	}
	if err := c.output.check(); err != nil {
		return err
	}
	all, err := c.runAll(p, scenarios)
	if err != nil {
		return err
	}
	all.Verdict = report.Together(all.Parts)
	return c.show(p, all)
}

// runAll runs scenarios side by side in real time. They hardly compete: together they make a few hundred requests a second.
func (c *scenarioCommand) runAll(p *program, scenarios []load.Scenario) (*report.Report, error) {
	all := &report.Report{Title: report.Counted(len(scenarios), "scenario"), Parts: make([]*report.Report, len(scenarios))}
	if len(scenarios) == 1 {
		all.Title = "Scenario " + scenarios[0].Name
	}
	requests := 0
	for i := range scenarios {
		requests += scenarios[i].Requests()
	}
	progress := c.progress(p, requests)
	defer progress.End()
	errs := make([]error, len(scenarios))
	var group sync.WaitGroup
	for i := range scenarios {
		group.Go(func() {
			settings := load.Settings{Seed: c.Seed, RealTime: true, Done: progress.Step, Record: c.Report != ""}
			result, err := scenarios[i].Run(p.ctx, settings)
			all.Parts[i], errs[i] = result.Report(c.demand.report()), err
		})
	}
	group.Wait()
	return all, errors.Join(errs...)
}
