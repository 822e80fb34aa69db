package buckets

import (
	"net/http"
	"slices"

	"github.com/ratelight/ratelight/ratelimits"
)

// shadow is the charge of a request in a bucket to which it may turn out to belong. A request on a route whose hash is not
// known, or not for its major parameter where hashes differ by that, casts one on every bucket of its own major parameter and
// authentication, so that two routes that share a limit unbeknownst do not exceed it together.
type shadow struct {
	bucket *RESTBucket
	permit ratelimits.Permit
	ticket Ticket // of a bucket that is shared
	loans  int    // of the bucket, when the ticket was issued; another one has voided it
}

// seeks reports that the response to a request of a route will tell to which bucket it belongs, and that may be another one than this.
func (b *RESTBucket) seeks(e *routeEntry) bool {
	return b.family.place == unknown || b.family.place == named && e.homes.Load() != nil && b.namingOf(e) == nil
}

// castShadow charges a request that is about to leave, if its bucket is not known, to all the buckets that it may belong to.
func (m *RESTBucketManager) castShadow(h *held) {
	if !h.seeking.Load() {
		return
	}
	m.moves.Lock()
	defer m.moves.Unlock()
	for _, f := range h.entry.authentication.families {
		if !h.seeking.Load() { // it has moved
			return
		}
		if b := m.buckets.find(f, h.major); b != nil && f.place != unknown && b != h.bucket.Load() {
			h.cast(b)
		}
	}
}

// catchShadows charges a bucket that was just made, as the one before was collected, with the requests that may belong to it.
func (m *RESTBucketManager) catchShadows(b *RESTBucket) {
	if b.family.authentication.seeking.Load() == 0 {
		return
	}
	m.moves.Lock()
	defer m.moves.Unlock()
	m.castShadowsOn(b)
}

// castShadowsOn charges a bucket that was just found with all requests that may belong to it. The lock for moves is held.
func (m *RESTBucketManager) castShadowsOn(there *RESTBucket) {
	a := there.family.authentication
	if there.family.place == unknown || there.family.place == unlimited || a.seeking.Load() == 0 {
		return
	}
	for _, f := range a.families {
		major := there.major
		if f.place == unknown {
			major = noMajor
		}
		b := m.buckets.find(f, major)
		if b == nil || b == there {
			continue
		}
		b.lock()
		for h := b.flying; h != nil; h = h.next {
			if h.seeking.Load() && h.major == there.major {
				h.cast(there)
			}
		}
		b.unlock()
	}
}

// cast charges the request to a bucket, once. The lock for moves is held.
func (h *held) cast(b *RESTBucket) {
	for _, s := range h.shadows {
		if s.bucket == b {
			return
		}
	}
	b.lock()
	defer b.unlock()
	if !b.evicted.Load() {
		now, sent := b.now(), h.permit.Sent()
		s := shadow{bucket: b, permit: b.window.Adopt(now, sent)}
		s.ticket, s.loans = b.partner.shade(now, sent)
		h.shadows = append(h.shadows, s)
	}
}

// uncast takes the charge off a bucket, which is locked, because the request is in flight there now. The lock for moves is
// held.
func (h *held) uncast(b *RESTBucket) {
	now := b.now()
	for i, s := range h.shadows {
		if s.bucket == b {
			b.window.Return(now, s.permit)
			b.partner.unshade(now, s, &outcome{})
			h.shadows = slices.Delete(h.shadows, i, i+1)
			return
		}
	}
}

// end takes the charge off again, unless nobody knows where the request was counted.
func (s shadow) end(o *outcome) {
	b := s.bucket
	b.lock()
	defer b.unlock()
	now := b.now()
	if o.sent && (o.response.Status == 0 || o.response.Status >= http.StatusInternalServerError) {
		b.window.Lost(now, s.permit)
		b.partner.unshade(now, s, &outcome{sent: true})
	} else {
		b.window.Return(now, s.permit)
		b.partner.unshade(now, s, &outcome{})
	}
	b.dispatchFree(now)
}
