// Command peers sends the same work through Ratelight, through discordgo, disgo and arikawa with their own limiters, through
// golang.org/x/time/rate and through no limiter at all, against a simulated Discord, and compares what becomes of it.
//
//	cd bench/peers && go run .
//
// See its -h.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"syscall"
)

// The exit statuses, beside 0.
const (
	statusFailed      = 1
	statusUsage       = 2   // invalid flags
	statusInterrupted = 130 // as shells report SIGINT
)

func main() {
	log.SetOutput(io.Discard) // discordgo reports its retries here
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the program at once
	os.Exit(program(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// program is the whole program. It returns the exit status.
func program(ctx context.Context, arguments []string, stdout, stderr io.Writer) int {
	o, err := parse(arguments)
	if errors.Is(err, errHelp) {
		fmt.Fprint(stdout, help())
		return 0
	}
	if err != nil {
		fmt.Fprintf(stderr, "peers: %v\nRun it with -h for all flags and examples.\n", err)
		return statusUsage
	}
	if err := compare(ctx, o, stdout, stderr); err != nil {
		fmt.Fprintln(stderr, "peers:", err)
		return statusFailed
	}
	if ctx.Err() != nil {
		return statusInterrupted
	}
	return 0
}
