package discordsim

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const interactionToken = "aW50ZXJhY3Rpb246MTIzOnNlY3JldA"

func TestOperations(t *testing.T) {
	t.Parallel()
	tests := []struct {
		method, path string
		operation    string
		major        string
		interaction  bool
	}{
		{"POST", "/api/v10/channels/1/messages", "POST /channels/{id}/messages", "1", false},
		{"POST", "/channels/1/messages?wait=true", "POST /channels/{id}/messages", "1", false},
		{"GET", "/api/users/@me", "GET /users/@me", "", false},
		{"GET", "/api/v10/users/2", "GET /users/{id}", "", false},
		{"GET", "/v9/guilds/3/members/4", "GET /guilds/{id}/members/{id}", "3", false},
		{"PUT", "/channels/1/messages/2/reactions/%F0%9F%91%8D/@me",
			"PUT /channels/{id}/messages/{id}/reactions/{emoji}/@me", "1", false},
		{"DELETE", "/channels/1/messages/2/reactions/a%2Fb/7",
			"DELETE /channels/{id}/messages/{id}/reactions/{emoji}/{id}", "1", false},
		{"GET", "/channels/1/messages/2/reactions", "GET /channels/{id}/messages/{id}/reactions", "1", false},
		{"POST", "/webhooks/5", "POST /webhooks/{id}", "5", false},
		{"POST", "/webhooks/5/s3cret", "POST /webhooks/{id}/{token}", "5:" + digest("s3cret"), false},
		{"PATCH", "/webhooks/5/s3cret/messages/@original",
			"PATCH /webhooks/{id}/{token}/messages/{id}", "5:" + digest("s3cret"), false},
		{"POST", "/webhooks/5/" + interactionToken, "POST /webhooks/{id}/{token}", "5:" + digest(interactionToken), true},
		{"POST", "/interactions/6/x/callback", "POST /interactions/{id}/{token}/callback", "6:" + digest("x"), true},
		{"GET", "/applications/7/guilds/8/commands", "GET /applications/{id}/guilds/{id}/commands", "", false},
		{"GET", "/invites/hello", "GET /invites/{code}", "", false},
		{"GET", "/guilds/templates/abc", "GET /guilds/templates/{code}", "", false},
		{"GET", "/gateway/bot", "GET /gateway/bot", "", false},
		{"GET", "/", "GET /", "", false},
		{"GET", "", "GET /", "", false},
		{"GET", "/api/v10", "GET /", "", false},
	}
	for _, test := range tests {
		op := parseOperation(test.method, test.path)
		assert.Equal(t, test.operation, op.String(), test.path)
		assert.Equal(t, test.major, op.major, test.path)
		assert.Equal(t, test.interaction, op.interaction, test.path)
	}
}

func TestRulesMatchTheirPaths(t *testing.T) {
	t.Parallel()
	tests := []struct {
		method, pattern string
		request, path   string
		want            bool
	}{
		{"POST", "/channels/{channel_id}/messages", "POST", "/channels/1/messages", true},
		{"POST", "/channels/{id}/messages", "GET", "/channels/1/messages", false},
		{"", "/channels/{id}/messages", "GET", "/api/v10/channels/1/messages", true},
		{"*", "/channels/{id}/messages", "GET", "/channels/1/messages/2", false},
		{"", "/channels/{id}/messages/{id}", "GET", "/channels/1/messages", false},
		{"", "/channels/42/messages", "GET", "/channels/42/messages", true},
		{"", "/channels/42/messages", "GET", "/channels/43/messages", false},
		{"", "/users/{id}", "GET", "/users/@me", false},
		{"", "/users/*", "GET", "/users/@me", true},
		{"", "/webhooks/{id}/{token}/messages/@original", "GET", "/webhooks/1/x/messages/@original", true},
		{"", "/webhooks/{id}/{token}/messages/@original", "GET", "/webhooks/1/x/messages/2", false},
		{"", "/guilds/**", "GET", "/guilds/1/members/2", true},
		{"", "/guilds/**", "GET", "/channels/1", false},
		{"", "**", "GET", "/", true},
		{"", "/channels/{id}/messages/{id}/reactions/{emoji}/@me",
			"PUT", "/channels/1/messages/2/reactions/%F0%9F%91%8D/@me", true},
	}
	for _, test := range tests {
		rule := Rule{Method: test.method, Path: test.pattern}
		assert.Equal(t, test.want, rule.matches(parseOperation(test.request, test.path)), "%s against %s", test.pattern,
			test.path)
	}
}

