package measured

import (
	"strconv"
	"strings"
	"time"

	"github.com/ratelight/ratelight/internal/discordsim"
)

// The codes of refusals by hidden limits, from Discord's documentation.
const (
	codePrune       = 30040
	codeOldMessages = 30046
)

// hide adds to a rule the limits that no header shows. name is the name of the route or of its family.
func (o *Options) hide(name string, rule *discordsim.Rule) {
	switch name {
	case "channel-edit":
		if rule.Method == "PATCH" && rule.Path == "/channels/{channel_id}" { // confirmed by Discord's staff
			quota := discordsim.Fixed(2, 10*time.Minute)
			rule.SubLimits = []discordsim.SubLimit{{Fields: []string{"name", "topic"}, Quota: quota}}
		}
	case "PATCH /channels/{channel_id}/messages/{message_id}": // reported by client authors
		quota := discordsim.Fixed(3, 6*time.Second)
		rule.SubLimits = []discordsim.SubLimit{{When: olderThanAnHour, Quota: quota, Code: codeOldMessages}}
	case "DELETE /channels/{channel_id}/messages/{message_id}":
		rule.Vary = discordsim.ByMessageAge(ages)
	case "POST /guilds/{guild_id}/prune": // measured
		rule.Shared = &discordsim.SharedLimit{Quota: discordsim.Fixed(1, 15*time.Minute), Code: codePrune}
	case "POST /channels/{channel_id}/webhooks":
		// Measured: some 50 requests in a row are accepted, then one at a time. Two things are assumed: how fast places
		// become free, and that each channel has its own limit.
		rule.Shared = &discordsim.SharedLimit{Quota: discordsim.Leaky(50, time.Hour)}
	case webhookToken:
		if rule.Method == "POST" {
			rule.Shared = o.webhookMessages()
		}
	}
}

// webhookMessages returns the limit of a channel for all its webhooks together: 30 messages a minute, as many client
// authors have reported. A measurement has shown that 30 messages at once are accepted.
func (o *Options) webhookMessages() *discordsim.SharedLimit {
	channelOf := func(call discordsim.Call) string {
		id, _, _ := strings.Cut(call.Major, ":")
		if channel := o.Channels[id]; channel != "" {
			return channel
		}
		return call.Major // includes the token, because the interactions of one application belong to many channels
	}
	return &discordsim.SharedLimit{Name: "webhook messages", Quota: discordsim.Fixed(30, time.Minute), Key: channelOf}
}

// olderThanAnHour reports whether a request concerns a message that is older than an hour.
func olderThanAnHour(call discordsim.Call) bool {
	path, _, _ := strings.Cut(call.Request.Path, "?")
	id, err := strconv.ParseUint(path[strings.LastIndexByte(path, '/')+1:], 10, 64)
	return err == nil && call.Clock.Sub(discordsim.SnowflakeTime(id)) > time.Hour
}
