package main

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/signal"
	"slices"
	"time"

	"github.com/ratelight/ratelight/bench/internal/report"
	"github.com/ratelight/ratelight/bench/internal/share"
)

// shareCommand has several processes share limits, and judges how well.
type shareCommand struct {
	Names []string `arg:"" name:"name" optional:"" help:"Scenarios to run, one after the other, all of them without a name; or list for their names."`

	Processes int           `group:"Processes" range:"1..64" default:"4" help:"Number of processes to start, which share limits through a Redis or Valkey server."`
	Redis     string        `group:"Processes" placeholder:"URL" secret:"" help:"Server for the shared limits, such as redis://127.0.0.1:6379; by default an installed server is started, and stopped afterwards; never printed."`
	Length    time.Duration `group:"Processes" range:"3s..10m" default:"20s" help:"Approximate duration of a scenario; 1m10s or more with -disturb, and 1m10s unless given."`
	Seed      uint64        `group:"Processes" default:"1" help:"Seed of the random numbers."`
	Disturb   bool          `group:"Accidents" help:"Restart all processes one after the other, kill half of them, freeze the server for 3 s, kill it and restart it from an old snapshot, and empty; judge what each costs: 429s, and the time until requests are served again; all scenarios run at the same time."`
	Outage    string        `group:"Accidents" enum:"wait,fail,share,full" default:"wait" help:"What processes do while the server is unavailable: wait, fail waiting requests, share (divide the limits among them), or full (each uses all of every limit); only wait has a verdict on its cost."`

	judged `embed:""`
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
		return errors.New("-disturb is given together with -redis: omit one of them, " +
			"because -disturb freezes, kills and rolls back the server, so the program has to start it itself")
	case given["min-efficiency"]:
		return errors.New("-min-efficiency has no effect together with -disturb: omit one of them, because there is no ideal to compare with")
	case !given["length"]:
		c.Length = share.LengthOfAccidents
	case c.Length < share.LengthOfAccidents:
		return fmt.Errorf("-length is %s: expected %s or more with -disturb", report.Time(c.Length), report.Time(share.LengthOfAccidents))
	}
	return nil
}

// Run runs the scenarios, or lists them.
func (c *shareCommand) Run(p *program) error {
	o := share.Options{
		Processes: c.Processes, Scenarios: c.Names, Length: c.Length, Seed: c.Seed, Disturb: c.Disturb, Outage: c.Outage, Redis: c.Redis,
		Demand: c.demand(), Record: c.Report != "",
	}
	if slices.Contains(c.Names, "list") {
		return c.show(p, share.List(o))
	}
	scenarios, err := o.Find()
	if err != nil {
		return misuseError{err}
	}
	if err := c.output.check(); err != nil {
		return err
	}
	requests := 0
	for _, s := range scenarios {
		requests += s.Requests(o.Length)
	}
	progress := c.progress(p, requests)
	defer progress.End()
	o.Begin, o.Done = progress.Begin, progress.Step
	r, err := share.Run(p.ctx, o)
	if err != nil {
		return err
	}
	progress.End()
	return c.show(p, r)
}

// child is the program when it is one of several processes. Ctrl-C in a terminal reaches all of them; it is the parent who ends
// the others.
func child() int {
	signal.Ignore(os.Interrupt)
	if err := share.Child(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintf(os.Stderr, "bench: %v\n", err)
		return statusFailed
	}
	return 0
}
