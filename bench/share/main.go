// Command share judges processes that share limits. It starts real processes with an installed Redis or Valkey server
// between them, the engine, and one simulated Discord on the loopback interface. Run it with -h for its flags.
//
// The processes run this program with the environment variable childVariable. Each is a proxy with a transport of its
// own, at an address that it writes to its standard output. The parent makes all requests, each through one of the
// processes, and ends the processes. A child also ends when its input ends, so that none outlives its parent.
package main

import (
	_ "embed"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/signal"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"github.com/ratelight/ratelight/bench/internal/command"
	"github.com/ratelight/ratelight/bench/internal/report"
)

//go:embed help.txt
var examples string

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
		kong.Description("Judges processes that share their limits through a Redis or Valkey server."), kong.Help(help),
	}}
}

// help prints kong's help, followed by examples.
func help(options kong.HelpOptions, ctx *kong.Context) error {
	if err := kong.DefaultHelpPrinter(options, ctx); err != nil {
		return err
	}
	_, err := fmt.Fprint(ctx.Stdout, examples)
	return err
}

// shareCommand runs processes that share limits, and judges how well they do.
type shareCommand struct {
	Scenarios []string `arg:"" name:"name" optional:"" help:"Scenarios to run, all of them without a name: one-bucket, own-buckets, foreign-traffic."`

	Processes int           `group:"Processes" range:"2..64" default:"4" help:"Number of processes to start, which share limits through a Redis or Valkey server."`
	Redis     string        `group:"Processes" placeholder:"URL" secret:"" help:"Server for the shared limits, such as redis://127.0.0.1:6379; by default an installed server is started, and stopped afterwards; never printed."`
	Length    time.Duration `group:"Processes" range:"10s..10m" default:"20s" help:"Approximate duration of a scenario."`
	Seed      uint64        `group:"Processes" default:"1" help:"Seed of the random numbers."`

	report.Demand  `embed:""`
	command.Output `embed:""`
}

// Check validates the flags. Its errors do not repeat the URL of the server, because it may contain a password.
func (c *shareCommand) Check(map[string]bool) error {
	if c.Redis != "" {
		u, err := url.Parse(c.Redis)
		if err != nil || u.Scheme == "" || u.Host == "" && u.Path == "" {
			return errors.New("-redis is not the URL of a server: expected one such as redis://127.0.0.1:6379")
		}
	}
	known := names(c.all())
	for _, name := range c.Scenarios {
		if !slices.Contains(known, name) {
			return fmt.Errorf("there is no scenario %q: choose from %s", name, strings.Join(known, ", "))
		}
	}
	return nil
}

// Run runs the scenarios, one after the other.
func (c *shareCommand) Run(p *command.Program) error {
	scenarios := slices.DeleteFunc(c.all(), func(s scenario) bool {
		return len(c.Scenarios) > 0 && !slices.Contains(c.Scenarios, s.name)
	})
	requests := 0
	for _, s := range scenarios {
		requests += s.requests()
	}
	progress := c.Progress(p, requests)
	defer progress.End()
	var parts []*report.Report
	for i := 0; i < len(scenarios) && (i == 0 || p.Context.Err() == nil); i++ {
		part, err := runScenario(p.Context, &scenarios[i], c, progress.Step)
		if err != nil {
			return fmt.Errorf("scenario %s: %w", scenarios[i].name, err)
		}
		parts = append(parts, part)
	}
	progress.End()
	about := fmt.Sprintf("%d processes of this machine, limits of 5 per second in fixed windows, 10 to 40 ms each way; about %s each; seed %d",
		c.Processes, report.Time(c.Length), c.Seed)
	return c.Show(p, &report.Report{About: []string{about}, Parts: parts, Verdict: report.Together(parts)}, command.Page{})
}

func names(scenarios []scenario) (names []string) {
	for _, s := range scenarios {
		names = append(names, s.name)
	}
	return names
}
