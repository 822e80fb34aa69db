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

	secret atomic.Bool // the hash contains a token

	mu      sync.Mutex
	buckets *bucket // the first of them
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

// add adds a bucket to the limit group's, and leave takes it out again.
func (f *limitGroup) add(b *bucket) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if b.nextInGroup = f.buckets; b.nextInGroup != nil {
		b.nextInGroup.previousInGroup = b
	}
	f.buckets = b
}

func (f *limitGroup) remove(b *bucket) {
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
func (f *limitGroup) all() (all []*bucket) {
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

// groupFor returns the limit group of that kind for the route. The lock for moves is held.
func (e *routeEntry) groupFor(place groupKind, hash string) *limitGroup {
	key := groupKey{kind: place, hash: hash}
	if place != hashGroup {
		key.route = e.route
	}
	f := e.authentication.groups[key]
	if f == nil {
		f = &limitGroup{authentication: e.authentication, groupKey: key, id: e.manager.groupIDs.Add(1)}
		if place == separateGroup {
			if f.others = e.authentication.groups[groupKey{kind: hashGroup, hash: hash}]; f.others != nil {
				f.others.routes++ // so that it stays
			}
		}
		e.authentication.groups[key] = f
	}
	return f
}

// groupOfHash returns the limit group of a bucket hash. The manager's lock for moves is held.
func (e *routeEntry) groupOfHash(hash string) *limitGroup {
	if by, ok := e.manager.settings.shared.(SharedByRoute); ok && by.ByRoute() {
		return e.groupFor(separateGroup, hash)
	}
	return e.groupFor(hashGroup, hash)
}

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

// entry returns what is known of a request's route under its authentication.
func (m *RESTBucketManager) entry(r *Request) *routeEntry {
	key := entryKey{r.Route.Route(), m.hash(r)}
	for {
		e, ok := m.entries.Load(key)
		if !ok {
			e = m.newEntry(key, r)
		}
		if !e.used.Load() {
			e.used.Store(true)
		}
		if !e.evicted.Load() { // the collector sets it first and then looks at used again
			return e
		}
	}
}

// newEntry makes what is not there yet. Nobody can find it before it is complete, and what panics meanwhile leaves nothing behind.
func (m *RESTBucketManager) newEntry(key entryKey, r *Request) *routeEntry {
	m.moves.Lock()
	defer m.moves.Unlock()
	if e, ok := m.entries.Load(key); ok {
		return e
	}
	e := &routeEntry{manager: m, authentication: m.authentication(key.authentication, r), route: key.route, exempt: key.route.GlobalExempt()}
	e.authentication.entries.Add(1)
	start := unknownGroup
	if key.route.OneShot() {
		start = unlimitedGroup // every request has its own major parameter, and there is nothing to discover
	}
	e.assign(e.groupFor(start, ""), nil)
	m.entries.Store(key, e)
	return e
}

// assign makes a limit group the home of the route, which counts there unless it has been forgotten: a response may come that late.
// Major parameters that live neither where the route did nor in the limit group that it leaves stay there, if it is a limit group of that kind. The
// manager's lock for moves is held.
func (e *routeEntry) assign(f, left *limitGroup) {
	e.changedTo = nil
	old := e.group.Swap(f)
	if e.evicted.Load() {
		return
	}
	if old != nil {
		old.routes--
	}
	f.routes++
	homes := e.groupsByMajor.Load()
	if homes == nil {
		return
	}
	for m, home := range homes.All() {
		if home == f || home == left || f.kind != hashGroup {
			e.unassign(homes, m)
		}
	}
}

// assignMajor makes a limit group the home of the route with one major parameter. The manager's lock for moves is held.
func (e *routeEntry) assignMajor(m major, f *limitGroup) {
	if e.evicted.Load() {
		return
	}
	homes := e.groupsByMajor.Load()
	if homes == nil {
		homes = xsync.NewMap[major, *limitGroup]()
		e.groupsByMajor.Store(homes)
	}
	e.unassign(homes, m)
	if f != e.group.Load() {
		homes.Store(m, f)
		f.routes++
	}
}

// unassign lets a major parameter live where its route does. The manager's lock for moves is held.
func (e *routeEntry) unassign(homes *xsync.Map[major, *limitGroup], m major) {
	if old, ok := homes.LoadAndDelete(m); ok {
		old.routes--
	}
}
