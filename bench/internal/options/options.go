// Package options is the command line of the benchmark: what it accepts, what it refuses and why, and its help.
//
// Every error names the flag, what was given and what is expected, except for the values of -token and of stray arguments,
// which may be secret and are never repeated.
package options

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"net/url"
	"time"
)

// TokenVariable is the environment variable that is used when -token is not given.
const TokenVariable = "RATELIGHT_TOKEN"

// ErrHelp is returned by Parse when help is asked for.
var ErrHelp = errors.New("help requested")

// Options are what the command line says.
type Options struct {
	Requests     int
	Concurrency  int // requests handed to the client at a time; 0: all at once
	MaxRateLimit time.Duration
	GlobalLimit  int // requests per second; 0: none

	Buckets int
	Limit   int // requests per Window
	Window  time.Duration
	Kind    string // fixed, sliding or leaky
	Latency time.Duration
	Jitter  time.Duration
	Seed    uint64

	Target *url.URL // scheme and host of a real server; nil: the simulator
	Path   string
	Token  string // value of the Authorization header
	target string // as given; it may contain a secret by mistake

	Scenario string // a name, "all" or "list"; "": a load

	Soak time.Duration // how long; 0: no soak

	Processes int           // that share limits; 0: this one alone
	Redis     string        // URL of the server that they share them through; "": one is started. It may contain a password
	Length    time.Duration // of each of their scenarios
	Disturb   bool
	Outage    string // what processes do while the server is away

	JSON          bool
	Report        string // path of a file; "": none
	FailOn429     bool
	MinEfficiency float64 // 0: none is asked for
}

// defaults finish in about ten seconds.
func defaults() Options {
	return Options{
		Requests: 500, MaxRateLimit: 5 * time.Minute, GlobalLimit: 50,
		Buckets: 10, Limit: 5, Window: time.Second, Kind: "fixed",
		Latency: 20 * time.Millisecond, Jitter: 10 * time.Millisecond, Seed: 1,
		Path:   "/api/v10/gateway",
		Length: 20 * time.Second, Outage: "wait",
	}
}

// realRequests is how many requests go to a real server unless -requests says otherwise.
const realRequests = 20

// Parse reads the arguments after the program's name. The error is ErrHelp or says what is wrong with them.
func Parse(arguments []string, environment func(string) string) (Options, error) {
	o := defaults()
	groups := o.groups()
	given, err := parseFlags(groups, arguments)
	if err != nil {
		return o, err
	}
	if err := o.check(groups, given); err != nil {
		return o, err
	}
	if o.mode() == shared {
		return o, o.checkSeveral(given)
	}
	if o.mode() != real {
		return o, nil
	}
	if o.Token == "" {
		o.Token = environment(TokenVariable)
	}
	if !given["requests"] {
		o.Requests = realRequests
	}
	return o, o.checkReal()
}

// parseFlags sets the values of flags and returns which were given.
func parseFlags(groups []group, arguments []string) (given map[string]bool, err error) {
	set := flag.NewFlagSet("bench", flag.ContinueOnError)
	set.SetOutput(io.Discard)
	set.Usage = func() {}
	for _, group := range groups {
		for _, f := range group.flags {
			set.Var(f.value, f.name, "")
		}
	}
	if err := set.Parse(arguments); errors.Is(err, flag.ErrHelp) {
		return nil, ErrHelp
	} else if err != nil {
		return nil, err
	}
	if set.NArg() > 0 {
		return nil, fmt.Errorf("argument %d is not a flag: expected flags only; quote values that contain spaces", len(arguments)-set.NArg()+1)
	}
	given = make(map[string]bool)
	set.Visit(func(f *flag.Flag) { given[f.Name] = true })
	return given, nil
}

// mode is what the program is asked to do. Every flag is for one or more of them.
type mode int

const (
	simulated mode = 1 << iota
	real
	judged
	soaked
	shared
)

func (o *Options) mode() mode {
	switch {
	case o.Processes > 0:
		return shared
	case o.Soak > 0:
		return soaked
	case o.Scenario != "":
		return judged
	case o.target != "":
		return real
	}
	return simulated
}

// group is flags that belong together in the help.
type group struct {
	title string
	flags []option
}

// option is one flag.
type option struct {
	name  string
	value value
	modes mode
	usage string
}

