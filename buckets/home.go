package buckets

import (
	"net/http"
	"time"

	"github.com/puzpuzpuz/xsync/v4"

	"github.com/ratelight/ratelight/ratelimits"
)

// Where a route belongs is what its responses say, of those that are not overtaken: the newest sent request decides. Most hashes are
// those of a route with all its major parameters, but servers other than Discord have one for each channel. So a response that names
// another hash moves its own major parameter only; the whole route moves when two of them have changed from one hash to the same other
// one.

const (
	// A route whose responses for one major parameter name another hash that often within that time is erratic.
	erraticChanges = 3
	erraticWithin  = time.Minute
	// An erratic route is believed again after that time.
	erraticFor = 10 * time.Minute
	// A route moves out of a bucket when its limits and those of another route there contradict each other that often.
	apartClashes = 3
	// rolloutTime is for how long after a change of limit two routes of a bucket may name different ones, as not all servers have
	// heard of it.
	rolloutTime = time.Minute
)

// scope is what of a route a response says belongs elsewhere.
type scope uint8

const (
	requestMoves scope = iota // no more than the request that was answered
	eitherCounts              // the same, but where it was sent may have counted it, too
	majorMoves                // all with the same major parameter
	routeMoves
)

// misplaced reports that a response shows that its request does not belong into this bucket.
func (b *RESTBucket) misplaced(now time.Duration, h *held, o *outcome) bool {
	return !b.evicted.Load() && (h.entry.belongsElsewhere(now, b.family, &o.response) || o.clashes && b.family.place == named)
}

// belongsElsewhere reports that a response shows that its request does not belong to the family in whose bucket it waited.
func (e *routeEntry) belongsElsewhere(now time.Duration, current *family, r *ratelimits.Response) bool {
	switch {
	case r.Bucket == "":
		return current.place == unknown && (r.Limited || headless(r) || limitsOnly(r)) ||
			current.named() && headless(r) && e.byError.Load()
	case current.named():
		return r.Bucket != current.hash || current.agreesAgain(r)
	case current.place == erratic:
		return now >= time.Duration(e.erraticUntil.Load())
	}
	return true
}

// agreesAgain reports that a route that lives apart names the limit that the others name.
func (f *family) agreesAgain(r *ratelimits.Response) bool {
	return f.sibling != nil && r.Limited && f.sibling.said.Load() == int32(r.Limit)
}

// clashes reports that a route insists on a limit which another route, also insisting, contradicts time and again, although
// both name the same hash: then they do not share a bucket, whatever it is called. What was sent before the latest that is known
// says nothing, and neither does anything while a change of the limit may not have reached all servers.
func (b *RESTBucket) clashes(now time.Duration, h *held, r *ratelimits.Response) bool {
	e, f := h.entry, b.family
	if !r.Limited || r.Class != ratelimits.ClassOK || f.place != named || r.Bucket != f.hash || b.overtaken(h) {
		return false
	}
	limit := int32(r.Limit)
	contradicted := b.limitOf != nil && b.limitOf != e && b.limit != limit
	switch before := e.limit.Load(); {
	case before != limit:
		e.limit.Store(limit)
		e.clashes.Store(0)
		if before != 0 {
			f.changed.Store(int64(now + rolloutTime))
		}
	case contradicted && now >= time.Duration(f.changed.Load()) && e.clashes.Add(1) >= apartClashes:
		e.clashes.Store(0)
		b.limitOf = nil    // whom it contradicts stays, and must not leave, too,
		b.window.Relearn() // and has another limit than both together had
		return true
	}
	b.limit, b.limitOf = limit, e
	if f.said.Load() != limit {
		f.said.Store(limit)
	}
	return false
}

// naming is the newest request of a route whose response has named the hash of the bucket that it is in.
type naming struct {
	route *routeEntry
	sent  time.Duration
	order uint32
	next  *naming // of another route
}

// namingOf returns that of a route, nil if none of its responses has named the bucket's hash.
func (b *RESTBucket) namingOf(e *routeEntry) *naming {
	n := b.namings
	for n != nil && n.route != e {
		n = n.next
	}
	return n
}

// overtaken reports that a request was sent before another one of its route, or together with it, whose response has named the
// bucket's hash.
func (b *RESTBucket) overtaken(h *held) bool {
	newest, sent := b.namingOf(h.entry), h.permit.Sent()
	return newest != nil && (sent < newest.sent || sent == newest.sent && h.order <= newest.order)
}

