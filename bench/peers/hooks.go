package main

import (
	"log/slog"
	"net/http"
	"time"

	"github.com/bwmarrin/discordgo"
	"github.com/diamondburned/arikawa/v3/api"
	"github.com/diamondburned/arikawa/v3/api/webhook"
	"github.com/diamondburned/arikawa/v3/discord"
	"github.com/diamondburned/arikawa/v3/utils/httputil"
	"github.com/diamondburned/arikawa/v3/utils/httputil/httpdriver"
	"github.com/disgoorg/disgo/rest"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/httpclient"
)

// token is the bot's in all simulations.
const token = "simulated"

// hook is a library with or without Ratelight under it.
type hook struct {
	library, name string
	// ratelight: it is us who limit.
	ratelight bool
	// mutex: calls wait in a sync.Mutex, which the virtual time of testing/synctest does not see through.
	mutex bool
	// racy: the race detector complains about the library when several calls are made at once.
	racy bool
	// open returns a client that sends through base in the end, and what closes it.
	open func(base http.RoundTripper) (client, func(), error)
}

// hooks returns all of them. One that is open must be closed before it is opened again.
func hooks() []hook {
	return []hook{
		{"discordgo", "as it is", false, true, false, plainDiscordgo},
		{"discordgo", "Session.Client", true, true, false, sharedDiscordgo},
		{"discordgo", "Session.Client, a session per call", true, false, false, singleDiscordgo},
		{"disgo", "as it is", false, false, true, plainDisgo()},
		{"disgo", "HTTP client, no-op limiter", true, false, false, hookedDisgo},
		{"disgo", "rest.RateLimiter", true, false, false, nativeDisgo},
		{"arikawa", "as it is", false, false, false, plainArikawa},
		{"arikawa", "driver, hooks replaced", true, false, false, hookedArikawa},
	}
}

// limiting returns a transport as all hooks use it.
func limiting(base http.RoundTripper) (*httpclient.Transport, func()) {
	transport := httpclient.NewTransport(httpclient.WithBase(base), httpclient.WithHiddenLimits())
	return transport, func() { _ = transport.Close() }
}

func plainDiscordgo(base http.RoundTripper) (client, func(), error) {
	s, err := newDiscordgo(&http.Client{Transport: base, Timeout: 20 * time.Second})
	return inDiscordgo{func() *discordgo.Session { return s }}, func() {}, err
}

func sharedDiscordgo(base http.RoundTripper) (client, func(), error) {
	transport, end := limiting(base)
	s, err := hookedDiscordgo(transport)
	return inDiscordgo{func() *discordgo.Session { return s }}, end, err
}

func singleDiscordgo(base http.RoundTripper) (client, func(), error) {
	transport, end := limiting(base)
	s, err := hookedDiscordgo(transport)
	return inDiscordgo{func() *discordgo.Session { return withOwnLimiter(s) }}, end, err
}

// plainDisgo makes the limiter ahead of everything: it starts a goroutine that never ends, which a testing/synctest bubble
// would wait for. A client that is made resets it.
func plainDisgo() func(base http.RoundTripper) (client, func(), error) {
	limiter := rest.NewRateLimiter(
		rest.WithRateLimiterLogger(slog.New(slog.DiscardHandler)),
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
	through := &http.Client{Transport: transport}
	return newDisgo(rest.WithHTTPClient(through), rest.WithRateLimiter(rest.NewNoopRateLimiter())), end, nil
}

func nativeDisgo(base http.RoundTripper) (client, func(), error) {
	manager := buckets.NewRESTBucketManager()
	if err := manager.Start(); err != nil {
		return nil, nil, err
	}
	through := &http.Client{Transport: base}
	c := newDisgo(rest.WithHTTPClient(through), rest.WithRateLimiter(newDisgoLimiter(manager, token)))
	return c, func() { _ = manager.Close() }, nil
}

func plainArikawa(base http.RoundTripper) (client, func(), error) {
	through := httputil.NewClient()
	through.Client = httpdriver.WrapClient(http.Client{Transport: base})
	return fromArikawa(api.NewCustomClient("Bot "+token, through)), func() {}, nil
}

func hookedArikawa(base http.RoundTripper) (client, func(), error) {
	transport, end := limiting(base)
	return fromArikawa(arikawaThrough(transport)), end, nil
}

// fromArikawa lets webhooks go through the same client, limiter included if there is one.
func fromArikawa(c *api.Client) inArikawa {
	return inArikawa{c, func(id uint64, token string) *webhook.Client {
		return webhook.FromAPI(discord.WebhookID(id), token, c)
	}}
}