func (o *Options) groups() []group {
	load := simulated | real
	return []group{
		{"Load", []option{
			{"requests", whole(&o.Requests, 1, 1_000_000), load, fmt.Sprintf("requests to make; %d with -target", realRequests)},
			{"concurrency", whole(&o.Concurrency, 0, 1_000_000), load, "requests in progress at the same time, 0 for all at once"},
			{"max-rate-limit", span(&o.MaxRateLimit, 0, 24*time.Hour), load, "longest predicted wait that the client accepts; it refuses a request that would wait longer"},
			{"global-limit", whole(&o.GlobalLimit, 0, 1_000_000), load, "requests per second in total, for client and simulator, 0 for no limit"},
		}},
		{"Simulated Discord", []option{
			{"buckets", whole(&o.Buckets, 1, 100_000), simulated, "channels to which the requests are sent in turn, each with its own bucket"},
			{"limit", whole(&o.Limit, 1, 1_000_000), simulated, "requests per window in each bucket"},
			{"window", span(&o.Window, time.Millisecond, 24*time.Hour), simulated, "length of the window"},
			{"kind", choice(&o.Kind, "fixed", "sliding", "leaky"), simulated, "how a bucket refills: all places when the window ends, each place a window after its request, or one place every window/limit"},
			{"latency", span(&o.Latency, 0, time.Minute), simulated, "mean round trip"},
			{"jitter", span(&o.Jitter, 0, time.Minute), simulated, "largest difference of a round trip from the mean; at most the latency"},
			{"seed", seed(&o.Seed), simulated | judged | soaked | shared, "seed of the random numbers"},
		}},
		{"Real server, in place of the simulated one", []option{
			{"target", address(&o.target), real, "SEND REAL REQUESTS to this server, such as https://discord.com; only GET, and they count for its limits"},
			{"path", text("path", &o.Path), real, "path of the GET requests"},
			{"token", secret(&o.Token), real, `value of the Authorization header, such as "Bot …"; safer in the environment variable ` + TokenVariable + ", because other users can see arguments; never printed"},
		}},
		{"Scenarios with a verdict on the limiter", []option{
			{"scenario", text("name", &o.Scenario), judged | shared, "name of a scenario to run, all for all of them at once (about 20 s), or list for their names"},
		}},
		{"Several processes that share their limits", []option{
			{"processes", optional(whole(&o.Processes, 1, 64)), shared, "number of processes to start, which share limits through a Redis or Valkey server; they are judged on one bucket and on many, one scenario after the other; -scenario selects one"},
			{"redis", text("URL", &o.Redis), shared, "server for the shared limits, such as redis://127.0.0.1:6379; by default an installed server is started, and stopped afterwards; never printed"},
			{"length", span(&o.Length, 3*time.Second, 10*time.Minute), shared, fmt.Sprintf("approximate duration of a scenario; %s or more with -disturb", short(lengthOfAccidents))},
			{"disturb", boolean(&o.Disturb), shared, "restart all processes one after the other, kill half of them, freeze the server for 3 s, kill it and restart it from an old snapshot, and empty; judge what each costs: 429s, and the time until requests are served again; all scenarios run at the same time"},
			{"outage", choice(&o.Outage, "wait", "fail", "share", "full"), shared, "what processes do while the server is unavailable: wait, fail waiting requests, divide the limits among them, or each use all of every limit; only wait has a verdict on its cost"},
		}},
		{"Search for leaks", []option{
			{"soak", optional(span(&o.Soak, time.Second, 31*24*time.Hour)), soaked, "send 1000 requests a minute for this time, such as 10m, with all kinds of failures; then idle for some minutes, and check for leaks"},
		}},
		{"Output and verdict", []option{
			{"json", boolean(&o.JSON), load | judged | shared, "print JSON and nothing else to standard output"},
			{"report", text("file", &o.Report), load | judged | shared, "write a page of charts to this file, to open in a browser; it needs no other files and no network"},
			{"fail-on-429", boolean(&o.FailOn429), load | judged | shared, "exit with status 1 if any request was answered with 429, avoidable or not"},
			{"min-efficiency", fraction(&o.MinEfficiency), simulated | judged | shared, "exit with status 1 below this fraction of the certain ideal, such as 0.97"},
		}},
	}
}
