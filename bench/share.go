package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ratelight/ratelight/bench/internal/load"
	"github.com/ratelight/ratelight/bench/internal/processes"
	"github.com/ratelight/ratelight/bench/internal/report"
)

// shareCommand has several processes share limits, and judges how well.
type shareCommand struct {
	Names []string `arg:"" name:"name" optional:"" help:"Scenarios to run, one after the other, all of them without a name; or list for their names."`

	Processes int           `group:"Processes" range:"1..64" default:"4" help:"Number of processes to start, which share limits through a Redis or Valkey server."`
	Redis     string        `group:"Processes" placeholder:"URL" help:"Server for the shared limits, such as redis://127.0.0.1:6379; by default an installed server is started, and stopped afterwards; never printed."`
	Length    time.Duration `group:"Processes" range:"3s..10m" default:"20s" help:"Approximate duration of a scenario; 1m10s or more with -disturb, and 1m10s unless given."`
	Seed      uint64        `group:"Processes" default:"1" help:"Seed of the random numbers."`
	Disturb   bool          `group:"Accidents" help:"Restart all processes one after the other, kill half of them, freeze the server for 3 s, kill it and restart it from an old snapshot, and empty; judge what each costs: 429s, and the time until requests are served again; all scenarios run at the same time."`
	Outage    string        `group:"Accidents" enum:"wait,fail,share,full" default:"wait" help:"What processes do while the server is unavailable: wait, fail waiting requests, share (divide the limits among them), or full (each uses all of every limit); only wait has a verdict on its cost."`

	demand `embed:""`
	output `embed:""`
}

func (c *shareCommand) check(given map[string]bool) error {
	if c.Redis != "" {
		// What was given is not repeated, as it may contain a password.
		u, err := url.Parse(c.Redis)
		if err != nil || u.Scheme == "" || u.Host == "" && u.Path == "" {
			return errors.New("-redis is not the URL of a server: expected one such as redis://127.0.0.1:6379")
		}
	}
	if err := checkList(c.Names, c.Report); err != nil || !c.Disturb {
		if err == nil && given["outage"] {
			return errors.New("-outage has an effect only together with -disturb, which is not given")
		}
		return err
	}
	switch {
	case c.Processes < 2:
		return errors.New("-disturb is given and -processes is 1: expected 2 or more, because half of them are killed")
	case c.Redis != "":
		return errors.New("-disturb is given together with -redis: omit one of them, because -disturb freezes, kills and rolls back the server, so the program has to start it itself")
	case given["min-efficiency"]:
		return errors.New("-min-efficiency has no effect together with -disturb: omit one of them, because there is no ideal to compare with")
	case !given["length"]:
		c.Length = processes.LengthOfAccidents
	case c.Length < processes.LengthOfAccidents:
		return fmt.Errorf("-length is %s: expected %s or more with -disturb", report.Time(c.Length), report.Time(processes.LengthOfAccidents))
	}
	return nil
}

// Run runs the scenarios, or lists them.
func (c *shareCommand) Run(p *program) error {
	settings := processes.Settings{Processes: c.Processes, Length: c.Length, Seed: c.Seed, Disturb: c.Disturb, Outage: c.Outage}
	if slices.Contains(c.Names, "list") {
		return c.show(p, processes.List(settings))
	}
	scenarios, err := found(c.Names, func(name string) ([]processes.Scenario, error) { return processes.Find(name, settings) })
	if err != nil {
		return err
	}
	if err := c.output.check(); err != nil {
		return err
	}
	if settings.Executable, err = processes.Executable(); err != nil {
		return err
	}
	engine, err := processes.OpenEngine(p.ctx, c.Redis)
	if err != nil {
		return err
	}
	defer engine.Close()
	requests := 0
	for i := range scenarios {
		requests += scenarios[i].Requests(settings)
	}
	progress := c.progress(p, requests)
	defer progress.End()
	settings.Done = progress.Step
	all := &report.Report{Title: report.Counted(c.Processes, "process"), About: settings.About()}
	run := c.runEach
	if c.Disturb {
		run = c.runTogether
	}
	if all.Parts, err = run(p, progress, scenarios, engine, settings); err != nil {
		return err
	}
	progress.End()
	all.Verdict = report.Together(all.Parts)
	if p.ctx.Err() != nil {
		all.Verdict.Status = report.Interrupted
	}
	return c.show(p, all)
}

// runTogether runs all scenarios at the same time, as accidents take a minute. Each but the first has an engine of its own: their
// calls do not say whose they are, and accidents happen to it.
func (c *shareCommand) runTogether(p *program, progress *report.Progress, scenarios []processes.Scenario, engine *processes.Engine, settings processes.Settings) ([]*report.Report, error) {
	engines, names := []*processes.Engine{engine}, make([]string, len(scenarios))
	for i := range scenarios {
		names[i] = scenarios[i].Name
		if i > 0 {
			another, err := processes.OpenEngine(p.ctx, c.Redis)
			if err != nil {
				return nil, err
			}
			defer another.Close()
			engines = append(engines, another)
		}
	}
	progress.Begin(fmt.Sprintf("%s, about %v", strings.Join(names, " and "), settings.Length))
	parts, failures := make([]*report.Report, len(scenarios)), make([]error, len(scenarios))
	ctx, cancel := context.WithCancel(p.ctx)
	defer cancel()
	var group sync.WaitGroup
	for i := range scenarios {
		group.Go(func() {
			if parts[i], failures[i] = c.runOne(ctx, scenarios[i], engines[i], settings); failures[i] != nil {
				cancel()
			}
		})
	}
	group.Wait()
	return parts, errors.Join(failures...)
}

// runEach runs one scenario after the other, as the calls of an engine do not say whose they are.
func (c *shareCommand) runEach(p *program, progress *report.Progress, scenarios []processes.Scenario, engine *processes.Engine, settings processes.Settings) (parts []*report.Report, err error) {
	for i, scenario := range scenarios {
		if p.ctx.Err() != nil && len(parts) > 0 {
			break
		}
		progress.Begin(fmt.Sprintf("%d of %d: %s, about %v", i+1, len(scenarios), scenario.Name, settings.Length))
		part, err := c.runOne(p.ctx, scenario, engine, settings)
		if err != nil {
			return nil, err
		}
		parts = append(parts, part)
	}
	return parts, nil
}

func (c *shareCommand) runOne(ctx context.Context, scenario processes.Scenario, engine *processes.Engine, settings processes.Settings) (*report.Report, error) {
	trace := load.NewTrace(c.Report != "")
	result, err := processes.Run(ctx, scenario, engine, settings, trace)
	if err != nil {
		return nil, fmt.Errorf("scenario %s: %w", scenario.Name, err)
	}
	return result.Report(c.demand.report(), trace.Log()), nil
}

// child is the program when it is one of several processes. Ctrl-C in a terminal reaches all of them; it is the parent who ends
// the others.
func child() int {
	signal.Ignore(os.Interrupt)
	if err := processes.Child(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintf(os.Stderr, "bench: %v\n", err)
		return statusFailed
	}
	return 0
}
