package measured

import (
	"net/http"
	"time"

	"github.com/ratelight/ratelight/internal/discordsim"
)

// Options has what may differ between simulations.
type Options struct {
	// Punctual says that all buckets open when announced. Otherwise some buckets open late, as measured.
	Punctual bool
	// Channels maps the ids of webhooks to the ids of their channels. A webhook that is not listed has a channel of its
	// own.
	Channels map[string]string
}

// Rules returns the rules of all routes. Use them with the default global limit of 50 requests per second, which also
// limits the routes without a limit of their own.
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

// unmeasured returns the rules of the routes that are not in routes.txt.
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
		// According to Discord's documentation, responses to interactions have no limit.
		{Method: http.MethodPost, Path: "/interactions/{id}/{token}/callback", Quota: discordsim.Unlimited()},
		{Path: "/**", Quota: discordsim.Fixed(5, time.Second)}, // of the usual size
	}
}
