package proxy

import (
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"time"

	"github.com/ratelight/ratelight/httpclient"
	"github.com/ratelight/ratelight/routes"
)

const (
	// DefaultUpstream is the upstream unless WithUpstream sets another upstream.
	DefaultUpstream = "https://discord.com"
	// DefaultMaxWait is the longest predicted wait that is accepted, unless WithMaxWait sets another wait. It is shorter
	// than the timeouts of libraries, which are 15 s or more.
	DefaultMaxWait = 10 * time.Second
	// LongestWait bounds the header X-Ratelight-Max-Wait.
	LongestWait = 5 * time.Minute
)

// ErrOptions is wrapped by the errors of New.
var ErrOptions = errors.New("bad options of the proxy")

// Option configures a Handler.
type Option func(*settings) error

type settings struct {
	upstream     *url.URL
	maxWait      time.Duration
	maxBuffered  int64
	logger       *slog.Logger
	globalLimit  int            // requests per second; 0: the transport's default
	globalLimits map[string]int // limits of some bots, by the bot's id
	transport    []httpclient.Option
}

func defaults() settings {
	upstream, _ := url.Parse(DefaultUpstream) // never fails for this constant
	return settings{upstream: upstream, maxWait: DefaultMaxWait, maxBuffered: httpclient.DefaultMaxBufferedBody}
}

// WithUpstream sets the base URL of the server to which all requests are sent. The server may be a fake Discord, or
// another server that is compatible with Discord. Its limits are treated like Discord's. The URL has a scheme and a
// host, and may have a path, which is put before /api. The default is DefaultUpstream.
func WithUpstream(base string) Option {
	return func(s *settings) error {
		u, err := url.Parse(base)
		switch {
		case err != nil:
			return fmt.Errorf("%w: the upstream is not a URL: expected one like %s", ErrOptions, DefaultUpstream)
		case u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
			return fmt.Errorf("%w: the upstream has no http:// or https:// with a host: expected a URL like %s",
				ErrOptions, DefaultUpstream)
		case routes.IsMediaHost(u.Host):
			return fmt.Errorf("%w: the upstream is one of Discord's hosts for media, which have no rate limits: "+
				"expected the host of an API, like %s", ErrOptions, DefaultUpstream)
		case u.User != nil || u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
			return fmt.Errorf("%w: the upstream has a user, query or fragment: expected scheme, host and path only", ErrOptions)
		}
		before := strings.TrimRight(u.EscapedPath(), "/")
		if _, ok := apiPath(before + "/x"); ok && strings.HasPrefix(before, "/api") {
			return fmt.Errorf("%w: the path of the upstream begins with /api: "+
				"expected only the part before /api, because /api and the version come from the requests", ErrOptions)
		}
		u.Path, u.RawPath = strings.TrimRight(u.Path, "/"), strings.TrimRight(u.RawPath, "/")
		s.upstream = u
		return nil
	}
}

// WithMaxWait sets the longest predicted wait that is accepted, from 0 (do not wait at all) to LongestWait. The bound
// applies to each wait of a request separately: after a 429, the request may wait again for as long as the bound
// allows. The default is DefaultMaxWait.
func WithMaxWait(d time.Duration) Option {
	return func(s *settings) error {
		if d < 0 || d > LongestWait {
			return fmt.Errorf("%w: a max wait of %v: expected 0 to %v", ErrOptions, d, LongestWait)
		}
		s.maxWait = d
		return nil
	}
}

// WithMaxBufferedBody sets the largest body, in bytes, that is read into memory so that the request can be repeated
// (see httpclient.WithBufferedBodies). The default is httpclient.DefaultMaxBufferedBody.
func WithMaxBufferedBody(bytes int64) Option {
	return func(s *settings) error {
		if bytes <= 0 {
			return fmt.Errorf("%w: bodies of up to %d bytes in memory: expected 1 or more", ErrOptions, bytes)
		}
		s.maxBuffered = bytes
		return nil
	}
}

// WithGlobalLimits sets how many requests per second each Authorization may send. If Discord has raised the limit of
// some bots, ofBots has the limits of these bots, by their ids. The default is buckets.DefaultGlobalLimit for all bots.
func WithGlobalLimits(perSecond int, ofBots map[string]int) Option {
	return func(s *settings) error {
		if perSecond <= 0 {
			return fmt.Errorf("%w: a global limit of %d: expected 1 or more", ErrOptions, perSecond)
		}
		for id, limit := range ofBots {
			if !isSnowflake(id) || limit <= 0 {
				return fmt.Errorf("%w: a global limit of %d for the bot %q: expected 1 or more for the id of a bot",
					ErrOptions, limit, id)
			}
		}
		s.globalLimit, s.globalLimits = perSecond, ofBots
		return nil
	}
}

// WithLogger sets the logger of the handler and its transport. Failures of the upstream are logged as warnings, at most
// one of each kind in 30 seconds. Nil turns logging off. The default logs warnings to slog.Default().
func WithLogger(logger *slog.Logger) Option {
	return func(s *settings) error {
		if logger == nil {
			logger = slog.New(slog.DiscardHandler)
		}
		s.logger = logger
		return nil
	}
}

// WithTransport passes options to the transport, after the handler's own options. For example, WithBuckets can share
// limits with other processes, WithAttempts with a number of Retries makes the proxy repeat failed requests, and
// WithoutRateLimitHeaders keeps the clients' own limiters from making requests wait a second time. Do not pass
// WithHosts or WithAPI; use WithUpstream instead.
func WithTransport(options ...httpclient.Option) Option {
	return func(s *settings) error {
		s.transport = append(s.transport, options...)
		return nil
	}
}
