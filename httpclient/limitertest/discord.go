package limitertest

import (
	"sync"
	"time"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/internal/discordsim"
)

// rule is what a route is limited by.
type rule struct {
	quota discordsim.Quota // none: it has no limit, and its answers no headers
	hash  string           // as the headers name it, "" if they do not; routes with the same one share their counters
}

// discord is a fake Discord that is asked at the moment at which it counts a request. The way there and back is the world's.
type discord struct {
	mu       sync.Mutex
	fake     *discordsim.World
	rules    map[string]rule // by route
	scripted int             // refusals by a fault
}

// newDiscord makes one with a global limit, which may be none.
func newDiscord(global discordsim.Quota) *discord {
	d := &discord{rules: make(map[string]rule)}
	nameless := discordsim.Fault{
		Also: true, Drop: []string{"X-RateLimit-Bucket"},
		When: func(c discordsim.Call) bool { return d.ruleOf(c).hash == "" },
	}
	fake, err := discordsim.NewWorld(time.Now(), discordsim.Config{
		Default: &discordsim.Rule{
			Path: "**", Faults: []discordsim.Fault{nameless},
			Vary: func(c discordsim.Call) discordsim.Variant {
				r := d.ruleOf(c)
				return discordsim.Variant{Hash: r.hash, Quota: r.quota}
			},
		},
		Global:   global,
		Rounding: discordsim.RoundDown, // which is how Discord's headers would be most misleading
	})
	if err != nil {
		panic(err) // what limits the cases have is written in this package
	}
	d.fake = fake
	return d
}

// ruleOf is the rule of a request. The caller holds the lock.
func (d *discord) ruleOf(c discordsim.Call) rule { return d.rules[c.Request.Value.(string)] }

// seenBy is a request as Discord sees it.
func seenBy(r *buckets.Request) discordsim.Request {
	seen := discordsim.Request{
		Method: r.Route.Route().Method(), Path: r.Route.Path(), Authorization: r.Authorization, Value: r.Route.Route().String(),
	}
	if r.Fields != nil {
		seen.Fields = r.Fields()
	}
	return seen
}

// process answers a request at the moment at which it is counted.
func (d *discord) process(r *buckets.Request) *discordsim.Response {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.fake.Handle(time.Now(), seenBy(r))
}

// foreign lets somebody else with the same credential send n requests.
func (d *discord) foreign(r *buckets.Request, n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.fake.Consume(time.Now(), seenBy(r), n)
}

// set changes what a route is limited by.
func (d *discord) set(r *buckets.Request, to rule) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.rules[r.Route.Route().String()] = to
}

// script says what goes wrong from now on. Faults count all requests of the case.
func (d *discord) script(faults ...discordsim.Fault) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := range faults {
		if faults[i].Refuse != nil {
			faults[i].When = func(discordsim.Call) bool {
				d.scripted++
				return true
			}
		}
	}
	d.fake.SetFaults(faults)
}

// tally is what has become of the requests so far. Refused are those that a limit has refused, and a 429 that was scripted if its time
// was not over.
type tally struct{ arrived, accepted, failed, refused int }

func (d *discord) tally() tally {
	d.mu.Lock()
	defer d.mu.Unlock()
	r := d.fake.Report()
	return tally{r.Requests, r.Accepted, r.Failed + r.Lost, r.Refused.Total() - d.scripted}
}
