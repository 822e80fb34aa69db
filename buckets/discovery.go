package buckets

import (
	"net/http"
	"strings"
	"time"

	"github.com/ratelight/ratelight/ratelimits"
)

// Where a route belongs is what its responses say, of those that are not overtaken: the newest sent request decides. Most hashes are
// those of a route with all its major parameters, but servers other than Discord have one for each channel. So a response that names
// another hash moves its own major parameter only; the whole route moves when two of them have changed from one hash to the same other
// one.

const (
	// A route whose responses for one major parameter name another hash that often within that time is unstable.
	unstableChanges = 3
	unstableWithin  = time.Minute
	// An unstable route is believed again after that time.
	unstableFor = 10 * time.Minute
	// A route moves out of a bucket when its limits and those of another route there contradict each other that often.
	separateAfter = 3
	// rolloutTime is for how long after a change of limit two routes of a bucket may name different ones, as not all servers have
	// heard of it.
	rolloutTime = time.Minute
)

// letsAllGo reports that the buckets of a limit group have no limit. That is also how UNKNOWN ones are if nobody shall wait for a discovery. In
// the other UNKNOWN ones a window that knows no limit lets one request go alone, of all processes together if they share limits, and the
// others when that has ended or has found where the route belongs.
func (m *RESTBucketManager) letsAllGo(group *limitGroup) bool {
	return group.kind == unlimitedGroup || group.kind.unknown() && m.settings.unknown == UnknownUnlimited
}

// moveScope is what of a route a response says belongs elsewhere.
type moveScope uint8

const (
	requestMoves moveScope = iota // no more than the request that was answered
	eitherCounts                  // the same, but where it was sent may have counted it, too
	majorMoves                    // all with the same major parameter
	routeMoves
)

// misplaced reports that a response shows that its request does not belong into this bucket.
func (b *bucket) misplaced(now time.Duration, h *held, o *outcome) bool {
	r := &o.response
	return !b.evicted.Load() && (h.entry.belongsElsewhere(now, b.group, r) || b.splits(h, r) || b.joins(now, h, r) ||
		o.contradicted && b.group.kind == hashGroup)
}

// joins reports that a response shows that the paths of a route have no buckets of their own, although it seemed so.
func (b *bucket) joins(now time.Duration, h *held, r *ratelimits.Response) bool {
	switch {
	case b.group.kind != pathGroup:
		return false
	case r.Class == ratelimits.ClassUser && r.Bucket != "":
		return !strings.Contains(r.Bucket, h.route.Path()) // it may be that of others
	}
	_, no := h.entry.countedByPath(now, h, r)
	return no
}

// splits reports that the request which was sent alone to find out where the routes of an UNKNOWN bucket belong has told nothing, so that the
// next ones are sent alone for each major parameter. Processes that share limits do not split it: one that has found the hash would send
// where another one still tries.
func (b *bucket) splits(h *held, r *ratelimits.Response) bool {
	return b.group.kind == unknownGroup && b.discoveryLink == nil && h.tellsNothing(r) && b.inFlight == h && h.next == nil
}

// belongsElsewhere reports that a response shows that its request does not belong to the limit group in whose bucket it waited.
func (e *routeEntry) belongsElsewhere(now time.Duration, current *limitGroup, r *ratelimits.Response) bool {
	switch {
	case current.kind == foreignGroup:
		return passed(r)
	case r.Bucket == "":
		return current.kind.unknown() && (r.Limited || withoutLimits(r) || refusedUnnamed(r)) ||
			current.hasHash() && withoutLimits(r) && (e.byError.Load() || e.hinted.Load()) ||
			current.hasHash() && r.Limited && r.Class == ratelimits.ClassOK && e.hinted.Load()
	case current.hasHash():
		return r.Bucket != current.hash || current.agreesAgain(r)
	case current.kind == pathGroup:
		return false // its paths are looked at one by one
	case current.kind == unstableGroup:
		return now >= time.Duration(e.unstableUntil.Load())
	}
	return true
}

// agreesAgain reports that a separate route names the limit that the others name.
func (group *limitGroup) agreesAgain(r *ratelimits.Response) bool {
	return group.sameHash != nil && r.Limited && group.sameHash.latestLimit.Load() == int32(r.Limit)
}

// contradicted reports that a route insists on a limit which another route, also insisting, contradicts time and again, although
// both name the same hash: then they do not share a bucket, whatever it is called. What was sent before the latest that is known
// says nothing, and neither does anything while a change of the limit may not have reached all servers.
func (b *bucket) contradicted(now time.Duration, h *held, r *ratelimits.Response) bool {
	e, group := h.entry, b.group
	if !r.Limited || r.Class != ratelimits.ClassOK || group.kind != hashGroup || r.Bucket != group.hash || b.overtaken(h) {
		return false
	}
	limit := int32(r.Limit)
	contradicted := b.limitOf != nil && b.limitOf != e && b.limit != limit
	switch before := e.limit.Load(); {
	case before != limit:
		e.limit.Store(limit)
		e.contradictions.Store(0)
		if before != 0 {
			group.limitChanged.Store(int64(now + rolloutTime))
		}
	case contradicted && now >= time.Duration(group.limitChanged.Load()) && e.contradictions.Add(1) >= separateAfter:
		e.contradictions.Store(0)
		b.limitOf = nil    // whom it contradicts stays, and must not leave, too,
		b.window.Relearn() // and has another limit than both together had
		return true
	}
	b.limit, b.limitOf = limit, e
	if group.latestLimit.Load() != limit {
		group.latestLimit.Store(limit)
	}
	return false
}

