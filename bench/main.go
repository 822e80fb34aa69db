// Command bench measures Ratelight: a load through its transport to a simulated or a real server, the scenarios that
// judge its limiter, a soak, and a search for the max rate limit to set. See its -h, and `go test -bench . ./bench` for what
// a request costs.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/ratelight/ratelight/bench/internal/report"
	"github.com/ratelight/ratelight/bench/internal/share"
)

// The exit statuses, beside 0.
const (
	statusFailed      = 1   // a verdict failed, or the machine did not let us work
	statusUsage       = 2   // invalid flags
	statusInterrupted = 130 // as shells report SIGINT
)

func main() {
	if os.Getenv(share.ChildVariable) != "" {
		os.Exit(child())
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the program at once
	p := &program{ctx: ctx, stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr}
	os.Exit(p.run(os.Args[1:]))
}

// program is what the commands need of the world around them.
type program struct {
	ctx            context.Context
	stdin          io.Reader
	stdout, stderr io.Writer
}

// run is the whole program. It returns the exit status.
func (p *program) run(arguments []string) int {
	command, err := p.parse(arguments)
	if err == nil && command != nil {
		err = command.Run(p)
	}
	var status statusError
	var misuse misuseError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &status):
		return int(status)
	case errors.As(err, &misuse):
		fmt.Fprintf(p.stderr, "bench: %v\nRun it with -h for flags and examples.\n", err)
		return statusUsage
	}
	fmt.Fprintf(p.stderr, "bench: %v\n", err)
	return statusFailed
}

// statusError ends the program when all is said.
type statusError int

func (s statusError) Error() string { return fmt.Sprintf("status %d", int(s)) }

// misuseError is about the command line.
type misuseError struct{ error }

func misused(format string, values ...any) error { return misuseError{fmt.Errorf(format, values...)} }

// output is how a command shows what it measured.
type output struct {
	JSON   bool   `group:"Output and verdict" help:"Print JSON and nothing else to standard output."`
	Report string `group:"Output and verdict" placeholder:"FILE" help:"Write a page of charts to this file, to open in a browser; it needs no other files and no network."`
}

func (o *output) checkReport() error {
	if o.Report == "" {
		return nil
	}
	if err := report.CheckFile(o.Report); err != nil {
		return fmt.Errorf("-report: expected a file that can be written: %w", err)
	}
	return nil
}

// progress shows how far a run has come, unless there is to be JSON and nothing else.
func (o *output) progress(p *program, requests int) *report.Progress {
	if o.JSON {
		return report.NewProgress(io.Discard, requests)
	}
	return report.NewProgress(p.stderr, requests)
}

// show writes the page if one is wanted, and says where. It comes before other output, which may end the program: Ctrl-C also ends
// whatever that is piped into. The error is the exit status.
func (o *output) show(p *program, r *report.Report) error {
	var unwritten error
	if o.Report != "" {
		if err := r.WriteFile(o.Report); err != nil {
			unwritten = fmt.Errorf("-report: %w", err)
		} else {
			fmt.Fprintf(p.stderr, "The report is in %s.\n", o.Report)
		}
	}
	write := r.WriteText
	if o.JSON {
		write = r.WriteJSON
	}
	if err := errors.Join(write(p.stdout), unwritten); err != nil {
		return err
	}
	switch {
	case r.Verdict.Status == report.Interrupted:
		return statusError(statusInterrupted)
	case !r.Verdict.Good():
		return statusError(statusFailed)
	}
	return nil
}

// judged is an output with a verdict on what the caller asks of a run.
type judged struct {
	report.Demand `embed:""`
	output        `embed:""`
}
