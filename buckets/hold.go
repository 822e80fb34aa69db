package buckets

import (
	"context"
	"time"

	"github.com/puzpuzpuz/xsync/v4"

	"github.com/ratelight/ratelight/ratelimits"
)

// What a 429 holds depends on its class:
//
//	user       the bucket, by its window
//	shared     the bucket of every credential: the first by its window, see holdResource for the others
//	sub-limit  the requests of its bucket that ask for the same, by the queue of the sub-limit
//	global     everything of the credential, by its gate; for a route that is exempt from that, its bucket
//	edge       everything that goes to the server, by its gate
//
// It holds for as long as it asks for, see ratelimits.Response.AskedWait, and longer if it is one of several in a row. Afterwards one request
// goes first. A shorter hold never shortens a longer one.

const (
	// A refusal of the edge that does not say how long is answered by holds that double from the one to the other.
	edgeHoldMin = 2 * time.Second
	edgeHoldMax = 10 * time.Minute
	// precision is that of the server's times: they are rounded to milliseconds.
	precision = time.Millisecond
)

// askedHold returns for how long a 429 asks to hold back what it is about, the latest of so many in a row.
func askedHold(r *ratelimits.Response, row int) time.Duration {
	if r.Class == ratelimits.ClassEdge && !r.HasRetryAfter {
		return min(edgeHoldMin<<min(max(row-1, 0), 20), edgeHoldMax)
	}
	return r.AskedWait()
}

// holdAfter returns for how long a limit is held after a 429, and counts that one among those in a row. held says that it is held already.
func holdAfter(now time.Duration, r *ratelimits.Response, refusals *ratelimits.Refusals, held bool) time.Duration {
	least := refusals.Again(now, held)
	return max(least, askedHold(r, refusals.Row()))
}

// refuse holds the gate back that the response to a request is about.
func (a *authentication) refuse(o *outcome) {
	switch o.response.Class {
	case ratelimits.ClassEdge:
		o.held = a.edge.refuse(&o.response)
	case ratelimits.ClassGlobal:
		o.held = a.global.refuse(&o.response)
	}
}

// refuse takes in a 429 that is about the gate. It returns for how long everything is held back, 0 if it was already.
func (g *gate) refuse(r *ratelimits.Response) time.Duration {
	now := g.manager.now()
	g.mu.Lock()
	g.open.Store(false)
	g.probing = true
	held := g.limit.HoldWait(now) > 0
	d := holdAfter(now, r, &g.refusals, held)
	g.mu.Unlock()
	g.hold(now, d)
	if held {
		return 0
	}
	return d
}

// hold holds everything back for d, and rejects those for whom that is too long.
func (g *gate) hold(now, d time.Duration) {
	g.mu.Lock()
	g.open.Store(false)
	longer := g.limit.Hold(now, d)
	g.part.hold(now, d)
	g.mu.Unlock()
	if longer {
		g.noteHeld()
		g.rejectLate()
	}
}

// refuse holds back what a 429 to a request of this bucket is about, unless it is a gate, or the window holds it by itself.
func (b *bucket) refuse(now time.Duration, h *held, o *outcome) {
	switch r := &o.response; {
	case r.Class == ratelimits.ClassSubLimit:
		o.held = b.subLimit(now, o.subLimitKey).refuse(now, r)
	case r.Class == ratelimits.ClassGlobal && h.entry.exempt: // it must not be asked again and again
		b.window.HoldRefused(now, askedHold(r, 0))
	}
}

// refuse takes in a 429 of the sub-limit. It returns for how long that is held, 0 if it was already.
func (q *queue) refuse(now time.Duration, r *ratelimits.Response) time.Duration {
	held := q.hold.Wait(now) > 0
	q.hold.Extend(now, holdAfter(now, r, &q.refusals, held))
	if held {
		return 0
	}
	return q.hold.Wait(now)
}

// hold lets nothing leave for d, in no process.
func (b *bucket) hold(now, d time.Duration, class ratelimits.Class) {
	if d <= 0 {
		return
	}
	if b.link != nil {
		b.link.remote.Hold(now, d, class)
	} else {
		b.window.HoldFor(now, d, class)
	}
	b.noteBusy()
}

// resource is what a bucket limits the use of, whoever uses it.
type resource struct {
	groupKey
	major major
}

func (b *bucket) resource() resource { return resource{b.group.groupKey, b.major} }

// holdResource holds back what other credentials want of a resource that is used up for everybody.
func (m *RESTBucketManager) holdResource(b *bucket, r *ratelimits.Response) {
	if b.group.kind.unknown() {
		return
	}
	m.moves.Lock()
	defer m.moves.Unlock()
	m.holdForAll(b.server(), b.resource(), askedHold(r, 0), b.group)
}

// holdForAll holds a resource now in the buckets that there are, but for that of one limit group, and from the start in those that are
// made until it is over. Other processes hear of it only from a bucket, so one that is shared is made. The lock for moves is held.
func (m *RESTBucketManager) holdForAll(s *server, r resource, d time.Duration, except *limitGroup) {
	s.holds.Compute(r, func(until time.Duration, _ bool) (time.Duration, xsync.ComputeOp) {
		return max(until, m.now()+d), xsync.UpdateOp
	})
	for _, a := range m.authentications.All() {
		group := a.groups[r.groupKey]
		if group == nil || group == except || a.server != s {
			continue
		}
		if m.session() == nil && m.buckets.find(group, r.major) == nil {
			continue
		}
		b := m.lockedBucket(group, r.major)
		b.hold(b.now(), d, ratelimits.ClassShared)
		b.rejectLate(b.now())
		b.mu.Unlock()
	}
}

