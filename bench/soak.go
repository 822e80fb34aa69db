package main

import (
	"github.com/ratelight/ratelight/bench/internal/command"
	"github.com/ratelight/ratelight/bench/internal/soak"
)

// soakCommand runs a soak in real time and shows its result.
type soakCommand struct {
	soak.Options   `embed:""`
	command.Output `embed:""`
}

func (c *soakCommand) Check(map[string]bool) error { return nil }

// Run runs the soak and shows the result.
func (c *soakCommand) Run(p *command.Program) error {
	progress := c.Progress(p, c.Requests())
	c.Done = progress.Step
	result, err := soak.Run(p.Context, c.Options)
	progress.End()
	if err != nil {
		return err
	}
	return c.Show(p, result.Report())
}
