package buckets

import (
	"time"
)

// discoveryLink is the link of an UNKNOWN bucket to those of other processes: only one of them at a time finds out where the route belongs.
// The bucket's lock guards it.
type discoveryLink struct {
	bucket  *bucket
	remote  SharedDiscovery
	asked   bool // for the permission to find out
	known   bool // of others since
	may     bool // the permission was given
	probing bool // the request that finds out is in flight
}

// newDiscoveryLink returns the link of an UNKNOWN bucket that was just made, nil if there is none.
func (m *RESTBucketManager) newDiscoveryLink(b *bucket) *discoveryLink {
	session := m.session()
	if session == nil || !b.group.kind.unknown() || m.settings.unknown == UnknownUnlimited {
		return nil
	}
	d := &discoveryLink{bucket: b}
	d.remote = session.Discovery(b.group.authentication.credential, b.group.of(), d.changed)
	return d
}

// changed is called when the discovery has something new to say.
func (d *discoveryLink) changed() {
	b := d.bucket
	m := b.manager()
	b.mu.Lock()
	hash := d.remote.Hash()
	b.mu.Unlock()
	if hash != "" && m.adoptHash(b, hash) {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	d.known = true
	b.othersChanged()
}

// allows reports that this process may find out where the route belongs. If nobody has asked for that, it asks.
func (d *discoveryLink) allows(now time.Duration) bool {
	if d == nil || d.may {
		return true
	}
	if d.remote.May(now) {
		d.may = true
		return true
	}
	if !d.asked {
		d.asked, d.known = true, false
		d.remote.Ask(now)
	}
	return false
}

// probeSent says that a request leaves to find out.
func (d *discoveryLink) probeSent() {
	if d != nil {
		d.may, d.probing = false, true
	}
}

// release gives back a permission that nobody needs.
func (d *discoveryLink) release(now time.Duration) {
	if d != nil && !d.probing && (d.may || d.remote.May(now)) {
		d.may, d.asked = false, false
		d.remote.Found(now, "")
	}
}

// found tells the others what it has found, nothing if that is empty.
func (d *discoveryLink) found(now time.Duration, hash string) {
	if d != nil && d.probing {
		d.probing, d.asked = false, false
		d.remote.Found(now, hash)
	}
}

// canTell reports that it is known whether somebody may leave.
func (d *discoveryLink) canTell() bool {
	return d.asked && d.known || d.probing
}

func (d *discoveryLink) close() {
	if d != nil {
		d.remote.Close()
	}
}