// heldResources returns the resources of a route that are held for everybody, and until when.
func (e *routeEntry) heldResources() map[resource]time.Duration {
	holds := e.authentication.server.holds
	if holds.Size() == 0 {
		return nil
	}
	held := make(map[resource]time.Duration)
	for r, until := range holds.All() {
		if e.groupOf(r.major).groupKey == r.groupKey {
			held[r] = until
		}
	}
	return held
}

// holdMoved holds what was held of a route before it moved where it belongs now: the resource is used up, whatever its bucket is called. The
// lock for moves is held.
func (e *routeEntry) holdMoved(held map[resource]time.Duration) {
	m := e.manager
	for r, until := range held {
		to, left := e.groupOf(r.major).groupKey, until-m.now()
		if to != r.groupKey && left > 0 {
			m.holdForAll(e.authentication.server, resource{to, r.major}, left, nil)
		}
	}
}

// holdWait returns for how long a resource is held for everybody.
func (s *server) holdWait(now time.Duration, r resource) time.Duration {
	if s.holds.Size() == 0 { // as almost always
		return 0
	}
	until, _ := s.holds.Load(r)
	return max(until-now, 0)
}

// forgetHolds forgets the holds of resources that are over.
func (s *server) forgetHolds(now time.Duration) {
	s.holds.DeleteMatching(func(_ resource, until time.Duration) (bool, bool) { return until <= now, false })
}

// Throttle holds all requests that are not exempt from the global limit for d, for all authentications (hikari's global
// throttle). A shorter hold never shortens a longer one; zero or less does nothing, more than ratelimits.LongestTrust
// is reduced to it.
func (m *RESTBucketManager) Throttle(d time.Duration) {
	if d <= 0 {
		return
	}
	now, d := m.now(), min(d, ratelimits.LongestTrust)
	m.moves.Lock()
	free := m.throttled.Wait(now) == 0
	m.throttled.Extend(now, d)
	m.moves.Unlock()
	for _, a := range m.authentications.All() {
		a.global.hold(now, d)
	}
	if free {
		m.tellHeld(context.Background(), Held{Class: ratelimits.ClassGlobal, Wait: d})
	}
}

// LiftHolds ends all holds of this manager at once: those of buckets, of sub-limits, of global limits, of the edge and
// of Throttle. Where a 429 caused the hold, one request is sent first, and its response counts. Holds that processes
// share are kept. It does not block.
func (m *RESTBucketManager) LiftHolds() {
	m.moves.Lock()
	m.throttled = ratelimits.Throttle{}
	m.doubted.Store(0)
	var edges []*gate
	for _, s := range m.servers {
		s.holds.Clear()
		edges = append(edges, s.edge)
	}
	m.moves.Unlock()
	for _, e := range edges {
		e.lift(m.now())
	}
	for _, a := range m.authentications.All() {
		a.global.lift(m.now())
	}
	for b := range m.buckets.all() {
		b.lift()
	}
}

// lift ends the holds of a bucket that processes do not share.
func (b *bucket) lift() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.link == nil {
		b.window.LiftHold(b.now())
	}
	for q := range b.queues.all {
		q.hold, q.refusals, b.queues.heldUntil = ratelimits.Throttle{}, ratelimits.Refusals{}, 0
	}
	b.dispatchNow(b.now())
}

// lift ends the hold.
func (g *gate) lift(now time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.limit.LiftHold()
	g.refusals = ratelimits.Refusals{}
	g.moveOn(now)
}

// holdWait returns how long a hold still lasts.
func (g *gate) holdWait(now time.Duration) time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.limit.HoldWait(now)
}

// EdgeWait returns how long all requests to a server (see Request.Server) are still held after a refusal by the network
// in front of it, 0 if they are not.
func (m *RESTBucketManager) EdgeWait(server string) time.Duration {
	m.moves.Lock()
	defer m.moves.Unlock()
	if s := m.servers[server]; s != nil {
		return s.edge.holdWait(m.now())
	}
	return 0
}

// While a refusal is read of which only the headers have come, nothing leaves that it may be about: the bucket, or the gate that the
// headers name, waits until the body has told how long.

// pause lets nothing leave that a refusal of a lease in flight in this bucket, which is locked, may be about.
func (b *bucket) pause(h *held, r *ratelimits.Response) {
	if h.refusedAt != 0 {
		return
	}
	h.refusedAt = max(b.now(), 1)
	switch {
	case r.Class == ratelimits.ClassEdge:
		h.pauses = h.credential.edge
	case r.Class == ratelimits.ClassGlobal && !h.entry.exempt:
		h.pauses = h.credential.global
	default:
		b.reading++
		return
	}
	h.pauses.pause()
}

// pausesBucket reports that the bucket waits that the lease is in flight in.
func (h *held) pausesBucket() bool { return h.refusedAt != 0 && h.pauses == nil }

// age takes the time that it took to read a refusal off what it asks for, as that counts from its headers.
func (h *held) age(now time.Duration, r *ratelimits.Response) {
	read := now - h.refusedAt
	r.RetryAfter, r.ResetAfter = max(r.RetryAfter-read, precision), max(r.ResetAfter-read, 0)
}

// resume ends the pause of a gate. That of a bucket ends when the lease leaves it.
func (h *held) resume(now time.Duration) {
	if h.pauses != nil {
		h.pauses.resume(now)
	}
}

// pause lets nothing through while a refusal is being read, until resume.
func (g *gate) pause() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.reading++
	g.open.Store(false)
}

func (g *gate) resume(now time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.reading--
	g.moveOn(now)
}
