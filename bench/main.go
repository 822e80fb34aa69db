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

	"github.com/ratelight/ratelight/bench/internal/options"
	"github.com/ratelight/ratelight/bench/internal/processes"
)

// The exit statuses, beside 0.
const (
	statusFailed      = 1   // a verdict failed, or the machine did not let us work
	statusUsage       = 2   // invalid flags
	statusInterrupted = 130 // as shells report SIGINT
)

func main() {
	if os.Getenv(processes.ChildVariable) != "" {
		os.Exit(child())
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the program at once
	os.Exit(run(ctx, os.Args[1:], os.Getenv, os.Stdout, os.Stderr))
}

// run is the whole program. It returns the exit status.
func run(ctx context.Context, arguments []string, environment func(string) string, stdout, stderr io.Writer) int {
	if len(arguments) > 0 && arguments[0] == "tune" {
		return recommend(ctx, arguments[1:], os.Stdin, stdout, stderr)
	}
	o, err := options.Parse(arguments, environment)
	if errors.Is(err, options.ErrHelp) {
		fmt.Fprint(stdout, options.Help())
		return 0
	}
	if err != nil {
		return misused(stderr, err)
	}
	switch {
	case o.Processes > 0:
		return shareBetween(ctx, o, stdout, stderr)
	case o.Soak > 0:
		return soakFor(ctx, o, stdout, stderr)
	case o.Scenario != "":
		return judge(ctx, o, stdout, stderr)
	}
	return measure(ctx, o, stdout, stderr)
}

func misused(stderr io.Writer, err error) int {
	fmt.Fprintf(stderr, "bench: %v\nRun it with -h for all flags and examples.\n", err)
	return statusUsage
}

func failed(stderr io.Writer, err error) int {
	fmt.Fprintf(stderr, "bench: %v\n", err)
	return statusFailed
}

// unless returns the writer, or one to nowhere.
func unless(quiet bool, w io.Writer) io.Writer {
	if quiet {
		return io.Discard
	}
	return w
}
