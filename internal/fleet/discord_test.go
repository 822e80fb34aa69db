package fleet_test

import (
	"net/http"
	"strings"
	"time"

	"github.com/ratelight/ratelight/internal/discordsim"
	"github.com/ratelight/ratelight/internal/fleet"
)

// The functions in this file change how Discord behaves in a play. Some functions set a tolerance: until it has passed,
// a process is not blamed if it ignores a response that another process received.

func rule(c *discordsim.Config) *discordsim.Rule { return &c.Rules[0] }

// faults returns faults that make requests fail, break their connection before or after Discord has counted them, or
// delay their responses.
func (s *scene) faults() []discordsim.Fault {
	share := float64(s.faulty) / 400
	after := func(c discordsim.Call) bool { return c.N > 3*s.channels } // after these requests the limits are known
	return []discordsim.Fault{
		{Probability: share, When: after, Status: http.StatusBadGateway, Uncounted: true},
		{Probability: share, When: after, Connection: discordsim.ConnectionLostBefore},
		{Probability: share, When: after, Connection: discordsim.ConnectionLostAfter},
		{Probability: share, When: after, Delay: 2500 * time.Millisecond},
	}
}

func limitOfAll(c *discordsim.Config, s *scene) {
	c.Tolerance = s.news()
	rule(c).Shared = &discordsim.SharedLimit{Quota: discordsim.Fixed(7, 4*time.Second)}
}

func anotherClient(c *discordsim.Config, s *scene) {
	c.Tolerance = s.news()
	c.Foreign = []discordsim.ForeignUse{{
		Request: discordsim.Request{Method: http.MethodPost, Path: fleet.Message(1).Path, Authorization: fleet.Authorization},
		Every:   max(300*time.Millisecond, 2*s.quota.Period/time.Duration(s.quota.Limit)),
	}}
}

func globalBlock(c *discordsim.Config, s *scene) {
	c.Tolerance = s.news()
	c.Blocks = []discordsim.GlobalBlock{{From: s.length / 4, Until: s.length/4 + 3*time.Second}}
}

func edgeBan(c *discordsim.Config, s *scene) {
	c.Edge = []discordsim.EdgeBan{{From: s.length / 4, Until: s.length/4 + 3*time.Second}}
}

func twoRoutes(c *discordsim.Config, _ *scene) {
	get := *rule(c)
	get.Method = http.MethodGet
	c.Rules = append([]discordsim.Rule{get}, c.Rules...)
}

func changingHash(c *discordsim.Config, s *scene) {
	rule(c).Changes = []discordsim.Change{{At: s.length / 4, Hash: "other"}, {At: s.length / 2, Hash: "third"}}
}

func changingLimit(c *discordsim.Config, s *scene) {
	c.Tolerance = s.news()
	other := s.quota
	other.Limit = 1 + s.quota.Limit/2
	rule(c).Changes = []discordsim.Change{{At: s.length / 4, Quota: other}, {At: s.length / 2, Quota: s.quota}}
}

func limitOfFields(c *discordsim.Config, _ *scene) {
	rule(c).SubLimits = []discordsim.SubLimit{{Fields: []string{"name"}, Quota: discordsim.Fixed(2, 4*time.Second)}}
}

// alternately changes every second request to another route.
func alternately(r *fleet.Request, n int) {
	if n%2 == 1 {
		r.Method, r.Body = http.MethodGet, ""
	}
}

// changesOfName turns each request into a change of the channel. In every third request, the channel's name is changed.
func changesOfName(r *fleet.Request, n int) {
	r.Method, r.Path, r.Body = http.MethodPatch, strings.TrimSuffix(r.Path, "/messages"), "{}"
	if n%3 == 0 {
		r.Body = `{"name":"new"}`
	}
}
