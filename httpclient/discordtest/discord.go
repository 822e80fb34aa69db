package discordtest

import (
	"maps"

	"github.com/ratelight/ratelight/internal/discordsim/measured"
)

// Discord gives the server the limits of the real Discord, as far as they have been measured (in September and October
// 2026, by one application) or reported. These limits replace the usual ones:
//
//   - which routes have a limit, the kind of the limit, and which routes share one, such as all routes that change a
//     channel's reactions, and all routes of a webhook's token;
//   - buckets of one request, which open later than their headers say: 0.3 s, and 0.2 s for reactions (see Punctual);
//   - routes whose headers announce 1000 requests in a millisecond, so that only the global limit limits them;
//   - hidden limits: changes of a channel's name or topic, edits of messages older than an hour, messages of a
//     channel's webhooks, a prune in 15 minutes, about 50 new webhooks in a row;
//   - webhooks, counted by their token, whatever the Authorization.
//
// Limits and periods differ between applications, so most of these limits are of the usual size; reactions, hidden
// limits and the deletion of messages have the known numbers. Rules about operations replace these limits.
func Discord() Rule {
	return Rule{name: "Discord", preset: &measured.Options{}}
}

// Punctual makes all buckets of a Discord rule open at the time in their headers.
func (r Rule) Punctual() Rule {
	return r.refine("Punctual", func(o *measured.Options) { o.Punctual = true })
}

// WebhooksIn assigns webhooks to a channel in a Discord rule. These webhooks share the channel's limit of 30 messages
// in a minute. Without WebhooksIn each webhook counts as the only one of its channel.
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
