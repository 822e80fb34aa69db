package main

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/signal"
	"slices"

	"github.com/ratelight/ratelight/bench/internal/report"
	"github.com/ratelight/ratelight/bench/internal/share"
)

// shareCommand runs processes that share limits, and judges how well they do.
type shareCommand struct {
	share.Options `embed:""`
	output        `embed:""`
}

func (c *shareCommand) check(given map[string]bool) error {
	if c.Redis != "" {
		// The error does not repeat the URL, because it may contain a password.
		u, err := url.Parse(c.Redis)
		if err != nil || u.Scheme == "" || u.Host == "" && u.Path == "" {
			return errors.New("-redis is not the URL of a server: expected one such as redis://127.0.0.1:6379")
		}
	}
	if err := checkList(c.Scenarios, c.Report); err != nil || !c.Disturb {
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
	if slices.Contains(c.Scenarios, "list") {
		return c.show(p, share.List(c.Options))
	}
	scenarios, err := c.Find()
	if err != nil {
		return misuseError{err}
	}
	requests := 0
	for _, s := range scenarios {
		requests += s.Requests(c.Length)
	}
	progress := c.progress(p, requests)
	defer progress.End()
	c.Begin, c.Done, c.Record = progress.Begin, progress.Step, c.Report != ""
	r, err := share.Run(p.ctx, c.Options)
	if err != nil {
		return err
	}
	progress.End()
	return c.show(p, r)
}

// child runs the program as one of the processes. It ignores Ctrl-C, which reaches all of them: the parent ends it.
func child() int {
	signal.Ignore(os.Interrupt)
	if err := share.Child(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintf(os.Stderr, "bench: %v\n", err)
		return statusFailed
	}
	return 0
}
