package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/ratelight/ratelight/bench/internal/load"
	"github.com/ratelight/ratelight/bench/internal/options"
	"github.com/ratelight/ratelight/bench/internal/output"
	"github.com/ratelight/ratelight/bench/internal/pages"
	"github.com/ratelight/ratelight/internal/discordsim"
)

// measure runs a load and shows what came of it.
func measure(ctx context.Context, o options.Options, stdout, stderr io.Writer) int {
	config := loadConfig(o)
	if o.MinEfficiency > 0 {
		if ideal, err := config.Ideal(); err == nil && ideal.Missing != "" {
			return misused(stderr, fmt.Errorf("-min-efficiency is given: expected a load with an ideal to compare with; %s", ideal.Missing))
		}
	}
	if err := checkReport(o.Report); err != nil {
		return misused(stderr, err)
	}
	config.Trace = newTrace(o.Report)
	progress := output.NewProgress(unless(o.JSON, stderr), config.Requests)
	config.Done = progress.Step
	result, err := load.Run(ctx, config)
	progress.End()
	if err != nil {
		return failed(stderr, err)
	}
	verdict := verdictOf(o, result)
	unwritten := writeReport(o.Report, stderr, func() pages.Page { return pages.Load(config, result, verdict, config.Trace.Log()) })
	if !o.JSON {
		output.Load(stdout, config, result, verdict)
	} else if err := output.LoadJSON(stdout, config, result, verdict); err != nil {
		return failed(stderr, err)
	}
	if unwritten != nil {
		return failed(stderr, unwritten)
	}
	switch {
	case result.Interrupted:
		return statusInterrupted
	case !verdict.Passed:
		return statusFailed
	}
	return 0
}

func loadConfig(o options.Options) load.Config {
	config := load.Config{
		Requests: o.Requests, Concurrency: o.Concurrency, MaxRateLimit: o.MaxRateLimit, GlobalLimit: o.GlobalLimit,
	}
	if o.Target != nil {
		config.Real = &load.Real{Target: o.Target, Path: o.Path, Token: o.Token}
		return config
	}
	quotas := map[string]func(int, time.Duration) discordsim.Quota{
		"fixed": discordsim.Fixed, "sliding": discordsim.Sliding, "leaky": discordsim.Leaky,
	}
	config.Simulated = load.Simulated{
		Channels: o.Buckets,
		Quota:    quotas[o.Kind](o.Limit, o.Window),
		Latency:  discordsim.Latency{RoundTrip: o.Latency, Jitter: o.Jitter},
		Seed:     o.Seed,
	}
	return config
}

// verdictOf applies -fail-on-429 and -min-efficiency. In any case, no request may fail, and not all be refused early.
func verdictOf(o options.Options, result load.Result) output.Verdict {
	reasons := []string{}
	if result.Interrupted {
		reasons = append(reasons, "interrupted")
	}
	if n := result.Failed(); n > 0 {
		reasons = append(reasons, fmt.Sprintf("%d of %d requests failed", n, result.Requests))
	} else if result.Answered == 0 {
		reasons = append(reasons, "no request was answered")
	}
	if n := result.Refused.Total(); o.FailOn429 && n > 0 {
		reasons = append(reasons, fmt.Sprintf("%d 429s, and -fail-on-429 wants none", n))
	}
	if wanted := o.MinEfficiency; wanted > 0 && result.Certain() < wanted {
		reasons = append(reasons, fmt.Sprintf("%.3f of the certain ideal, and -min-efficiency wants %g", result.Certain(), wanted))
	}
	return output.Verdict{Passed: len(reasons) == 0, Reasons: reasons}
}
