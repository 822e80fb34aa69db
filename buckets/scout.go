package buckets

import "time"

// scout is the link of an UNKNOWN bucket to those of other processes: only one of them at a time finds out where the route belongs.
// The bucket's lock guards it.
type scout struct {
	bucket    *RESTBucket
	discovery SharedDiscovery
	asked     bool // for the permission to find out
	heard     bool // of others since
	may       bool // the permission was given
	out       bool // the request that finds out is in flight
}

// newScout returns the link of an UNKNOWN bucket that was just made, nil if there is none.
func (m *RESTBucketManager) newScout(b *RESTBucket) *scout {
	session := m.session()
	if session == nil || b.family.place != unknown || m.settings.unknown == UnknownUnlimited {
		return nil
	}
	s := &scout{bucket: b}
	s.discovery = session.Discovery(b.family.authentication.credential, b.family.route.String(), s.changed)
	return s
}

// changed is called when the discovery has something new to say.
func (s *scout) changed() {
	b := s.bucket
	m := b.manager()
	b.mu.Lock()
	hash := s.discovery.Hash()
	b.mu.Unlock()
	if hash != "" && m.follow(b, hash) {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.evicted.Load() {
		return
	}
	s.heard = true
	now := b.now()
	b.dispatchFree(now)
	b.refuseLate(now) // those who do not wait
	b.refuseOverdue(now)
}

// allows reports that this process may find out where the route belongs. If nobody has asked for that, it asks.
func (s *scout) allows(now time.Duration) bool {
	if s == nil || s.may {
		return true
	}
	if s.asked && s.discovery.May(now) {
		s.may = true
		return true
	}
	if !s.asked {
		s.asked, s.heard = true, false
		s.discovery.Ask(now)
	}
	return false
}

// sent says that a request leaves to find out.
func (s *scout) sent() {
	if s != nil {
		s.may, s.out = false, true
	}
}

// release gives back a permission that nobody needs.
func (s *scout) release(now time.Duration) {
	if s != nil && s.asked && !s.out && (s.may || s.discovery.May(now)) {
		s.may, s.asked = false, false
		s.discovery.Found(now, "")
	}
}

// found tells the others what it has found, nothing if that is empty.
func (s *scout) found(now time.Duration, hash string) {
	if s != nil && s.out {
		s.out, s.asked = false, false
		s.discovery.Found(now, hash)
	}
}

// answered reports that it is known whether somebody may leave.
func (s *scout) answered() bool { return s.asked && s.heard || s.out || s.discovery.Err() != nil }

func (s *scout) close() {
	if s != nil {
		s.discovery.Close()
	}
}

// follow lets the route of an UNKNOWN bucket live where another process has found that it belongs. It reports whether it did.
func (m *RESTBucketManager) follow(b *RESTBucket, hash string) bool {
	m.moves.Lock()
	defer m.moves.Unlock()
	e, ok := m.entries.Load(entryKey{b.family.route, b.family.authentication.id})
	if !ok || m.closed() || e.family.Load() != b.family {
		return false
	}
	m.tidy(m.move(e, b, e.homeOf(hash), routeMoves))
	return true
}
