package buckets

import (
	"net/http"
	"slices"
	"time"

	"github.com/ratelight/ratelight/ratelimits"
	"github.com/ratelight/ratelight/routes"
)

// A request on a route whose hash is not known, or not for its major parameter where hashes differ by that, may be counted in any bucket of
// its major parameter and credential. So it is charged to all of them until its response tells, and two routes that share a limit
// unbeknownst do not exceed it together.

// lostRequest is one of a route whose hash was not known, that ended without a word of limits. The bucket to which it belongs may have counted it,
// so it is charged there as soon as that is known.
type lostRequest struct {
	entry       *routeEntry
	route       routes.CompiledRoute
	major       major
	sent, ended time.Duration
	provisional []provisionalCharge // which have been charged with it already
}

// mostLost is how many of them are remembered of a route.
const mostLost = 64

// lose remembers one of an UNKNOWN limit group.
func (group *limitGroup) lose(l lostRequest) {
	group.mu.Lock()
	defer group.mu.Unlock()
	if len(group.lost) == mostLost {
		group.lost = slices.Delete(group.lost, 0, 1)
	}
	group.lost = append(group.lost, l)
}

// takeLost returns those of a route that are remembered, and forgets them.
func (group *limitGroup) takeLost(e *routeEntry) (lost []lostRequest) {
	group.mu.Lock()
	defer group.mu.Unlock()
	group.lost = slices.DeleteFunc(group.lost, func(l lostRequest) bool {
		if l.entry == e {
			lost = append(lost, l)
		}
		return l.entry == e
	})
	return lost
}

// sinceLost returns how long ago the oldest of them was sent that a full bucket of that limit can have counted, 0 if there is none.
func (group *limitGroup) sinceLost(now time.Duration, m major, limit int) (since time.Duration) {
	group.mu.Lock()
	defer group.mu.Unlock()
	for _, l := range slices.Backward(group.lost) {
		if l.major == m && limit > 0 {
			since = now - l.sent
			limit--
		}
	}
	return since
}

// expect takes in the limit that a response has named by which a route comes here from another limit group, if nothing is known here: otherwise the
// buckets of other major parameters would know nothing. A refusal names only what is left of the period of a request that was lost, and that of
// another limit says nothing of the period.
func (group *limitGroup) expect(now time.Duration, m major, r *ratelimits.Response, from *limitGroup) {
	if !r.Limited || group.lastLimit.Load() > 0 {
		return
	}
	period := r.ResetAfter
	switch r.Class {
	case ratelimits.ClassOK:
	case ratelimits.ClassUser:
		period += from.sinceLost(now, m, r.Limit)
	default:
		period = 0
	}
	group.lastPeriod.Store(int64(min(period, ratelimits.LongestTrust)))
	group.lastLimit.Store(int64(min(r.Limit, mostRequests)))
}

// chargeLost charges a lost request to the bucket to which it belongs, which is locked, as long as that may remember it.
func (b *bucket) chargeLost(l lostRequest) {
	charged := slices.ContainsFunc(l.provisional, func(c provisionalCharge) bool { return c.bucket == b })
	if now := b.now(); !charged && now < l.ended+b.window.Period() {
		p := b.adopt(now, l.sent)
		if b.link == nil { // else the outcome is told now
			now = l.ended
		}
		b.report(now, &p, &ratelimits.Response{})
	}
}

// provisionalCharge is the charge of a request in a bucket to which it may turn out to belong.
type provisionalCharge struct {
	bucket *bucket
	permit permit
}

// undiscovered reports that the response to a request of a route will tell to which bucket it belongs, and that may be another one than
// this.
func (b *bucket) undiscovered(e *routeEntry) bool {
	return b.group.kind.unknown() || e.hinted.Load() ||
		b.group.kind == hashGroup && e.groupsByMajor.Load() != nil && b.namingOf(e) == nil
}

