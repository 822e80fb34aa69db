package buckets

import (
	"strings"
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
	id       uint64      // no two of a manager have the same
	sameHash *limitGroup // of a separate group: the one of all other routes with that hash, nil if it does not exist
	// routes is how many belong here, each major parameter counted that belongs elsewhere than its route, and separate groups of the
	// same hash. The lock for moves guards it.
	routes int

	latestLimit  atomic.Int32 // the limit that the latest response named
	limitChanged atomic.Int64 // when a route named another limit than before, a time.Duration

	// What became known of one of them last, or was known when it was forgotten: what to expect of the next.
	lastLimit  atomic.Int64
	lastPeriod atomic.Int64
	lastLate   atomic.Int64 // nanoseconds that a bucket opened late, plus one; 0 if it is not known

	accepted atomic.Bool // other responses than refusals have named the hash
	refused  string      // the route or family that was refused in its name first; the lock for moves guards it

	secret atomic.Bool // the hash contains a token, as far as requests that came here can tell

	mu      sync.Mutex
	buckets *bucket       // the first of them
	lost    []lostRequest // if it is UNKNOWN
}

// groupKey names a limit group of an authentication.
type groupKey struct {
	kind   groupKind
	hash   string       // as the server named it; empty if it named none
	route  routes.Route // the only one that belongs here; zero if the hash decides, or the family
	family string       // of an UNKNOWN bucket that routes of a family share
}

// of names the routes of an UNKNOWN group: one, or a family.
func (k groupKey) of() string {
	if k.family != "" {
		return k.family
	}
	return k.route.String()
}

// groupKind says which routes belong to a limit group.
//
//	hash      every route whose responses name its hash
//	unknown   one route, or a family, whose hash is not known: its UNKNOWN bucket, which has no major parameter
//	route     one route whose responses name no hash
//	unlimited the same, and its responses carry no limits either
//	unstable  one route whose responses name different hashes all the time: one request at a time
//	separate  one route whose limits contradict those of another one that names the same hash, until they agree
//	erring    the same as unknown, after an error that told nothing: an UNKNOWN bucket for each major parameter
//	foreign   every route that was refused in the name of its hash, which no other responses name: one bucket for all of them
//	path      one route that has a bucket for each path, whatever these are called
type groupKind uint8

const (
	hashGroup groupKind = iota
	unknownGroup
	routeGroup
	unlimitedGroup
	unstableGroup
	separateGroup
	erringGroup
	pathGroup
	foreignGroup
	kinds
)

// unknown reports that no response has told where its routes belong: its buckets are UNKNOWN ones.
func (k groupKind) unknown() bool { return k == unknownGroup || k == erringGroup }

// ordinary reports that its buckets are found by the major parameter, and that their windows alone decide.
func (k groupKind) ordinary() bool {
	switch k {
	case unstableGroup, pathGroup, foreignGroup:
		return false
	}
	return !k.unknown()
}

// hasHash reports that its responses are expected to name the limit group's hash.
func (group *limitGroup) hasHash() bool {
	return group.kind == hashGroup || group.kind == separateGroup
}

// noteToken looks whether the hash contains the token of a request that comes here.
func (group *limitGroup) noteToken(route routes.CompiledRoute) {
	if token := route.MajorToken(); token != "" && strings.Contains(group.hash, token) {
		group.secret.Store(true)
	}
}

// add adds a bucket to the limit group's, and remove takes it out again.
func (group *limitGroup) add(b *bucket) {
	group.mu.Lock()
	defer group.mu.Unlock()
	if b.nextInGroup = group.buckets; b.nextInGroup != nil {
		b.nextInGroup.previousInGroup = b
	}
	group.buckets = b
}

func (group *limitGroup) remove(b *bucket) {
	group.mu.Lock()
	defer group.mu.Unlock()
	if b.previousInGroup == nil {
		group.buckets = b.nextInGroup
	} else {
		b.previousInGroup.nextInGroup = b.nextInGroup
	}
	if b.nextInGroup != nil {
		b.nextInGroup.previousInGroup = b.previousInGroup
	}
}

// all returns its buckets.
func (group *limitGroup) all() (all []*bucket) {
	group.mu.Lock()
	defer group.mu.Unlock()
	for b := group.buckets; b != nil; b = b.nextInGroup {
		all = append(all, b)
	}
	return all
}

