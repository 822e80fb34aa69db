package httpclient

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/ratelight/ratelight/internal/discordsim"
)

// measuredWorlds are the worlds that measured sets. Plays are drawn only from those with drawn true; in the others the
// library does not pass all schedules yet. Choose such a world with -world.
var measuredWorlds = []struct {
	name  string
	drawn bool
}{
	{"late", true}, {"late at random", true}, {"late in some channels", true}, {"late for a time", true},
	{"late global limit", true}, {"lag", true},
	{"stale first answer", true}, {"stale first answer, block that grows", false},
	{"hash by URL", false}, {"errors of an address", false},
}

// drawnWorlds returns the worlds that a play may be set in by chance.
func drawnWorlds() []string {
	worlds := slices.Clone(worldNames)
	for _, world := range measuredWorlds {
		if world.drawn {
			worlds = append(worlds, world.name)
		}
	}
	return worlds
}

// measured sets the worlds that were measured on Discord, or found on a compatible server, in autumn 2026.
func (p play) measured(c *discordsim.Config, rule *discordsim.Rule) {
	// A bucket that is late by a period or more looks like one that another client uses, too.
	by := min([]time.Duration{50, 200, 300, 400}[p.bits(16, 2)]*time.Millisecond, p.quota.Period*3/4)
	quota := p.quota
	// The library does not foresee all refusals of a late sliding log yet. None has been measured on Discord.
	if quota.Kind == discordsim.KindSliding {
		quota = discordsim.Leaky(quota.Limit, quota.Period)
	}
	switch late := quota.Late(by, 0); p.world {
	case "late":
		rule.Quota = late
	case "late at random":
		rule.Quota = quota.Late(0, by)
	case "late in some channels":
		rule.Quota = quota
		rule.Vary = discordsim.LateFor(discordsim.Lateness{By: by}, "1", "4")
	case "late for a time":
		rule.Quota = quota
		rule.Changes = []discordsim.Change{{At: 2 * time.Second, Quota: late}, {At: 8 * time.Second, Quota: quota}}
	case "late global limit":
		if c.Global.Limit > 0 {
			c.Global = c.Global.Late(by/4, by) // less than a second late in all
		}
	case "lag":
		rule.Quota = discordsim.Lagging(p.quota.Limit, p.quota.Period)
	case "stale first answer":
		rule.Quota = discordsim.Fixed(p.quota.Limit, p.quota.Period)
		c.Faults = []discordsim.Fault{discordsim.StaleFirst()}
	case "stale first answer, block that grows":
		rule.Quota = discordsim.Extending(p.quota.Limit, p.quota.Period, p.quota.Period)
		c.Faults = []discordsim.Fault{discordsim.StaleFirst(), discordsim.WithoutScope()}
	case "hash by URL":
		rule.Vary = discordsim.HashByPath("url ")
	case "errors of an address":
		rule.Quota = discordsim.Unlimited()
		rule.Errors = &discordsim.ErrorLimit{
			Name: "errors", Quota: discordsim.Extending(p.quota.Limit, p.quota.Period, p.quota.Period/2),
		}
		rule.Vary = func(call discordsim.Call) discordsim.Variant {
			if strings.HasSuffix(call.Request.Path, "/404") {
				return discordsim.Variant{Status: http.StatusNotFound}
			}
			return discordsim.Variant{}
		}
	}
}
