package main

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ratelight/ratelight/bench/internal/command"
	"github.com/ratelight/ratelight/bench/internal/load"
	"github.com/ratelight/ratelight/bench/internal/report"
	"github.com/ratelight/ratelight/bench/internal/tune"
	"github.com/ratelight/ratelight/internal/discordsim"
	"github.com/ratelight/ratelight/routes"
)

// tuneCommand compares max rate limits and recommends one.
type tuneCommand struct {
	tune.Traffic `embed:""`
	Rate         float64  `group:"Generated load" range:"0.000001..1000000" placeholder:"NUMBER" help:"Average number of such requests per second, in place of -requests."`
	Route        []string `group:"Generated load" sep:"none" secret:"" placeholder:"ROUTE=WEIGHT" help:"Route of requests and its relative weight, such as 'GET /channels/{id}=3'; can be repeated. Messages to channels, unless given."`

	Trace        string `group:"Recorded load, in place of the generated one" placeholder:"FILE" help:"File with time, method and path of each request, see below; - for standard input."`
	SkipBadLines bool   `group:"Recorded load, in place of the generated one" help:"Skip lines that cannot be read, and say how many and what is wrong with the first; without it they are an error."`

	load.Bucket  `embed:"" set:"window=5s"`
	Rule         []string `group:"Simulated Discord" sep:"none" secret:"" placeholder:"ROUTE=LIMIT" help:"Limit of one route, such as 'POST /channels/{channel.id}/messages=5/5s', or =none; can be repeated."`
	GlobalLimit  int      `group:"Simulated Discord" range:"0..1000000" default:"50" help:"Requests per second in total, 0 for no limit."`
	load.Network `embed:"" set:"jitter=50ms"`

	MaxRateLimits  []time.Duration `group:"Comparison and verdict" range:"0s..744h" default:"1s,2s,5s,10s,30s,1m,2m,5m" help:"Values to compare, separated by commas."`
	Refused        float64         `group:"Comparison and verdict" range:"0..0.999999" default:"0.01" help:"Fraction of the requests that may be refused; exit with status 1 if all values refuse more."`
	command.Output `embed:""`

	rules []discordsim.Rule
}

// mostRequests bounds the requests of a load, because a replay holds all of them in memory.
const mostRequests = 10_000_000

func (c *tuneCommand) Check(given map[string]bool) error {
	if given["trace"] {
		if err := command.NoEffect(given, "-trace", "requests", "rate", "duration", "channels", "skew", "burst", "burst-every", "route"); err != nil {
			return err
		}
	} else if c.SkipBadLines {
		return errors.New("-skip-bad-lines has an effect only together with -trace: omit it")
	}
	if given["rate"] {
		if given["requests"] {
			return errors.New("-rate and -requests both set the number of requests: omit one of them")
		}
		requests := math.Round(c.Rate * c.Length.Seconds())
		if requests < 1 || requests > mostRequests {
			return fmt.Errorf("-rate %g and -duration %s are %.0f requests: expected 1 to %d", c.Rate, report.Time(c.Length), requests, mostRequests)
		}
		c.Requests = int(requests)
	}
	if c.Burst > 0 && c.BurstEvery > 0 {
		if n := float64(c.Length/c.BurstEvery) * float64(c.Burst); n > mostRequests {
			return fmt.Errorf("-burst and -burst-every are %.0f requests: expected at most %d", n, mostRequests)
		}
	}
	if err := c.Network.Check(); err != nil {
		return err
	}
	slices.Sort(c.MaxRateLimits)
	c.MaxRateLimits = slices.Compact(c.MaxRateLimits)
	return c.readRoutes()
}

