// Command peers sends the same requests through several limiters to a simulated Discord, and compares the results. The
// limiters are Ratelight, the limiters of discordgo, disgo and arikawa, and golang.org/x/time/rate. One client has no
// limiter.
//
//	cd bench/peers && go run .
//
// Run it with -h for its flags.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
)

// Exit statuses other than 0.
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

// program runs the command and returns its exit status.
func program(ctx context.Context, arguments []string, stdout, stderr io.Writer) int {
	o, err := parse(arguments, stdout)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		fmt.Fprintf(stderr, "peers: %v\nRun it with -h for all flags.\n", err)
		return statusUsage
	case os.Getenv(childVariable) != "":
		var r result
		if r, err = measure(ctx, o.contenders[0], o.scenarios[0], o.seed, realTime); err == nil {
			err = json.NewEncoder(stdout).Encode(r)
		}
	default:
		err = show(ctx, o, stdout, stderr)
	}
	switch {
	case err != nil:
		fmt.Fprintln(stderr, "peers:", err)
		return statusFailed
	case ctx.Err() != nil:
		return statusInterrupted
	}
	return 0
}

func show(ctx context.Context, o options, stdout, progress io.Writer) error {
	if o.json {
		progress = io.Discard
	}
	r, err := compare(ctx, o, progress)
	switch {
	case err != nil:
		return err
	case o.json:
		return r.WriteJSON(stdout)
	}
	return r.WriteText(stdout)
}

// options holds the parsed command line.
type options struct {
	scenarios  []scenario
	contenders []contender
	quick      bool
	seed       uint64
	json       bool
	here       bool // run all contenders in this process, for tests
}

const introduction = `Usage: go run . [flags]

Sends the same requests through Ratelight and through other limiters to a simulated Discord on this machine, and
compares how close each comes to the ideal, how many 429s it gets, and how many calls never end. Each contender runs in
its own process. All contenders of a scenario run at the same time, one scenario after the other. The whole comparison
takes about a minute and a half.

`

const conclusion = `
Exit status of the built program (go run itself exits with 1 if it is not 0): 0 the comparison ran, whatever the
result, 1 it could not run, 2 invalid flags, 130 interrupted.
`

// parse parses the arguments after the program's name. The error is flag.ErrHelp if it has written help.
func parse(arguments []string, help io.Writer) (o options, err error) {
	set := flag.NewFlagSet("peers", flag.ContinueOnError)
	scenarioNames := set.String("scenario", "all", "`names`, separated by commas: "+listed(scenarios(false)))
	contenderNames := set.String("contender", "limiters", "`names`, separated by commas, or all: "+listed(contenders())+
		"\nlimiters: different limiters; hooks: the libraries with and without Ratelight under them")
	set.BoolVar(&o.quick, "quick", false, "two fifths of the requests, in less than a minute")
	set.Uint64Var(&o.seed, "seed", 1, "seed of the random numbers")
	set.BoolVar(&o.json, "json", false, "print JSON and nothing else to standard output")
	set.Usage = func() {}
	set.SetOutput(io.Discard)
	if err = set.Parse(arguments); errors.Is(err, flag.ErrHelp) {
		set.SetOutput(help)
		fmt.Fprint(help, introduction)
		set.PrintDefaults()
		fmt.Fprint(help, conclusion)
	}
	if err != nil {
		return o, err
	}
	if set.NArg() > 0 {
		return o, fmt.Errorf("%q is not a flag: expected flags only", set.Arg(0))
	}
	if o.scenarios, err = find(*scenarioNames, scenarios(o.quick)); err != nil {
		return o, fmt.Errorf("-scenario: %w", err)
	}
	switch *contenderNames {
	case "limiters":
		o.contenders = limiters()
	case "hooks":
		o.contenders = hooks()
	default:
		if o.contenders, err = find(*contenderNames, contenders()); err != nil {
			return o, fmt.Errorf("-contender: %w", err)
		}
	}
	return o, nil
}

func (s scenario) String() string  { return s.name }
func (c contender) String() string { return c.name }

// find returns the entries of list with the wanted names, which are separated by commas, in the order of the list.
func find[T fmt.Stringer](wanted string, list []T) ([]T, error) {
	if wanted == "all" {
		return list, nil
	}
	names := strings.Split(wanted, ",")
	for _, name := range names {
		if !slices.ContainsFunc(list, func(one T) bool { return one.String() == name }) {
			return nil, fmt.Errorf("unknown name %q: expected all, or some of %s", name, listed(list))
		}
	}
	return slices.DeleteFunc(list, func(one T) bool { return !slices.Contains(names, one.String()) }), nil
}

// listed returns the names of scenarios or contenders, separated by commas.
func listed[T any](list []T) string {
	return strings.ReplaceAll(strings.Trim(fmt.Sprint(list), "[]"), " ", ", ")
}