// empty reports that it has none.
func (group *limitGroup) empty() bool {
	group.mu.Lock()
	defer group.mu.Unlock()
	return group.buckets == nil
}

// use counts routes that belong to the limit group, or leave it if n is negative. The lock for moves is held.
func (group *limitGroup) use(n int) {
	group.routes += n
	if group.routes == 0 {
		group.authentication.unused[group] = struct{}{}
	} else {
		delete(group.authentication.unused, group)
	}
}

// groupFor returns the limit group of that kind for the route. The lock for moves is held.
func (e *routeEntry) groupFor(kind groupKind, hash string) *limitGroup {
	key := groupKey{kind: kind, hash: hash}
	if kind != hashGroup && kind != foreignGroup {
		key.route = e.route
	}
	return e.authentication.group(key)
}

// group returns the limit group of that key. The lock for moves is held.
func (a *authentication) group(key groupKey) *limitGroup {
	group := a.groups[key]
	if group == nil {
		group = &limitGroup{authentication: a, groupKey: key, id: a.global.manager.groupIDs.Add(1)}
		if key.kind == separateGroup {
			if group.sameHash = a.groups[groupKey{kind: hashGroup, hash: key.hash}]; group.sameHash != nil {
				group.sameHash.use(1) // so that it stays
			}
		}
		a.groups[key] = group
		group.use(0)
	}
	return group
}

// groupOfHash returns the limit group of a bucket hash. The manager's lock for moves is held.
func (e *routeEntry) groupOfHash(hash string) *limitGroup {
	if e.manager.sharesByRoute() {
		return e.groupFor(separateGroup, hash)
	}
	return e.groupFor(hashGroup, hash)
}

// sharesByRoute reports that processes share buckets, each for one route, and nothing else.
func (m *RESTBucketManager) sharesByRoute() bool {
	by, ok := m.settings.shared.(SharedByRoute)
	return ok && by.ByRoute()
}

// routeEntry is what is known of one route under one authentication: the limit group in which its buckets are. A major parameter whose
// responses name another bucket hash than those of others has a limit group of its own.
type routeEntry struct {
	manager        *RESTBucketManager
	authentication *authentication
	route          routes.Route
	exempt         bool         // from the global limit
	rules          []*limitRule // declared limits that may apply, nil if there are none
	group          atomic.Pointer[limitGroup]
	groupsByMajor  atomic.Pointer[xsync.Map[major, *limitGroup]] // of major parameters that belong elsewhere; nil if there was never any
	used           atomic.Bool                                   // since the garbage collector looked last
	evicted        atomic.Bool
	collided       atomic.Bool // another one stands at a later key because of it, so it stays

	// moving is locked while the route's requests move to another limit group. Those who find changing set wait for it.
	moving   sync.Mutex
	changing atomic.Bool

	limit          atomic.Int32 // that the latest response named
	contradictions atomic.Int32 // how often others contradicted it

	unstableUntil atomic.Int64               // when its hashes are believed again, a time.Duration
	pathHashes    atomic.Pointer[pathHashes] // nil as long as responses agree
	byError       atomic.Bool                // only errors have named its hash
	hinted        atomic.Bool                // only responses of other routes of its family have told where it belongs

	// Guarded by the manager's lock for moves.
	before    groupKey      // where it belonged before it was refused in the name of another bucket
	changes   int           // of the hash, of late, by the responses for one major parameter
	changedAt time.Duration // the first of them
	changedBy major
	changedTo *limitGroup
}