// groupsOf returns the limit groups to which requests with a major parameter belong: as many as routes at most, however many channels have
// a hash of their own. The lock for moves is held.
func (a *authentication) groupsOf(m major) map[*limitGroup]struct{} {
	all := make(map[*limitGroup]struct{}, len(a.routes))
	for e := range a.routes {
		all[e.groupOf(m)] = struct{}{}
	}
	return all
}

// chargeProvisionally charges a request that is about to leave, if its bucket is not known, to all the buckets that it may belong to.
func (m *RESTBucketManager) chargeProvisionally(h *held) {
	if !h.undiscovered.Load() {
		return
	}
	m.moves.Lock()
	defer m.moves.Unlock()
	for group := range h.entry.authentication.groupsOf(h.major) {
		if !h.undiscovered.Load() { // it has moved
			return
		}
		if b := m.buckets.find(group, h.major); b != nil && !group.kind.unknown() && b != h.bucket.Load() {
			h.chargeTo(b)
		}
	}
}

// chargeNew charges a bucket that was just made, as the one before was collected, with the requests that may belong to it.
func (m *RESTBucketManager) chargeNew(b *bucket) {
	if b.group.authentication.undiscovered.Load() == 0 {
		return
	}
	m.moves.Lock()
	defer m.moves.Unlock()
	m.chargeUndiscovered(b)
}

// chargeUndiscovered charges buckets of one limit group that were just found with all requests that may belong to them. Each request in flight
// is looked at once, as there may be as many of them as buckets. The lock for moves is held.
func (m *RESTBucketManager) chargeUndiscovered(found ...*bucket) {
	if len(found) == 0 {
		return
	}
	group := found[0].group
	a := group.authentication
	if group.kind.unknown() || group.kind == unlimitedGroup || group.kind == pathGroup || a.undiscovered.Load() == 0 {
		return
	}
	byMajor := make(map[major]*bucket, len(found))
	sources := make(map[*bucket]struct{})
	for _, there := range found {
		byMajor[there.major] = there
		for group := range a.groupsOf(there.major) {
			major := there.major
			if group.kind == unknownGroup {
				major = noMajor
			}
			if b := m.buckets.find(group, major); b != nil && b != there {
				sources[b] = struct{}{}
			}
		}
	}
	for b := range sources {
		b.mu.Lock()
		for h := b.inFlight; h != nil; h = h.next {
			if there := byMajor[h.major]; there != nil && h.undiscovered.Load() {
				h.chargeTo(there)
			}
		}
		b.mu.Unlock()
	}
}

// chargeTo charges the request to a bucket, once. The lock for moves is held.
func (h *held) chargeTo(b *bucket) {
	for _, c := range h.provisional {
		if c.bucket == b {
			return
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.evicted.Load() {
		h.provisional = append(h.provisional, provisionalCharge{bucket: b, permit: b.adopt(b.now(), h.permit.Sent())})
	}
}

// unchargeFrom takes the charge off a bucket, which is locked, because the request is in flight there now. The lock for moves is
// held.
func (h *held) unchargeFrom(b *bucket) {
	for i, c := range h.provisional {
		if c.bucket == b {
			c.remove(b.now(), false)
			h.provisional = slices.Delete(h.provisional, i, i+1)
			return
		}
	}
}

// end takes the charge off again, unless nobody knows where the request was counted.
func (c provisionalCharge) end(o *outcome) {
	c.bucket.mu.Lock()
	defer c.bucket.mu.Unlock()
	now := c.bucket.now()
	c.remove(now, o.sent && (o.response.Status == 0 || o.response.Status >= http.StatusInternalServerError))
	c.bucket.dispatchNow(now)
}

// remove takes the charge off its bucket, which is locked. If the request may have been counted there, that stays charged as long as the
// server may remember it.
func (c provisionalCharge) remove(now time.Duration, counted bool) {
	if counted {
		c.bucket.report(now, &c.permit, &ratelimits.Response{})
	} else {
		c.bucket.giveBack(now, &c.permit)
	}
}
