package main

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

// commands are the command line. There is no shell completion: what is typed is `go run ./bench`, and no shell completes that.
type commands struct {
	Load     loadCommand     `cmd:"" default:"withargs" help:"Send a burst of requests to a simulated or a real server (the default)."`
	Scenario scenarioCommand `cmd:"" help:"Judge the limiter in difficult situations."`
	Tune     tuneCommand     `cmd:"" help:"Find the max rate limit to set."`
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
		kong.TypeMapper(reflect.TypeFor[int](), kong.MapperFunc(mapInt)),
		kong.TypeMapper(reflect.TypeFor[float64](), kong.MapperFunc(mapFloat)),
		kong.TypeMapper(reflect.TypeFor[time.Duration](), kong.MapperFunc(mapDuration)))
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
		if step.Flag != nil {
			given[step.Flag.Name] = true
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
		nearest := slices.MinFunc(names, func(a, b string) int { return distance(first, a) - distance(first, b) })
		if distance(first, nearest) <= 3 {
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

// distance is how many letters have to be added, removed or replaced.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
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

// bounds reads a tag such as range:"1..64".
func bounds[T any](ctx *kong.DecodeContext, parse func(string) (T, error)) (low, high T) {
	from, to, _ := strings.Cut(ctx.Value.Tag.Get("range"), "..")
	low, err := parse(from)
	high, err2 := parse(to)
	if err := errors.Join(err, err2); err != nil {
		panic(fmt.Sprintf("bench: tag range of %s: %v", ctx.Value.Name, err))
	}
	return low, high
}

// mapped sets a flag to a value within its bounds, and says what was given and what is expected otherwise.
func mapped[T int | float64 | time.Duration](ctx *kong.DecodeContext, target reflect.Value, what, example string, parse func(string) (T, error), show func(T) string) error {
	var given string
	if err := ctx.Scan.PopValueInto(what, &given); err != nil {
		return fmt.Errorf("expected %s", what)
	}
	low, high := bounds(ctx, parse)
	value, err := parse(given)
	if err != nil || !(value >= low && value <= high) {
		return fmt.Errorf("%q is given: expected %s from %s to %s%s", given, what, show(low), show(high), example)
	}
	target.Set(reflect.ValueOf(value))
	return nil
}

func mapInt(ctx *kong.DecodeContext, target reflect.Value) error {
	return mapped(ctx, target, "a whole number", "", strconv.Atoi, strconv.Itoa)
}

func mapFloat(ctx *kong.DecodeContext, target reflect.Value) error {
	parse := func(given string) (float64, error) { return strconv.ParseFloat(given, 64) }
	return mapped(ctx, target, "a number", "", parse, func(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) })
}

func mapDuration(ctx *kong.DecodeContext, target reflect.Value) error {
	return mapped(ctx, target, "a duration with its unit", ", such as 250ms or 1.5s", time.ParseDuration, brief)
}

// brief is a duration without the zero units at its end.
func brief(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = s[:len(s)-2]
	}
	if strings.HasSuffix(s, "h0m") {
		s = s[:len(s)-2]
	}
	return s
}

// oneOf refuses a flag beside another one that leaves it without effect.
func oneOf(given map[string]bool, beside string, flags ...string) error {
	for _, name := range flags {
		if given[name] {
			return fmt.Errorf("-%s has no effect together with %s: omit one of them", name, beside)
		}
	}
	return nil
}

const introduction = `Measures Ratelight. Without a command, it sends a burst of requests through Ratelight's transport to a simulated Discord on this machine, and measures how long they wait, how many are refused, and how close the throughput is to that of an ideal client.`

const examples = `
Examples:
  go run ./bench                                       the defaults: about 10 s
  go run ./bench -requests 50                          fewer requests
  go run ./bench -kind sliding -latency 100ms          another kind of bucket, longer round trips
  go run ./bench -buckets 1 -limit 50 -global-limit 0  one large bucket, no global limit
  go run ./bench -max-rate-limit 3s                    requests that would wait longer are refused
  go run ./bench -report load.html                     charts of the run, to open in a browser
  go run ./bench -json -min-efficiency 0.95            for a script
  go run ./bench -target https://discord.com -requests 10   REAL requests: GET /api/v10/gateway
  go run ./bench scenario                              test the limiter in difficult situations: about 20 s
  go run ./bench scenario list                         their names
  go run ./bench tune                                  which max rate limit to set, for a day of requests
  go run ./bench share                                 4 processes that share limits: about 2 min
  go run ./bench share -disturb                        what failures cost them: about 75 s
  go run ./bench soak -length 10m                      memory, goroutines, tokens: find leaks

Exit status of the built program (go run itself exits with 1 for all but 0): 0 success, 1 requests or a verdict failed,
2 invalid flags, 130 interrupted.
`

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
