package limitertest

import (
	"sync"
	"time"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/internal/discordsim"
)

// rule is the limit of a route.
type rule struct {
	quota discordsim.Quota // none: no limit, and no limit headers
	hash  string           // bucket hash, "": none in the headers; routes with the same hash share a bucket
}

// discord is a fake Discord without a network: it counts requests when it gets them. world adds the round trips.
type discord struct {
	mu       sync.Mutex
	fake     *discordsim.World
	rules    map[string]rule // by method and template
	scripted int             // 429s that a fault has caused
}

// newDiscord returns a fake Discord with this global limit, which may be none.
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
		Rounding: discordsim.RoundDown, // the most misleading choice
	})
	if err != nil {
		panic(err) // the limits are constants of this package
	}
	d.fake = fake
	return d
}

// ruleOf returns the rule of a request. d.mu must be held.
func (d *discord) ruleOf(c discordsim.Call) rule { return d.rules[c.Request.Value.(string)] }

// seenBy returns a request in the form of the fake Discord.
func seenBy(r *buckets.Request) discordsim.Request {
	seen := discordsim.Request{
		Method: r.Route.Route().Method(), Path: r.Route.Path(), Authorization: r.Authorization, Value: r.Route.Route().String(),
	}
	if r.Fields != nil {
		seen.Fields = r.Fields()
	}
	return seen
}

// process counts a request now, and returns the response.
func (d *discord) process(r *buckets.Request) *discordsim.Response {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.fake.Handle(time.Now(), seenBy(r))
}

// foreign counts n requests of another client with the same credential.
func (d *discord) foreign(r *buckets.Request, n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.fake.Consume(time.Now(), seenBy(r), n)
}

// set changes the limit of a route.
func (d *discord) set(r *buckets.Request, to rule) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.rules[r.Route.Route().String()] = to
}

// script sets the faults from now on. They count all requests of the case.
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

// tally has the numbers of requests by outcome so far. refused does not include a 429 that a fault caused, but requests
// that were sent into its hold.
type tally struct{ arrived, accepted, failed, refused int }

func (d *discord) tally() tally {
	d.mu.Lock()
	defer d.mu.Unlock()
	r := d.fake.Report()
	return tally{r.Requests, r.Accepted, r.Failed + r.Lost, r.Refused.Total() - d.scripted}
}
