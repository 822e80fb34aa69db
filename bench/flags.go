package main

import (
	_ "embed"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/alecthomas/kong"
)

// commands are the command line. There is no shell completion: what is typed is `go run ./bench`, and no shell completes that.
type commands struct {
	Load     loadCommand     `cmd:"" default:"withargs" set:"latency=20ms" help:"Send a burst of requests to a simulated or a real server (the default)."`
	Scenario scenarioCommand `cmd:"" help:"Judge the limiter in difficult situations."`
	Tune     tuneCommand     `cmd:"" set:"latency=100ms" help:"Find the max rate limit to set."`
	Share    shareCommand    `cmd:"" help:"Judge processes that share their limits."`
	Soak     soakCommand     `cmd:"" help:"Send requests for a long time, with all kinds of failures, and look for leaks."`
}

// command is one of them.
type command interface {
	// check looks at what was given, by the names of the flags.
	check(given map[string]bool) error
	Run(*program) error
}

// moved are flags that have become commands.
var moved = map[string]string{
	"scenario":  "bench scenario [NAME …], for all of them without a name",
	"processes": "bench share -processes NUMBER",
	"soak":      "bench soak -length DURATION",
}

// parse returns the command, or nil after help.
func (p *program) parse(arguments []string) (command, error) {
	var all commands
	helped := false
	parser, err := kong.New(&all, kong.Name("bench"), kong.Writers(p.stdout, p.stderr), kong.Exit(func(int) { helped = true }),
		kong.Description(introduction), kong.Help(help), kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: 110}),
		mapper("a whole number", strconv.Atoi), mapper("a duration with its unit", time.ParseDuration),
		mapper("a number", func(given string) (float64, error) { return strconv.ParseFloat(given, 64) }))
	if err != nil {
		panic("bench: " + err.Error()) // of the tags above
	}
	if err := checkCommand(parser, arguments); err != nil {
		return nil, err
	}
	parsed, err := parser.Parse(twoDashes(arguments))
	if helped {
		return nil, nil
	}
	if err != nil {
		return nil, misuseError{explained(err)}
	}
	given := make(map[string]bool)
	for _, step := range parsed.Path {
		if step.Flag == nil {
			continue
		}
		given[step.Flag.Name] = true
		if value := step.Flag.Target; value.Kind() == reflect.String && value.String() == "" {
			return nil, misused("-%s is empty: expected a value", step.Flag.Name)
		}
	}
	selected := parsed.Selected().Target.Addr().Interface().(command)
	if err := selected.check(given); err != nil {
		return nil, misuseError{err}
	}
	return selected, nil
}

// checkCommand names a mistyped command, and says what has become of flags that are commands now. Other arguments are not repeated,
// as they may be secret.
func checkCommand(parser *kong.Kong, arguments []string) error {
	if len(arguments) == 0 {
		return nil
	}
	var names []string
	for _, node := range parser.Model.Children {
		names = append(names, node.Name)
	}
	if first := arguments[0]; !strings.HasPrefix(first, "-") {
		if slices.Contains(names, first) {
			return nil
		}
		nearest := names[0]
		if len(first) <= 10 {
			nearest = slices.MinFunc(names, func(a, b string) int { return distance(first, a) - distance(first, b) })
		}
		if len(first) <= 10 && distance(first, nearest) <= 3 {
			return misused("there is no command %q: did you mean %s?", first, nearest)
		}
		return misused("argument 1 is no command: expected one of %s", strings.Join(names, ", "))
	}
	for _, argument := range arguments {
		name, _, _ := strings.Cut(strings.TrimLeft(argument, "-"), "=")
		if strings.HasPrefix(argument, "-") && moved[name] != "" {
			return misused("-%s is a command now: expected %s", name, moved[name])
		}
	}
	return nil
}

// distance is how many letters have to be added, removed or replaced between two short words.
func distance(a, b string) int {
	switch {
	case a == "" || b == "":
		return len(a) + len(b)
	case a[0] == b[0]:
		return distance(a[1:], b[1:])
	}
	return 1 + min(distance(a[1:], b), distance(a, b[1:]), distance(a[1:], b[1:]))
}

// twoDashes lets flags have one dash, too, as those of the go tool do.
func twoDashes(arguments []string) []string {
	arguments = slices.Clone(arguments)
	for i, argument := range arguments {
		if argument == "--" {
			break
		}
		if len(argument) > 2 && argument[0] == '-' && argument[1] >= 'a' && argument[1] <= 'z' {
			arguments[i] = "-" + argument
		}
	}
	return arguments
}

// explained is an error of kong's that names flags as people write them, and does not repeat arguments that may be secret.
func explained(err error) error {
	text := strings.ReplaceAll(err.Error(), "--", "-")
	if strings.HasPrefix(text, "unexpected argument") {
		text = "there is an argument that is not a flag: expected flags only; quote values that contain spaces"
	}
	return errors.New(text)
}

// mapper reads a flag with a tag such as range:"1..64", and says what was given and what is expected otherwise.
func mapper[T int | float64 | time.Duration](what string, parse func(string) (T, error)) kong.Option {
	return kong.TypeMapper(reflect.TypeFor[T](), kong.MapperFunc(func(ctx *kong.DecodeContext, target reflect.Value) error {
		from, to, _ := strings.Cut(ctx.Value.Tag.Get("range"), "..")
		low, err := parse(from)
		high, err2 := parse(to)
		if err := errors.Join(err, err2); err != nil {
			return fmt.Errorf("tag range: %w", err)
		}
		given := ""
		if err := ctx.Scan.PopValueInto(what, &given); err != nil {
			return fmt.Errorf("expected %s from %s to %s", what, from, to)
		}
		value, err := parse(given)
		if err != nil || !(value >= low && value <= high) {
			return fmt.Errorf("%q is given: expected %s from %s to %s", given, what, from, to)
		}
		target.Set(reflect.ValueOf(value))
		return nil
	}))
}

// noEffect refuses a flag beside another one that leaves it without effect.
func noEffect(given map[string]bool, beside string, flags ...string) error {
	for _, name := range flags {
		if given[name] {
			return fmt.Errorf("-%s has no effect together with %s: omit one of them", name, beside)
		}
	}
	return nil
}

const introduction = "Measures Ratelight. Without a command, it sends a burst of requests through Ratelight's transport to a simulated Discord " +
	"on this machine, and measures how long they wait, how many are refused, and how close the throughput is to that of an ideal client."

var (
	//go:embed help.txt
	examples string
	//go:embed help_tune.txt
	tuneHelp string
)

// help is kong's, with examples or what else there is to say.
func help(options kong.HelpOptions, ctx *kong.Context) error {
	if err := kong.DefaultHelpPrinter(options, ctx); err != nil {
		return err
	}
	text := ""
	switch selected := ctx.Selected(); {
	case selected == nil:
		text = examples
		load, err := kong.Trace(ctx.Kong, []string{"load"})
		if err != nil {
			return err
		}
		fmt.Fprintln(ctx.Stdout)
		if err := kong.DefaultHelpPrinter(options, load); err != nil {
			return err
		}
	case selected.Name == "tune":
		text = tuneHelp
	}
	_, err := fmt.Fprint(ctx.Stdout, text)
	return err
}
