package main

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/ratelight/ratelight/bench/internal/command"
	"github.com/ratelight/ratelight/bench/internal/load"
)

// loadCommand sends a load to a simulated Discord.
type loadCommand struct {
	load.Config    `embed:""`
	command.Output `embed:""`
	command.Page   `embed:""`
}

func (c *loadCommand) Check(given map[string]bool) error {
	c.Requests = cmp.Or(c.Requests, 500)
	c.Preset = !given["limit"] && !given["window"] && !given["kind"]
	for _, name := range []string{"requests", "limit", "window", "kind"} {
		if c.Length > 0 && given[name] {
			return fmt.Errorf("-%s has no effect together with -length: omit one of them", name)
		}
	}
	if c.Length == 0 && (given["rate"] || c.Faults) {
		return errors.New("-rate and -faults have an effect only together with -length, which is not given")
	}
	return cmp.Or(c.Network.Check(), c.Page.Check())
}

// Run runs the load and shows the result.
func (c *loadCommand) Run(p *command.Program) error {
	s := c.Scenario()
	if c.Length > 0 {
		c.Begin(p, s.About)
	}
	results, err := runAll(p, load.Settings{Seed: c.Seed, Record: c.Report != ""}, s)
	if err != nil {
		return err
	}
	return c.Show(p, results[0], c.Page)
}
