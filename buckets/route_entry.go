package buckets

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/puzpuzpuz/xsync/v4"

	"github.com/ratelight/ratelight/routes"
)

// UnknownHash is the bucket hash of a route until a response has named its real one.
const UnknownHash = "UNKNOWN"

// family is all buckets that share a bucket hash and an authentication; the major parameter tells them apart.
type family struct {
	authentication *authentication
	familyKey
	id      uint64  // no two of a manager have the same
	routes  int     // that live here, each major parameter counted that lives elsewhere than its route, and those apart from it; guarded by the lock for moves
	sibling *family // that has the hash for all routes, if this one has it for one that is apart; nil if it does not exist

	said    atomic.Int32 // the limit that the latest response named
	changed atomic.Int64 // when a route named another limit than before, a time.Duration

	// What was known of the one that was forgotten last: what to expect of the next.
	limit  atomic.Int64
	period atomic.Int64

	mu      sync.Mutex
	buckets *RESTBucket // the first of them
}

// enter adds a bucket to the family's, and leave takes it out again.
func (f *family) enter(b *RESTBucket) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if b.nextOfFamily = f.buckets; b.nextOfFamily != nil {
		b.nextOfFamily.previousOfFamily = b
	}
	f.buckets = b
}

func (f *family) leave(b *RESTBucket) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if b.previousOfFamily == nil {
		f.buckets = b.nextOfFamily
	} else {
		b.previousOfFamily.nextOfFamily = b.nextOfFamily
	}
	if b.nextOfFamily != nil {
		b.nextOfFamily.previousOfFamily = b.previousOfFamily
	}
}

// members returns its buckets.
func (f *family) members() (all []*RESTBucket) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for b := f.buckets; b != nil; b = b.nextOfFamily {
		all = append(all, b)
	}
	return all
}

// empty reports that it has none.
func (f *family) empty() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.buckets == nil
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
//	apart     the home of one route whose limits contradict those of another one that names the same hash, until they agree
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

// routeEntry is what is known of one route under one authentication: the family in which its buckets are. A major parameter whose
// responses name another bucket hash than those of others has a home of its own.
type routeEntry struct {
	manager        *RESTBucketManager
	authentication *authentication
	route          routes.Route
	exempt         bool // from the global limit
	family         atomic.Pointer[family]
	homes          atomic.Pointer[xsync.Map[major, *family]] // of major parameters that live elsewhere; nil if there was never any
	used           atomic.Bool                               // since the garbage collector looked last
	evicted        atomic.Bool

	// moving is locked while the route's requests move to another family. Those who find changing set wait for it.
	moving   sync.Mutex
	changing atomic.Bool

	limit   atomic.Int32 // that the latest response named
	clashes atomic.Int32 // how often others contradicted it

	erraticUntil atomic.Int64 // when its hashes are believed again, a time.Duration
	byError      atomic.Bool  // only errors have named its hash

	// Guarded by the manager's lock for moves.
	changes   int           // of the hash, of late, by the responses for one major parameter
	changedAt time.Duration // the first of them
	changedBy major
	changedTo *family
}

// familyOf returns the family in which the route lives with a major parameter.
func (e *routeEntry) familyOf(m major) *family {
	if homes := e.homes.Load(); homes != nil {
		if f, ok := homes.Load(m); ok {
			return f
		}
	}
	return e.family.Load()
}

// waitForMove returns when the route's requests are not on the move.
func (e *routeEntry) waitForMove() {
	if e.changing.Load() {
		e.moving.Lock()
		defer e.moving.Unlock()
	}
}
