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

// contender is who makes the calls: a library or a plain HTTP client, with one limiter or another.
type contender struct {
	name string
	// ratelight: it is us who limit. Then open is given our transport.
	ratelight bool
	// mutex: calls wait in a sync.Mutex, which the virtual time of testing/synctest does not see through.
	mutex bool
	// racy: the race detector complains about the library when several calls are made at once.
	racy bool
	// open returns what makes calls that are sent through base in the end. Only who is told the limits looks at the scenario.
	open func(base http.RoundTripper, s scenario) caller
}

// start opens a contender. It must be ended before it is started again.
func (c contender) start(base http.RoundTripper, s scenario) (with caller, end func()) {
	if !c.ratelight {
		return c.open(base, s), func() {}
	}
	transport := httpclient.NewTransport(httpclient.WithBase(base))
	return c.open(transport, s), func() { _ = transport.Close() }
}

// limiters returns those that limit in ways of their own.
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
		{name: "rate-bursts", open: withRate(bursts)}, // given all limits; bursts as large as they allow
		{name: "no-limiter", open: func(base http.RoundTripper, _ scenario) caller {
			return plain{Client: &http.Client{Transport: base}, repeats: true}.call
		}},
	}
}

// hooks returns the libraries as they are and with Ratelight under them.
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

// contenders are all of them.
func contenders() []contender {
	return append(limiters(), slices.DeleteFunc(hooks(), func(c contender) bool { return !c.ratelight })...)
}

// moreRetries lets the libraries that give up after some 429s go on. discordgo has no such bound.
const moreRetries = 1000

func newDiscordgo() *discordgo.Session {
	s, _ := discordgo.New("Bot " + token) // no token is refused before it is sent
	return s
}

func preparedDiscordgo(base http.RoundTripper) *discordgo.Session {
	s := newDiscordgo()
	discordgolimit.Prepare(s, base.(*httpclient.Transport))
	return s
}

// plainDisgo makes the limiter ahead of everything: it starts a goroutine that never ends, which a testing/synctest bubble
// would wait for. A client that is made resets it.
func plainDisgo() func(http.RoundTripper, scenario) caller {
	limiter := rest.NewRateLimiter(
		rest.WithRateLimiterLogger(slog.New(slog.DiscardHandler)),
		rest.WithMaxRetries(moreRetries),
		rest.WithCleanupInterval(24*time.Hour), // it would look at virtual times in real time
	)
	return func(base http.RoundTripper, _ scenario) caller {
		// Without disgo's timeout: it closes no body, and a goroutine for each would wait for the timeout to pass.
		return newDisgo(rest.WithHTTPClient(&http.Client{Transport: base}), rest.WithRateLimiter(limiter))
	}
}

func newDisgo(options ...rest.ClientConfigOpt) caller {
	quiet := rest.WithLogger(slog.New(slog.DiscardHandler))
	return inDisgo(rest.New(rest.NewClient(token, append(options, quiet)...)))
}

// withRate is a plain client that is told the limits.
func withRate(limiter func(int, time.Duration) *rate.Limiter) func(http.RoundTripper, scenario) caller {
	return func(base http.RoundTripper, s scenario) caller {
		return plain{Client: &http.Client{Transport: base}, before: newConfigured(s, limiter).wait, repeats: true}.call
	}
}
