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

// limitGroup is all buckets that share a bucket hash and an authentication; the major parameter tells them apart.
type limitGroup struct {
	authentication *authentication
	groupKey
	id     uint64      // no two of a manager have the same
	routes int         // that live here, each major parameter counted that lives elsewhere than its route, and those apart from it; guarded by the lock for moves
	others *limitGroup // that has the hash for all routes, if this one has it for one that is apart; nil if it does not exist

	latestLimit  atomic.Int32 // the limit that the latest response named
	limitChanged atomic.Int64 // when a route named another limit than before, a time.Duration

	// What was known of the one that was forgotten last: what to expect of the next.
	lastLimit  atomic.Int64
	lastPeriod atomic.Int64

	mu      sync.Mutex
	buckets *RESTBucket // the first of them
}

// add adds a bucket to the limit group's, and leave takes it out again.
func (f *limitGroup) add(b *RESTBucket) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if b.nextInGroup = f.buckets; b.nextInGroup != nil {
		b.nextInGroup.previousInGroup = b
	}
	f.buckets = b
}

func (f *limitGroup) remove(b *RESTBucket) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if b.previousInGroup == nil {
		f.buckets = b.nextInGroup
	} else {
		b.previousInGroup.nextInGroup = b.nextInGroup
	}
	if b.nextInGroup != nil {
		b.nextInGroup.previousInGroup = b.previousInGroup
	}
}

// all returns its buckets.
func (f *limitGroup) all() (all []*RESTBucket) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for b := f.buckets; b != nil; b = b.nextInGroup {
		all = append(all, b)
	}
	return all
}

// empty reports that it has none.
func (f *limitGroup) empty() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.buckets == nil
}

// groupKey names a limit group of an authentication.
type groupKey struct {
	kind  groupKind
	hash  string       // as the server named it; empty for places without a name
	route routes.Route // of the only route that lives here; zero if the hash is what they share
}

// groupKind is what kind of home a limit group is to its routes.
//
//	named     the home of every route whose responses name its hash
//	unknown   the UNKNOWN bucket of one route: a place of discovery, with no major parameter
//	nameless  the home of one route whose responses name no hash
//	unlimited the same, and its responses carry no limits either
//	unstable   the home of one route whose responses name different hashes all the time: one request at a time
//	apart     the home of one route whose limits contradict those of another one that names the same hash, until they agree
type groupKind uint8

const (
	hashGroup groupKind = iota
	unknownGroup
	routeGroup
	unlimitedGroup
	unstableGroup
	separateGroup
)

// hasHash reports that its responses are expected to name the limit group's hash.
func (f *limitGroup) hasHash() bool { return f.kind == hashGroup || f.kind == separateGroup }

// routeEntry is what is known of one route under one authentication: the limit group in which its buckets are. A major parameter whose
// responses name another bucket hash than those of others has a home of its own.
type routeEntry struct {
	manager        *RESTBucketManager
	authentication *authentication
	route          routes.Route
	exempt         bool // from the global limit
	group          atomic.Pointer[limitGroup]
	groupsByMajor  atomic.Pointer[xsync.Map[major, *limitGroup]] // of major parameters that live elsewhere; nil if there was never any
	used           atomic.Bool                                   // since the garbage collector looked last
	evicted        atomic.Bool

	// moving is locked while the route's requests move to another limit group. Those who find changing set wait for it.
	moving   sync.Mutex
	changing atomic.Bool

	limit          atomic.Int32 // that the latest response named
	contradictions atomic.Int32 // how often others contradicted it

	unstableUntil atomic.Int64 // when its hashes are believed again, a time.Duration
	byError       atomic.Bool  // only errors have named its hash

	// Guarded by the manager's lock for moves.
	changes   int           // of the hash, of late, by the responses for one major parameter
	changedAt time.Duration // the first of them
	changedBy major
	changedTo *limitGroup
}

// groupOf returns the limit group in which the route lives with a major parameter.
func (e *routeEntry) groupOf(m major) *limitGroup {
	if homes := e.groupsByMajor.Load(); homes != nil {
		if f, ok := homes.Load(m); ok {
			return f
		}
	}
	return e.group.Load()
}

// waitForMove returns when the route's requests are not on the move.
func (e *routeEntry) waitForMove() {
	if e.changing.Load() {
		e.moving.Lock()
		defer e.moving.Unlock()
	}
}
