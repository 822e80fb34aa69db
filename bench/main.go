// Command bench measures Ratelight. It sends a load through the transport to a simulated or a real server, or judges
// the limiter by scenarios. It also judges processes that share limits, runs a soak, and searches for the max rate
// limit to set. Run it with -h for its flags, and `go test -bench . ./bench` for the cost of a request.
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

// Exit statuses other than 0.
const (
	statusFailed      = 1   // a verdict failed, the machine stalled, or there was an error
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

// program holds the context and the streams that the commands use.
type program struct {
	ctx            context.Context
	stdin          io.Reader
	stdout, stderr io.Writer
}

// run runs the program and returns its exit status.
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

// statusError ends the program with an exit status and without a message.
type statusError int

func (s statusError) Error() string { return fmt.Sprintf("status %d", int(s)) }

// misuseError reports an invalid command line.
type misuseError struct{ error }

func misused(format string, values ...any) error { return misuseError{fmt.Errorf(format, values...)} }

// output has the flags for how a command shows its result.
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

// progress starts to show the progress of a run on standard error. With -json it shows nothing.
func (o *output) progress(p *program, requests int) *report.Progress {
	if o.JSON {
		return report.NewProgress(io.Discard, requests)
	}
	return report.NewProgress(p.stderr, requests)
}

// show writes the page, if there is to be one, and then the report as text or JSON. The page comes first, because
// Ctrl-C may end the program that the report is piped into. The error says which exit status to use.
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

// judged is an output with flags for what the caller demands of a run.
type judged struct {
	report.Demand `embed:""`
	output        `embed:""`
}
