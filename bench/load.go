package main

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/ratelight/ratelight/bench/internal/load"
	"github.com/ratelight/ratelight/internal/discordsim"
	"github.com/ratelight/ratelight/routes"
)

// loadCommand sends a load to a simulated or a real server.
type loadCommand struct {
	Requests     int           `group:"Load" range:"1..1000000" placeholder:"NUMBER" help:"Requests to make: 500 unless given, 20 with -target."`
	Concurrency  int           `group:"Load" range:"0..1000000" default:"0" placeholder:"NUMBER" help:"Requests in progress at the same time, 0 for all at once."`
	MaxRateLimit time.Duration `group:"Load" range:"0s..24h" default:"5m" help:"Longest predicted wait that the client accepts; it refuses a request that would wait longer."`
	GlobalLimit  int           `group:"Load" range:"0..1000000" default:"50" help:"Requests per second in total, for client and simulator, 0 for no limit."`

	Buckets int `group:"Simulated Discord" range:"1..100000" default:"10" help:"Channels to which the requests are sent in turn, each with its own bucket."`
	bucket  `embed:"" set:"window=1s"`
	network `embed:"" set:"jitter=10ms"`

	Target string `group:"Real server, in place of the simulated one" placeholder:"URL" secret:"" help:"SEND REAL REQUESTS to this server, such as https://discord.com; only GET, and they count for its limits."`
	Path   string `group:"Real server, in place of the simulated one" placeholder:"PATH" secret:"" default:"/api/v10/gateway" help:"Path of the GET requests."`
	Token  string `group:"Real server, in place of the simulated one" placeholder:"TEXT" secret:"" env:"RATELIGHT_TOKEN" help:"Value of the Authorization header, such as \"Bot …\"; safer in the environment variable, because other users can see arguments; never printed."`

	judged `embed:""`

	target *url.URL
}

// bucket is how the simulated Discord limits.
type bucket struct {
	Limit  int           `group:"Simulated Discord" range:"1..1000000" default:"5" help:"Requests per window in each bucket."`
	Window time.Duration `group:"Simulated Discord" range:"1ms..24h" default:"${window}" help:"Length of the window."`
	Kind   string        `group:"Simulated Discord" enum:"fixed,sliding,leaky" default:"fixed" help:"How buckets refill: fixed (all places when the window ends), sliding (each place a window after its request), or leaky (one place every window/limit)."`
}

func (b *bucket) quota(limit int, window time.Duration) discordsim.Quota {
	switch b.Kind {
	case "sliding":
		return discordsim.Sliding(limit, window)
	case "leaky":
		return discordsim.Leaky(limit, window)
	}
	return discordsim.Fixed(limit, window)
}

// network is the way to the simulated Discord.
type network struct {
	Latency time.Duration `group:"Simulated Discord" range:"0s..1m" default:"${latency}" help:"Mean round trip."`
	Jitter  time.Duration `group:"Simulated Discord" range:"0s..1m" default:"${jitter}" help:"Largest difference of a round trip from the mean; at most the latency."`
	Seed    uint64        `group:"Simulated Discord" default:"1" help:"Seed of the random numbers."`
}

func (n *network) check() error {
	if n.Jitter > n.Latency {
		return fmt.Errorf("-jitter is %v: expected at most the latency, which is %v", n.Jitter, n.Latency)
	}
	return nil
}

func (n *network) latency() discordsim.Latency {
	return discordsim.Latency{RoundTrip: n.Latency, Jitter: n.Jitter}
}

func (c *loadCommand) check(given map[string]bool) error {
	if given["target"] {
		c.Requests = cmp.Or(c.Requests, 20)
		if err := noEffect(given, "-target", "buckets", "limit", "window", "kind", "latency", "jitter", "seed", "min-efficiency"); err != nil {
			return err
		}
		return c.checkTarget()
	}
	c.Requests = cmp.Or(c.Requests, 500)
	for _, name := range []string{"path", "token"} {
		if given[name] {
			return fmt.Errorf("-%s has an effect only together with -target, which is not given", name)
		}
	}
	return c.network.check()
}

// checkTarget looks at where real requests would go.
func (c *loadCommand) checkTarget() (err error) {
	if c.target, err = parseTarget(c.Target); err != nil {
		return err
	}
	ip := net.ParseIP(c.target.Hostname())
	if loopback := c.target.Hostname() == "localhost" || ip != nil && ip.IsLoopback(); c.Token != "" && c.target.Scheme == "http" && !loopback {
		return fmt.Errorf("-target is %s: expected https, because http would send the token unencrypted", c.target)
	}
	if strings.ContainsAny(c.Token, "\r\n\x00") {
		return errors.New("the token from -token or RATELIGHT_TOKEN contains a line break: expected the value of a header")
	}
	// What was given as path is not repeated, as it may contain the token of a webhook.
	if !strings.HasPrefix(c.Path, "/") {
		return errors.New("-path does not begin with a slash: expected a path of the API, such as /api/v10/gateway")
	}
	if _, err := routes.Match(http.MethodGet, c.Path); err != nil {
		return fmt.Errorf("-path is not a path of the API: %w", err)
	}
	return nil
}

// parseTarget wants a scheme and a host. Of anything else it repeats nothing, as the address of a webhook is a secret.
func parseTarget(given string) (*url.URL, error) {
	u, err := url.Parse(given)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return nil, errors.New("-target is not the address of a server: expected http or https and a host, such as https://discord.com")
	case u.User != nil || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "":
		return nil, fmt.Errorf("-target has more than scheme and host: expected %s://%s, and the path in -path", u.Scheme, u.Host)
	}
	return &url.URL{Scheme: u.Scheme, Host: u.Host}, nil
}

// Run runs a load and shows what came of it.
func (c *loadCommand) Run(p *program) error {
	config := load.Config{
		Requests: c.Requests, Concurrency: c.Concurrency, MaxRateLimit: c.MaxRateLimit, GlobalLimit: c.GlobalLimit,
		Simulated: load.Simulated{Channels: c.Buckets, Quota: c.quota(c.Limit, c.Window), Latency: c.latency(), Seed: c.Seed},
	}
	if c.target != nil {
		config.Real = &load.Real{Target: c.target, Path: c.Path, Token: c.Token}
	}
	results, err := c.runAll(p, c.Seed, config.Scenario())
	if err != nil {
		return err
	}
	return c.show(p, results[0])
}
