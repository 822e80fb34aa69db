package buckets

import (
	"hash/maphash"
	"time"

	"github.com/ratelight/ratelight/ratelimits"
	"github.com/ratelight/ratelight/routes"
)

// hash returns what stands for a credential: a hash with a key that only this manager has, 0 if there is no credential.
func (m *RESTBucketManager) hash(authorization string) uint64 {
	if authorization == "" {
		return 0
	}
	return maphash.String(m.seed, authorization) | 1
}

// entry returns what is known of a route under an authentication.
func (m *RESTBucketManager) entry(route routes.Route, authorization string) *routeEntry {
	return m.entryOf(entryKey{route, m.hash(authorization)}, authorization)
}

func (m *RESTBucketManager) entryOf(key entryKey, authorization string) *routeEntry {
	for {
		e, ok := m.entries.Load(key)
		if !ok {
			e = m.newEntry(key, authorization)
		}
		if !e.used.Load() {
			e.used.Store(true)
		}
		if !e.evicted.Load() { // the collector sets it first and then looks at used again
			return e
		}
	}
}

func (m *RESTBucketManager) newEntry(key entryKey, authorization string) *routeEntry {
	m.moves.Lock()
	defer m.moves.Unlock()
	e, _ := m.entries.LoadOrCompute(key, func() (*routeEntry, bool) {
		e := &routeEntry{manager: m, authentication: m.authentication(key.authentication, authorization), route: key.route, exempt: key.route.GlobalExempt()}
		e.authentication.entries.Add(1)
		start := unknown
		if key.route.OneShot() {
			start = unlimited // every request has its own major parameter, and there is nothing to discover
		}
		e.settleIn(e.home(start, ""))
		return e, false
	})
	return e
}

// authentication returns the gate of a credential. The lock for moves is held.
func (m *RESTBucketManager) authentication(id uint64, authorization string) *authentication {
	a, _ := m.authentications.LoadOrCompute(id, func() (*authentication, bool) {
		now := m.now()
		a := &authentication{
			manager: m, id: id,
			global:   ratelimits.NewGlobal(m.settings.globalLimit),
			families: make(map[familyKey]*family),
		}
		a.share(authorization)
		a.global.Hold(now, m.throttled.Wait(now))
		return a, false
	})
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
		f.buckets.Add(1)
		b := &RESTBucket{family: f, major: major, live: &live{}}
		b.mu.Lock() // others may have something to say of it at once
		b.partner, b.scout = m.newPartner(b), m.newScout(b)
		b.mu.Unlock()
		if f.place == unlimited || f.place == unknown && m.settings.unknown == UnknownUnlimited {
			b.window.Unlimit()
		}
		b.window.Recall(int(f.limit.Load()), time.Duration(f.period.Load()))
		return b
	})
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
	if b.live == nil || b.queue == nil {
		return
	}
	b.queue.alarm.stop()
	b.refuseAll(ErrClosed)
	clear(b.queue.lanes)
}
