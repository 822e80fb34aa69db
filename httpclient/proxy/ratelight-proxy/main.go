// Command ratelight-proxy serves the handler of package proxy. A bot in any language observes Discord's limits if the
// base URL of its library is the URL of the proxy. Without flags, the proxy listens on 127.0.0.1:8080. See
// ../README.md.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
)

// These are the exit statuses.
const (
	ok         = 0
	failed     = 1
	wrongUsage = 2
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// run serves until the context ends, and returns the exit status.
func run(ctx context.Context, arguments []string, stdout, stderr io.Writer) int {
	c, err := parse(arguments, stdout, stderr)
	if errors.Is(err, errDone) {
		return ok
	}
	var s *service
	if err == nil {
		s, err = newService(c, stderr)
	}
	if err != nil {
		fmt.Fprintf(stderr, "ratelight-proxy: %v\n", err)
		if errors.Is(err, errUnavailable) {
			return failed
		}
		return wrongUsage
	}
	if c.Check {
		s.close()
		fmt.Fprintln(stdout, "the configuration is valid")
		return ok
	}
	defer s.journal.end()
	defer s.close()
	if err := s.serve(ctx); err != nil {
		fmt.Fprintf(stderr, "ratelight-proxy: %v\n", err)
		return failed
	}
	return ok
}

func version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(unknown)"
}
