package command

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/alecthomas/kong"
)

// Command is a command of a program.
type Command interface {
	// Check validates the flags. given contains the names of the flags that were set.
	Check(given map[string]bool) error
	Run(*Program) error
}

// Parse returns the selected command, or nil if it printed help.
func (p *Program) Parse(arguments []string) (Command, error) {
	helped := false
	options := append([]kong.Option{
		kong.Name(p.Name), kong.Writers(p.Stdout, p.Stderr), kong.Exit(func(int) { helped = true }),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: 110}),
		kong.Vars{"about_report": aboutReport},
		mapper("a whole number", strconv.Atoi), mapper("a duration with its unit", time.ParseDuration),
		mapper("a number", func(given string) (float64, error) { return strconv.ParseFloat(given, 64) }),
	}, p.Kong...)
	parser, err := kong.New(p.Grammar, options...)
	if err != nil {
		panic("command: " + err.Error()) // invalid tags
	}
	parsed, err := parser.Parse(asKongWants(arguments))
	if helped {
		return nil, nil
	}
	if err != nil {
		return nil, Misuse(errors.New(strings.ReplaceAll(err.Error(), "--", "-")))
	}
	given := make(map[string]bool)
	for _, step := range parsed.Path {
		if step.Flag == nil {
			continue
		}
		given[step.Flag.Name] = true
		if kind := step.Flag.Target.Kind(); (kind == reflect.String || kind == reflect.Slice) && step.Flag.Target.Len() == 0 {
			return nil, Misuse(fmt.Errorf("-%s is empty: expected a value", step.Flag.Name))
		}
	}
	selected := p.Grammar
	if node := parsed.Selected(); node != nil {
		selected = node.Target.Addr().Interface()
	}
	command := selected.(Command)
	if err := command.Check(given); err != nil {
		return nil, Misuse(err)
	}
	return command, nil
}

// asKongWants rewrites flags with one dash, which the go tool uses, to flags with two dashes, and the command help to
// --help.
func asKongWants(arguments []string) []string {
	arguments = slices.Clone(arguments)
	if len(arguments) > 0 && arguments[0] == "help" {
		arguments = append(arguments[1:], "--help")
	}
	for i, argument := range arguments {
		if len(argument) > 2 && argument[0] == '-' && argument[1] >= 'a' && argument[1] <= 'z' {
			arguments[i] = "-" + argument
		}
	}
	return arguments
}

// mapper parses flags with a tag such as range:"1..64". Its errors say which values are expected.
func mapper[T int | float64 | time.Duration](what string, parse func(string) (T, error)) kong.Option {
	decode := func(ctx *kong.DecodeContext, target reflect.Value) error {
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
	}
	return kong.TypeMapper(reflect.TypeFor[T](), kong.MapperFunc(decode))
}
