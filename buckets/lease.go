package buckets

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ratelight/ratelight/ratelimits"
	"github.com/ratelight/ratelight/routes"
)

// Lease is the permission to send one request, held from Acquire until its outcome is known. The first of Update, Release
// and Return ends it; all later calls do nothing, so `defer lease.Release()` is right in every case. A Lease is a small
// value that can be copied and used from any goroutine. The zero value is no lease, and all its methods do nothing.
type Lease struct {
	held       *held
	generation uint32
}

// Format hides from fmt what the lease stands for: the route, which may contain a token, and what changes meanwhile.
func (l Lease) Format(state fmt.State, verb rune) {
	fmt.Fprintf(state, fmt.FormatString(state, verb), "lease "+strconv.FormatUint(uint64(l.generation), 10))
}

// held is what a lease stands for. It is used again after its end, with another generation.
type held struct {
	generation   atomic.Uint32
	bucket       atomic.Pointer[bucket] // changed only under the locks of both the old and the new one
	ender        atomic.Pointer[ender]  // of a lease that is not a manager's
	request      *Request               // that gets its place back if it is to be sent again, nil if nobody asked for that
	undiscovered atomic.Bool            // its response will tell to which bucket it belongs, and that may be another one
	grant
}

// grant is what was granted.
type grant struct {
	// Guarded by the bucket's lock.
	permit         permit
	next, previous *held // in flight in the same bucket
	provisional    []provisionalCharge

	// Set before anybody else can know it, and not changed.
	ctx         context.Context // for hooks and logs, nothing else
	entry       *routeEntry
	credential  *authentication // whose global limit counts it
	route       routes.CompiledRoute
	major       major
	fields      func() []string
	subLimitKey uint64 // 0: not looked at
	arrived     time.Duration
	global      gatePermit
	edge        gatePermit
	declared    []declaredPermit
	subLimit    *queue        // whose request it is, nil if none
	counters    *counterShard // that counted it
	ordered     bool

	// Guarded by the bucket's lock.
	refusedAt time.Duration // when the headers of its refusal came, which is being read; else 0
	pauses    *gate         // that waits for it, nil if it is the bucket
	order     uint32        // of those that were sent from the bucket, 0 if it has moved here
}

// lease returns the lease that was just made of h.
func (h *held) lease() Lease { return Lease{h, h.generation.Load()} }

var leases = sync.Pool{New: func() any { return new(held) }}

// Update ends the lease with the response, whatever its status. It applies what the response says about limits, and
// grants the waiting requests that may now be sent. It does not block.
//
// After a 429, call Acquire again, which includes the wait, and send the request again if its body can be repeated. Use
// a Request to keep the place in the queue.
func (l Lease) Update(r ratelimits.Response) { l.end(&outcome{sent: true, response: r.Clip()}) }

// Refused reports that a 429 has arrived of which only status and headers are known yet. Until the lease ends, normally
// by Update with the complete response, no request is sent that the 429 may be about. It does not end the lease and
// does not block. Calling it is optional, for responses whose body comes late. It must not be called while another
// goroutine ends the lease.
func (l Lease) Refused(r ratelimits.Response) {
	if e := l.foreign(); e != nil {
		if told, ok := e.(interface{ Refused(ratelimits.Response) }); ok {
			told.Refused(r)
		}
		return
	}
	h := l.held
	if h == nil || h.generation.Load() != l.generation {
		return
	}
	r = r.Clip()
	b := h.lock()
	defer b.mu.Unlock()
	b.pause(h, &r)
}

// Release ends the lease of a request whose outcome will never be known: the connection broke, the response was lost,
// or the caller gave up. The request stays charged as long as the server may count it. After Update it does nothing.
func (l Lease) Release() { l.end(&outcome{sent: true}) }

// Return ends the lease of a request that was certainly never sent, and removes all its charges.
func (l Lease) Return() { l.end(&outcome{}) }

// outcome is how a lease ends.
type outcome struct {
	sent         bool
	response     ratelimits.Response
	subLimitKey  uint64        // of a request that was refused by a sub-limit
	held         time.Duration // for how long it made something be held back that was not
	contradicted bool          // its limits and those of other routes of its bucket contradict each other
}

// comesBack reports that the request may be sent again in its old place: it was refused, or failed in a way that will pass. Everything
// else is an answer.
func (o *outcome) comesBack() bool {
	status := o.response.Status
	return !o.sent || status == 0 || status >= http.StatusInternalServerError || o.response.Class != ratelimits.ClassOK
}

// subLimitKeyOf returns the request's key.
func (g *grant) subLimitKeyOf(m *RESTBucketManager) uint64 {
	if g.subLimitKey == 0 {
		return m.subLimitKeyOf(g.route, g.fields)
	}
	return g.subLimitKey
}

func (l Lease) end(o *outcome) {
	h := l.held
	if h == nil || h.generation.Load() != l.generation || !h.generation.CompareAndSwap(l.generation, l.generation+1) {
		return
	}
	if e := h.ender.Load(); e != nil {
		(*e).End(o.sent, o.response)
	} else {
		h.entry.manager.finish(h, o)
	}
	if h.request != nil && o.comesBack() {
		h.request.arrived, h.request.subLimitKey = h.arrived, max(h.subLimitKey, o.subLimitKey)
	}
	h.free()
}

