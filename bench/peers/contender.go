package main

import (
	"log/slog"
	"net/http"
	"slices"
	"time"

	"github.com/bwmarrin/discordgo"
	"github.com/diamondburned/arikawa/v3/api"
	"github.com/diamondburned/arikawa/v3/utils/httputil"
	"github.com/diamondburned/arikawa/v3/utils/httputil/httpdriver"
	"github.com/disgoorg/disgo/rest"
	"golang.org/x/time/rate"

	"github.com/ratelight/ratelight/httpclient"
	"github.com/ratelight/ratelight/httpclient/arikawalimit"
	"github.com/ratelight/ratelight/httpclient/discordgolimit"
	"github.com/ratelight/ratelight/httpclient/disgolimit"
)

// contender is a library or a plain HTTP client, with the limiter that it uses.
type contender struct {
	name string
	// ratelight reports whether Ratelight is the limiter. If it is, open gets Ratelight's transport as base.
	ratelight bool
	// mutex reports whether calls wait in a sync.Mutex, during which virtual time in testing/synctest stands still.
	mutex bool
	// racy reports whether the race detector finds races in the library when calls are concurrent.
	racy bool
	// open returns a caller that sends through base. Only limiters that are configured with the limits read the
	// scenario.
	open func(base http.RoundTripper, s scenario) caller
}

// start opens a contender. Call end before the next start.
func (c contender) start(base http.RoundTripper, s scenario) (with caller, end func()) {
	if !c.ratelight {
		return c.open(base, s), func() {}
	}
	transport := httpclient.NewTransport(httpclient.WithBase(base))
	return c.open(transport, s), func() { _ = transport.Close() }
}

// limiters returns the contenders that differ in their limiters, and one without a limiter.
func limiters() []contender {
	return []contender{
		{name: "ratelight", ratelight: true, open: func(base http.RoundTripper, _ scenario) caller {
			return plain{Client: &http.Client{Transport: base}}.call
		}},
		{name: "discordgo", mutex: true, open: func(base http.RoundTripper, _ scenario) caller {
			s := newDiscordgo()
			s.Client.Transport = base
			return inDiscordgo(func() *discordgo.Session { return s })
		}},
		{name: "disgo", racy: true, open: plainDisgo()},
		{name: "arikawa", open: func(base http.RoundTripper, _ scenario) caller {
			through := httputil.NewClient()
			through.Client = httpdriver.WrapClient(http.Client{Transport: base})
			through.Retries = moreRetries
			return inArikawa(api.NewCustomClient("Bot "+token, through))
		}},
		{name: "rate-even", open: withRate(evenly)},   // given all limits and the jitter; requests spread evenly
		{name: "rate-bursts", open: withRate(bursts)}, // given all limits; bursts as large as these allow
		{name: "no-limiter", open: func(base http.RoundTripper, _ scenario) caller {
			return plain{Client: &http.Client{Transport: base}, repeats: true}.call
		}},
	}
}

// hooks returns each library with its own limiter, and then with Ratelight in place of that limiter.
func hooks() []contender {
	all := limiters()
	return []contender{
		all[1],
		{
			name: "discordgo+ratelight-session", ratelight: true, mutex: true,
			open: func(base http.RoundTripper, _ scenario) caller {
				s := preparedDiscordgo(base)
				return inDiscordgo(func() *discordgo.Session { return s })
			},
		},
		{name: "discordgo+ratelight", ratelight: true, open: func(base http.RoundTripper, _ scenario) caller {
			s := preparedDiscordgo(base)
			return inDiscordgo(func() *discordgo.Session { return discordgolimit.Call(s) })
		}},
		all[2],
		{name: "disgo+ratelight", ratelight: true, open: func(base http.RoundTripper, _ scenario) caller {
			return newDisgo(disgolimit.Options(base.(*httpclient.Transport))...)
		}},
		all[3],
		{name: "arikawa+ratelight", ratelight: true, open: func(base http.RoundTripper, _ scenario) caller {
			c := api.NewClient("Bot " + token)
			arikawalimit.Prepare(c, base.(*httpclient.Transport))
			return inArikawa(c)
		}},
	}
}

// contenders returns all contenders, each once.
func contenders() []contender {
	return append(limiters(), slices.DeleteFunc(hooks(), func(c contender) bool { return !c.ratelight })...)
}

// moreRetries keeps libraries from giving up after a few 429s. discordgo does not bound the number of its retries.
const moreRetries = 1000

func newDiscordgo() *discordgo.Session {
	s, _ := discordgo.New("Bot " + token) // New accepts any token
	return s
}

func preparedDiscordgo(base http.RoundTripper) *discordgo.Session {
	s := newDiscordgo()
	discordgolimit.Prepare(s, base.(*httpclient.Transport))
	return s
}

// plainDisgo creates the limiter outside any testing/synctest bubble, which would wait for the limiter's goroutine that
// never ends. Each new client resets the limiter.
func plainDisgo() func(http.RoundTripper, scenario) caller {
	limiter := rest.NewRateLimiter(
		rest.WithRateLimiterLogger(slog.New(slog.DiscardHandler)),
		rest.WithMaxRetries(moreRetries),
		rest.WithCleanupInterval(24*time.Hour), // a cleanup would compare virtual times with real time
	)
	return func(base http.RoundTripper, _ scenario) caller {
		// Do not use disgo's own client, which has a timeout: because disgo closes no body, a goroutine for each body
		// would wait for that timeout.
		return newDisgo(rest.WithHTTPClient(&http.Client{Transport: base}), rest.WithRateLimiter(limiter))
	}
}

func newDisgo(options ...rest.ClientConfigOpt) caller {
	quiet := rest.WithLogger(slog.New(slog.DiscardHandler))
	return inDisgo(rest.New(rest.NewClient(token, append(options, quiet)...)))
}

// withRate returns the open function of a plain client with limiters that are configured with the limits.
func withRate(limiter func(int, time.Duration) *rate.Limiter) func(http.RoundTripper, scenario) caller {
	return func(base http.RoundTripper, s scenario) caller {
		return plain{Client: &http.Client{Transport: base}, before: newConfigured(s, limiter).wait, repeats: true}.call
	}
}
