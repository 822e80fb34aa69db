// Package share measures how well several processes share limits: it starts real ones, gives each a transport of its own whose
// limits they share through a Redis or Valkey server, and has them all send to one simulated Discord on the loopback interface.
//
// The processes are this very program, started again with [ChildVariable] set. Each is a proxy at an address that it writes to its standard
// output, with a transport of its own. The parent makes all requests, each with one of the processes, and ends them: a child whose input
// ends does so, too, so that none outlives its parent. Where accidents happen, processes are ended and killed; another one then starts in
// the place of each.
//
// Whoever limits requests is certain of little: it learns of a reset one way late and its next request arrives one way later.
// The ideal that efficiency is measured against is that of discordsim.Certain with the smallest round trip, for one client
// that does the work of all processes.
package share

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/ratelight/ratelight/bench/internal/report"
)

// Options are about the run and not about a scenario, as flags.
type Options struct {
	Scenarios []string `arg:"" name:"name" optional:"" help:"Scenarios to run, one after the other, all of them without a name; or list for their names."`

	Processes int           `group:"Processes" range:"1..64" default:"4" help:"Number of processes to start, which share limits through a Redis or Valkey server."`
	Redis     string        `group:"Processes" placeholder:"URL" secret:"" help:"Server for the shared limits, such as redis://127.0.0.1:6379; by default an installed server is started, and stopped afterwards; never printed."`
	Length    time.Duration `group:"Processes" range:"3s..10m" default:"20s" help:"Approximate duration of a scenario; 1m10s or more with -disturb, and 1m10s unless given."`
	Seed      uint64        `group:"Processes" default:"1" help:"Seed of the random numbers."`
	Disturb   bool          `group:"Accidents" help:"Restart all processes one after the other, kill half of them, freeze the server for 3 s, kill it and restart it from an old snapshot, and empty; judge what each costs: 429s, and the time until requests are served again; all scenarios run at the same time."`
	Outage    string        `group:"Accidents" enum:"wait,fail,share,full" default:"wait" help:"What processes do while the server is unavailable: wait, fail waiting requests, share (divide the limits among them), or full (each uses all of every limit); only wait has a verdict on its cost."`

	report.Demand `embed:""`
	// Record keeps what happened, request by request, for the page.
	Record bool `kong:"-"`
	// Begin is told what begins. Done is called for every request that has an outcome. Both may be called by several goroutines at once.
	Begin func(what string) `kong:"-"`
	Done  func()            `kong:"-"`
}

// LengthOfAccidents is how long a scenario takes at least in which accidents happen.
const LengthOfAccidents = 70 * time.Second

// Run runs the scenarios. What was done before the context ended is shown. Errors are about processes or an engine that do not work, or
// unknown names.
func Run(ctx context.Context, o Options) (*report.Report, error) {
	scenarios, err := o.Find()
	if err != nil {
		return nil, err
	}
	group, failed := errgroup.WithContext(ctx)
	if !o.Disturb {
		group.SetLimit(1) // one scenario after the other
	} else {
		o.Begin(fmt.Sprintf("%s, about %v", strings.Join(names(scenarios), " and "), o.Length))
	}
	parts := make([]*report.Report, len(scenarios))
	for i, s := range scenarios {
		group.Go(func() error {
			if i > 0 && !o.Disturb && failed.Err() != nil {
				return nil
			}
			if !o.Disturb {
				o.Begin(fmt.Sprintf("%d of %d: %s, about %v", i+1, len(scenarios), s.Name, o.Length))
			}
			r, err := runScenario(failed, s, o)
			interrupted := ctx.Err() != nil
			switch {
			case err != nil && interrupted:
				r = &result{Scenario: s}
			case err != nil:
				return fmt.Errorf("scenario %s: %w", s.Name, err)
			}
			r.interrupted = interrupted
			parts[i] = r.report(o.Demand)
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	parts = slices.DeleteFunc(parts, func(part *report.Report) bool { return part == nil })
	return &report.Report{
		Title: processes(o.Processes) + " that share limits", About: o.about(), Parts: parts, Verdict: report.Together(parts),
	}, nil
}
