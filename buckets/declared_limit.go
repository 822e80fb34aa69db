package buckets

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/puzpuzpuz/xsync/v4"

	"github.com/ratelight/ratelight/ratelimits"
)

// declaredLimit is one window of a limit that the caller has declared (WithLimit). It stands above the buckets of all requests that it applies
// to, as a gate does.
type declaredLimit struct {
	line
	rule    *limitRule
	key     limitKey
	evicted atomic.Bool // changed only under the lock

	// Guarded by the line's lock.
	source
	clock time.Duration // the latest of all times that it was
}

// declaredPermit is what a request has of a declared limit.
type declaredPermit struct {
	limit  *declaredLimit
	permit permit
}

// limitSet is the declared limits that apply to a request. A nil one is none.
type limitSet struct {
	id  uint64 // the same for the same limits
	all []*declaredLimit
}

func (s *limitSet) key() uint64 {
	if s == nil {
		return 0
	}
	return s.id
}

// queueKey returns what an ask has in common with others of its queue.
func (a *ask) queueKey() queueKey { return queueKey{a.group, a.limits.key()} }

// takeDeclared takes what is still missing of the declared limits that apply, and returns the one that refuses, nil if none does.
func (a *ask) takeDeclared(now time.Duration, p *gatePermits) above {
	if a.limits == nil {
		return nil
	}
	for i, d := range a.limits.all {
		has := func(p declaredPermit) bool { return p.limit == d }
		for !slices.ContainsFunc(p.declared, has) {
			permit, ok, gone := d.take(now)
			switch {
			case gone:
				d = d.manager.declaredLimit(d.rule, d.key)
				a.limits.all[i] = d
			case !ok:
				return d
			default:
				p.declared = append(p.declared, declaredPermit{d, permit})
			}
		}
	}
	return nil
}

// useDeclared returns those of the permits that are for the limits of an ask, which is granted, and takes them out.
func (a *ask) useDeclared(p *gatePermits) (used []declaredPermit) {
	if a.limits == nil {
		return nil
	}
	p.declared = slices.DeleteFunc(p.declared, func(d declaredPermit) bool {
		if slices.Contains(a.limits.all, d.limit) {
			used = append(used, d)
			return true
		}
		return false
	})
	return used
}

// declaredLimit returns the window of a rule for a key, made if there is none.
func (m *RESTBucketManager) declaredLimit(rule *limitRule, key limitKey) *declaredLimit {
	for {
		d, _ := m.limits.LoadOrCompute(key, func() (*declaredLimit, bool) {
			d := &declaredLimit{rule: rule, key: key}
			d.manager, d.above = m, d
			d.window.Declare(rule.limit, rule.period)
			return d, false
		})
		if !d.evicted.Load() {
			d.connect()
			return d
		}
		d.forget()
	}
}

// forget takes an evicted one out of the manager's.
func (d *declaredLimit) forget() {
	d.manager.limits.Compute(d.key, func(current *declaredLimit, ok bool) (*declaredLimit, xsync.ComputeOp) {
		if ok && current == d {
			return nil, xsync.DeleteOp
		}
		return current, xsync.CancelOp
	})
}

// now returns what time it is for the limit, whose lock is held: never earlier than before.
func (d *declaredLimit) now(now time.Duration) time.Duration {
	d.clock = max(d.clock, now)
	return d.clock
}

// take takes a permit for a request that is sent now. ok is false if there is none, or if others are in line for it, gone if the limit has
// been forgotten.
func (d *declaredLimit) take(now time.Duration) (p permit, ok, gone bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.evicted.Load() {
		return p, false, true
	}
	if d.queues.Len() > 0 {
		return p, false, false
	}
	ok = d.source.take(d.now(now), &p)
	return p, ok, false
}

func (d *declaredLimit) enter(now time.Duration, _ int) (p gatePermits, wait time.Duration, known bool) {
	now = d.now(now)
	permit := declaredPermit{limit: d}
	if d.source.take(now, &permit.permit) {
		return gatePermits{declared: []declaredPermit{permit}}, 0, true
	}
	at, known := d.nextPermit(now)
	return p, max(at-now, precision), known
}

func (d *declaredLimit) next(now time.Duration) (at time.Duration, known bool) {
	return d.nextPermit(d.now(now))
}

func (d *declaredLimit) needs(a *ask) bool {
	return a.limits != nil && slices.ContainsFunc(a.limits.all, func(other *declaredLimit) bool { return other.key == d.key })
}

func (d *declaredLimit) declared() bool { return true }

func (d *declaredLimit) enqueue(now time.Duration, q *queue) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.join(now, q)
}

// giveBack gives back a permit whose request was not sent.
func (p declaredPermit) giveBack(now time.Duration) { p.end(now, &outcome{}) }

// end takes in the outcome of a request.
func (p declaredPermit) end(now time.Duration, o *outcome) {
	d := p.limit
	d.mu.Lock()
	defer d.mu.Unlock()
	if now = d.now(now); o.sent {
		d.report(now, &p.permit, &ratelimits.Response{Status: o.response.Status, Class: o.response.Class})
	} else {
		d.source.giveBack(now, &p.permit)
	}
	d.moveOn(now)
}

// predictDeclared returns how long one of a queue, nil if there is none yet, with so many ahead in it has to wait for the limit.
func (d *declaredLimit) predict(now time.Duration, q *queue, ahead int) forecast {
	d.mu.Lock()
	defer d.mu.Unlock()
	f := d.predictPermit(d.now(now), d.before(q, ahead))
	f.limit = d
	return f
}

// predictDeclared returns the longest wait for a declared limit.
func (a *ask) predictDeclared(now time.Duration, q *queue, ahead int) (f forecast) {
	if a.limits != nil {
		for _, d := range a.limits.all {
			f = later(f, d.predict(now, q, ahead))
		}
	}
	return f
}

// evictIdle forgets the limit if nobody waits for it, and nothing is charged.
func (d *declaredLimit) evictIdle(now time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if now = d.now(now); d.queues.Len() > 0 || d.window.InFlight() > 0 || d.window.Reset() > now {
		return
	}
	d.evicted.Store(true)
	d.disconnect()
	d.forget()
}

// close ends the limit. Leases that were taken before end as usual.
func (d *declaredLimit) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.evicted.Store(true)
	d.end()
	d.disconnect()
	d.forget()
}

// connect links the limit to those of other processes, if limits are shared.
func (d *declaredLimit) connect() {}

// disconnect ends that.
func (d *declaredLimit) disconnect() {}

func (d *declaredLimit) counted(time.Duration) {}

func (d *declaredLimit) outage(time.Duration) error { return nil }
