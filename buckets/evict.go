package buckets

import (
	"time"
)

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
	for _, d := range m.limits.All() {
		d.evictIdle(m.now())
	}
	m.collectUnused()
	m.discord.budget.used(m.now()) // what other processes have used up is not told
	m.settings.log.Flush(m.now(), false)
	m.tellCollected(Collected{Evicted: evicted, Left: m.buckets.size()})
}

// evict removes a bucket if it is idle, holds nothing back, and has not been needed for long enough: then nothing is forgotten
// that could cause a 429.
func (m *RESTBucketManager) evict(b *bucket) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.queues != nil || b.inFlight != nil || b.window.InFlight() > 0 {
		return false
	}
	now := b.now()
	return b.window.Needed()+m.settings.expireAfter <= now && m.remove(b)
}

// remove removes a bucket, which is locked, unless it has to stay.
func (m *RESTBucketManager) remove(b *bucket) bool {
	if !m.buckets.markEvicted(b) {
		return false
	}
	b.tellGroup()
	b.noteBusy()
	b.group.remove(b)
	b.link.close() // before there can be another bucket of that name
	b.discoveryLink.close()
	m.buckets.remove(b)
	return true
}

// collectUnused forgets routes that have not been used for long, limit groups that have neither routes nor buckets, and
// authentications and servers that are left without any. There may be very many, so the lock for moves is taken for each.
func (m *RESTBucketManager) collectUnused() {
	now := m.now()
	if now-m.sweptAt >= entryLife {
		m.sweptAt = now
		for _, e := range m.entries.All() {
			m.evictEntry(e)
			m.evictMajors(e)
		}
	}
	for _, a := range m.authentications.All() {
		m.evictGroups(now, a)
	}
	m.evictServers(now)
	m.unlistIdle()
}

// evictEntry forgets a route that was not used since the last time it was asked.
func (m *RESTBucketManager) evictEntry(e *routeEntry) {
	if e.used.Swap(false) {
		return
	}
	m.moves.Lock()
	defer m.moves.Unlock()
	if m.closed() || e.evicted.Load() || e.collided.Load() {
		return
	}
	e.evicted.Store(true)
	if e.used.Load() { // just now
		e.evicted.Store(false)
		return
	}
	_, key := m.findEntry(e.route, e.authentication.id.Load()) // another one than before if it was claimed meanwhile
	m.entries.Delete(key)
	e.group.Load().use(-1)
	if byMajor := e.groupsByMajor.Load(); byMajor != nil {
		for _, group := range byMajor.All() {
			group.use(-1)
		}
	}
	delete(e.authentication.routes, e)
}

// evictMajors forgets the groups of single major parameters whose buckets are forgotten.
func (m *RESTBucketManager) evictMajors(e *routeEntry) {
	byMajor := e.groupsByMajor.Load()
	if byMajor == nil {
		return
	}
	for major, group := range byMajor.All() {
		if m.buckets.find(group, major) != nil {
			continue
		}
		m.moves.Lock()
		if e.groupsByMajor.Load() == byMajor && !e.evicted.Load() && m.buckets.find(group, major) == nil {
			e.unassign(byMajor, major)
		}
		m.moves.Unlock()
	}
}

// evictGroups forgets the limit groups of an authentication that nobody needs, and itself if it has none left.
func (m *RESTBucketManager) evictGroups(now time.Duration, a *authentication) {
	m.moves.Lock()
	defer m.moves.Unlock()
	for group := range a.unused {
		if group.empty() {
			delete(a.unused, group)
			delete(a.groups, group.groupKey)
			if group.sameHash != nil {
				group.sameHash.use(-1)
			}
		}
	}
	if len(a.groups) == 0 && len(a.routes) == 0 && a.global.idle(now) {
		m.authentications.Delete(a.digest)
		a.global.close()
		a.server.byToken.CompareAndSwap(a, nil)
		a.server.authentications--
	}
}

// evictServers forgets servers that have no authentications left, unless there is something to remember.
func (m *RESTBucketManager) evictServers(now time.Duration) {
	m.moves.Lock()
	defer m.moves.Unlock()
	for name, s := range m.servers {
		s.forgetHolds(now)
		if s != m.discord && s.authentications == 0 && s.edge.idle(now) && s.budget.used(now) == 0 && s.budget.counters.inFlight() == 0 {
			m.forgotten.add(s.budget.counters)
			delete(m.servers, name)
		}
	}
}

// idle reports that nothing is lost by forgetting the gate, if it has no buckets any more: then nobody waits or is in flight.
func (g *gate) idle(now time.Duration) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.limit.Idle(now)
}