// name takes in that a response names the bucket's hash.
func (b *RESTBucket) name(h *held, r *ratelimits.Response) {
	if r.Bucket == "" || r.Bucket != b.family.hash {
		return
	}
	switch newest := b.namingOf(h.entry); {
	case newest == nil:
		b.namings = &naming{h.entry, h.permit.Sent(), h.order, b.namings}
	case !b.overtaken(h):
		newest.sent, newest.order = h.permit.Sent(), h.order
	}
	if r.Status < http.StatusBadRequest && h.entry.byError.Load() {
		h.entry.byError.Store(false)
	}
}

// headless reports a response which shows that a route has no limits: a success without any. An error without them proves nothing:
// whatever has made it may stand before what counts.
func headless(r *ratelimits.Response) bool {
	return !r.Limited && r.Bucket == "" && 200 <= r.Status && r.Status < http.StatusBadRequest
}

// limitsOnly reports a 429 of the route that does not name its bucket, as user and bearer tokens get them.
func limitsOnly(r *ratelimits.Response) bool {
	return r.Class == ratelimits.ClassUser || r.Class == ratelimits.ClassShared || r.Class == ratelimits.ClassSubLimit
}

// homeOf returns the family of a bucket hash. The manager's lock for moves is held.
func (e *routeEntry) homeOf(hash string) *family {
	if by, ok := e.manager.settings.shared.(SharedByRoute); ok && by.ByRoute() {
		return e.home(apart, hash)
	}
	return e.home(named, hash)
}

// learn returns the family to which the response's request belongs, and what else of its route does from now on. The lock for moves
// and that of the bucket are held.
func (e *routeEntry) learn(now time.Duration, b *RESTBucket, h *held, r *ratelimits.Response) (*family, scope) {
	current := b.family
	switch {
	case headless(r):
		return e.home(unlimited, ""), routeMoves
	case r.Bucket == "":
		return e.home(nameless, ""), routeMoves
	case current.named() && r.Bucket == current.hash && current.agreesAgain(r):
		return e.home(named, r.Bucket), routeMoves
	case current.named() && r.Bucket == current.hash:
		return e.home(apart, r.Bucket), routeMoves
	}
	there, failed := e.homeOf(r.Bucket), r.Status >= http.StatusBadRequest
	switch {
	case !current.named() && current.place != unknown && failed && r.Class == ratelimits.ClassOK:
		return there, requestMoves // errors have a limit of their own where successes have none
	case !current.named():
		e.byError.Store(failed)
		return there, routeMoves
	case b.overtaken(h):
		return there, eitherCounts
	case b.namingOf(e) == nil: // none was named before
		return there, majorMoves
	case r.Status == http.StatusNotFound: // what is not there is answered from another bucket than what is (deleted messages)
		return there, requestMoves
	case h.major == noMajor && !e.changesOften(now, h.major), e.changedTo == there && e.changedBy != h.major:
		return there, routeMoves
	case h.major == noMajor || e.changesOften(now, h.major):
		e.changes = 0
		e.erraticUntil.Store(int64(now + erraticFor))
		return e.home(erratic, ""), routeMoves
	}
	e.changedTo = there
	return there, majorMoves
}

// changesOften takes in that the hash changes for a major parameter, and reports that it does so too often to be believed. The lock for
// moves is held.
func (e *routeEntry) changesOften(now time.Duration, m major) bool {
	if m != e.changedBy || now-e.changedAt > erraticWithin {
		e.changes, e.changedAt, e.changedBy = 0, now, m
	}
	e.changes++
	return e.changes >= erraticChanges
}

// settleIn makes a family the home of the route, which counts there unless it has been forgotten: a response may come that late.
// Major parameters that live neither where the route did nor in the family that it leaves stay there, if it is a family of that kind. The
// manager's lock for moves is held.
func (e *routeEntry) settleIn(f, left *family) {
	e.changedTo = nil
	old := e.family.Swap(f)
	if e.evicted.Load() {
		return
	}
	if old != nil {
		old.routes--
	}
	f.routes++
	homes := e.homes.Load()
	if homes == nil {
		return
	}
	for m, home := range homes.All() {
		if home == f || home == left || f.place != named {
			e.leave(homes, m)
		}
	}
}

// settleMajorIn makes a family the home of the route with one major parameter. The manager's lock for moves is held.
func (e *routeEntry) settleMajorIn(m major, f *family) {
	if e.evicted.Load() {
		return
	}
	homes := e.homes.Load()
	if homes == nil {
		homes = xsync.NewMap[major, *family]()
		e.homes.Store(homes)
	}
	e.leave(homes, m)
	if f != e.family.Load() {
		homes.Store(m, f)
		f.routes++
	}
}

// leave lets a major parameter live where its route does. The manager's lock for moves is held.
func (e *routeEntry) leave(homes *xsync.Map[major, *family], m major) {
	if old, ok := homes.LoadAndDelete(m); ok {
		old.routes--
	}
}