func TestNonsenseConfigurationsAreRefused(t *testing.T) {
	t.Parallel()
	limit := Fixed(5, time.Second)
	tests := map[string]Config{
		"rule's limit":           {Rules: []Rule{{Quota: Fixed(0, time.Second)}}},
		"negative period":        {Rules: []Rule{{Quota: Fixed(1, -1)}}},
		"changed limit":          {Rules: []Rule{{Quota: limit, Changes: []Change{{Quota: Fixed(0, 1)}}}}},
		"roll-out backwards":     {Rules: []Rule{{Quota: limit, Changes: []Change{{Over: -1}}}}},
		"unknown counters":       {Rules: []Rule{{Quota: limit, Changes: []Change{{Counters: 9}}}}},
		"changes out of order":   {Rules: []Rule{{Quota: limit, Changes: []Change{{At: 2}, {At: 1}}}}},
		"sub-limit of nothing":   {Rules: []Rule{{SubLimits: []SubLimit{{}}}}},
		"shared of nothing":      {Rules: []Rule{{Shared: &SharedLimit{}}}},
		"edge without a ban":     {Rules: []Rule{{Edge: &EdgeLimit{Quota: limit}}}},
		"status":                 {Rules: []Rule{{Status: 99}}},
		"fault's status":         {Rules: []Rule{{Faults: []Fault{{Status: 1000}}}}},
		"fault's probability":    {Faults: []Fault{{Probability: 1.5}}},
		"fault's stall":          {Faults: []Fault{{Stall: 3}}},
		"fault's numbers":        {Faults: []Fault{{Nth: []int{0}}}},
		"default":                {Default: &Rule{Quota: Fixed(0, time.Second)}},
		"global":                 {Global: Fixed(0, time.Second)},
		"global block":           {Blocks: []GlobalBlock{{From: 2, Until: 1}}},
		"edge ban":               {Edge: []EdgeBan{{From: 2, Until: 1}}},
		"invalid limit":          {Invalid: InvalidLimit{Ban: -1}},
		"foreign use never":      {Foreign: []ForeignUse{{Request: post}}},
		"foreign use of nothing": {Foreign: []ForeignUse{{Every: 1}}},
		"latency":                {Latency: RoundTrip(-1)},
		"tolerance":              {Tolerance: -1},
		"one hash, two quotas": {Rules: []Rule{{Path: "/a", Hash: "h", Quota: limit},
			{Path: "/b", Hash: "h", Quota: Fixed(6, time.Second)}}},
		"aligned sliding quota": {Default: &Rule{Quota: Quota{Kind: KindSliding, Limit: 1, Period: 1, Aligned: true}}},
	}
	for name, config := range tests {
		_, err := NewWorld(start, config)
		assert.ErrorIs(t, err, ErrConfig, name)
		_, err = New(config)
		assert.ErrorIs(t, err, ErrConfig, name)
	}
	_, err := NewWorld(start, Config{Rules: []Rule{
		{Path: "/channels/1/messages", Hash: "h", Quota: limit},
		{Path: "/channels/{id}/messages", Hash: "h", Quota: Fixed(6, 1)},
	}})
	require.NoError(t, err, "a rule for one channel may have another quota")
}

func TestDeletedMessagesHaveABucketPerAge(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Config{Rules: []Rule{{
		Method: "DELETE", Path: "/channels/{id}/messages/{id}", Quota: Fixed(5, time.Second), Status: 204,
		Vary: ByMessageAge(Ages{
			Young: Variant{Hash: "young"}, Normal: Variant{Hash: "normal"},
			Old:     Variant{Hash: "old", Quota: Fixed(30, 120*time.Second)},
			Missing: func(id uint64) bool { return id == SnowflakeAt(start)-1 },
		}),
	}}})
	remove := func(id uint64) *Response {
		path := "/channels/1/messages/" + strconv.FormatUint(id, 10)
		return w.Handle(start, Request{Method: "DELETE", Path: path})
	}
	for age, hash := range map[time.Duration]string{
		0: "young", 9 * time.Second: "young", 11 * time.Second: "normal", 13 * 24 * time.Hour: "normal",
		15 * 24 * time.Hour: "old",
	} {
		response := remove(SnowflakeAt(start.Add(-age)))
		assert.Equal(t, hash, response.Header.Get("X-RateLimit-Bucket"), age)
		assert.Equal(t, 204, response.Status)
	}
	missing := remove(SnowflakeAt(start) - 1)
	assert.Equal(t, 404, missing.Status)
	assert.Equal(t, "young", missing.Header.Get("X-RateLimit-Bucket"), "a message that does not exist counts as young")
	assert.Equal(t, "30", remove(SnowflakeAt(start.Add(-365*24*time.Hour))).Header.Get("X-RateLimit-Limit"))
}
