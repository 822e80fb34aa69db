package measured

import (
	"net/http"
	"time"

	"github.com/ratelight/ratelight/internal/discordsim"
)

// Options are the differences between simulations.
type Options struct {
	// Punctual: all buckets open when announced. Otherwise some open late, as measured.
	Punctual bool
	// Channels maps the ids of webhooks to their channels. Each webhook that is not listed has a channel of its own.
	Channels map[string]string
}

// Rules returns the rules of all routes. Use them with the global limit of 50 per second, which limits the routes that
// have no limit of their own.
func Rules(options Options) []discordsim.Rule {
	var rules []discordsim.Rule
	for _, r := range readTable() {
		rule := r.rule()
		options.hide(r.name(), &rule)
		if options.Punctual {
			rule.Quota.Lateness = discordsim.Lateness{}
		}
		rules = append(rules, rule)
	}
	return append(rules, options.unmeasured()...)
}

// unmeasured returns the rules of the routes that the table does not have.
func (o *Options) unmeasured() []discordsim.Rule {
	webhook := discordsim.Rule{
		Path: "/webhooks/{id}/{token}/**", Hash: hash(webhookToken), Quota: numbers[webhookToken],
	}
	slack, github := webhook, webhook
	slack.Method, slack.Path = http.MethodPost, "/webhooks/{id}/{token}/slack"
	github.Method, github.Path = http.MethodPost, "/webhooks/{id}/{token}/github"
	slack.Shared, github.Shared = o.webhookMessages(), o.webhookMessages()
	return []discordsim.Rule{
		slack, github, webhook,
		// Responses to interactions have no limit, by Discord's documentation.
		{Method: http.MethodPost, Path: "/interactions/{id}/{token}/callback", Quota: discordsim.Unlimited()},
		{Path: "/**", Quota: discordsim.Fixed(5, time.Second)}, // of the usual size
	}
}
