package main

import (
	"time"

	"github.com/ratelight/ratelight/bench/internal/soak"
)

// soakCommand soaks in real time and shows what it saw.
type soakCommand struct {
	Length time.Duration `range:"1s..744h" default:"10m" help:"How long there are requests, 1000 a minute; then it idles for some minutes."`
	Seed   uint64        `default:"1" help:"Seed of the random numbers."`
	output `embed:""`
}

func (c *soakCommand) check(map[string]bool) error { return nil }

// Run soaks.
func (c *soakCommand) Run(p *program) error {
	if err := c.output.check(); err != nil {
		return err
	}
	config := soak.Options{Length: c.Length, Seed: c.Seed}
	progress := c.progress(p, config.Requests())
	config.Done = progress.Step
	result, err := soak.Run(p.ctx, config)
	progress.End()
	if err != nil {
		return err
	}
	return c.show(p, result.Report())
}
