package options

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ratelight/ratelight/routes"
)

// Tune are the options of `bench tune`.
type Tune struct {
	// Trace is a file, or "-" for standard input; "": the load is made up of what follows.
	Trace string
	// SkipBadLines: lines of the trace that cannot be read are left out.
	SkipBadLines bool

	Requests   int
	Duration   time.Duration
	Channels   int
	Skew       float64
	Burst      int
	BurstEvery time.Duration
	Mix        []Share

	Rules       []Rule
	Limit       int // requests per Window, where no rule says otherwise
	Window      time.Duration
	Kind        string // fixed, sliding or leaky
	GlobalLimit int    // requests per second; 0: none
	Latency     time.Duration
	Jitter      time.Duration
	Seed        uint64

	MaxRateLimits []time.Duration
	Refused       float64 // the part of the requests that may be
	JSON          bool
	Report        string // path of a file; "": none

	rate       float64  // requests per second; 0: not given
	mix, rules []string // as given; they may contain a secret by mistake
}

// Share is a route and how many of the requests are for it, in proportion to the others.
type Share struct {
	Route  routes.Route
	Weight float64
}

// Rule is the limit of one route.
type Rule struct {
	Method, Template string
	Limit            int // requests per Window; 0: no limit
	Window           time.Duration
}

func tuneDefaults() Tune {
	return Tune{
		Requests: 100_000, Duration: 24 * time.Hour, Channels: 1000, Skew: 1, Burst: 20, BurstEvery: 10 * time.Minute,
		Mix:   []Share{{routes.CreateMessage, 1}},
		Limit: 5, Window: 5 * time.Second, Kind: "fixed", GlobalLimit: 50,
		Latency: 100 * time.Millisecond, Jitter: 50 * time.Millisecond, Seed: 1,
		MaxRateLimits: []time.Duration{
			time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second, 30 * time.Second, time.Minute, 2 * time.Minute, 5 * time.Minute,
		},
		Refused: 0.01,
	}
}

const (
	generated mode = 1 << iota
	traced
)

// mostRequests bounds what a replay holds in memory.
const mostRequests = 10_000_000

func (o *Tune) groups() []group {
	both := generated | traced
	return []group{
		{"Generated load", []option{
			{"requests", whole(&o.Requests, 1, mostRequests), generated, "requests at random times, without the bursts"},
			{"rate", positive(&o.rate, "number"), generated, "average number of such requests per second, in place of -requests"},
			{"duration", span(&o.Duration, time.Second, 31*24*time.Hour), generated, "time over which the requests are spread"},
			{"channels", whole(&o.Channels, 1, 1_000_000), generated, "channels (or guilds, or webhooks) of the requests, each with its own bucket"},
			{"skew", decimal(&o.Skew, 0, 10), generated, "how unequal the channels are: the n-th most popular one gets a share proportional to 1/n^skew; 0 for equal shares"},
			{"burst", whole(&o.Burst, 0, 100_000), generated, "requests per burst, all at once to one channel, in addition to the others; 0 for none"},
			{"burst-every", span(&o.BurstEvery, 0, 31*24*time.Hour), generated, "time from one burst to the next; 0 for none"},
			{"route", several(&o.mix, "route=weight"), generated, `route of requests and its relative weight, such as 'GET /channels/{id}=3'; can be repeated (default 'POST /channels/{channel_id}/messages=1')`},
		}},
		{"Recorded load, in place of the generated one", []option{
			{"trace", text("file", &o.Trace), traced, "file with time, method and path of each request, see below; - for standard input"},
			{"skip-bad-lines", boolean(&o.SkipBadLines), traced, "skip lines that cannot be read, and say how many and what is wrong with the first; without it they are an error"},
		}},
		{"Simulated Discord", []option{
			{"limit", whole(&o.Limit, 1, 1_000_000), both, "requests per window in each bucket: each route for each channel, guild or webhook"},
			{"window", span(&o.Window, time.Millisecond, 24*time.Hour), both, "length of the window"},
			{"rule", several(&o.rules, "route=limit"), both, "limit of one route, such as 'POST /channels/{channel.id}/messages=5/5s', or =none; can be repeated"},
			{"kind", choice(&o.Kind, "fixed", "sliding", "leaky"), both, "how all buckets refill: all places when the window ends, each place a window after its request, or one place every window/limit"},
			{"global-limit", whole(&o.GlobalLimit, 0, 1_000_000), both, "requests per second in total, 0 for no limit"},
			{"latency", span(&o.Latency, 0, time.Minute), both, "mean round trip"},
			{"jitter", span(&o.Jitter, 0, time.Minute), both, "largest difference of a round trip from the mean; at most the latency"},
			{"seed", seed(&o.Seed), both, "seed of the random numbers"},
		}},
		{"Comparison and verdict", []option{
			{"max-rate-limits", spans(&o.MaxRateLimits, 0, 31*24*time.Hour), both, "values to compare, separated by commas"},
			{"refused", share(&o.Refused), both, "fraction of the requests that may be refused; exit with status 1 if all values refuse more"},
			{"json", boolean(&o.JSON), both, "print JSON and nothing else to standard output"},
			{"report", text("file", &o.Report), both, "write a page with the table and charts to this file, to open in a browser; it needs no other files and no network"},
		}},
	}
}

