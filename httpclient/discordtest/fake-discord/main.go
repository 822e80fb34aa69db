// Command fake-discord runs the fake Discord of package discordtest, with limits measured at the real Discord. It is
// for programs in any language that take a base URL, which the command prints. When the command is stopped (Ctrl-C), it
// prints the requests that it has refused. Until then it keeps all requests in memory.
//
//	go run ./httpclient/discordtest/fake-discord
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/ratelight/ratelight/httpclient/discordtest"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// run serves until the context ends, and returns the exit status: 1 if the server cannot listen, 2 for invalid flags,
// and 0 otherwise.
func run(ctx context.Context, arguments []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("fake-discord", flag.ContinueOnError)
	flags.SetOutput(stderr)
	listen := flags.String("listen", "127.0.0.1:8090", "`address` to listen on; only this machine can reach the default")
	latency := flags.Duration("latency", 100*time.Millisecond, "round-trip time to add to each request")
	punctual := flags.Bool("punctual", false, "let all buckets open at the times that their headers name")
	switch err := flags.Parse(arguments); {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		return 2
	case flags.NArg() > 0:
		fmt.Fprintf(stderr, "fake-discord: %q is not a flag\n", flags.Arg(0))
		return 2
	}
	limits := discordtest.Discord()
	if *punctual {
		limits = limits.Punctual()
	}
	server, err := start(limits, discordtest.Latency(*latency), discordtest.Listen(*listen))
	if err != nil {
		fmt.Fprintf(stderr, "fake-discord: %v\n", err)
		return 1
	}
	fmt.Fprintln(stdout, server.URL)
	<-ctx.Done()
	server.Close()
	for _, request := range server.Refused() {
		fmt.Fprintln(stdout, request)
	}
	fmt.Fprintf(stdout, "%d requests, %d of them refused, %d of those avoidable\n",
		len(server.Requests()), len(server.Refused()), len(server.Avoidable()))
	return 0
}

// start returns a running server, or an error about a flag or the address.
func start(rules ...discordtest.Rule) (server *discordtest.Server, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%v", p)
		}
	}()
	return discordtest.NewServer(nil, rules...), nil
}
