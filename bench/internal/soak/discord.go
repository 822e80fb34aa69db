package soak

import (
	"fmt"
	"strings"
	"time"

	"github.com/ratelight/ratelight/internal/discordsim"
)

// tolerance is how late the client may read a response in real time, because the machine may be busy.
const tolerance = 50 * time.Millisecond

// Times of failures, as fractions of a round.
const (
	revokedAt, replacedAt       = 0.30, 0.45
	forbiddenFrom, forbiddenEnd = 0.10, 0.40
)

// versionOfB returns the version of the second bot's token, which is replaced in each fourth round from the second on.
func (r *Round) versionOfB(at time.Duration) int {
	version := (r.number + 2) / len(kinds)
	if r.Kind == tokenRevoked && at >= r.part(replacedAt) {
		version++
	}
	return version
}

// discord returns the configuration of a round's server.
func (o Options) discord(r *Round) discordsim.Config {
	config := discordsim.Config{
		Seed: o.Seed + uint64(r.number), Rules: rules(r), Faults: lasting(r),
		Invalid:   discordsim.InvalidLimit{Limit: o.budget(), Period: o.budgetPeriod(), Ban: time.Minute},
		Latency:   discordsim.Latency{RoundTrip: 80 * time.Millisecond, Jitter: 60 * time.Millisecond},
		ClockSkew: time.Duration(r.number%5-2) * 7 * time.Second,
	}
	if o.witness == nil {
		config.Tolerance = tolerance
	}
	if !r.disturbed() {
		return config
	}
	short := func(at float64, d time.Duration) (from, until time.Duration) {
		return r.part(at), r.part(at) + min(d, r.length/20)
	}
	html, json := discordsim.EdgeBan{Page: discordsim.PageHTML}, discordsim.EdgeBan{Page: discordsim.PageJSON, Silent: true}
	html.From, html.Until = short(0.55, 4*time.Second)
	json.From, json.Until = short(0.65, 3*time.Second)
	var block discordsim.GlobalBlock
	block.From, block.Until = short(0.87, 5*time.Second)
	config.Edge, config.Blocks = []discordsim.EdgeBan{html, json}, []discordsim.GlobalBlock{block}
	config.Foreign = []discordsim.ForeignUse{
		{Request: discordsim.Request{Method: "POST", Path: "/channels/900/threads"}, Every: 4 * time.Second},
		{Request: discordsim.Request{Method: "POST", Path: "/channels/901/threads"}, Every: 7 * time.Second, Count: 2},
	}
	config.Faults = append(config.Faults, byChance()...)
	return config
}

// rules returns the operations that have limits of their own. All others have five requests a second. Hashes change in
// the middle of disturbed rounds, and the next round begins with the new ones.
func rules(r *Round) []discordsim.Rule {
	deploys := r.number - r.number/len(kinds) // before this round: one in each disturbed round
	messages := discordsim.Rule{Method: "POST", Path: "/channels/{id}/messages", Quota: discordsim.Fixed(5, 5*time.Second)}
	list := discordsim.Rule{Method: "GET", Path: "/channels/{id}/messages", Quota: discordsim.Sliding(10, 5*time.Second)}
	pins := discordsim.Rule{Method: "GET", Path: "/channels/{id}/pins", Quota: discordsim.Fixed(3, 3*time.Second)}
	typing := discordsim.Rule{Method: "POST", Path: "/channels/{id}/typing", Quota: discordsim.Fixed(4, 2*time.Second)}
	invites := discordsim.Rule{Method: "GET", Path: "/invites/{code}", Quota: discordsim.Fixed(5, 5*time.Second)}
	for name, rule := range map[string]*discordsim.Rule{"messages": &messages, "list": &list} {
		rule.Hash = fmt.Sprintf("%s-%d", name, deploys)
		if r.disturbed() {
			rule.Changes = []discordsim.Change{{At: r.part(0.5), Hash: fmt.Sprintf("%s-%d", name, deploys+1)}}
		}
	}
	if r.disturbed() {
		messages.Changes = []discordsim.Change{
			{At: r.part(0.2), Quota: discordsim.Fixed(3, 5*time.Second)}, messages.Changes[0],
			{At: r.part(0.8), Quota: discordsim.Fixed(5, 5*time.Second)},
		}
		pins.Vary, typing.Vary = discordsim.Alternate("pins", "pins-again"), discordsim.EachTime("typing") // unforeseeable
		invites.Edge = &discordsim.EdgeLimit{Quota: discordsim.Fixed(20, time.Minute), Ban: 6 * time.Second}
	}
	return []discordsim.Rule{
		messages, list, pins, typing, invites,
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
	}
}