// ParseTune reads the arguments after "tune". The error is ErrHelp or says what is wrong with them.
func ParseTune(arguments []string) (Tune, error) {
	o := tuneDefaults()
	groups := o.groups()
	given, err := parseFlags(groups, arguments)
	if err != nil {
		return o, err
	}
	return o, o.check(groups, given)
}

// check refuses flags that contradict each other, and reads those that say more than one thing.
func (o *Tune) check(groups []group, given map[string]bool) error {
	for _, group := range groups {
		for _, f := range group.flags {
			if given[f.name] && f.modes&traced == 0 && given["trace"] {
				return fmt.Errorf("-%s has no effect together with -trace: omit one of them", f.name)
			}
		}
	}
	if o.SkipBadLines && o.Trace == "" {
		return errors.New("-skip-bad-lines has an effect only together with -trace: omit it")
	}
	if given["rate"] {
		if given["requests"] {
			return errors.New("-rate and -requests both set the number of requests: omit one of them")
		}
		requests := math.Round(o.rate * o.Duration.Seconds())
		if requests < 1 || requests > mostRequests {
			return fmt.Errorf("-rate %g and -duration %s are %.0f requests: expected 1 to %d", o.rate, short(o.Duration), requests, mostRequests)
		}
		o.Requests = int(requests)
	}
	if o.Burst > 0 && o.BurstEvery > 0 {
		if n := float64(o.Duration/o.BurstEvery) * float64(o.Burst); n > mostRequests {
			return fmt.Errorf("-burst and -burst-every are %.0f requests: expected at most %d", n, mostRequests)
		}
	}
	if o.Jitter > o.Latency {
		return fmt.Errorf("-jitter is %v: expected at most the latency, which is %v", o.Jitter, o.Latency)
	}
	if err := o.readMix(); err != nil {
		return err
	}
	return o.readRules()
}

// readMix reads -route. What was given is not repeated, as it may contain the token of a webhook.
func (o *Tune) readMix() error {
	if len(o.mix) > 0 {
		o.Mix = nil
	}
	for i, text := range o.mix {
		route, weight, err := cutRoute(text)
		if err != nil {
			return fmt.Errorf("-route, number %d: %w", i+1, err)
		}
		x, err := strconv.ParseFloat(weight, 64)
		if err != nil || !(x > 0 && x <= 1e9) {
			return fmt.Errorf("-route, number %d: expected a weight above 0 after the last =, such as 'GET /channels/{channel_id}=2'", i+1)
		}
		o.Mix = append(o.Mix, Share{route, x})
	}
	return nil
}

