package options

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/ratelight/ratelight/routes"
)

// check refuses flags that contradict each other.
func (o *Options) check(groups []group, given map[string]bool) error {
	instead := map[mode]string{real: "-target", judged: "-scenario", soaked: "-soak", shared: "-processes"}
	for _, group := range groups {
		for _, f := range group.flags {
			switch {
			case !given[f.name] || f.modes&o.mode() != 0:
			case f.modes == shared:
				return fmt.Errorf("-%s has an effect only together with -processes, which is not given", f.name)
			case o.mode() == simulated:
				return fmt.Errorf("-%s has an effect only together with -target, which is not given", f.name)
			default:
				return fmt.Errorf("-%s has no effect together with %s: omit one of them", f.name, instead[o.mode()])
			}
		}
	}
	if o.Report != "" && o.Scenario == "list" {
		return errors.New("-report has no effect together with -scenario list: expected scenarios to run")
	}
	if o.Jitter > o.Latency {
		return fmt.Errorf("-jitter is %v: expected at most the latency, which is %v", o.Jitter, o.Latency)
	}
	return nil
}

// lengthOfAccidents is how long a scenario lasts in which accidents happen; they need the time.
const lengthOfAccidents = 70 * time.Second

// checkSeveral looks at what several processes are to do.
func (o *Options) checkSeveral(given map[string]bool) error {
	if o.Redis != "" {
		// What was given is not repeated, as it may contain a password.
		u, err := url.Parse(o.Redis)
		if err != nil || u.Scheme == "" || u.Host == "" && u.Path == "" {
			return errors.New("-redis is not the URL of a server: expected one such as redis://127.0.0.1:6379")
		}
	}
	if !o.Disturb {
		if given["outage"] {
			return errors.New("-outage has an effect only together with -disturb, which is not given")
		}
		return nil
	}
	switch {
	case o.Processes < 2:
		return errors.New("-disturb is given and -processes is 1: expected 2 or more, because half of them are killed")
	case o.Redis != "":
		return errors.New("-disturb is given together with -redis: omit one of them, because -disturb freezes, kills and rolls back the server, so the program has to start it itself")
	case given["min-efficiency"]:
		return errors.New("-min-efficiency has no effect together with -disturb: omit one of them, because there is no ideal to compare with")
	case !given["length"]:
		o.Length = lengthOfAccidents
	case o.Length < lengthOfAccidents:
		return fmt.Errorf("-length is %s: expected %s or more with -disturb", short(o.Length), short(lengthOfAccidents))
	}
	return nil
}

// checkReal looks at where real requests would go.
func (o *Options) checkReal() error {
	target, err := parseTarget(o.target)
	if err != nil {
		return err
	}
	o.Target = target
	if o.Token != "" && target.Scheme == "http" && !isLoopback(target) {
		return fmt.Errorf("-target is %s: expected https, because http would send the token unencrypted", target)
	}
	if strings.ContainsAny(o.Token, "\r\n\x00") {
		return fmt.Errorf("the token from -token or %s contains a line break: expected the value of a header", TokenVariable)
	}
	// What was given as path is not repeated, as it may contain the token of a webhook.
	if !strings.HasPrefix(o.Path, "/") {
		return errors.New("-path does not begin with a slash: expected a path of the API, such as /api/v10/gateway")
	}
	if _, err := routes.Match(http.MethodGet, o.Path); err != nil {
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

func isLoopback(target *url.URL) bool {
	ip := net.ParseIP(target.Hostname())
	return target.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
}
