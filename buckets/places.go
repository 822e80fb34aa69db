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
	start := unknownGroup
	if key.route.OneShot() {
		start = unlimitedGroup // every request has its own major parameter, and there is nothing to discover
	}
	e.assign(e.groupFor(start, ""), nil)
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
		groups: make(map[groupKey]*limitGroup), queued: make(map[*RESTBucket]struct{}),
	}
	a.global = &gate{manager: m, authentication: a, class: ratelimits.ClassGlobal, probeTimeout: globalPatience, limit: ratelimits.NewGlobal(m.settings.globalLimit)}
	if session := m.session(); session != nil {
		a.credential = session.Credential(strings.TrimPrefix(r.Server+" "+r.Authorization, " "))
		a.global.connect(session)
	}
	a.global.limit.Hold(now, m.throttled.Wait(now))
	a.server.authentications++
	m.authentications.Store(id, a)
	return a
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

// bucket returns the bucket of a limit group and a major parameter. The UNKNOWN bucket of a route has no major parameter: it is a
// place of discovery for all of them.
func (m *RESTBucketManager) bucket(f *limitGroup, major major) *RESTBucket {
	b, _ := m.findBucket(f, major)
	return b
}

// findBucket is bucket, and reports whether it was found and not made.
func (m *RESTBucketManager) findBucket(f *limitGroup, major major) (b *RESTBucket, found bool) {
	if f.kind == unknownGroup {
		major = noMajor
	}
	if b := m.buckets.find(f, major); b != nil {
		return b, true
	}
	return m.buckets.findOrMake(f, major, func() *RESTBucket {
		b := &RESTBucket{group: f, major: major, unconnected: m.session() != nil}
		if f.kind == unlimitedGroup || f.kind == unknownGroup && m.settings.unknown == UnknownUnlimited {
			b.window.Unlimit()
		}
		b.window.Recall(int(f.lastLimit.Load()), time.Duration(f.lastPeriod.Load()))
		f.add(b)
		return b
	})
}

// connect connects a bucket that was just made, and is locked, with those of other processes. They may have something to say of it at
// once, so it is not done while the table makes it.
func (b *RESTBucket) connect() {
	defer func() {
		if b.unconnected { // a panic leaves no lock held
			b.mu.Unlock()
		}
	}()
	b.link, b.discovery = b.manager().newSharedLink(b), b.manager().newDiscoveryLink(b)
	b.unconnected = false
}

// lockedBucket is bucket with the lock held, and certainly not evicted.
func (m *RESTBucketManager) lockedBucket(f *limitGroup, major major) *RESTBucket {
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
	clear(b.queue.subLimits)
}
