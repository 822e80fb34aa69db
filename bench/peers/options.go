package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"
)

// errHelp is returned by parse when help is asked for.
var errHelp = errors.New("help requested")

// options are what the command line says.
type options struct {
	scenarios  []scenario
	contenders []contender
	quick      bool
	seed       uint64
	json       bool
	here       bool
}

// parse reads the arguments after the program's name. The error is errHelp or says what is wrong with them.
func parse(arguments []string) (o options, err error) {
	set := flag.NewFlagSet("peers", flag.ContinueOnError)
	set.SetOutput(io.Discard)
	set.Usage = func() {}
	scenarios := set.String("scenario", "all", "")
	contenders := set.String("contender", "limiters", "")
	set.BoolVar(&o.quick, "quick", false, "")
	set.Uint64Var(&o.seed, "seed", 1, "")
	set.BoolVar(&o.json, "json", false, "")
	set.BoolVar(&o.here, "here", false, "")
	if err := set.Parse(arguments); errors.Is(err, flag.ErrHelp) {
		return o, errHelp
	} else if err != nil {
		return o, err
	}
	if set.NArg() > 0 {
		return o, fmt.Errorf("%q is not a flag: expected flags only", set.Arg(0))
	}
	if o.scenarios, err = findScenarios(*scenarios, o.quick); err != nil {
		return o, fmt.Errorf("-scenario: %w", err)
	}
	if o.contenders, err = findContenders(*contenders); err != nil {
		return o, fmt.Errorf("-contender: %w", err)
	}
	return o, nil
}

// help is what -h prints.
func help() string {
	var b strings.Builder
	b.WriteString(`Usage: go run . [flags]

Sends the same requests through Ratelight and through other limiters to a simulated Discord on this machine, and compares
how close each comes to the ideal, its 429s, and calls that never end. Each contender runs in its own process, all of one
scenario at the same time, one scenario after the other. It takes about a minute and a half.

  -quick            a third of the requests, in less than a minute
  -scenario NAMES   some scenarios, separated by commas (default all)
  -contender NAMES  some contenders, separated by commas, or all; limiters: different limiters (the default);
                    hooks: the libraries with and without Ratelight under them
  -seed N           seed of the random numbers (default 1)
  -json             print JSON and nothing else to standard output
  -here             run the contenders one after the other in this process, which a crash of one of them ends

Scenarios:

`)
	for _, s := range scenarios(false) {
		fmt.Fprintf(&b, "  %-14s %s\n", s.name, s.about)
	}
	b.WriteString("\nContenders:\n\n")
	everybody, _ := findContenders("all")
	for _, c := range everybody {
		fmt.Fprintf(&b, "  %-29s %s\n", c.name, c.about)
	}
	b.WriteString(`
Examples:

  go run .                                        everything
  go run . -contender hooks                       the libraries with and without Ratelight under them
  go run . -scenario given-up -contender disgo    one contender in one scenario
  go run . -json > result.json                    for a script

Exit status of the built program (go run itself exits with 1 for all but 0): 0 the comparison ran, whatever its
result, 1 it could not run, 2 invalid flags, 130 interrupted.
`)
	return b.String()
}
