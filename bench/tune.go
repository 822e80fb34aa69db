package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"time"

	"github.com/ratelight/ratelight/bench/internal/options"
	"github.com/ratelight/ratelight/bench/internal/output"
	"github.com/ratelight/ratelight/bench/internal/pages"
	"github.com/ratelight/ratelight/bench/internal/tune"
	"github.com/ratelight/ratelight/internal/discordsim"
)

// recommend compares max rate limits and recommends one.
func recommend(ctx context.Context, arguments []string, stdin io.Reader, stdout, stderr io.Writer) int {
	o, err := options.ParseTune(arguments)
	if errors.Is(err, options.ErrHelp) {
		fmt.Fprint(stdout, options.TuneHelp())
		return 0
	}
	if err != nil {
		return misusedTune(stderr, err)
	}
	if err := checkReport(o.Report); err != nil {
		return misusedTune(stderr, err)
	}
	load, err := loadToTune(o, stdin)
	if err != nil {
		return misusedTune(stderr, err)
	}
	discord := discordToTune(o)
	if err := check(o, load, discord); err != nil {
		return misusedTune(stderr, err)
	}
	defer debug.SetGCPercent(debug.SetGCPercent(400)) // replays make much garbage and keep little
	progress := output.NewProgress(unless(o.JSON, stderr), load.Requests()*len(o.MaxRateLimits))
	result, err := tune.Run(ctx, tune.Config{
		Load: load, Discord: discord, MaxRateLimits: o.MaxRateLimits, Acceptable: o.Refused, Done: progress.Steps,
	})
	progress.End()
	if ctx.Err() != nil {
		fmt.Fprintln(stderr, "bench: INTERRUPTED: there is a recommendation, and a report of it, only when all values have been compared.")
		return statusInterrupted
	}
	if err != nil {
		return failed(stderr, err)
	}
	unwritten := writeReport(o.Report, stderr, func() pages.Page { return pages.Tune(o, load, result) })
	if !o.JSON {
		output.Tune(stdout, o, load, result)
	} else if err := output.TuneJSON(stdout, load, result); err != nil {
		return failed(stderr, err)
	}
	if unwritten != nil {
		return failed(stderr, unwritten)
	}
	if result.Recommended < 0 {
		return statusFailed
	}
	return 0
}

func misusedTune(stderr io.Writer, err error) int {
	fmt.Fprintf(stderr, "bench tune: %v\nRun bench tune -h for all flags and examples.\n", err)
	return statusUsage
}

// loadToTune reads the trace, or makes a load up.
func loadToTune(o options.Tune, stdin io.Reader) (*tune.Load, error) {
	switch o.Trace {
	case "":
		return tune.Generate(traffic(o))
	case "-":
		return tune.ReadTrace("standard input", stdin, o.SkipBadLines)
	}
	file, err := os.Open(o.Trace)
	if err != nil {
		return nil, fmt.Errorf("-trace: %w", err)
	}
	defer file.Close()
	return tune.ReadTrace(o.Trace, file, o.SkipBadLines)
}

func traffic(o options.Tune) tune.Traffic {
	t := tune.Traffic{
		Requests: o.Requests, Length: o.Duration, Channels: o.Channels, Skew: o.Skew, Burst: o.Burst, BurstEvery: o.BurstEvery, Seed: o.Seed,
	}
	for _, share := range o.Mix {
		t.Mix = append(t.Mix, tune.Share(share))
	}
	return t
}

func discordToTune(o options.Tune) tune.Discord {
	d := tune.Discord{
		Quota: quotaOf(o.Kind, o.Limit, o.Window), GlobalLimit: o.GlobalLimit,
		Latency: discordsim.Latency{RoundTrip: o.Latency, Jitter: o.Jitter}, Seed: o.Seed,
	}
	for _, rule := range o.Rules {
		quota := discordsim.Unlimited()
		if rule.Limit > 0 {
			quota = quotaOf(o.Kind, rule.Limit, rule.Window)
		}
		d.Rules = append(d.Rules, discordsim.Rule{Method: rule.Method, Path: rule.Template, Quota: quota})
	}
	return d
}

// quotaOf returns the quota of a kind that the options know.
func quotaOf(kind string, limit int, window time.Duration) discordsim.Quota {
	switch kind {
	case "sliding":
		return discordsim.Sliding(limit, window)
	case "leaky":
		return discordsim.Leaky(limit, window)
	}
	return discordsim.Fixed(limit, window)
}

// check refuses what would be simulated otherwise than it was meant.
func check(o options.Tune, load *tune.Load, discord tune.Discord) error {
	for i, rule := range o.Rules {
		if !load.Applies(rule.Method, rule.Template) {
			return fmt.Errorf("-rule, number %d: no request of the load is for that route: expected one that occurs", i+1)
		}
	}
	return discord.Validate()
}
