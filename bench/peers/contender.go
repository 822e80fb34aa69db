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

	"github.com/ratelight/ratelight/httpclient"
	"github.com/ratelight/ratelight/httpclient/arikawalimit"
	"github.com/ratelight/ratelight/httpclient/discordgolimit"
	"github.com/ratelight/ratelight/httpclient/disgolimit"
)

// token is the bot's in all simulations.
const token = "simulated"

// contender is who makes the calls: a library or a plain HTTP client, with one limiter or another.
type contender struct {
	name, about string
	// library makes the calls. What is compared with it as it is has the same name here.
	library string
	// ratelight: it is us who limit.
	ratelight bool
	// mutex: calls wait in a sync.Mutex, which the virtual time of testing/synctest does not see through.
	mutex bool
	// racy: the race detector complains about the library when several calls are made at once.
	racy bool
	// open returns a client that sends through base in the end, and what closes it. Only who is told the limits looks at the scenario.
	open func(base http.RoundTripper, s scenario) (client, func(), error)
}

// limiters returns those that limit in ways of their own. One that is open must be closed before it is opened again.
func limiters() []contender {
	const plain = "net/http"
	return []contender{
		{name: "ratelight", about: "http.Client with httpclient.Transport", library: plain, ratelight: true, open: untold(plainRatelight)},
		{name: "discordgo", about: "its own limiter, one session", library: "discordgo", mutex: true, open: untold(plainDiscordgo)},
		{name: "disgo", about: "its own limiter, with 1000 retries instead of 10", library: "disgo", racy: true, open: untold(plainDisgo())},
		{name: "arikawa", about: "its own limiter, with 1000 retries instead of 5", library: "arikawa", open: untold(plainArikawa)},
		{name: "rate-even", about: "http.Client with golang.org/x/time/rate, given all limits and the jitter; requests spread evenly", library: plain, open: tellsLimits(evenly)},
		{name: "rate-bursts", about: "http.Client with golang.org/x/time/rate, given all limits; bursts as large as they allow", library: plain, open: tellsLimits(bursts)},
		{name: "no-limiter", about: "http.Client that repeats a 429 after its Retry-After", library: plain, open: untold(plainUnlimited)},
	}
}

// hooks returns the libraries as they are and with Ratelight under them.
func hooks() []contender {
	all := limiters()
	return slices.Concat(all[1:2], []contender{
		{name: "discordgo+ratelight-session", about: "discordgolimit.Prepare, calls with the session itself", library: "discordgo", ratelight: true, mutex: true, open: untold(preparedDiscordgo)},
		{name: "discordgo+ratelight", about: "discordgolimit.Call", library: "discordgo", ratelight: true, open: untold(hookedDiscordgo)},
	}, all[2:3], []contender{
		{name: "disgo+ratelight", about: "disgolimit.Options", library: "disgo", ratelight: true, open: untold(hookedDisgo)},
	}, all[3:4], []contender{
		{name: "arikawa+ratelight", about: "arikawalimit.Prepare", library: "arikawa", ratelight: true, open: untold(hookedArikawa)},
	})
}

// findContenders returns those with the names, which are separated by commas; "limiters", "hooks" and "all" are the lists above.
func findContenders(names string) ([]contender, error) {
	everybody := slices.Concat(limiters(), slices.DeleteFunc(hooks(), func(c contender) bool { return !c.ratelight }))
	switch names {
	case "limiters":
		return limiters(), nil
	case "hooks":
		return hooks(), nil
	}
	return find(names, everybody, func(c contender) string { return c.name })
}

// untold is for those who look at no scenario.
func untold(open func(http.RoundTripper) (client, func(), error)) func(http.RoundTripper, scenario) (client, func(), error) {
	return func(base http.RoundTripper, _ scenario) (client, func(), error) { return open(base) }
}

// limiting returns a transport and what closes it.
func limiting(base http.RoundTripper) (*httpclient.Transport, func()) {
	transport := httpclient.NewTransport(httpclient.WithBase(base))
	return transport, func() { _ = transport.Close() }
}

func plainRatelight(base http.RoundTripper) (client, func(), error) {
	transport, end := limiting(base)
	return inPlain{Client: &http.Client{Transport: transport}}, end, nil
}

func plainUnlimited(base http.RoundTripper) (client, func(), error) {
	return inPlain{Client: &http.Client{Transport: base}, repeats: true}, func() {}, nil
}

// moreRetries lets the libraries that give up after some 429s go on. discordgo has no such bound.
const moreRetries = 1000

func plainDiscordgo(base http.RoundTripper) (client, func(), error) {
	s, err := discordgo.New("Bot " + token)
	if err != nil {
		return nil, nil, err
	}
	s.Client.Transport = base
	return inDiscordgo{session: func() *discordgo.Session { return s }}, func() {}, nil
}

func preparedDiscordgo(base http.RoundTripper) (client, func(), error) {
	s, end, err := openDiscordgo(base)
	return inDiscordgo{session: func() *discordgo.Session { return s }}, end, err
}

func hookedDiscordgo(base http.RoundTripper) (client, func(), error) {
	s, end, err := openDiscordgo(base)
	return inDiscordgo{session: func() *discordgo.Session { return discordgolimit.Call(s) }}, end, err
}

// openDiscordgo returns a session on top of a transport that limits.
func openDiscordgo(base http.RoundTripper) (*discordgo.Session, func(), error) {
	s, err := discordgo.New("Bot " + token)
	if err != nil {
		return nil, nil, err
	}
	transport, end := limiting(base)
	discordgolimit.Prepare(s, transport)
	return s, end, nil
}

// plainDisgo makes the limiter ahead of everything: it starts a goroutine that never ends, which a testing/synctest bubble
// would wait for. A client that is made resets it.
func plainDisgo() func(base http.RoundTripper) (client, func(), error) {
	limiter := rest.NewRateLimiter(
		rest.WithRateLimiterLogger(slog.New(slog.DiscardHandler)),
		rest.WithMaxRetries(moreRetries),
		rest.WithCleanupInterval(24*time.Hour), // it would look at virtual times in real time
	)
	return func(base http.RoundTripper) (client, func(), error) {
		// Without disgo's timeout: it closes no body, and a goroutine for each would wait for the timeout to pass.
		through := &http.Client{Transport: base}
		return newDisgo(rest.WithHTTPClient(through), rest.WithRateLimiter(limiter)), func() {}, nil
	}
}

func hookedDisgo(base http.RoundTripper) (client, func(), error) {
	transport, end := limiting(base)
	return newDisgo(disgolimit.Options(transport)...), end, nil
}

func plainArikawa(base http.RoundTripper) (client, func(), error) {
	through := httputil.NewClient()
	through.Client = httpdriver.WrapClient(http.Client{Transport: base})
	through.Retries = moreRetries
	return inArikawa{api.NewCustomClient("Bot "+token, through)}, func() {}, nil
}

func hookedArikawa(base http.RoundTripper) (client, func(), error) {
	transport, end := limiting(base)
	c := api.NewClient("Bot " + token)
	arikawalimit.Prepare(c, transport)
	return inArikawa{c}, end, nil
}
