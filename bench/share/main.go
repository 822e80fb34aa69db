// Command share measures how well several processes share limits. It starts real processes, with a Redis or Valkey
// server between them. Run it with -h for its flags.
package main

import (
	_ "embed"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/signal"
	"slices"

	"github.com/alecthomas/kong"

	"github.com/ratelight/ratelight/bench/internal/command"
	"github.com/ratelight/ratelight/bench/internal/report"
	"github.com/ratelight/ratelight/bench/internal/share"
)

//go:embed help.txt
var examples string

func main() {
	if os.Getenv(share.ChildVariable) != "" {
		os.Exit(child())
	}
	program().Main()
}

func program() command.Program {
	return command.Program{Name: "share", Grammar: new(shareCommand), Kong: []kong.Option{kong.Description(introduction), kong.Help(help)}}
}

const introduction = "Judges processes that share their limits through a Redis or Valkey server."

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
	share.Options  `embed:""`
	command.Output `embed:""`
}

func (c *shareCommand) Check(given map[string]bool) error {
	if c.Redis != "" {
		// The error does not repeat the URL, because it may contain a password.
		u, err := url.Parse(c.Redis)
		if err != nil || u.Scheme == "" || u.Host == "" && u.Path == "" {
			return errors.New("-redis is not the URL of a server: expected one such as redis://127.0.0.1:6379")
		}
	}
	if err := c.CheckList(c.Scenarios); err != nil || !c.Disturb {
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
func (c *shareCommand) Run(p *command.Program) error {
	if slices.Contains(c.Scenarios, "list") {
		return c.Show(p, share.List(c.Options))
	}
	scenarios, err := c.Find()
	if err != nil {
		return command.Misuse(err)
	}
	requests := 0
	for _, s := range scenarios {
		requests += s.Requests(c.Length)
	}
	progress := c.Progress(p, requests)
	defer progress.End()
	c.Begin, c.Done, c.Record = progress.Begin, progress.Step, c.Report != ""
	r, err := share.Run(p.Context, c.Options)
	if err != nil {
		return err
	}
	progress.End()
	return c.Show(p, r)
}

// child runs the program as one of the processes. It ignores Ctrl-C, which reaches all of them: the parent ends it.
func child() int {
	signal.Ignore(os.Interrupt)
	if err := share.Child(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintf(os.Stderr, "share: %v\n", err)
		return command.StatusFailed
	}
	return 0
}
