package main

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/ratelight/ratelight/bench/internal/command"
	"github.com/ratelight/ratelight/bench/internal/load"
	"github.com/ratelight/ratelight/routes"
)

// loadCommand sends a load to a simulated or a real server.
type loadCommand struct {
	load.Config `embed:""`
	judged      `embed:""`
}

func (c *loadCommand) Check(given map[string]bool) error {
	if given["target"] {
		c.Requests = cmp.Or(c.Requests, 20)
		if err := command.NoEffect(given, "-target", "buckets", "limit", "window", "kind", "latency", "jitter", "seed", "min-efficiency"); err != nil {
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
	c.Measured = !given["limit"] && !given["window"] && !given["kind"]
	return c.Network.Check()
}

// checkTarget validates the flags for a real server. Its errors repeat no secrets, such as the address of a webhook.
func (c *loadCommand) checkTarget() error {
	u, err := url.Parse(c.Target)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return errors.New("-target is not the address of a server: expected http or https and a host, such as https://discord.com")
	}
	if u.User != nil || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "" {
		return fmt.Errorf("-target has more than scheme and host: expected %s://%s, and the path in -path", u.Scheme, u.Host)
	}
	c.Server = &url.URL{Scheme: u.Scheme, Host: u.Host}
	ip := net.ParseIP(u.Hostname())
	if loopback := u.Hostname() == "localhost" || ip != nil && ip.IsLoopback(); c.Token != "" && u.Scheme == "http" && !loopback {
		return fmt.Errorf("-target is %s: expected https, because http would send the token unencrypted", c.Server)
	}
	if strings.ContainsAny(c.Token, "\r\n\x00") {
		return errors.New("the token from -token or RATELIGHT_TOKEN contains a line break: expected the value of a header")
	}
	if !strings.HasPrefix(c.Path, "/") {
		return errors.New("-path does not begin with a slash: expected a path of the API, such as /api/v10/gateway")
	}
	if _, err := routes.Match(http.MethodGet, c.Path); err != nil {
		return fmt.Errorf("-path is not a path of the API: %w", err)
	}
	return nil
}

// Run runs the load and shows the result.
func (c *loadCommand) Run(p *command.Program) error {
	results, err := c.runAll(p, c.Seed, c.Scenario())
	if err != nil {
		return err
	}
	return c.Show(p, results[0])
}