// readRoutes parses -route and -rule. Its errors do not repeat the values, which may contain the token of a webhook.
func (c *tuneCommand) readRoutes() error {
	if len(c.Route) == 0 {
		c.Mix = []tune.Share{{Route: routes.CreateMessage, Weight: 1}}
	}
	return errors.Join(eachRoute("-route", c.Route, func(route routes.Route, weight string) error {
		w, err := strconv.ParseFloat(weight, 64)
		if err != nil || !(w > 0) || math.IsInf(w, 0) {
			return errors.New("expected a weight above 0 at its end, such as =1.5")
		}
		c.Mix = append(c.Mix, tune.Share{Route: route, Weight: w})
		return nil
	}), eachRoute("-rule", c.Rule, func(route routes.Route, limit string) error {
		rule := discordsim.Rule{Method: route.Method(), Path: route.Template(), Quota: discordsim.Unlimited()}
		if limit != "none" {
			number, window, _ := strings.Cut(limit, "/")
			n, err := strconv.Atoi(number)
			if err != nil || n < 1 || n > 1_000_000 {
				return errors.New("expected a limit from 1 to 1000000 per window at its end, such as =5/5s, or =none")
			}
			period, err := time.ParseDuration(window)
			if err != nil || period < time.Millisecond || period > 24*time.Hour {
				return errors.New("expected a window with its unit from 1ms to 24h after the slash, such as =5/5s")
			}
			rule.Quota = c.Quota(n, period)
		}
		c.rules = append(c.rules, rule)
		return nil
	}))
}

// eachRoute parses the values of a flag with read. An error gives the number of the first invalid value.
func eachRoute(flag string, given []string, read func(route routes.Route, rest string) error) error {
	for i, text := range given {
		route, rest, err := cutRoute(text)
		if err == nil {
			err = read(route, rest)
		}
		if err != nil {
			return fmt.Errorf("%s, number %d: %w", flag, i+1, err)
		}
	}
	return nil
}

// cutRoute parses "METHOD /template=rest".
func cutRoute(text string) (route routes.Route, rest string, err error) {
	end := strings.LastIndexByte(text, '=')
	method, template, ok := strings.Cut(text[:max(end, 0)], " ")
	if end < 0 || !ok {
		return route, "", errors.New("expected a method, a space, the template of a path, = and a value: 'POST /channels/{channel_id}/messages=…'")
	}
	template = strings.TrimSpace(template)
	if segments := strings.Split(template, "/"); len(segments) > 3 && !strings.HasPrefix(segments[3], "{") &&
		(segments[1] == "webhooks" || segments[1] == "interactions") {
		return route, "", errors.New("it contains a token: expected a parameter instead, such as /webhooks/{webhook_id}/{webhook_token}")
	}
	route, err = routes.New(method, template)
	if err == nil && route.Method() != strings.ToUpper(method) { // Discord has no others
		err = errors.New("unknown method, expected GET, POST, PATCH, PUT, DELETE or the like")
	}
	return route, strings.TrimSpace(text[end+1:]), err
}

// load reads the trace, or generates a load if there is no trace.
func (c *tuneCommand) load(p *command.Program) (*tune.Load, error) {
	switch c.Trace {
	case "":
		c.Traffic.Seed = c.Network.Seed
		return tune.Generate(c.Traffic)
	case "-":
		return tune.ReadTrace("standard input", p.Stdin, c.SkipBadLines)
	}
	file, err := os.Open(c.Trace)
	if err != nil {
		return nil, fmt.Errorf("-trace: %w", err)
	}
	defer file.Close()
	return tune.ReadTrace(c.Trace, file, c.SkipBadLines)
}

// Run compares the max rate limits and shows the result.
func (c *tuneCommand) Run(p *command.Program) error {
	load, err := c.load(p)
	if err != nil {
		return command.Misuse(err)
	}
	discord := tune.Discord{Quota: c.Quota(c.Limit, c.Window), GlobalLimit: c.GlobalLimit, Latency: c.RoundTrips(), Seed: c.Network.Seed, Rules: c.rules}
	if err := load.CheckRules(c.rules); err != nil {
		return command.Misuse(err)
	}
	if err := discord.Validate(); err != nil {
		return command.Misuse(err)
	}
	defer debug.SetGCPercent(debug.SetGCPercent(400)) // a replay makes much garbage and keeps little
	progress := c.Progress(p, load.Requests()*len(c.MaxRateLimits))
	config := tune.Config{Load: load, Discord: discord, MaxRateLimits: c.MaxRateLimits, Acceptable: c.Refused, Done: progress.Steps}
	result, err := tune.Run(p.Context, config)
	progress.End()
	if p.Context.Err() != nil {
		fmt.Fprintln(p.Stderr, "bench: INTERRUPTED: there is a recommendation, and a report of it, only when all values have been compared.")
		return command.StatusError(command.StatusInterrupted)
	}
	if err != nil {
		return err
	}
	r := result.Report()
	if c.Trace != "" && c.Trace != "-" {
		r.About = append(r.About, "recorded in "+filepath.Base(c.Trace))
	}
	return c.Show(p, r)
}
