package main

import (
	"context"
	"io"

	"github.com/ratelight/ratelight/bench/internal/options"
	"github.com/ratelight/ratelight/bench/internal/output"
	"github.com/ratelight/ratelight/bench/internal/soak"
)

// soakFor soaks in real time and shows what it saw.
func soakFor(ctx context.Context, o options.Options, stdout, stderr io.Writer) int {
	config := soak.Options{Length: o.Soak, Seed: o.Seed}
	progress := output.NewProgress(stderr, config.Requests())
	config.Done = progress.Step
	result, err := soak.Run(ctx, config)
	progress.End()
	if err != nil {
		return failed(stderr, err)
	}
	if err := result.Report().WriteText(stdout); err != nil {
		return failed(stderr, err)
	}
	switch {
	case result.Interrupted:
		return statusInterrupted
	case len(result.Broken) > 0:
		return statusFailed
	}
	return 0
}
