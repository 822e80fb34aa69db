package buckets

import (
	"time"
)

// discoveryLink is the link of an UNKNOWN bucket to those of other processes: only one of them at a time finds out where the route belongs.
// The bucket's lock guards it.
type discoveryLink struct {
	bucket    *bucket
	discovery SharedDiscovery
	asked     bool // for the permission to find out
	known     bool // of others since
	may       bool // the permission was given
	probing   bool // the request that finds out is in flight
}

// newDiscoveryLink returns the link of an UNKNOWN bucket that was just made, nil if there is none.
func (m *RESTBucketManager) newDiscoveryLink(b *bucket) *discoveryLink {
	session := m.session()
	if session == nil || b.group.kind != unknownGroup || m.settings.unknown == UnknownUnlimited {
		return nil
	}
	s := &discoveryLink{bucket: b}
	s.discovery = session.Discovery(b.group.authentication.credential, b.group.route.String(), s.changed)
	return s
}

// changed is called when the discovery has something new to say.
func (s *discoveryLink) changed() {
	b := s.bucket
	m := b.manager()
	b.mu.Lock()
	hash := s.discovery.Hash()
	b.mu.Unlock()
	if hash != "" && m.adoptHash(b, hash) {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.evicted.Load() {
		return
	}
	s.known = true
	now := b.now()
	b.dispatchFree(now)
	b.refuseLate(now) // those who do not wait
	b.refuseOverdue(now)
}

// allows reports that this process may find out where the route belongs. If nobody has asked for that, it asks.
func (s *discoveryLink) allows(now time.Duration) bool {
	if s == nil || s.may {
		return true
	}
	if s.asked && s.discovery.May(now) {
		s.may = true
		return true
	}
	if !s.asked {
		s.asked, s.known = true, false
		s.discovery.Ask(now)
	}
	return false
}

// probeSent says that a request leaves to find out.
func (s *discoveryLink) probeSent() {
	if s != nil {
		s.may, s.probing = false, true
	}
}

// release gives back a permission that nobody needs.
func (s *discoveryLink) release(now time.Duration) {
	if s != nil && s.asked && !s.probing && (s.may || s.discovery.May(now)) {
		s.may, s.asked = false, false
		s.discovery.Found(now, "")
	}
}

// found tells the others what it has found, nothing if that is empty.
func (s *discoveryLink) found(now time.Duration, hash string) {
	if s != nil && s.probing {
		s.probing, s.asked = false, false
		s.discovery.Found(now, hash)
	}
}

// canTell reports that it is known whether somebody may leave.
func (s *discoveryLink) canTell() bool {
	return s.asked && s.known || s.probing || s.discovery.Err() != nil
}

func (s *discoveryLink) close() {
	if s != nil {
		s.discovery.Close()
	}
}
