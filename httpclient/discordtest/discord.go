package discordtest

import (
	"maps"

	"github.com/ratelight/ratelight/internal/discordsim/measured"
)

// Discord gives the server the limits of the real Discord that have been measured (in September and October 2026, with
// one application) or reported. They replace the limits that the server has without rules:
//
//   - Each route has a limit of the kind that was measured, or no limit. Routes share a limit as at Discord, for
//     example all routes that change the reactions in a channel, and all routes with the token of a webhook.
//   - Buckets of one request open later than their headers say: by 0.3 s, or by 0.2 s for reactions (see Punctual).
//   - The headers of some routes announce 1000 requests in a millisecond, so that only the global limit matters.
//   - Hidden limits apply to changes of a channel's name or topic, edits of messages older than an hour, messages of
//     all webhooks of a channel, prunes (one in 15 minutes), and new webhooks (about 50 in a row).
//   - Requests with a webhook's token in the path are counted for each token, whatever the Authorization is.
//
// The numbers of requests and the periods differ between applications. Therefore real numbers are used only for
// reactions, for hidden limits and for the deletion of messages. The other limits have usual numbers. A rule that
// limits an operation replaces the limit of that operation.
func Discord() Rule {
	return Rule{name: "Discord", preset: &measured.Options{}}
}

// Punctual changes a rule made by Discord: all buckets open at the times that their headers name.
func (r Rule) Punctual() Rule {
	return r.refine("Punctual", func(o *measured.Options) { o.Punctual = true })
}

// WebhooksIn changes a rule made by Discord: it assigns webhooks to a channel. These webhooks share the channel's limit
// of 30 messages in a minute. A webhook that is not assigned counts as the only one of its channel.
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

// refine returns a copy of a rule made by Discord, with changed options.
func (r Rule) refine(method string, change func(*measured.Options)) Rule {
	if r.preset == nil {
		return r.check(false, method+" is for Discord")
	}
	options := *r.preset
	change(&options)
	r.preset = &options
	return r
}
