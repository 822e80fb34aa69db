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

// settle ends a lease: it gives back what the request took, applies what its response says, and lets go whom that allows to
// go. The gates come first, so that nobody leaves whom a hold of theirs stops.
func (m *RESTBucketManager) settle(h *held, o *outcome) {
	if h.heard != 0 {
		h.age(m.now(), &o.response)
	}
	if o.response.Class == ratelimits.ClassSubLimit {
		o.shape = h.shapeOf(m.seed) // before any lock is held, as it calls the caller's function
	}
	passed := 0.0
	if o.sent && o.response.Invalid() {
		passed = m.reportInvalid(h.entry.authentication.server)
	}
	h.tally.settle(o) // after that, so that it is never in neither
	auth := h.entry.authentication
	switch o.response.Class {
	case ratelimits.ClassEdge:
		o.held = auth.edge.refuse(m.now(), &o.response)
	case ratelimits.ClassGlobal:
		o.held = auth.global.refuse(m.now(), &o.response)
	}
	b := h.lock()
	now := b.now()
	if auth.edge.minds(h.edge) {
		auth.edge.settle(now, h.edge, h.permit.Sent(), o)
	}
	if auth.global.minds(h.global) {
		auth.global.settle(now, h.global, h.permit.Sent(), o)
	}
	h.resume(now)
	o.clashes = o.sent && b.clashes(now, h, &o.response)
	if o.sent && b.misplaced(now, h, o) {
		b.unlock()
		m.relocate(h, o)
	} else {
		b.apply(now, h, o)
		b.dispatchFree(now)
		b.unlock()
	}
	if o.response.Class == ratelimits.ClassShared {
		m.shareHold(h, &o.response)
	}
	for _, s := range h.shadows { // it has departed, so nobody changes them any more
		s.end(o)
	}
	if o.held > 0 {
		m.settings.held(Held{Class: o.response.Class, Route: h.route.Route().String(), Wait: o.held})
	}
	m.settings.budgetUsed(h.entry.authentication.server.budget, passed, m.now)
}

// shareHold holds back what other credentials want of a resource that is used up for everybody.
func (m *RESTBucketManager) shareHold(h *held, r *ratelimits.Response) {
	b := h.bucket.Load()
	m.moves.Lock()
	defer m.moves.Unlock()
	for _, a := range m.authentications.All() {
		f := a.families[b.family.familyKey]
		if f == nil || f == b.family || f.place == unknown || a.server != b.server() {
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
	b.depart(h)
	b.partner.settle(now, h, o)
	b.scout.found(now, "")
	if !o.sent {
		b.window.Return(now, h.permit)
		return
	}
	r := &o.response
	b.name(h, r)
	if h.lane != nil && r.Class == ratelimits.ClassOK && r.Status < http.StatusInternalServerError && r.Status > 0 {
		h.lane.refusals.Accepted(h.permit.Sent())
	}
	limit, free := b.window.Limit(), b.window.HoldWait(now) == 0
	if b.partner != nil {
		b.window.Report(now, h.permit, b.partner.see(*r))
	} else {
		b.window.Report(now, h.permit, *r)
	}
	switch {
	case r.Class == ratelimits.ClassSubLimit:
		o.held = b.refuseLane(now, saidHold(r), o.shape)
	case r.Class == ratelimits.ClassGlobal && h.entry.exempt:
		b.window.HoldRefused(now, saidHold(r)) // no gate holds such a route, and it must not be asked again and again
	case b.family.place == erratic && r.Limited && r.Remaining == 0:
		b.window.Hold(now, r.ResetAfter) // the next one may be counted by the limit that is used up
	case b.family.place == nameless && headless(r):
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
	b.partner.hold(now, d, class)
}

// depart takes a lease out of those in flight, without a word on what became of its request.
func (b *RESTBucket) depart(h *held) {
	b.land(h)
	if h.ordered {
		b.queue.ordered--
	}
	if h.lane != nil {
		h.lane.busy = false
	}
}
