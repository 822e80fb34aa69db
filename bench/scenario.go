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
)

// scenarioCommand judges the limiter by scenarios.
type scenarioCommand struct {
	Names []string `arg:"" name:"name" optional:"" help:"${scenario_names}"`
	Seed  uint64   `group:"Simulated Discord" default:"1" help:"Seed of the random numbers."`

	command.Output `embed:""`
}

// Check returns an error if a name is not that of a scenario.
func (c *scenarioCommand) Check(map[string]bool) error {
	var known []string
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

// Run runs scenarios.
func (c *scenarioCommand) Run(p *command.Program) error {
	scenarios := slices.DeleteFunc(load.Scenarios(), func(s load.Scenario) bool {
		return len(c.Names) > 0 && !slices.Contains(c.Names, s.Name)
	})
	c.Begin(p, report.Counted(len(scenarios), "scenario")+", about 20 s")
	parts, err := runAll(p, load.Settings{Seed: c.Seed}, scenarios...)
	if err != nil {
		return err
	}
	return c.Show(p, &report.Report{Parts: parts, Verdict: report.Together(parts)}, command.Page{})
}

// runAll runs scenarios concurrently in real time. They make so few requests per second that they hardly slow each
// other down.
func runAll(p *command.Program, settings load.Settings, scenarios ...load.Scenario) ([]*report.Report, error) {
	settings.RealTime = true
	parts, errs := make([]*report.Report, len(scenarios)), make([]error, len(scenarios))
	var group sync.WaitGroup
	for i := range scenarios {
		group.Go(func() {
			result, err := scenarios[i].Run(p.Context, settings)
			if errs[i] = err; err == nil {
				parts[i] = result.Report()
			}
		})
	}
	group.Wait()
	return parts, errors.Join(errs...)
}