// naming is the newest request of a route whose response has named the hash of the bucket that it is in. Without a route it is none.
type naming struct {
	route *routeEntry
	sent  time.Duration
	order uint32
	next  *naming // of another route
}

// namingOf returns that of a route, nil if none of its responses has named the bucket's hash.
func (b *bucket) namingOf(e *routeEntry) *naming {
	n := &b.namings
	for n != nil && n.route != e {
		n = n.next
	}
	return n
}

// overtaken reports that a request was sent before another one of its route, or together with it, whose response has named the
// bucket's hash.
func (b *bucket) overtaken(h *held) bool {
	newest, sent := b.namingOf(h.entry), h.permit.Sent()
	return newest != nil && (sent < newest.sent || sent == newest.sent && h.order <= newest.order)
}

// name takes in that a response names the bucket's hash.
func (b *bucket) name(h *held, r *ratelimits.Response) {
	if r.Bucket == "" || r.Bucket != b.group.hash {
		return
	}
	if r.Class == ratelimits.ClassOK && !b.group.accepted.Load() {
		b.group.accepted.Store(true)
	}
	switch newest := b.namingOf(h.entry); {
	case newest == nil:
		n := naming{h.entry, h.permit.Sent(), h.order, nil}
		if b.namings.route != nil {
			older := b.namings
			n.next = &older
		}
		b.namings = n
	case !b.overtaken(h):
		newest.sent, newest.order = h.permit.Sent(), h.order
	}
	if r.Status < http.StatusBadRequest && h.entry.byError.Load() {
		h.entry.byError.Store(false)
	}
}

// withoutLimits reports a response which shows that a route has no limits: a success without any. An error without them proves nothing:
// whatever has made it may stand before what counts.
func withoutLimits(r *ratelimits.Response) bool {
	return !r.Limited && r.Bucket == "" && 200 <= r.Status && r.Status < http.StatusBadRequest
}

// tellsNothing reports an error without limits. It says nothing of the limit that successes have. But buckets are counted for each major
// parameter, so that as many can be tried as there are major parameters: a success would have proved no more for each of the others.
// A 401 is about the credential, if the path has no token: more requests with it draw more of them, which count as invalid.
func (h *held) tellsNothing(r *ratelimits.Response) bool {
	return !r.Limited && r.Bucket == "" && r.Class == ratelimits.ClassOK && failed(r) &&
		(r.Status != http.StatusUnauthorized || h.route.MajorToken() != "")
}

// failed reports a response that is not a success.
func failed(r *ratelimits.Response) bool { return r.Status >= http.StatusBadRequest }

// refusedUnnamed reports a 429 of the route that does not name its bucket, as user and bearer tokens get them.
func refusedUnnamed(r *ratelimits.Response) bool {
	return r.Class == ratelimits.ClassUser || r.Class == ratelimits.ClassShared || r.Class == ratelimits.ClassSubLimit
}

// learn returns the limit group to which the response's request belongs, and what else of its route does from now on. The lock for moves
// and that of the bucket are held.
func (e *routeEntry) learn(now time.Duration, b *bucket, h *held, r *ratelimits.Response) (*limitGroup, moveScope) {
	current := b.group
	if current.kind == foreignGroup {
		return e.learnForeign(h, r)
	}
	if foreign := e.foreignTo(r); foreign != nil {
		return foreign, routeMoves
	}
	switch {
	case withoutLimits(r):
		return e.groupFor(unlimitedGroup, ""), routeMoves
	case h.tellsNothing(r):
		key := groupKey{kind: erringGroup, route: current.route, family: current.family}
		return e.authentication.group(key), routeMoves
	case r.Bucket == "":
		return e.groupFor(routeGroup, ""), routeMoves
	case current.hasHash() && r.Bucket == current.hash && current.agreesAgain(r):
		return e.groupFor(hashGroup, r.Bucket), routeMoves
	case current.hasHash() && r.Bucket == current.hash:
		return e.groupFor(separateGroup, r.Bucket), routeMoves
	}
	there := e.groupOfHash(r.Bucket)
	switch {
	case current.kind == pathGroup && r.Class != ratelimits.ClassOK:
		return current, requestMoves // it is the path's
	case current.kind == pathGroup:
		return there, routeMoves
	}
	if current.hasHash() || strings.Contains(r.Bucket, h.route.Path()) {
		if byPath, _ := e.countedByPath(now, h, r); byPath {
			return e.groupFor(pathGroup, ""), routeMoves
		}
	}
	switch {
	case e.hinted.Load(), current.kind.unknown():
		e.byError.Store(failed(r))
		return there, routeMoves
	case !current.hasHash() && failed(r) && r.Class == ratelimits.ClassOK:
		return there, requestMoves // errors have a limit of their own where successes have none
	case !current.hasHash():
		e.byError.Store(failed(r))
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
		e.unstableUntil.Store(int64(now + unstableFor))
		return e.groupFor(unstableGroup, ""), routeMoves
	}
	e.changedTo = there
	return there, majorMoves
}

// changesOften takes in that the hash changes for a major parameter, and reports that it does so too often to be believed. The lock for
// moves is held.
func (e *routeEntry) changesOften(now time.Duration, m major) bool {
	if m != e.changedBy || now-e.changedAt > unstableWithin {
		e.changes, e.changedAt, e.changedBy = 0, now, m
	}
	e.changes++
	return e.changes >= unstableChanges
}
