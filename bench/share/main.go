// Command share judges processes that share limits. It starts real processes with an installed Redis or Valkey server
// between them, and one simulated Discord on the loopback interface. Run it with -h for its flags.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"time"

	"github.com/alecthomas/kong"

	"github.com/ratelight/ratelight/bench/internal/command"
	"github.com/ratelight/ratelight/bench/internal/load"
	"github.com/ratelight/ratelight/bench/internal/report"
)

func main() {
	if os.Getenv(childVariable) != "" {
		signal.Ignore(os.Interrupt) // Ctrl-C reaches all processes, and the parent ends the others
		if err := child(os.Stdin, os.Stdout); err != nil {
			fmt.Fprintf(os.Stderr, "share: %v\n", err)
			os.Exit(command.StatusFailed)
		}
		return
	}
	program().Main()
}

func program() command.Program {
	return command.Program{Name: "share", Grammar: new(shareCommand), Kong: []kong.Option{
		kong.Description("Judges processes that share limits through a Redis or Valkey server. " +
			"It starts the server and the processes. All scenarios together take 70 s."),
		kong.Vars{
			"about_names":     "Scenarios to run; without a name, all of them: one-bucket, own-buckets, foreign-traffic.",
			"about_processes": "Number of processes to start, which share limits through a Redis or Valkey server.",
		},
	}}
}

// shareCommand runs processes that share limits, and judges how well they do.
type shareCommand struct {
	Names []string `arg:"" name:"name" optional:"" help:"${about_names}"`

	Processes int           `group:"Processes" range:"2..64" default:"4" help:"${about_processes}"`
	Length    time.Duration `group:"Processes" range:"10s..2m" default:"20s" help:"Approximate duration of a scenario."`
	Seed      uint64        `group:"Processes" default:"1" help:"Seed of the random numbers."`

	command.Output `embed:""`
}

// mostCalls has the largest accepted number of calls to the Redis or Valkey server per request, by scenario.
var mostCalls = map[string]float64{"one-bucket": 4, "own-buckets": 0.1, "foreign-traffic": 0.4}

// Check returns an error if a name is not that of a scenario.
func (c *shareCommand) Check(map[string]bool) error {
	for _, name := range c.Names {
		if mostCalls[name] == 0 {
			return fmt.Errorf("there is no scenario %q: see -h", name)
		}
	}
	return nil
}

// Run runs the scenarios, one after the other.
func (c *shareCommand) Run(p *command.Program) error {
	scenarios := slices.DeleteFunc(load.Shared(c.Processes, c.Length, c.Seed), func(s load.Scenario) bool {
		return len(c.Names) > 0 && !slices.Contains(c.Names, s.Name)
	})
	var parts []*report.Report
	for i := 0; i < len(scenarios) && (i == 0 || p.Context.Err() == nil); i++ {
		c.Begin(p, fmt.Sprintf("%s, about %s", scenarios[i].Name, report.Time(c.Length)))
		part, err := c.run(p.Context, &scenarios[i])
		if err != nil {
			return fmt.Errorf("scenario %s: %w", scenarios[i].Name, err)
		}
		parts = append(parts, part)
	}
	about := fmt.Sprintf("%d processes of this machine, limits of 5 per second in fixed windows, "+
		"10 to 40 ms each way; about %s each; seed %d", c.Processes, report.Time(c.Length), c.Seed)
	return c.Show(p, &report.Report{About: []string{about}, Parts: parts, Verdict: report.Together(parts)}, command.Page{})
}

// run runs a scenario with processes of its own. It also judges the number of calls to the Redis or Valkey server.
func (c *shareCommand) run(ctx context.Context, s *load.Scenario) (*report.Report, error) {
	var f *fleet
	result, err := s.Run(ctx, load.Settings{Seed: c.Seed, RealTime: true,
		Connect: func(ctx context.Context, discord string) (_ load.Client, err error) {
			f, err = start(ctx, c.Processes, discord)
			return f, err
		}})
	if err != nil {
		return nil, err
	}
	calls, err := f.ended()
	if err != nil {
		return nil, err
	}
	r := result.Report()
	callsEach := float64(calls) / float64(s.Requests())
	r.Facts = append(r.Facts, report.Fact{Name: "calls per request", Key: "calls_per_request",
		Value:  report.Data(callsEach).As(fmt.Sprintf("%.3f", callsEach)),
		Column: "calls per\nrequest", Note: "calls to the server of shared limits, for each request"})
	if most := mostCalls[s.Name]; callsEach > most && r.Verdict.Status != report.Interrupted {
		reason := fmt.Sprintf("%.3f calls to the server per request, at most %.2f wanted", callsEach, most)
		r.Verdict = report.Judge("", append(slices.Clone(r.Verdict.Reasons), reason)...)
	}
	return r, nil
}
