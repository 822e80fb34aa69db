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

	report.Demand  `embed:""`
	command.Output `embed:""`
}

// Check returns an error if there is no scenario of a name.
func (c *scenarioCommand) Check(map[string]bool) error {
	known := []string{"list"}
	for _, s := range load.Scenarios() {
		known = append(known, s.Name)
	}
	for _, name := range c.Names {
		if !slices.Contains(known, name) {
			return fmt.Errorf("there is no scenario %q: choose from %s", name, strings.Join(known, ", "))
		}
	}
	return nil
}

// Run runs scenarios, or lists them.
func (c *scenarioCommand) Run(p *command.Program) error {
	all := load.Scenarios()
	if slices.Contains(c.Names, "list") {
		return c.Show(p, load.List(all), command.Page{})
	}
	scenarios := slices.DeleteFunc(all, func(s load.Scenario) bool { return len(c.Names) > 0 && !slices.Contains(c.Names, s.Name) })
	parts, err := runAll(p, &c.Output, c.Demand, load.Settings{Seed: c.Seed}, scenarios...)
	if err != nil {
		return err
	}
	return c.Show(p, &report.Report{Parts: parts, Verdict: report.Together(parts)}, command.Page{})
}

// runAll runs scenarios concurrently in real time. They make so few requests per second that they hardly compete.
func runAll(
	p *command.Program, o *command.Output, demand report.Demand, settings load.Settings, scenarios ...load.Scenario,
) ([]*report.Report, error) {
	requests := 0
	for i := range scenarios {
		requests += scenarios[i].Requests()
	}
	if ideal, err := scenarios[0].Ideal(discordsim.Report{}); err == nil && ideal.Missing != "" && len(scenarios) == 1 && demand.MinEfficiency > 0 {
		return nil, command.Misuse(fmt.Errorf("-min-efficiency is given: expected requests with an ideal to compare with; %s", ideal.Missing))
	}
	progress := o.Progress(p, requests)
	defer progress.End()
	settings.RealTime, settings.Done = true, progress.Step
	parts, errs := make([]*report.Report, len(scenarios)), make([]error, len(scenarios))
	var group sync.WaitGroup
	for i := range scenarios {
		group.Go(func() {
			result, err := scenarios[i].Run(p.Context, settings)
			if errs[i] = err; err == nil {
				parts[i] = result.Report(demand)
			}
		})
	}
	group.Wait()
	return parts, errors.Join(errs...)
}
