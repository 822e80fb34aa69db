// Command bench measures Ratelight. It sends a load through the transport to a simulated Discord, judges the limiter by
// scenarios, and finds the max rate limit to set. Run it with -h for its flags. The command ./bench/share judges
// processes that share limits, and the benchmarks in bench/peers measure the cost of a request.
package main

import (
	_ "embed"
	"fmt"

	"github.com/alecthomas/kong"

	"github.com/ratelight/ratelight/bench/internal/command"
	"github.com/ratelight/ratelight/bench/internal/load"
)

func main() { bench().Main() }

// commands declares the command line. There is no shell completion, because shells do not complete `go run ./bench`.
type commands struct {
	Load     loadCommand     `cmd:"" default:"withargs" set:"latency=20ms" help:"${about_load}"`
	Scenario scenarioCommand `cmd:"" help:"Judge the limiter in difficult situations."`
	Tune     tuneCommand     `cmd:"" set:"latency=100ms" help:"Find the max rate limit to set."`
}

func bench() command.Program {
	return command.Program{
		Name: "bench", Grammar: new(commands),
		Kong: []kong.Option{
			kong.Description(introduction), kong.Help(help), kong.Vars(load.Help), tuneFlags,
			kong.Vars{
				"about_load":     "Send a load to a simulated Discord (the default).",
				"scenario_names": "Scenarios to run. Without a name, all are run at once (about 20 s).",
			},
		},
	}
}

const introduction = "Measures Ratelight. Without a command, it sends a burst of requests through Ratelight's " +
	"transport to a simulated Discord on this machine, and measures how long they wait, how many are refused, and how " +
	"close the throughput is to that of an ideal client."

var (
	//go:embed help.txt
	examples string
	//go:embed help_tune.txt
	tuneHelp string
)

// help prints kong's help. For tune, it also prints an explanation; without a command, the help of load and examples.
func help(options kong.HelpOptions, ctx *kong.Context) error {
	selected, text := ctx.Selected(), ""
	if err := kong.DefaultHelpPrinter(options, ctx); err != nil {
		return err
	}
	if selected == nil {
		text = examples
		loadHelp, err := kong.Trace(ctx.Kong, []string{"load"})
		if err != nil {
			return err
		}
		fmt.Fprintln(ctx.Stdout)
		if err := kong.DefaultHelpPrinter(options, loadHelp); err != nil {
			return err
		}
	} else if selected.Name == "tune" {
		text = tuneHelp
	}
	_, err := fmt.Fprint(ctx.Stdout, text)
	return err
}
