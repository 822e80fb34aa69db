package main

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"github.com/ratelight/ratelight/bench/internal/command"
	"github.com/ratelight/ratelight/bench/internal/load"
	"github.com/ratelight/ratelight/bench/internal/tune"
	"github.com/ratelight/ratelight/internal/discordsim"
	"github.com/ratelight/ratelight/routes"
)

// tuneFlags has the texts of help that are too long for the tags of the flags.
var tuneFlags = kong.Vars{
	"tune_useful": "Longest wait after which an answer is still of use.",
	"tune_trace":  "File with time, method and path of each request, see below; - for standard input.",
	"tune_rule": "Limit of one route, such as 'POST /channels/{channel_id}/messages=5/5s', or =none. Can be repeated. " +
		"All other routes have the limits that were measured at Discord, unless -limit, -window or -kind is given.",
	"tune_global_limit": "Requests per second in total, 0 for no limit.",
	"values": "Values to show beside the recommended one, separated by commas. By default, some smaller " +
		"and some larger values are shown.",
}

// tuneCommand recommends a max rate limit.
type tuneCommand struct {
	Useful time.Duration `group:"What is wanted" range:"100ms..24h" default:"10s" help:"${tune_useful}"`

	Trace string `group:"What is wanted" placeholder:"FILE" help:"${tune_trace}"`

	Rule         []string `group:"Simulated Discord" sep:"none" secret:"" placeholder:"ROUTE=LIMIT" help:"${tune_rule}"`
	load.Bucket  `embed:"" set:"window=5s"`
	GlobalLimit  int `group:"Simulated Discord" range:"0..1000000" default:"50" help:"${tune_global_limit}"`
	load.Network `embed:"" set:"jitter=50ms"`

	MaxRateLimits []time.Duration `group:"Output and verdict" range:"0s..744h" placeholder:"DURATION,…" help:"${values}"`

	command.Output `embed:""`
	command.Page   `embed:""`

	discord tune.Discord
}

func (c *tuneCommand) Check(given map[string]bool) error {
	if c.Trace == "" {
		return errors.New("-trace is not given: expected a recording of requests, such as one of ratelight-proxy --record")
	}
	c.discord = tune.Discord{
		GlobalLimit: c.GlobalLimit, Latency: c.RoundTrips(), Seed: c.Seed, Others: load.Preset(), Preset: true,
	}
	if given["limit"] || given["window"] || given["kind"] {
		c.discord.Others, c.discord.Preset = []discordsim.Rule{{Path: "/**", Quota: c.Quota(c.Limit, c.Window)}}, false
	}
	for i, text := range c.Rule {
		rule, err := c.readRule(text)
		if err != nil {
			return fmt.Errorf("-rule, number %d: %w", i+1, err)
		}
		c.discord.Given = append(c.discord.Given, rule)
	}
	return cmp.Or(c.Network.Check(), c.Page.Check())
}

// readRule parses "METHOD /template=limit". Its errors do not repeat the text, which may contain a webhook's token.
func (c *tuneCommand) readRule(text string) (rule discordsim.Rule, err error) {
	end := strings.LastIndexByte(text, '=')
	method, template, ok := strings.Cut(text[:max(end, 0)], " ")
	if end < 0 || !ok {
		return rule, errors.New("expected a method, a space, the template of a path, = and a limit: " +
			"'POST /channels/{channel_id}/messages=5/5s'")
	}
	template = strings.TrimSpace(template)
	if segments := strings.Split(template, "/"); len(segments) > 3 && !strings.HasPrefix(segments[3], "{") &&
		(segments[1] == "webhooks" || segments[1] == "interactions") {
		return rule, errors.New("it contains a token: " +
			"expected a parameter instead, such as /webhooks/{webhook_id}/{webhook_token}")
	}
	route, err := routes.New(method, template)
	if err != nil {
		return rule, err
	}
	switch method = route.Method(); method {
	case http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete:
	default:
		return rule, errors.New("unknown method, expected GET, POST, PATCH, PUT or DELETE")
	}
	rule = discordsim.Rule{Method: method, Path: route.Template(), Quota: discordsim.Unlimited()}
	limit := strings.TrimSpace(text[end+1:])
	if limit == "none" {
		return rule, nil
	}
	number, window, _ := strings.Cut(limit, "/")
	n, err := strconv.Atoi(number)
	if err != nil || n < 1 || n > 1_000_000 {
		return rule, errors.New("expected a limit from 1 to 1000000 per window at the end, such as =5/5s, or =none")
	}
	period, err := time.ParseDuration(window)
	if err != nil || period < time.Millisecond || period > 24*time.Hour {
		return rule, errors.New("expected a window with its unit from 1ms to 24h after the slash, such as =5/5s")
	}
	rule.Quota = c.Quota(n, period)
	return rule, nil
}

// load reads the trace.
func (c *tuneCommand) load(p *command.Program) (*tune.Load, error) {
	if c.Trace == "-" {
		return tune.ReadTrace("standard input", p.Stdin)
	}
	file, err := os.Open(c.Trace)
	if err != nil {
		return nil, fmt.Errorf("-trace: %w", err)
	}
	defer file.Close()
	return tune.ReadTrace(filepath.Base(c.Trace), file)
}

// Run compares the max rate limits and shows the result.
func (c *tuneCommand) Run(p *command.Program) error {
	load, err := c.load(p)
	if err != nil {
		return command.Misuse(err)
	}
	if err := load.CheckRules(c.discord.Given); err != nil {
		return command.Misuse(err)
	}
	defer debug.SetGCPercent(debug.SetGCPercent(400)) // a replay makes much garbage, but keeps little memory
	result, err := tune.Run(p.Context, tune.Config{
		Load: load, Discord: c.discord, Useful: c.Useful, MaxRateLimits: c.MaxRateLimits,
	})
	if p.Context.Err() != nil {
		fmt.Fprintln(p.Stderr, "bench: INTERRUPTED: there is a recommendation only when all values have been compared.")
		return command.StatusError(command.StatusInterrupted)
	}
	if err != nil {
		return err
	}
	r := result.Report()
	if c.Trace != "-" {
		r.About = append(r.About, "recorded in "+filepath.Base(c.Trace))
	}
	return c.Show(p, r, c.Page)
}
