package buckets

import "time"

// entryLife is how long a route that nobody uses is remembered, at least. Then its bucket hash has to be discovered again.
const entryLife = time.Hour

// collect forgets what is stale. It locks one bucket at a time, and only for a look, so nobody notices it.
func (m *RESTBucketManager) collect() {
	evicted := 0
	for b := range m.buckets.all() {
		if m.evict(b) {
			evicted++
		}
	}
	m.counters.evicted.Add(int64(evicted))
	m.collectPlaces()
	m.settings.collected(Collected{Evicted: evicted, Left: m.buckets.Size()})
}

// evict removes a bucket if it is idle, holds nothing back, and its reset lies long enough in the past: then nothing is
// forgotten that could cause a 429.
func (m *RESTBucketManager) evict(b *RESTBucket) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.queue != nil || b.flying != nil || b.window.InFlight() > 0 || b.inLine || b.window.Reset()+m.settings.expireAfter > m.now() {
		return false
	}
	if !m.buckets.remove(b) {
		return false
	}
	if limit := b.window.Limit(); limit > 0 {
		b.family.limit.Store(int64(limit))
		b.family.period.Store(int64(b.window.Period()))
	}
	b.family.buckets.Add(-1)
	return true
}

// collectPlaces forgets routes that have not been used for long, families that no route lives in and that have no buckets, and
// authentications that are left without both.
func (m *RESTBucketManager) collectPlaces() {
	m.moves.Lock()
	defer m.moves.Unlock()
	now := m.now()
	if now-m.sweptAt >= entryLife {
		m.sweptAt = now
		for key, e := range m.entries.All() {
			m.evictEntry(key, e)
		}
	}
	homes := make(map[*family]struct{})
	for _, e := range m.entries.All() {
		homes[e.family.Load()] = struct{}{}
	}
	for id, a := range m.authentications.All() {
		for key, f := range a.families {
			if _, ok := homes[f]; !ok && f.buckets.Load() == 0 {
				delete(a.families, key)
			}
		}
		if len(a.families) == 0 && a.idle(now) {
			m.authentications.Delete(id)
			a.close()
		}
	}
}

// evictEntry forgets a route that was not used since the last time it was asked.
func (m *RESTBucketManager) evictEntry(key entryKey, e *routeEntry) {
	if e.used.Swap(false) {
		return
	}
	e.evicted.Store(true)
	if e.used.Load() { // just now
		e.evicted.Store(false)
		return
	}
	m.entries.Delete(key)
	e.authentication.entries.Add(-1)
}
