package main

import "github.com/ratelight/ratelight/bench/internal/soak"

// soakCommand runs a soak in real time and shows its result.
type soakCommand struct {
	soak.Options `embed:""`
	output       `embed:""`
}

func (c *soakCommand) check(map[string]bool) error { return nil }

// Run runs the soak and shows the result.
func (c *soakCommand) Run(p *program) error {
	progress := c.progress(p, c.Requests())
	c.Done = progress.Step
	result, err := soak.Run(p.ctx, c.Options)
	progress.End()
	if err != nil {
		return err
	}
	return c.show(p, result.Report())
}