// free makes what the lease stood for available to others. Old leases may still know it, hence the generation stays.
func (h *held) free() {
	h.request = nil
	if h.ender.Load() != nil {
		h.ender.Store(nil)
	}
	h.grant = grant{}
	leases.Put(h)
}

// finish ends a lease: it gives back what the request took, applies what its response says, and lets go whom that allows to
// go. The gates come first, so that nobody leaves whom a hold of theirs stops.
func (m *RESTBucketManager) finish(h *held, o *outcome) {
	if h.refusedAt != 0 {
		h.age(m.now(), &o.response)
	}
	if o.response.Class == ratelimits.ClassSubLimit {
		o.subLimitKey = h.subLimitKeyOf(m) // before any lock is held, as it calls the caller's function
	}
	fraction := 0.0
	if o.sent && o.response.Invalid() {
		fraction = m.reportInvalid(h.entry.authentication.server)
	}
	if h.request != nil && o.comesBack() {
		m.mayReturn()
	}
	h.counters.countEnd(o) // after that, so that it is never in neither
	m.progressed()
	auth := h.credential
	auth.refuse(o)
	b := h.lock()
	now := b.now()
	if auth.edge.tracks(h.edge) {
		auth.edge.finish(now, h.edge, h.permit.Sent(), o)
	}
	if auth.global.tracks(h.global) {
		auth.global.finish(now, h.global, h.permit.Sent(), o)
	}
	for _, d := range h.declared {
		d.end(now, o)
	}
	h.resume(now)
	o.contradicted = o.sent && b.contradicted(now, h, &o.response)
	var touched []*bucket
	if o.sent && b.misplaced(now, h, o) {
		b.mu.Unlock()
		touched = m.relocate(h, o)
	} else {
		b.apply(now, h, o)
		b.dispatchNow(now)
		b.mu.Unlock()
	}
	if o.response.Class == ratelimits.ClassShared {
		m.holdResource(h.bucket.Load(), &o.response)
	}
	for _, c := range h.provisional { // it is not in flight any more, so nobody changes them
		c.end(o)
	}
	m.logPredicted(touched)
	if o.held > 0 {
		m.tellHeld(h.ctx, Held{Class: o.response.Class, Route: h.route.Route().String(), Major: h.route.RedactedMajor(), Wait: o.held})
	}
	if fraction > 0 {
		m.tellBudgetUsed(h.ctx, &h.route, auth.server.budget, fraction)
	}
}

// lock locks the bucket in which the lease is in flight and returns it.
func (h *held) lock() *bucket {
	for {
		b := h.bucket.Load()
		b.mu.Lock()
		if h.bucket.Load() == b {
			return b
		}
		b.mu.Unlock()
	}
}

// apply takes a lease out of those in flight, with its outcome.
func (b *bucket) apply(now time.Duration, h *held, o *outcome) {
	b.removeInFlight(h)
	if b.inFlight == nil { // else the one that finds out may still be under way
		b.discoveryLink.found(now, "")
	}
	if !o.sent {
		b.giveBack(now, &h.permit)
		return
	}
	r := &o.response
	b.name(h, r)
	h.entry.settle(r)
	if b.group.hasHash() && r.Bucket == b.group.hash {
		h.entry.notePath(now, h, r)
	}
	if (b.group.kind.unknown() || h.entry.hinted.Load()) && r.Class == ratelimits.ClassOK {
		b.group.lose(lostRequest{h.entry, h.route, h.major, h.permit.Sent(), now, h.provisional})
	}
	if h.subLimit != nil && r.Class == ratelimits.ClassOK && r.Status < http.StatusInternalServerError && r.Status > 0 {
		h.subLimit.refusals.Accepted(h.permit.Sent())
	}
	limit, free := b.window.Limit(), b.window.HoldWait(now) == 0
	late, punctual := b.window.Late()
	b.report(now, &h.permit, r)
	by, known := b.window.Late()
	if b.link != nil || b.window.Limit() != limit || by != late || known != punctual { // another process may have learnt it
		b.tellGroup()
	}
	switch {
	case (b.group.kind == routeGroup || b.group.kind == pathGroup) && withoutLimits(r):
		b.window.Unlimit()
	case b.group.kind == unstableGroup && r.Limited && r.Remaining == 0: // the next one may be counted by the limit that is used up
		b.hold(now, r.ResetAfter, ratelimits.ClassOK)
	}
	if r.Class != ratelimits.ClassOK {
		b.refuse(now, h, o)
		b.noteBusy() // also of a hold of the window's own
		if free {
			o.held = max(o.held, b.window.HoldWait(now))
		}
	}
	if r.Class != ratelimits.ClassOK || b.window.Limit() != limit {
		b.rejectLate(now) // what was predicted has changed
	}
	if r.Status == 0 {
		b.rejectOverdue(now) // nobody can predict when somebody answers
	}
}
