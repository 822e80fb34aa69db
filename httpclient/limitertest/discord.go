package limitertest

import (
	"net/http"
	"sync"
	"time"

	"github.com/ratelight/ratelight/buckets"
)

// rule is what a route is limited by.
type rule struct {
	quota quota  // none: it has no limit, and its answers no headers
	hash  string // as the headers name it; routes with the same one share their counters
}

// fault is what goes wrong with a request.
type fault struct {
	status    int           // instead of 200, without limit headers
	uncounted bool          // the request is not counted
	silent    bool          // the answer says nothing of limits
	lost      bool          // no answer arrives
	delay     time.Duration // of the answer
	refusal   *answer       // instead of an answer
}

// discord is a server that knows no more of rate limits than what a limiter has to be tested with. It counts by hash, major
// parameter and authorization when it processes a request, and refuses what exceeds a count.
type discord struct {
	mu       sync.Mutex
	rules    map[string]rule // by route
	counters map[counterKey]*counter
	globals  map[string]*counter // by authorization
	global   int                 // requests a second for each of them; 0: no limit
	phase    time.Duration       // of its seconds
	faults   func(n int) fault   // of the n-th request, from 0; may be nil
	arrived  int
	accepted int
	failed   int // by a fault
	refused  int // by a counter
}

type counterKey struct{ hash, major, authorization string }

func newDiscord() *discord {
	return &discord{rules: make(map[string]rule), counters: make(map[counterKey]*counter), globals: make(map[string]*counter)}
}

// process answers a request at the moment at which it is counted. ok is false if the answer is lost.
func (d *discord) process(r *buckets.Request) (a answer, delay time.Duration, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	var f fault
	if d.faults != nil {
		f = d.faults(d.arrived)
	}
	d.arrived++
	if f.refusal != nil {
		return *f.refusal, f.delay, true
	}
	if f.uncounted {
		d.failed++
		return fromAPI(f.status), f.delay, !f.lost
	}
	a = d.count(r, now)
	switch {
	case a.status == http.StatusTooManyRequests:
		return a, f.delay, !f.lost
	case f.status > 0:
		d.failed++
		a = fromAPI(f.status)
	case f.silent:
		a = fromAPI(http.StatusOK)
	}
	return a, f.delay, !f.lost
}

// count counts a request and answers it by the counts alone.
func (d *discord) count(r *buckets.Request, now time.Time) answer {
	if g := d.globalOf(r, now); g != nil && !g.take(now) {
		d.refused++
		return refusal("global", g.retryAfter(now))
	}
	c, hash := d.counterOf(r)
	if c == nil {
		d.accepted++
		return fromAPI(http.StatusOK)
	}
	a := fromAPI(http.StatusOK)
	if c.take(now) {
		d.accepted++
	} else {
		d.refused++
		a = refusal("user", c.retryAfter(now))
	}
	return a.in(limits{hash, c.limit, c.remaining(now), c.resetAfter(now)})
}

func (d *discord) counterOf(r *buckets.Request) (c *counter, hash string) {
	rule := d.rules[r.Route.Route().String()]
	if rule.quota.limit == 0 {
		return nil, ""
	}
	key := counterKey{rule.hash, r.Route.Major(), r.Authorization}
	if key.hash == "" {
		key.hash = "of " + r.Route.Route().String()
	}
	if d.counters[key] == nil {
		d.counters[key] = &counter{quota: rule.quota}
	}
	return d.counters[key], rule.hash
}

// globalOf returns the counter of a credential's second, nil if the request is exempt. Its seconds do not begin with a request.
func (d *discord) globalOf(r *buckets.Request, now time.Time) *counter {
	if d.global == 0 || r.Route.Route().GlobalExempt() {
		return nil
	}
	g := d.globals[r.Authorization]
	if g == nil {
		g = &counter{quota: quota{fixed, d.global, time.Second}}
		d.globals[r.Authorization] = g
	}
	g.advance(now)
	if g.end.IsZero() {
		g.end = now.Add(-d.phase).Truncate(time.Second).Add(d.phase + time.Second)
	}
	return g
}

// foreign lets somebody else with the same credential send n requests.
func (d *discord) foreign(r *buckets.Request, n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if c, _ := d.counterOf(r); c != nil {
		for range n {
			c.take(time.Now())
		}
	}
}

// set changes what a route is limited by.
func (d *discord) set(r *buckets.Request, to rule) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.rules[r.Route.Route().String()] = to
}

// tally is what has become of the requests so far.
type tally struct{ arrived, accepted, failed, refused int }

func (d *discord) tally() tally {
	d.mu.Lock()
	defer d.mu.Unlock()
	return tally{d.arrived, d.accepted, d.failed, d.refused}
}
