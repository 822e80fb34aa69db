package buckets

import (
	"net/http"
	"time"

	"github.com/ratelight/ratelight/ratelimits"
)

// unsaidHold is how long something is held that was refused without a word on how long.
const unsaidHold = time.Second

// precision is that of the server's times: they are rounded to milliseconds.
const precision = time.Millisecond

func saidHold(r *ratelimits.Response) time.Duration {
	if r.HasRetryAfter {
		return min(r.RetryAfter, ratelimits.LongestTrust) + precision
	}
	return unsaidHold
}

// finish ends a lease: it gives back what the request took, applies what its response says, and lets go whom that allows to
// go. The gates come first, so that nobody leaves whom a hold of theirs stops.
func (m *RESTBucketManager) finish(h *held, o *outcome) {
	if h.heard != 0 {
		h.age(m.now(), &o.response)
	}
	if o.response.Class == ratelimits.ClassSubLimit {
		o.subLimitKey = h.subLimitKeyOf(m.seed) // before any lock is held, as it calls the caller's function
	}
	fraction := 0.0
	if o.sent && o.response.Invalid() {
		fraction = m.reportInvalid(h.entry.authentication.server)
	}
	h.counters.countEnd(o) // after that, so that it is never in neither
	auth := h.entry.authentication
	switch o.response.Class {
	case ratelimits.ClassEdge:
		o.held = auth.edge.refuse(m.now(), &o.response)
	case ratelimits.ClassGlobal:
		o.held = auth.global.refuse(m.now(), &o.response)
	}
	b := h.lock()
	now := b.now()
	if auth.edge.tracks(h.edge) {
		auth.edge.finish(now, h.edge, h.permit.Sent(), o)
	}
	if auth.global.tracks(h.global) {
		auth.global.finish(now, h.global, h.permit.Sent(), o)
	}
	h.resume(now)
	o.contradicted = o.sent && b.contradicted(now, h, &o.response)
	if o.sent && b.misplaced(now, h, o) {
		b.unlock()
		m.relocate(h, o)
	} else {
		b.apply(now, h, o)
		b.dispatchFree(now)
		b.unlock()
	}
	if o.response.Class == ratelimits.ClassShared {
		m.holdResource(h, &o.response)
	}
	for _, s := range h.provisional { // it has departed, so nobody changes them any more
		s.end(o)
	}
	if o.held > 0 {
		m.settings.held(Held{Class: o.response.Class, Route: h.route.Route().String(), Wait: o.held})
	}
	m.settings.budgetUsed(h.entry.authentication.server.budget, fraction, m.now)
}

// holdResource holds back what other credentials want of a resource that is used up for everybody.
func (m *RESTBucketManager) holdResource(h *held, r *ratelimits.Response) {
	b := h.bucket.Load()
	m.moves.Lock()
	defer m.moves.Unlock()
	for _, a := range m.authentications.All() {
		f := a.groups[b.group.groupKey]
		if f == nil || f == b.group || f.kind == unknownGroup || a.server != b.server() {
			continue
		}
		other := m.lockedBucket(f, b.major)
		now := other.now()
		other.hold(now, saidHold(r), ratelimits.ClassShared)
		other.refuseLate(now)
		other.unlock()
	}
}

// lock locks the bucket in which the lease is in flight and returns it.
func (h *held) lock() *RESTBucket {
	for {
		b := h.bucket.Load()
		b.lock()
		if h.bucket.Load() == b {
			return b
		}
		b.unlock()
	}
}

// apply takes a lease out of those in flight, with its outcome.
func (b *RESTBucket) apply(now time.Duration, h *held, o *outcome) {
	b.endInFlight(h)
	b.link.report(now, h, o)
	b.discovery.found(now, "")
	if !o.sent {
		b.window.Return(now, h.permit)
		return
	}
	r := &o.response
	b.name(h, r)
	if h.subLimit != nil && r.Class == ratelimits.ClassOK && r.Status < http.StatusInternalServerError && r.Status > 0 {
		h.subLimit.refusals.Accepted(h.permit.Sent())
	}
	limit, free := b.window.Limit(), b.window.HoldWait(now) == 0
	if b.link != nil {
		b.window.Report(now, h.permit, b.link.asSeen(*r))
	} else {
		b.window.Report(now, h.permit, *r)
	}
	switch {
	case r.Class == ratelimits.ClassSubLimit:
		o.held = b.refuseSubLimit(now, saidHold(r), o.subLimitKey)
	case r.Class == ratelimits.ClassGlobal && h.entry.exempt:
		b.window.HoldRefused(now, saidHold(r)) // no gate holds such a route, and it must not be asked again and again
	case b.group.kind == unstableGroup && r.Limited && r.Remaining == 0:
		b.window.Hold(now, r.ResetAfter) // the next one may be counted by the limit that is used up
	case b.group.kind == routeGroup && withoutLimits(r):
		b.window.Unlimit()
	}
	if free && r.Class != ratelimits.ClassOK {
		o.held = max(o.held, b.window.HoldWait(now))
	}
	if r.Class != ratelimits.ClassOK || b.window.Limit() != limit {
		b.refuseLate(now) // what was predicted has changed
	}
	if r.Status == 0 {
		b.refuseOverdue(now) // nobody can predict when somebody answers
	}
}

// hold lets nothing leave for d, in no process.
func (b *RESTBucket) hold(now, d time.Duration, class ratelimits.Class) {
	b.window.HoldFor(now, d, class)
	b.link.hold(now, d, class)
}

// endInFlight takes a lease out of those in flight, without a word on what became of its request.
func (b *RESTBucket) endInFlight(h *held) {
	b.removeInFlight(h)
	if h.ordered {
		b.queue.ordered--
	}
	if h.subLimit != nil {
		h.subLimit.oneOut = false
	}
}