// readRules reads -rule.
func (o *Tune) readRules() error {
	for i, text := range o.rules {
		route, limit, err := cutRoute(text)
		if err != nil {
			return fmt.Errorf("-rule, number %d: %w", i+1, err)
		}
		rule := Rule{Method: route.Method(), Template: route.Template()}
		if limit != "none" {
			n, window, _ := strings.Cut(limit, "/")
			rule.Limit, err = strconv.Atoi(n)
			if err != nil || rule.Limit < 1 || rule.Limit > 1_000_000 {
				return fmt.Errorf("-rule, number %d: expected a limit from 1 to 1000000 per window after the last =, such as =5/5s, or =none", i+1)
			}
			rule.Window, err = time.ParseDuration(window)
			if err != nil || rule.Window < time.Millisecond || rule.Window > 24*time.Hour {
				return fmt.Errorf("-rule, number %d: expected a window with its unit from 1ms to 24h after the slash, such as =5/5s", i+1)
			}
		}
		o.Rules = append(o.Rules, rule)
	}
	return nil
}

// cutRoute reads "METHOD /template=rest".
func cutRoute(text string) (route routes.Route, rest string, err error) {
	end := strings.LastIndexByte(text, '=')
	method, template, ok := strings.Cut(text[:max(end, 0)], " ")
	if end < 0 || !ok {
		return route, "", errors.New("expected a method, a space, the template of a path, = and a value, such as 'POST /channels/{channel_id}/messages=…'")
	}
	template = strings.TrimSpace(template)
	if segments := strings.Split(template, "/"); len(segments) > 3 && !strings.HasPrefix(segments[3], "{") &&
		(segments[1] == "webhooks" || segments[1] == "interactions") {
		return route, "", errors.New("it contains a token: expected a parameter instead, such as /webhooks/{webhook_id}/{webhook_token}")
	}
	route, err = routes.New(method, template)
	if err == nil && route.Method() != strings.ToUpper(method) { // Discord has none of those that routes does not know
		err = errors.New("unknown method, expected GET, POST, PATCH, PUT, DELETE or the like")
	}
	return route, strings.TrimSpace(text[end+1:]), err
}

func spans(target *[]time.Duration, low, high time.Duration) value {
	var initial []string
	for _, d := range *target {
		initial = append(initial, short(d))
	}
	return value{"list", strings.Join(initial, ","), func(given string) error {
		var list []time.Duration
		for part := range strings.SplitSeq(given, ",") {
			d, err := time.ParseDuration(strings.TrimSpace(part))
			if err != nil || d < low || d > high {
				return fmt.Errorf("expected durations with their units from %s to %s, separated by commas, such as 1s,5s,1m", short(low), short(high))
			}
			list = append(list, d)
		}
		slices.Sort(list)
		*target = slices.Compact(list)
		return nil
	}}
}

func share(target *float64) value {
	return value{"fraction", strconv.FormatFloat(*target, 'g', -1, 64), func(given string) error {
		x, err := strconv.ParseFloat(given, 64)
		if err != nil || !(x >= 0 && x < 1) {
			return errors.New("expected a fraction of the requests, from 0 to below 1, such as 0.01")
		}
		*target = x
		return nil
	}}
}

func positive(target *float64, kind string) value {
	return value{kind, "", func(given string) error {
		x, err := strconv.ParseFloat(given, 64)
		if err != nil || !(x > 0) || math.IsInf(x, 0) {
			return errors.New("expected a number above 0, such as 1.5")
		}
		*target = x
		return nil
	}}
}

func decimal(target *float64, low, high float64) value {
	return value{"number", strconv.FormatFloat(*target, 'g', -1, 64), func(given string) error {
		x, err := strconv.ParseFloat(given, 64)
		if err != nil || !(x >= low && x <= high) {
			return fmt.Errorf("expected a number from %g to %g", low, high)
		}
		*target = x
		return nil
	}}
}

// several is a text that can be given more than once. It is looked at later, because it may contain a secret.
func several(target *[]string, kind string) value {
	return value{kind, "", func(given string) error {
		*target = append(*target, given)
		return nil
	}}
}
