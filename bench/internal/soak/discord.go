package soak

import (
	"fmt"
	"sync"
	"time"

	"github.com/ratelight/ratelight/internal/discordsim"
)

// discord makes the simulated server of each round.
type discord struct {
	seed    uint64
	virtual bool
	length  time.Duration // of a round
	budget  discordsim.InvalidLimit
	observe func(discordsim.Event)

	dead    sync.Map // authorizations that are not valid any more
	deploys int      // how often the bucket hashes have changed
}

func newDiscord(c Config, length time.Duration, observe func(discordsim.Event)) *discord {
	return &discord{
		seed: c.Seed, virtual: c.Virtual, length: length, observe: observe,
		budget: discordsim.InvalidLimit{Limit: c.budget(), Period: c.budgetPeriod(), Ban: time.Minute},
	}
}

// tolerance is how late the client may be to read an answer in real time, on a machine that has other things to do.
const tolerance = 50 * time.Millisecond

// start returns the server of a round. Hashes change in the middle of storms, and stay what they are from one round to the next.
func (d *discord) start(round int, w weather) (*discordsim.Server, error) {
	config := discordsim.Config{
		Seed: d.seed + uint64(round), Observe: d.observe, Invalid: d.budget, Faults: d.lasting(),
		Latency:   discordsim.Latency{RoundTrip: 80 * time.Millisecond, Jitter: 60 * time.Millisecond},
		ClockSkew: time.Duration(round%5-2) * 7 * time.Second,
		Rules:     d.rules(w),
	}
	if !d.virtual {
		config.Tolerance = tolerance
	}
	if w.forbidden {
		config.Faults = append(config.Faults, d.permissionLost())
	}
	if w.storm {
		config.Faults = append(config.Faults, whims()...)
		config.Edge = bans(d.length)
		config.Blocks = []discordsim.GlobalBlock{{From: part(d.length, 0.87), Until: part(d.length, 0.87) + min(5*time.Second, d.length/20)}}
		config.Foreign = []discordsim.ForeignUse{
			{Request: discordsim.Request{Method: "POST", Path: "/channels/900/threads"}, Every: 4 * time.Second},
			{Request: discordsim.Request{Method: "POST", Path: "/channels/901/threads"}, Every: 7 * time.Second, Count: 2},
		}
		d.deploys++
	}
	return discordsim.New(config)
}

// rules are the operations that have limits of their own. All else has five requests a second.
func (d *discord) rules(w weather) []discordsim.Rule {
	messages := discordsim.Rule{Method: "POST", Path: "/channels/{id}/messages", Quota: discordsim.Fixed(5, 5*time.Second)}
	list := discordsim.Rule{Method: "GET", Path: "/channels/{id}/messages", Quota: discordsim.Sliding(10, 5*time.Second)}
	deploy(&messages, "messages", d.deploys, w, d.length)
	deploy(&list, "list", d.deploys, w, d.length)
	if w.storm {
		messages.Changes = []discordsim.Change{
			{At: part(d.length, 0.2), Quota: discordsim.Fixed(3, 5*time.Second)}, messages.Changes[0],
			{At: part(d.length, 0.8), Quota: discordsim.Fixed(5, 5*time.Second)},
		}
	}
	rules := []discordsim.Rule{
		messages, list,
		{Method: "PATCH", Path: "/channels/{id}/messages/{id}", Quota: discordsim.Fixed(5, 5*time.Second)},
		{Method: "DELETE", Path: "/channels/{id}/messages/{id}", Vary: discordsim.ByMessageAge(discordsim.Ages{
			Young:  discordsim.Variant{Hash: "delete-young", Quota: discordsim.Fixed(3, 3*time.Second)},
			Normal: discordsim.Variant{Hash: "delete", Quota: discordsim.Sliding(5, 5*time.Second)},
			Old:    discordsim.Variant{Hash: "delete-old", Quota: discordsim.Fixed(2, 8*time.Second)},
		})},
		{Path: "/channels/{id}/messages/{id}/reactions/{emoji}/@me", Hash: "reactions", Quota: discordsim.Sliding(1, 250*time.Millisecond)},
		{Method: "PATCH", Path: "/channels/{id}", Quota: discordsim.Fixed(5, 15*time.Second), SubLimits: []discordsim.SubLimit{
			{Fields: []string{"name"}, Quota: discordsim.Fixed(2, 2*time.Minute), Code: 20028},
			{Fields: []string{"topic"}, Quota: discordsim.Fixed(2, time.Minute)},
		}},
		{Method: "POST", Path: "/channels/{id}/threads", Quota: discordsim.Fixed(10, 10*time.Second), Shared: &discordsim.SharedLimit{
			Quota: discordsim.Fixed(3, 10*time.Second),
		}},
		{Path: "/users/@me/**", Quota: discordsim.Leaky(5, 5*time.Second)},
		{Path: "/users/**", Quota: discordsim.Leaky(10, 10*time.Second)},
		{Path: "/guilds/{id}/members/{id}", Quota: discordsim.Fixed(10, 10*time.Second)},
		{Method: "POST", Path: "/webhooks/{id}/{token}", Quota: discordsim.Fixed(5, 2*time.Second)},
		{Method: "POST", Path: "/interactions/{id}/{token}/callback", Quota: discordsim.Unlimited()},
		{Method: "GET", Path: "/invites/{code}", Quota: discordsim.Fixed(5, 5*time.Second)},
	}
	if w.storm {
		rules[len(rules)-1].Edge = &discordsim.EdgeLimit{Quota: discordsim.Fixed(20, time.Minute), Ban: 6 * time.Second}
	}
	return append(rules, moody(w)...)
}

// deploy names a rule's hash, which changes in the middle of a storm.
func deploy(r *discordsim.Rule, name string, deploys int, w weather, length time.Duration) {
	hash := func(n int) string { return fmt.Sprintf("%s-%d", name, n) }
	r.Hash = hash(deploys)
	if w.storm {
		r.Changes = []discordsim.Change{{At: part(length, 0.5), Hash: hash(deploys + 1)}}
	}
}

// moody are operations whose hash nobody can foresee, in a storm.
func moody(w weather) []discordsim.Rule {
	flipping := discordsim.Rule{Method: "GET", Path: "/channels/{id}/pins", Quota: discordsim.Fixed(3, 3*time.Second)}
	fleeting := discordsim.Rule{Method: "POST", Path: "/channels/{id}/typing", Quota: discordsim.Fixed(4, 2*time.Second)}
	if w.storm {
		flipping.Vary, fleeting.Vary = discordsim.Alternate("pins", "pins-again"), discordsim.EachTime("typing")
	}
	return []discordsim.Rule{flipping, fleeting}
}
