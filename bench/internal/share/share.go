// Package share measures how well several processes share limits. It starts real processes, each with its own
// transport. They share limits through a Redis or Valkey server, and send to one simulated Discord on the loopback
// interface.
//
// The processes run this program with [ChildVariable] set. Each is a proxy at an address that it writes to its standard
// output. The parent makes all requests, each through one of the processes, and ends the processes. A child also ends
// when its input ends, so that none outlives its parent. After an accident a new process replaces one that has ended.
//
// A client that must be sure learns of a reset one way late, and its next request arrives one way later. Efficiency is
// measured against the ideal of discordsim.Certain, for one client with the smallest round trip and the work of all.
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

// Options are the flags of a run.
type Options struct {
	Scenarios []string `arg:"" name:"name" optional:"" help:"Scenarios to run, one after the other, all of them without a name; or list for their names."`

	Processes int           `group:"Processes" range:"1..64" default:"4" help:"Number of processes to start, which share limits through a Redis or Valkey server."`
	Redis     string        `group:"Processes" placeholder:"URL" secret:"" help:"Server for the shared limits, such as redis://127.0.0.1:6379; by default an installed server is started, and stopped afterwards; never printed."`
	Length    time.Duration `group:"Processes" range:"3s..10m" default:"20s" help:"Approximate duration of a scenario; 1m10s or more with -disturb, and 1m10s unless given."`
	Seed      uint64        `group:"Processes" default:"1" help:"Seed of the random numbers."`
	Disturb   bool          `group:"Accidents" help:"Restart all processes one after the other, kill half of them, freeze the server for 3 s, kill it and restart it from an old snapshot, and empty; judge what each costs: 429s, and the time until requests are served again; all scenarios run at the same time."`
	Outage    string        `group:"Accidents" enum:"wait,fail,share,full" default:"wait" help:"What processes do while the server is unavailable: wait, fail waiting requests, share (divide the limits among them), or full (each uses all of every limit); only wait has a verdict on its cost."`

	report.Demand `embed:""`
	// Record enables the log of every request, for the page.
	Record bool `kong:"-"`
	// Begin is called with a text that says what begins. Done is called for every request that has an outcome; it may
	// be nil. Several goroutines may call both at once.
	Begin func(what string) `kong:"-"`
	Done  func()            `kong:"-"`
}

// LengthOfAccidents is the minimum length of a scenario with accidents.
const LengthOfAccidents = 70 * time.Second

// Run runs the scenarios. When the context ends, it returns what was measured until then. The error reports an unknown
// name, or a process or an engine that failed.
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