// lasting returns the faults that do not depend on chance: resources that are gone or forbidden, and invalid tokens.
func lasting(r *Round) []discordsim.Fault {
	faults := []discordsim.Fault{
		{Status: 404, Body: `{"message": "Unknown Webhook", "code": 10015}`, When: ofWebhook('7')},
		{Status: 401, Body: `{"message": "Invalid Webhook Token", "code": 50027}`, When: ofWebhook('8')},
		{Status: 401, Body: `{"message": "Invalid Webhook Token", "code": 50027}`, When: func(c discordsim.Call) bool {
			return strings.Contains(c.Request.Path, "/webhooks/") && strings.Contains(c.Request.Path, expiredToken)
		}},
		{Status: 403, Body: `{"message": "Missing Access", "code": 50001}`, When: func(c discordsim.Call) bool {
			return strings.Contains(c.Operation, "/guilds/{id}") && strings.HasSuffix(c.Major, "9")
		}},
		{Status: 404, Body: `{"message": "Unknown Message", "code": 10008}`, Every: 40, When: about("/messages/{id}")},
	}
	switch r.Kind {
	case tokenRevoked:
		revoked := botB(r.versionOfB(0))
		faults = append(faults, discordsim.Fault{
			Status: 401, Body: `{"message": "401: Unauthorized", "code": 0}`, From: r.part(revokedAt), When: func(c discordsim.Call) bool {
				return c.Request.Authorization == revoked && !strings.Contains(c.Operation, "{token}")
			},
		})
	case permissionLost:
		faults = append(faults, discordsim.Fault{
			Status: 403, Body: `{"message": "Missing Permissions", "code": 50013}`, From: r.part(forbiddenFrom), Until: r.part(forbiddenEnd),
			When: about("/channels/{id}"),
		})
	}
	return faults
}

func about(part string) func(discordsim.Call) bool {
	return func(c discordsim.Call) bool { return strings.Contains(c.Operation, part) }
}

// ofWebhook matches calls to webhooks whose ids end in a digit.
func ofWebhook(digit byte) func(discordsim.Call) bool {
	return func(c discordsim.Call) bool {
		id, _, _ := strings.Cut(c.Major, ":")
		return strings.Contains(c.Operation, "/webhooks/{id}/{token}") && !strings.Contains(c.Request.Path, interactionPrefix) &&
			id != "" && id[len(id)-1] == digit
	}
}

// byChance returns the random faults of a disturbed round. They hit about one request in ten.
func byChance() []discordsim.Fault {
	noHeaders := discordsim.NoHeaders()
	noHeaders.Probability = 0.010
	faults := []discordsim.Fault{
		{Probability: 0.008, Status: 502, Uncounted: true},
		{Probability: 0.006, Status: 500},
		{Probability: 0.004, Status: 503, Set: map[string]string{"Retry-After": "2"}},
		{Probability: 0.003, Status: 520, Uncounted: true, Body: "<html>origin error</html>"},
		{Probability: 0.006, Connection: discordsim.ConnectionLostBefore},
		{Probability: 0.006, Connection: discordsim.ConnectionLostAfter},
		{Probability: 0.003, Delay: 20 * time.Second}, // beyond the timeout of an attempt
		{Probability: 0.002, BodyDelay: 20 * time.Second},
		{Probability: 0.010, Delay: 2 * time.Second},
		noHeaders,
		{Probability: 0.003, State: func(s discordsim.State) discordsim.State {
			s.Remaining, s.ResetAfter = s.Limit, s.ResetAfter/3
			return s
		}},
		{Probability: 0.050, Edit: garbleRefusal},
	}
	for _, text := range []string{"NaN", "", "-1", "1e400", "soon"} {
		garbage := discordsim.Garbage(text)
		garbage.Probability = 0.002
		faults = append(faults, garbage)
	}
	return faults
}

// garbleRefusal makes the body of a 429 unreadable, and removes Retry-After from some.
func garbleRefusal(c discordsim.Call, response *discordsim.Response) {
	if response.Status != 429 {
		return
	}
	response.Body = []byte(`{"message": "You are being rate limited.", "retry_after": tomorrow`)
	if c.N%3 == 0 {
		response.Header.Del("Retry-After")
	}
}
