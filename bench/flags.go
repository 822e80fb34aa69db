package main

import (
	"cmp"
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

// commands declares the command line. There is no shell completion, because shells do not complete `go run ./bench`.
type commands struct {
	Load     loadCommand     `cmd:"" default:"withargs" set:"latency=20ms" help:"Send a burst of requests to a simulated or a real server (the default)."`
	Scenario scenarioCommand `cmd:"" help:"Judge the limiter in difficult situations."`
	Tune     tuneCommand     `cmd:"" set:"latency=100ms" help:"Find the max rate limit to set."`
	Share    shareCommand    `cmd:"" help:"Judge processes that share their limits."`
	Soak     soakCommand     `cmd:"" form:"soak -length DURATION" help:"Send requests for a long time, with all kinds of failures, and look for leaks."`
}

// command is the interface of the commands.
type command interface {
	// check validates the flags. given contains the names of the flags that were set.
	check(given map[string]bool) error
	// checkReport returns an error before the run if the page could not be written after it.
	checkReport() error
	Run(*program) error
}

// parse returns the selected command, or nil if it printed help.
func (p *program) parse(arguments []string) (command, error) {
	var all commands
	helped := false
	parser, err := kong.New(&all, kong.Name("bench"), kong.Writers(p.stdout, p.stderr), kong.Exit(func(int) { helped = true }),
		kong.Description(introduction), kong.Help(help), kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: 110}),
		mapper("a whole number", strconv.Atoi), mapper("a duration with its unit", time.ParseDuration),
		mapper("a number", func(given string) (float64, error) { return strconv.ParseFloat(given, 64) }))
	if err != nil {
		panic("bench: " + err.Error()) // invalid tags above
	}
	parsed, err := parser.Parse(asKongWants(arguments))
	if helped {
		return nil, nil
	}
	if err != nil {
		return nil, misuseError{explained(err, arguments, parser.Model)}
	}
	given := make(map[string]bool)
	for _, step := range parsed.Path {
		if step.Flag == nil {
			continue
		}
		given[step.Flag.Name] = true
		if kind := step.Flag.Target.Kind(); (kind == reflect.String || kind == reflect.Slice) && step.Flag.Target.Len() == 0 {
			return nil, misused("-%s is empty: expected a value", step.Flag.Name)
		}
	}
	selected := parsed.Selected().Target.Addr().Interface().(command)
	if err := cmp.Or(selected.check(given), selected.checkReport()); err != nil {
		return nil, misuseError{err}
	}
	return selected, nil
}

// asKongWants rewrites flags with one dash, as the go tool has them, to two dashes, and the command help to --help.
func asKongWants(arguments []string) []string {
	arguments = slices.Clone(arguments)
	if len(arguments) > 0 && arguments[0] == "help" {
		arguments = append(arguments[1:], "--help")
	}
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

// explained rewrites an error of kong. It names flags as users write them and repeats nothing that may be secret.
func explained(err error, arguments []string, model *kong.Application) error {
	text := strings.ReplaceAll(err.Error(), "--", "-")
	if _, argument, unexpected := strings.Cut(text, "unexpected argument "); unexpected {
		return unexpectedArgument(slices.Index(arguments, argument), argument, model)
	}
	if name, unknown := strings.CutPrefix(text, "unknown flag -"); unknown {
		return unknownFlag(name, model)
	}
	if flag, got, missing := strings.Cut(text, ": expected string value but got "); missing {
		if strings.Contains(got, "<EOL>") {
			return fmt.Errorf("%s: expected a value after it, and there is nothing", flag)
		}
		return fmt.Errorf("%s: expected a value; one that begins with a dash has to be written as %s=value", flag, flag)
	}
	return errors.New(text)
}

// unexpectedArgument returns the error for an unexpected argument. It repeats only a lower-case word, such as a
// mistyped command, because any other argument may be secret.
func unexpectedArgument(i int, argument string, model *kong.Application) error {
	which := fmt.Sprintf("argument %d", i+1)
	if strings.Trim(argument, "abcdefghijklmnopqrstuvwxyz") == "" {
		which += fmt.Sprintf(", %q,", argument)
	}
	if i > 0 {
		return fmt.Errorf("%s is not a flag: expected flags only; quote values that contain spaces", which)
	}
	var names []string
	for _, command := range model.Children {
		names = append(names, command.Name)
	}
	return fmt.Errorf("%s is no command: expected one of %s, or a flag", which, strings.Join(names, ", "))
}

// unknownFlag returns the error for an unknown flag. It points out a command that was a flag once, and commands that
// have the flag. rest is the text of kong's error after the dash.
func unknownFlag(rest string, model *kong.Application) error {
	name, _, _ := strings.Cut(rest, ",") // kong's suggestion follows the comma
	var having []string
	for _, command := range model.Children {
		if command.Name == name {
			return fmt.Errorf("-%s is a command now: expected bench %s", name, cmp.Or(command.Tag.Get("form"), command.Summary()))
		}
		for _, flag := range command.Flags {
			switch {
			case flag.Name == name:
				having = append(having, fmt.Sprintf("bench %s -%s", command.Name, name))
			case flag.Tag.Has("secret") && strings.HasPrefix(name, flag.Name):
				return fmt.Errorf("unknown flag -%s…: expected -%s=%s", flag.Name, flag.Name, flag.FormatPlaceHolder())
			}
		}
	}
	if having != nil {
		return fmt.Errorf("unknown flag -%s: expected it after its command, as in %s", name, strings.Join(having, " or "))
	}
	return fmt.Errorf("unknown flag -%s", rest)
}

// mapper parses flags with a tag such as range:"1..64". Its errors say which values are expected.
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

// noEffect returns an error if one of flags is set, because they have no effect together with the flag beside.
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

// help prints kong's help, followed by an explanation for tune, or by examples and the help of load without a command.
func help(options kong.HelpOptions, ctx *kong.Context) error {
	selected, text := ctx.Selected(), ""
	if err := kong.DefaultHelpPrinter(options, ctx); err != nil {
		return err
	}
	if selected == nil {
		text = examples
		load, err := kong.Trace(ctx.Kong, []string{"load"})
		if err != nil {
			return err
		}
		fmt.Fprintln(ctx.Stdout)
		if err := kong.DefaultHelpPrinter(options, load); err != nil {
			return err
		}
	} else if selected.Name == "tune" {
		text = tuneHelp
	}
	_, err := fmt.Fprint(ctx.Stdout, text)
	return err
}