// groupOf returns the limit group to which the route belongs with a major parameter.
func (e *routeEntry) groupOf(m major) *limitGroup {
	if byMajor := e.groupsByMajor.Load(); byMajor != nil {
		if group, ok := byMajor.Load(m); ok {
			return group
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

// findEntry returns what is known of a route under an authentication, nil if that is nothing, and the key at which it is or belongs.
//
// The keys are hashes, and two that are the same are dealt with as in the table of buckets.
func (m *RESTBucketManager) findEntry(route routes.Route, authentication uint64) (e *routeEntry, key uint64) {
	key = m.buckets.mix(route.Hash(), authentication)
	for {
		e, ok := m.entries.Load(key)
		if !ok {
			return nil, key
		}
		if e.route == route && e.authentication.id.Load() == authentication {
			return e, key
		}
		e.collided.Store(true)
		key++
	}
}

// use tells the garbage collector that the route is used.
func (e *routeEntry) use() {
	if !e.used.Load() {
		e.used.Store(true)
	}
}

// limitsOwner returns the request whose credential owns the limits of the request's route. Discord counts a request to a route with a token in
// its path for the token, with and without a credential: then that is the same request without one.
func limitsOwner(r *Request) *Request {
	route := r.Route.Route()
	if r.Authorization == "" || route.Major() != routes.MajorWebhookToken || route.OneShot() {
		return r
	}
	return &Request{Route: r.Route, Server: r.Server}
}

// entriesOf returns what is known of a request's route where its limits are, and under its own credential, whose global limit counts.
func (m *RESTBucketManager) entriesOf(r *Request) (limits, own *routeEntry) {
	own = m.entry(r)
	if owner := limitsOwner(r); owner != r {
		return m.entry(owner), own
	}
	return own, own
}

// entry returns what is known of a request's route under its authentication.
func (m *RESTBucketManager) entry(r *Request) *routeEntry {
	route, authentication := r.Route.Route(), m.hash(r)
	for {
		e, _ := m.findEntry(route, authentication)
		if e == nil {
			e = m.newEntry(route, authentication, r)
		}
		e.use()
		if !e.evicted.Load() { // the collector sets it first and then looks at used again
			return e
		}
	}
}

// newEntry makes what is not there yet. Nobody can find it before it is complete, and what panics meanwhile leaves nothing behind.
func (m *RESTBucketManager) newEntry(route routes.Route, authentication uint64, r *Request) *routeEntry {
	globalLimit := m.globalLimitOf(r)
	m.moves.Lock()
	defer m.moves.Unlock()
	e, _ := m.findEntry(route, authentication)
	if e != nil {
		return e
	}
	a := m.authentication(authentication, r, globalLimit)
	if e, _ = m.findEntry(route, authentication); e != nil { // it was restored
		return e
	}
	group, hinted := a.firstGroup(route)
	return m.addEntry(a, route, group, hinted)
}

// addEntry makes an entry for a route, which there is not. The lock for moves is held.
func (m *RESTBucketManager) addEntry(a *authentication, route routes.Route, group *limitGroup, hinted bool) *routeEntry {
	e := &routeEntry{manager: m, authentication: a, route: route, exempt: route.GlobalExempt(), rules: m.rulesOf(route)}
	e.hinted.Store(hinted)
	e.assign(group, nil)
	a.routes[e] = struct{}{}
	_, key := m.findEntry(route, a.id.Load())
	m.entries.Store(key, e)
	return e
}

// assign lets the route belong to a limit group, which counts it unless it has been forgotten: a response may come that late. Major
// parameters that belonged neither where the route did nor to the group that it leaves stay where they are, if the new one is that of a
// hash. The lock for moves is held.
func (e *routeEntry) assign(group, left *limitGroup) {
	e.changedTo = nil
	old := e.group.Swap(group)
	if e.evicted.Load() {
		return
	}
	if old != nil {
		old.use(-1)
	}
	group.use(1)
	byMajor := e.groupsByMajor.Load()
	if byMajor == nil {
		return
	}
	for m, home := range byMajor.All() {
		if home == group || home == left || group.kind != hashGroup {
			e.unassign(byMajor, m)
		}
	}
}

// assignMajor lets the route belong to a limit group with one major parameter. The lock for moves is held.
func (e *routeEntry) assignMajor(m major, group *limitGroup) {
	if e.evicted.Load() {
		return
	}
	byMajor := e.groupsByMajor.Load()
	if byMajor == nil {
		byMajor = xsync.NewMap[major, *limitGroup]()
		e.groupsByMajor.Store(byMajor)
	}
	e.unassign(byMajor, m)
	if group != e.group.Load() {
		byMajor.Store(m, group)
		group.use(1)
	}
}

// unassign lets a major parameter belong where its route does. The lock for moves is held.
func (e *routeEntry) unassign(byMajor *xsync.Map[major, *limitGroup], m major) {
	if old, ok := byMajor.LoadAndDelete(m); ok {
		old.use(-1)
	}
}

// tellGroup lets the limit group know what is known of the bucket's limit, as what to expect of the next one.
func (b *bucket) tellGroup() {
	if late, known := b.window.Late(); known {
		b.group.lastLate.Store(int64(late) + 1)
	}
	if limit := b.window.Limit(); limit > 0 {
		b.group.lastLimit.Store(int64(limit))
		b.group.lastPeriod.Store(int64(b.window.Period()))
	}
}
