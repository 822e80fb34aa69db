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
	m.discord.budget.used(m.now()) // what other processes have used up is not told
	m.settings.collected(Collected{Evicted: evicted, Left: m.buckets.size()})
}

// evict removes a bucket if it is idle, holds nothing back, and its reset lies long enough in the past: then nothing is
// forgotten that could cause a 429.
func (m *RESTBucketManager) evict(b *RESTBucket) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.queue != nil || b.flying != nil || b.window.InFlight() > 0 || b.inLine {
		return false
	}
	now := m.now()
	if b.window.Reset()+m.settings.expireAfter > now || !m.buckets.condemn(b) {
		return false
	}
	if limit := b.window.Limit(); limit > 0 {
		b.family.limit.Store(int64(limit))
		b.family.period.Store(int64(b.window.Period()))
	}
	b.family.leave(b)
	b.partner.close(now) // before there can be another bucket of that name
	b.scout.close()
	m.buckets.remove(b)
	return true
}

// collectPlaces forgets routes that have not been used for long, families that no route lives in and that have no buckets, and
// authentications and servers that are left without any. There may be very many, so the lock for moves is taken for each.
func (m *RESTBucketManager) collectPlaces() {
	now := m.now()
	if now-m.sweptAt >= entryLife {
		m.sweptAt = now
		for key, e := range m.entries.All() {
			m.evictEntry(key, e)
			m.evictHomes(e)
		}
	}
	for _, a := range m.authentications.All() {
		m.evictFamilies(now, a)
	}
	m.evictServers(now)
}

// evictEntry forgets a route that was not used since the last time it was asked.
func (m *RESTBucketManager) evictEntry(key entryKey, e *routeEntry) {
	if e.used.Swap(false) {
		return
	}
	m.moves.Lock()
	defer m.moves.Unlock()
	if m.closed() || e.evicted.Load() {
		return
	}
	e.evicted.Store(true)
	if e.used.Load() { // just now
		e.evicted.Store(false)
		return
	}
	m.entries.Delete(key)
	e.family.Load().routes--
	if homes := e.homes.Load(); homes != nil {
		for _, f := range homes.All() {
			f.routes--
		}
	}
	e.authentication.entries.Add(-1)
}

// evictHomes forgets the homes of major parameters whose buckets are forgotten.
func (m *RESTBucketManager) evictHomes(e *routeEntry) {
	homes := e.homes.Load()
	if homes == nil {
		return
	}
	for major, f := range homes.All() {
		if m.buckets.find(f, major) != nil {
			continue
		}
		m.moves.Lock()
		if e.homes.Load() == homes && !e.evicted.Load() && m.buckets.find(f, major) == nil {
			e.leave(homes, major)
		}
		m.moves.Unlock()
	}
}

// evictFamilies forgets the families of an authentication that nobody needs, and itself if it has none left.
func (m *RESTBucketManager) evictFamilies(now time.Duration, a *authentication) {
	m.moves.Lock()
	defer m.moves.Unlock()
	for key, f := range a.families {
		if f.routes == 0 && f.empty() {
			delete(a.families, key)
			if f.sibling != nil {
				f.sibling.routes--
			}
		}
	}
	if len(a.families) == 0 && a.entries.Load() == 0 && a.global.idle(now) {
		m.authentications.Delete(a.id)
		a.global.close()
		a.server.authentications--
	}
}
