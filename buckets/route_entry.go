package buckets

import (
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ratelight/ratelight/ratelimits"
	"github.com/ratelight/ratelight/routes"
)

// UnknownHash is the bucket hash of a route until a response has named its real one.
const UnknownHash = "UNKNOWN"

const (
	// A route whose bucket hash changes that often within that time is erratic.
	erraticChanges = 3
	erraticWithin  = time.Minute
	// An erratic route is believed again after that time.
	erraticFor = 10 * time.Minute
	// A route moves out of a bucket when its limits and those of another route there contradict each other that often.
	apartClashes = 3
)

// family is all buckets that share a bucket hash and an authentication; the major parameter tells them apart.
type family struct {
	authentication *authentication
	familyKey
	id      uint64       // no two of a manager have the same
	buckets atomic.Int64 // how many there are
	routes  int          // that live here; guarded by the manager's lock for moves

	// What was known of the one that was forgotten last: what to expect of the next.
	limit  atomic.Int64
	period atomic.Int64
}

// familyKey names a family of an authentication.
type familyKey struct {
	place place
	hash  string       // as the server named it; empty for places without a name
	route routes.Route // of the only route that lives here; zero if the hash is what they share
}

// place is what kind of home a family is to its routes.
//
//	named     the home of every route whose responses name its hash
//	unknown   the UNKNOWN bucket of one route: a place of discovery, with no major parameter
//	nameless  the home of one route whose responses name no hash
//	unlimited the same, and its responses carry no limits either
//	erratic   the home of one route whose responses name different hashes all the time: one request at a time
//	apart     the home of one route whose limits contradict those of another one that names the same hash
type place uint8

const (
	named place = iota
	unknown
	nameless
	unlimited
	erratic
	apart
)

// named reports that its responses are expected to name the family's hash.
func (f *family) named() bool { return f.place == named || f.place == apart }

// routeEntry is what is known of one route under one authentication: the family in which its buckets are.
type routeEntry struct {
	manager        *RESTBucketManager
	authentication *authentication
	route          routes.Route
	exempt         bool // from the global limit
	family         atomic.Pointer[family]
	used           atomic.Bool // since the garbage collector looked last
	evicted        atomic.Bool

	// moving is locked while the route's requests move to another family. Those who find changing set wait for it.
	moving   sync.Mutex
	changing atomic.Bool

	limit   atomic.Int32 // that the latest response named
	clashes atomic.Int32 // how often others contradicted it

	erraticUntil atomic.Int64 // when its hashes are believed again, a time.Duration

	// Guarded by the manager's lock for moves.
	changes   int           // of the hash, of late
	changedAt time.Duration // the first of them
}

// belongsElsewhere reports that a response shows that its request does not belong to the family in whose bucket it waited.
func (e *routeEntry) belongsElsewhere(now time.Duration, current *family, r *ratelimits.Response) bool {
	switch {
	case r.Bucket == "":
		return current.place == unknown && (r.Limited || headless(r) || limitsOnly(r))
	case current.named():
		return r.Bucket != current.hash
	case current.place == erratic:
		return now >= time.Duration(e.erraticUntil.Load())
	}
	return true
}

// settleIn makes a family the home of the route, which counts there unless it has been forgotten: a response may come that late.
// The manager's lock for moves is held.
func (e *routeEntry) settleIn(f *family) {
	old := e.family.Swap(f)
	if e.evicted.Load() {
		return
	}
	if old != nil {
		old.routes--
	}
	f.routes++
}

// waitForMove returns when the route's requests are not on the move.
func (e *routeEntry) waitForMove() {
	if e.changing.Load() {
		e.moving.Lock()
		defer e.moving.Unlock()
	}
}

// clashes reports that a route insists on a limit which another route, also insisting, contradicts time and again, although
// both name the same hash: then they do not share a bucket, whatever it is called.
func (b *RESTBucket) clashes(e *routeEntry, r *ratelimits.Response) bool {
	if !r.Limited || r.Class != ratelimits.ClassOK || b.family.place != named {
		return false
	}
	limit := int32(r.Limit)
	contradicted := b.limitOf != nil && b.limitOf != e && b.limit != limit
	b.limit, b.limitOf = limit, e
	if e.limit.Load() != limit {
		e.limit.Store(limit)
		e.clashes.Store(0)
		return false
	}
	return contradicted && e.clashes.Add(1) >= apartClashes
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

// learn returns the family to which the response's request belongs and whether all of the route's requests belong there
// from now on. The manager's lock for moves is held.
func (e *routeEntry) learn(now time.Duration, current *family, r *ratelimits.Response) (f *family, all bool) {
	if r.Bucket == "" {
		if headless(r) {
			return e.home(unlimited, ""), true
		}
		return e.home(nameless, ""), true
	}
	if current.named() && r.Bucket == current.hash {
		return e.home(apart, r.Bucket), true
	}
	there := e.homeOf(r.Bucket)
	if !current.named() {
		return there, true
	}
	if r.Status == http.StatusNotFound {
		return there, false // what is not there is answered from another bucket than what is (deleted messages)
	}
	if now-e.changedAt > erraticWithin {
		e.changes, e.changedAt = 0, now
	}
	e.changes++
	if e.changes >= erraticChanges {
		e.changes = 0
		e.erraticUntil.Store(int64(now + erraticFor))
		return e.home(erratic, ""), true
	}
	return there, true
}
