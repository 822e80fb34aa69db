package discordtest

import (
	"maps"

	"github.com/ratelight/ratelight/internal/discordsim/measured"
)

// Discord gives the server the limits of the real Discord, as far as they have been measured (in September and October
// 2026, by one application) or reported. These limits replace the usual ones:
//
//   - which routes have a limit, the kind of the limit, and which routes share a limit, such as all routes that change
//     a channel's reactions, and all routes of a webhook's token;
//   - buckets of one request, which open later than their headers say: by 0.3 s, and for reactions by 0.2 s (see
//     Punctual);
//   - routes whose headers announce 1000 requests in a millisecond, so that only the global limit limits them;
//   - hidden limits of changes of a channel's name or topic, edits of messages older than an hour, messages of all
//     webhooks of a channel, prunes (one in 15 minutes), and new webhooks (about 50 in a row);
//   - limits of webhooks, for each token in the path, whatever the Authorization.
//
// The numbers of requests and the periods differ between applications, so most of these limits are of the usual size.
// Only reactions, hidden limits and the deletion of messages have the known numbers. Rules that limit an operation
// replace its limit.
func Discord() Rule {
	return Rule{name: "Discord", preset: &measured.Options{}}
}

// Punctual makes all buckets of a Discord rule open at the times that their headers name.
func (r Rule) Punctual() Rule {
	return r.refine("Punctual", func(o *measured.Options) { o.Punctual = true })
}

// WebhooksIn assigns webhooks to a channel in a Discord rule. These webhooks share the channel's limit of 30 messages
// in a minute. A webhook that is not assigned counts as the only one of its channel.
func (r Rule) WebhooksIn(channelID string, webhookIDs ...string) Rule {
	return r.refine("WebhooksIn", func(o *measured.Options) {
		channels := make(map[string]string)
		maps.Copy(channels, o.Channels)
		for _, id := range webhookIDs {
			channels[id] = channelID
		}
		o.Channels = channels
	}).check(channelID != "" && len(webhookIDs) > 0, "WebhooksIn needs a channel and its webhooks")
}

// refine changes a copy of the options of a Discord rule.
func (r Rule) refine(method string, change func(*measured.Options)) Rule {
	if r.preset == nil {
		return r.check(false, method+" is for Discord")
	}
	options := *r.preset
	change(&options)
	r.preset = &options
	return r
}
