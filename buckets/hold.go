package buckets

import (
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

const (
	// A refusal of the edge that does not say how long is answered by holds that double from the one to the other.
	edgeHoldMin = 2 * time.Second
	edgeHoldMax = 10 * time.Minute
	// globalPatience is how long the outcome of the one that goes first after a global 429 is waited for: it may be a large upload, while
	// most attempts have ended by then.
	globalPatience = 15 * time.Second
)

// refuse holds everything back after a 429 that is about the gate, for as long as it says, and longer after several in a row. It returns
// for how long, 0 if everything was held back already.
func (g *gate) refuse(now time.Duration, r *ratelimits.Response) time.Duration {
	g.mu.Lock()
	g.open.Store(false)
	g.probing = true
	held := g.limit.HoldWait(now) > 0
	d := max(g.refusals.Again(now, held), g.said(r))
	g.mu.Unlock()
	g.hold(now, d)
	if held {
		return 0
	}
	return d
}

// said returns for how long a refusal wants everything to be held back. The lock is held.
func (g *gate) said(r *ratelimits.Response) time.Duration {
	if g.class == ratelimits.ClassEdge && !r.HasRetryAfter {
		return min(edgeHoldMin<<min(max(g.refusals.Row()-1, 0), 20), edgeHoldMax)
	}
	return saidHold(r)
}

// hold holds everything back for d, and refuses those for whom that is too long.
func (g *gate) hold(now, d time.Duration) {
	g.mu.Lock()
	g.open.Store(false)
	longer := g.limit.Hold(now, d)
	g.part.hold(now, d)
	g.mu.Unlock()
	if longer {
		g.refuseLate()
	}
}

// hold lets nothing leave for d, in no process.
func (b *RESTBucket) hold(now, d time.Duration, class ratelimits.Class) {
	b.window.HoldFor(now, d, class)
	b.link.hold(now, d, class)
}

// refuseSubLimit holds all requests of one key back for d, or longer after several refusals in a row. It returns for how long,
// 0 if they were held back already.
func (b *RESTBucket) refuseSubLimit(now, d time.Duration, key uint64) time.Duration {
	s := b.subLimit(now, key)
	before := s.hold.Wait(now)
	s.hold.Extend(now, max(d, s.refusals.Again(now, before > 0)))
	if before > 0 {
		return 0
	}
	return s.hold.Wait(now)
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

// Throttle holds everything that is not exempt from the global limit back for d, for all authentications (hikari's global
// throttle). A shorter hold never shortens a longer one; zero or less does nothing, more than ratelimits.LongestTrust counts
// as that.
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
		m.settings.held(Held{Class: ratelimits.ClassGlobal, Wait: d})
	}
}

// LiftHolds ends all holds of this manager at once: those of buckets, of hidden limits, of global limits and of the edge, and what
// Throttle holds. Where something was held by a 429 one request goes first, and what it is answered counts again. Holds that
// processes share stay. It does not block.
func (m *RESTBucketManager) LiftHolds() {
	m.moves.Lock()
	m.throttled = ratelimits.Throttle{}
	var edges []*gate
	for _, s := range m.servers {
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

// lift ends the holds of a bucket.
func (b *RESTBucket) lift() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.window.LiftHold(b.now())
	for q := range b.queues.all {
		q.hold = ratelimits.Throttle{}
	}
	b.dispatchFree(b.now())
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

// EdgeWait returns how long everything that leaves this address for a server (see Request.Server) is held back after a refusal of the
// network in front of it, 0 if it is not.
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
func (b *RESTBucket) pause(h *held, r *ratelimits.Response) {
	if h.heard != 0 {
		return
	}
	h.heard = max(b.now(), 1)
	switch {
	case r.Class == ratelimits.ClassEdge:
		h.pauses = h.entry.authentication.edge
	case r.Class == ratelimits.ClassGlobal && !h.entry.exempt:
		h.pauses = h.entry.authentication.global
	default:
		b.reading++
		return
	}
	h.pauses.pause()
}

// pausesBucket reports that the bucket waits that the lease is in flight in.
func (h *held) pausesBucket() bool { return h.heard != 0 && h.pauses == nil }

// age takes the time that it took to read a refusal off what it asks for, as that counts from its headers.
func (h *held) age(now time.Duration, r *ratelimits.Response) {
	read := now - h.heard
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
