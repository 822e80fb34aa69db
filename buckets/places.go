package buckets

import (
	"hash/maphash"
	"strings"
	"time"

	"github.com/ratelight/ratelight/ratelimits"
)

// hash returns what stands for a request's credential and server: a hash with a key that only this manager has, 0 if there is
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
	start := unknown
	if key.route.OneShot() {
		start = unlimited // every request has its own major parameter, and there is nothing to discover
	}
	e.settleIn(e.home(start, ""), nil)
	m.entries.Store(key, e)
	return e
}

// authentication returns the gate of a request's credential. The lock for moves is held.
func (m *RESTBucketManager) authentication(id uint64, r *Request) *authentication {
	if a, ok := m.authentications.Load(id); ok {
		return a
	}
	now := m.now()
	server := m.server(r.Server)
	a := &authentication{
		id: id, server: server, edge: server.edge, anonymous: r.Authorization == "",
		families: make(map[familyKey]*family), queued: make(map[*RESTBucket]struct{}),
	}
	a.global = &gate{manager: m, authentication: a, class: ratelimits.ClassGlobal, patience: globalPatience, limit: ratelimits.NewGlobal(m.settings.globalLimit)}
	if session := m.session(); session != nil {
		a.credential = session.Credential(strings.TrimPrefix(r.Server+" "+r.Authorization, " "))
		a.global.share(session)
	}
	a.global.limit.Hold(now, m.throttled.Wait(now))
	a.server.authentications++
	m.authentications.Store(id, a)
	return a
}

// home returns the family of that kind for the route. The lock for moves is held.
func (e *routeEntry) home(place place, hash string) *family {
	key := familyKey{place: place, hash: hash}
	if place != named {
		key.route = e.route
	}
	f := e.authentication.families[key]
	if f == nil {
		f = &family{authentication: e.authentication, familyKey: key, id: e.manager.families.Add(1)}
		if place == apart {
			if f.sibling = e.authentication.families[familyKey{place: named, hash: hash}]; f.sibling != nil {
				f.sibling.routes++ // so that it stays
			}
		}
		e.authentication.families[key] = f
	}
	return f
}

// bucket returns the bucket of a family and a major parameter. The UNKNOWN bucket of a route has no major parameter: it is a
// place of discovery for all of them.
func (m *RESTBucketManager) bucket(f *family, major major) *RESTBucket {
	b, _ := m.findBucket(f, major)
	return b
}

// findBucket is bucket, and reports whether it was found and not made.
func (m *RESTBucketManager) findBucket(f *family, major major) (b *RESTBucket, found bool) {
	if f.place == unknown {
		major = noMajor
	}
	if b := m.buckets.find(f, major); b != nil {
		return b, true
	}
	return m.buckets.findOrMake(f, major, func() *RESTBucket {
		b := &RESTBucket{family: f, major: major, unlinked: m.session() != nil}
		if f.place == unlimited || f.place == unknown && m.settings.unknown == UnknownUnlimited {
			b.window.Unlimit()
		}
		b.window.Recall(int(f.limit.Load()), time.Duration(f.period.Load()))
		f.enter(b)
		return b
	})
}

// link connects a bucket that was just made, and is locked, with those of other processes. They may have something to say of it at
// once, so it is not done while the table makes it.
func (b *RESTBucket) link() {
	defer func() {
		if b.unlinked { // a panic leaves no lock held
			b.mu.Unlock()
		}
	}()
	b.partner, b.scout = b.manager().newPartner(b), b.manager().newScout(b)
	b.unlinked = false
}

// lockedBucket is bucket with the lock held, and certainly not evicted.
func (m *RESTBucketManager) lockedBucket(f *family, major major) *RESTBucket {
	for {
		b := m.bucket(f, major)
		b.lock()
		if !b.evicted.Load() {
			return b
		}
		b.unlock()
	}
}

// close refuses all that wait and stops the alarm. Leases in flight end as usual.
func (b *RESTBucket) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.evicted.Store(true)
	if b.queue == nil {
		return
	}
	b.queue.alarm.stop()
	b.refuseAll(ErrClosed)
	clear(b.queue.lanes)
}
