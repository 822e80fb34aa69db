package buckets

import (
	"hash/maphash"
	"strings"
	"sync/atomic"
	"time"

	"github.com/puzpuzpuz/xsync/v4"

	"github.com/ratelight/ratelight/ratelimits"
)

// authentication is one credential at one server: the gates that are above all its buckets, and what is known of its routes. Requests
// without a credential share one, as Discord counts them by IP address. The credential itself is not kept, only a keyed hash.
type authentication struct {
	server       *server
	id           atomic.Uint64 // see hash; the digest until a request has come with the credential
	digest       uint64        // see digestOf
	credential   string        // what stands for it in all processes, if limits are shared
	anonymous    bool          // there is no credential
	edge         *gate         // of the server
	global       *gate         // its global limit
	undiscovered atomic.Int64  // requests in flight whose bucket is not known

	// Guarded by the manager's lock for moves.
	groups   map[groupKey]*limitGroup
	unused   map[*limitGroup]struct{} // to which no route belongs
	routes   map[*routeEntry]struct{}
	families map[string]*family // by name

	busy busyBuckets
}

// hash returns what stands for a request's credential and server: a fast hash with a key that only this manager has, 0 if there is
// no credential and the server is Discord.
func (m *RESTBucketManager) hash(r *Request) uint64 {
	switch {
	case r.Server != "":
		return maphash.Comparable(m.seed, [2]string{r.Server, r.Authorization}) | 1
	case r.Authorization != "":
		return maphash.String(m.seed, r.Authorization) | 1
	}
	return 0
}

// globalLimitOf returns the global limit of a request's authentication, 0 if there is none. It calls a function of the caller's, and so is
// called under no lock.
func (m *RESTBucketManager) globalLimitOf(r *Request) int {
	if m.settings.globalOf == nil {
		return m.settings.globalLimit
	}
	return clampGlobal(m.settings.globalOf(r.Authorization))
}

// digestOf returns what stands for them in the state that the manager leaves to the next.
func (m *RESTBucketManager) digestOf(r *Request) uint64 {
	switch {
	case r.Server != "":
		return m.digest(r.Server+"\x00"+r.Authorization) | 1
	case r.Authorization != "":
		return m.digest(r.Authorization) | 1
	}
	return 0
}

// authentication returns that of a request, made with that global limit if there is none. The lock for moves is held.
func (m *RESTBucketManager) authentication(id uint64, r *Request, globalLimit int) *authentication {
	digest := m.digestOf(r)
	if a, ok := m.authentications.Load(digest); ok {
		m.claim(a, id, globalLimit)
		return a
	}
	a := m.newAuthentication(digest, r.Server, r.Authorization == "", globalLimit)
	a.id.Store(id)
	if session := m.session(); session != nil {
		a.credential = session.Credential(strings.TrimPrefix(r.Server+" "+r.Authorization, " "))
		a.global.connect(session)
	}
	m.addAuthentication(a)
	return a
}

// newAuthentication returns one that nobody knows yet. The lock for moves is held.
func (m *RESTBucketManager) newAuthentication(digest uint64, serverName string, anonymous bool, globalLimit int) *authentication {
	server := m.server(serverName)
	a := &authentication{
		digest: digest, server: server, edge: server.edge, anonymous: anonymous,
		groups: make(map[groupKey]*limitGroup), unused: make(map[*limitGroup]struct{}), routes: make(map[*routeEntry]struct{}),
		families: make(map[string]*family),
	}
	a.global = newGate(m, &gate{
		authentication: a, class: ratelimits.ClassGlobal, probeTimeout: globalProbeTimeout, limit: ratelimits.NewGlobal(globalLimit),
	})
	a.id.Store(digest)
	if anonymous {
		server.byToken.Store(a)
	}
	return a
}

// addAuthentication lets everybody know one. The lock for moves is held.
func (m *RESTBucketManager) addAuthentication(a *authentication) {
	now := m.now()
	a.global.mu.Lock() // other processes may have something to say already
	a.global.limit.Hold(now, m.throttled.Wait(now))
	a.global.mu.Unlock()
	a.server.authentications++
	m.authentications.Store(a.digest, a)
}

// claim lets requests find the routes of an authentication that was restored, when the first one has come with the credential. The
// lock for moves is held.
func (m *RESTBucketManager) claim(a *authentication, id uint64, globalLimit int) {
	old := a.id.Load()
	if old == id {
		return
	}
	a.global.resize(m.now(), globalLimit) // which only the credential tells
	for e := range a.routes {
		if _, key := m.findEntry(e.route, old); !e.collided.Load() {
			m.entries.Delete(key)
		}
	}
	a.id.Store(id)
	for e := range a.routes {
		_, key := m.findEntry(e.route, id)
		m.entries.Store(key, e)
	}
}

// server is one server whose limits count: Discord, or one that speaks its protocol. What counts by IP address is its own for each,
// and so are its authentications; so nothing that one of them answers touches what is known of another.
type server struct {
	name            string // empty for Discord
	edge            *gate  // another one after each start
	budget          *budget
	holds           *xsync.Map[resource, time.Duration] // until when resources are used up for everybody
	authentications int                                 // how many there are; guarded by the lock for moves
	byToken         atomic.Pointer[authentication]      // that of no credential, under which routes with a token in the path are; nil if there is none
}

func (m *RESTBucketManager) newServer(name string) *server {
	s := &server{name: name, edge: newEdge(m), holds: xsync.NewMap[resource, time.Duration]()}
	s.budget = newBudget(m.settings.budget, m.settings.budgetPeriod, func() int { return m.othersInvalid(s) })
	return s
}

// server returns the server of that name. The lock for moves is held.
func (m *RESTBucketManager) server(name string) *server {
	s := m.servers[name]
	if s == nil {
		s = m.newServer(name)
		m.servers[name] = s
	}
	return s
}
