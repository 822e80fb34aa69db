package buckets

import (
	"context"
	"hash/maphash"
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
	key        limitKey
	credential string      // as all processes know it
	evicted    atomic.Bool // changed only under the lock
	shared     atomic.Bool // it is linked to those of other processes

	// Guarded by the line's lock.
	source
	clock  time.Duration   // the latest of all times that it was
	noted  int             // how many waited when that was noted last
	listed bool            // among those for which somebody waits
	told   []time.Duration // room for what others are told
}

// declaredPermit is what a request has of a declared limit, or the queue in which it waits for something else, see keep.
type declaredPermit struct {
	limit  *declaredLimit
	permit permit
	until  time.Duration // it is kept, at the latest; 0: not kept yet
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
func (a *ask) queueKey() queueKey {
	key := queueKey{group: a.group, limits: a.limits.key()}
	if a.own != a.entry {
		key.global = a.global()
	}
	return key
}

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
				d = d.manager.declaredLimit(d.key, d.credential)
				a.limits.all[i] = d
			case !ok:
				return d
			default:
				p.declared = append(p.declared, declaredPermit{limit: d, permit: permit})
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

// keep lets a queue keep permits of declared limits whose request cannot leave, because the bucket, or another limit, is used up. Without that,
// requests that need less could use up one limit whenever the other has room. A permit is kept for a period at most, so that it costs no
// more than one request: what takes longer must not hold up all others.
func (b *bucket) keep(now time.Duration, q *queue, permits []declaredPermit) {
	for _, p := range permits {
		if p.until == 0 {
			p.until = now + p.limit.keepTime()
		}
		q.kept = append(q.kept, p)
		if b.queues.kept++; b.queues.kept == 1 || p.until < b.queues.keptUntil {
			b.queues.keptUntil = p.until
		}
	}
}

// takeKept takes what a queue has kept.
func (b *bucket) takeKept(q *queue) (kept []declaredPermit) {
	kept, q.kept = q.kept, nil
	b.queues.kept -= len(kept)
	return kept
}

// keptPause is how long after one look the next one comes for what has been kept for too long, so that many queues cost little.
const keptPause = 20 * time.Millisecond

// returnKept gives back what queues have kept for too long, and returns when there may be more of that, 0 if never.
func (b *bucket) returnKept(now time.Duration) (next time.Duration) {
	qs := b.queues
	switch {
	case qs.kept == 0:
		return 0
	case now < qs.keptUntil:
		return qs.keptUntil
	}
	next = now + maxDeclaredPeriod
	for q := range qs.all {
		q.kept = slices.DeleteFunc(q.kept, func(p declaredPermit) bool {
			if now >= p.until {
				p.giveBack(now)
				qs.kept--
				return true
			}
			next = min(next, p.until)
			return false
		})
	}
	qs.keptUntil = max(next, now+keptPause)
	return qs.keptUntil
}

// limitsOf returns the declared limits that apply to a request, made if there are none. It calls functions of the caller's.
func (m *RESTBucketManager) limitsOf(ctx context.Context, e *routeEntry, r *Request) (*limitSet, error) {
	return m.limitsBy(ctx, e, r, func(key limitKey) *declaredLimit { return m.declaredLimit(key, e.authentication.credential) })
}

// knownLimitsOf is limitsOf for a request that is not sent: limits of which nothing is known are left out.
func (m *RESTBucketManager) knownLimitsOf(e *routeEntry, r *Request) (*limitSet, error) {
	return m.limitsBy(context.Background(), e, r, func(key limitKey) *declaredLimit {
		d, _ := m.limits.Load(key)
		return d
	})
}

// limitsBy returns the declared limits that apply to a request, which are found by a function; nil if none do.
func (m *RESTBucketManager) limitsBy(ctx context.Context, e *routeEntry, r *Request, find func(limitKey) *declaredLimit) (*limitSet, error) {
	if e.rules == nil {
		return nil, nil
	}
	keys, err := e.limitKeys(ctx, r)
	if len(keys) == 0 || err != nil {
		return nil, err
	}
	s := &limitSet{}
	for _, key := range keys {
		s.id = mix(s.id^maphash.Comparable(m.seed, key), m.buckets.seeds[0]) | 1
		if d := find(key); d != nil {
			s.all = append(s.all, d)
		}
	}
	return s, nil
}

// declaredLimit returns the window of a key, made if there is none. The credential is how all processes know that of the request.
func (m *RESTBucketManager) declaredLimit(key limitKey, credential string) *declaredLimit {
	for {
		d, _ := m.limits.LoadOrCompute(key, func() (*declaredLimit, bool) {
			d := &declaredLimit{key: key, credential: credential}
			d.manager, d.above = m, d
			d.window.Declare(key.rule.limit, key.rule.period)
			d.doubt()
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

// adopt charges a request that was sent now by somebody who has not asked.
func (s *limitSet) adopt(now time.Duration) (all []declaredPermit) {
	if s == nil {
		return nil
	}
	for _, d := range s.all {
		p, ok := d.adopt(now)
		for !ok { // it has been forgotten
			d = d.manager.declaredLimit(d.key, d.credential)
			p, ok = d.adopt(now)
		}
		all = append(all, p)
	}
	return all
}

// adopt charges a request that was sent now. It reports false if the limit has been forgotten.
func (d *declaredLimit) adopt(now time.Duration) (declaredPermit, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.evicted.Load() {
		return declaredPermit{}, false
	}
	now = d.now(now)
	return declaredPermit{limit: d, permit: d.source.adopt(now, now)}, true
}

func (d *declaredLimit) takeFirst(now time.Duration, _ int) (p gatePermits, wait time.Duration, known bool) {
	now = d.now(now)
	permit := declaredPermit{limit: d}
	if d.source.take(now, &permit.permit) {
		return gatePermits{declared: []declaredPermit{permit}}, 0, true
	}
	at, known := d.nextPermit(now)
	if !known {
		return p, 0, false
	}
	return p, max(at-now, precision), true
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
	if !d.evicted.Load() { // else there is another one, of which the bucket asks next
		d.join(now, q)
	}
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

// evictIdle forgets the limit if nobody waits for it, and nothing is charged.
func (d *declaredLimit) evictIdle(now time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.queues.Len() > 0 || !d.unused(d.now(now)) {
		return
	}
	d.disconnect() // before there can be another one of that name
	d.evicted.Store(true)
	d.forget()
}

// unused reports that nothing is charged. The lock is held.
func (d *declaredLimit) unused(now time.Duration) bool {
	return d.window.InFlight() == 0 && d.window.Reset() <= now
}

// close ends the limit. Leases that were taken before end as usual.
func (d *declaredLimit) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.end()
	d.note()
	d.disconnect()
	d.evicted.Store(true)
	d.forget()
}
