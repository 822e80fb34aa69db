package redis

import (
	"crypto/tls"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/redis/rueidis"
)

// parameters are the parameters that rueidis.ParseURL uses. ParseURL ignores all other parameters, so without this list
// a misspelt parameter would have no effect.
var parameters = []string{
	"addr", "client_cache", "client_name", "db", "dial_timeout",
	"master_set", "max_retries", "protocol", "skip_verify", "write_timeout",
}

// harmless matches the names of unknown parameters that an error may contain. Any other name may be a part of a
// password that was not encoded.
var harmless = regexp.MustCompile(`^[a-z_-]{1,20}$`)

// beginning matches the schemes that a URL may have.
var beginning = regexp.MustCompile(`^(?i:rediss?|valkeys?|unix):`)

const (
	dialTimeout  = 2 * time.Second // for one connection, including TLS and login
	writeTimeout = 2 * time.Second // a connection is closed if a ping on it gets no reply within this time
	keepAlive    = time.Second
	sentinelScan = 5 * time.Second // the time between two questions to the Sentinels about the primary
	maxMoved     = 8               // largest number of redirections of one call in a cluster
	bufferSize   = 1 << 16         // in bytes; less than rueidis' default of 512 KiB, because calls and replies are short
)

// parseURL returns the client's options for a URL. Its errors contain no part of the URL, because any part may belong
// to a password.
func parseURL(text string) (rueidis.ClientOption, error) {
	refuse := func(what string) (rueidis.ClientOption, error) {
		return rueidis.ClientOption{}, fmt.Errorf("%w: %s", ErrURL, what)
	}
	if !beginning.MatchString(text) {
		return refuse("it must begin with redis://, rediss://, valkey://, valkeys:// or unix://")
	}
	u, err := url.Parse(text)
	if err != nil {
		problem := "it does not parse; "
		if strings.Contains(err.Error(), "invalid port") { // a slash in a password has the same effect
			problem = "the port is not a number, or "
		}
		return refuse(problem + "a user or password with any of : / ? # [ ] @ % must be percent-encoded")
	}
	if u.Opaque != "" {
		return refuse("there is no // after the scheme")
	}
	if u.Fragment != "" || u.RawFragment != "" {
		return refuse("it contains a #, which must be written as %23 in a password")
	}
	if u.Scheme == "unix" && u.Path == "" {
		return refuse("it has no socket, expected unix:///path/to/redis.sock")
	}
	if u.Scheme != "unix" && u.Host == "" {
		return refuse("it names no host")
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return refuse("its parameters cannot be parsed")
	}
	for name := range query {
		if !slices.Contains(parameters, name) {
			if !harmless.MatchString(name) {
				name = "a parameter"
			}
			return refuse(name + " is not known; known parameters are " + strings.Join(parameters, ", "))
		}
	}
	option, err := rueidis.ParseURL(text)
	if err != nil {
		return refuse(parseProblem(err))
	}
	return option, nil
}

// parseProblem says which part of the URL rueidis has rejected. It does not contain the part's value, which may belong
// to a password.
func parseProblem(err error) string {
	for part, name := range map[string]string{
		"database number": "the number of the database (after the slash, or db)",
		"dial timeout":    "dial_timeout",
		"write timeout":   "write_timeout",
		"skip verify":     "skip_verify",
		"URL path":        "the path, which can only be a database's number,",
	} {
		if strings.Contains(err.Error(), part) {
			return name + " is not valid"
		}
	}
	return "it cannot be parsed"
}

// clientOption returns the options of the client. It takes them from the URL, applies the other options of Open, and
// then sets what scripts need.
func (s *settings) clientOption(text string) (rueidis.ClientOption, error) {
	o, err := parseURL(text)
	if err != nil {
		return o, err
	}
	if s.tls != nil {
		config := s.tls.Clone()
		if config.ServerName == "" && !config.InsecureSkipVerify {
			config.ServerName = serverName(text, o.TLSConfig)
		}
		o.TLSConfig = config
	}
	if o.Dialer.Timeout == 0 {
		o.Dialer.Timeout = dialTimeout
	}
	if o.ConnWriteTimeout == 0 {
		o.ConnWriteTimeout = writeTimeout
	}
	o.Dialer.KeepAlive = keepAlive
	o.ReadBufferEachConn, o.WriteBufferEachConn = bufferSize, bufferSize
	o.PipelineMultiplex = -1 // one connection, because the server runs one script at a time
	o.Sentinel.Dialer, o.Sentinel.TLSConfig = o.Dialer, o.TLSConfig
	o.Sentinel.TopologyRefreshInterval = sentinelScan
	o.ClusterOption.MaxMovedRedirections = maxMoved
	for _, change := range s.change {
		change(&o)
	}
	o.DisableCache = true     // calls only run scripts, so there is nothing to cache
	o.AlwaysPipelining = true // otherwise a call that takes too long would close the connection
	o.ReplicaOnly, o.SendToReplicas = false, nil
	if o.ClientSetInfo == nil {
		o.ClientSetInfo = rueidis.DisableClientSetInfo // so that the user does not need the permission for it
	}
	return o, nil
}

func serverName(text string, parsed *tls.Config) string {
	if parsed != nil && parsed.ServerName != "" {
		return parsed.ServerName
	}
	u, err := url.Parse(text)
	if err != nil {
		return ""
	}
	return u.Hostname()
}
