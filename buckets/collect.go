package buckets

import "time"

// entryLife is how long a route that nobody uses is remembered, at least. Then its bucket hash has to be discovered again.
const entryLife = time.Hour

// collect forgets what is stale. It locks one bucket at a time, and only for a look, so nobody notices it.
func (m *RESTBucketManager) collect() {
	families := make(map[*family]struct{})
	evicted := 0
	for key, b := range m.buckets.All() {
		if m.evict(key, b) {
			evicted++
			continue
		}
		families[key.family] = struct{}{}
	}
	m.counters.evicted.Add(int64(evicted))
	m.collectPlaces(families)
}

// evict removes a bucket if it is idle, holds nothing back, and its reset lies long enough in the past: then nothing is
// forgotten that could cause a 429.
func (m *RESTBucketManager) evict(key bucketKey, b *RESTBucket) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.queue != nil || b.flying != nil || b.window.InFlight() > 0 || b.inLine || b.window.Reset()+m.settings.expireAfter > m.now() {
		return false
	}
	b.evicted = true
	m.buckets.Delete(key)
	return true
}

// collectPlaces forgets routes that have not been used for long, families that neither a route nor one of the given
// buckets refers to, and authentications that are left without both.
func (m *RESTBucketManager) collectPlaces(families map[*family]struct{}) {
	m.moves.Lock()
	defer m.moves.Unlock()
	now := m.now()
	if now-m.sweptAt >= entryLife {
		m.sweptAt = now
		for key, e := range m.entries.All() {
			m.evictEntry(key, e)
		}
	}
	for _, e := range m.entries.All() {
		families[e.family.Load()] = struct{}{}
	}
	for id, a := range m.authentications.All() {
		for key, f := range a.families {
			if _, ok := families[f]; !ok {
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
