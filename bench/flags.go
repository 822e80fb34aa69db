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

// commands are the command line. There is no shell completion: what is typed is `go run ./bench`, and no shell completes that.
type commands struct {
	Load     loadCommand     `cmd:"" default:"withargs" set:"latency=20ms" help:"Send a burst of requests to a simulated or a real server (the default)."`
	Scenario scenarioCommand `cmd:"" help:"Judge the limiter in difficult situations."`
	Tune     tuneCommand     `cmd:"" set:"latency=100ms" help:"Find the max rate limit to set."`
	Share    shareCommand    `cmd:"" help:"Judge processes that share their limits."`
	Soak     soakCommand     `cmd:"" form:"soak -length DURATION" help:"Send requests for a long time, with all kinds of failures, and look for leaks."`
}

// command is one of them.
type command interface {
	// check looks at what was given, by the names of the flags.
	check(given map[string]bool) error
	// checkReport complains before the run if the page could not be written after it.
	checkReport() error
	Run(*program) error
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

// asKongWants lets flags have one dash, too, as those of the go tool do, and has help as a command.
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

// explained is an error of kong's that names flags as people write them, and repeats nothing that may be secret.
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

// unexpectedArgument repeats only what is a word, such as a mistyped command.
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

// unknownFlag tells commands that were flags once, and the commands that have the flag. Its argument is what kong says behind the dashes.
func unknownFlag(rest string, model *kong.Application) error {
	name, _, _ := strings.Cut(rest, ",") // and what it may mean
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
