package buckets

import (
	"net/http"
	"slices"

	"github.com/ratelight/ratelight/ratelimits"
)

// provisionalCharge is the charge of a request in a bucket to which it may turn out to belong. A request on a route whose hash is not
// known, or not for its major parameter where hashes differ by that, casts one on every bucket of its own major parameter and
// authentication, so that two routes that share a limit unbeknownst do not exceed it together.
type provisionalCharge struct {
	bucket *bucket
	permit ratelimits.Permit
	ticket Ticket // of a bucket that is shared
	loans  int    // of the bucket, when the ticket was issued; another one has voided it
}

// seeks reports that the response to a request of a route will tell to which bucket it belongs, and that may be another one than this.
func (b *bucket) seeks(e *routeEntry) bool {
	return b.group.kind == unknownGroup || b.group.kind == hashGroup && e.groupsByMajor.Load() != nil && b.namingOf(e) == nil
}

// chargeProvisionally charges a request that is about to leave, if its bucket is not known, to all the buckets that it may belong to.
func (m *RESTBucketManager) chargeProvisionally(h *held) {
	if !h.undiscovered.Load() {
		return
	}
	m.moves.Lock()
	defer m.moves.Unlock()
	for _, f := range h.entry.authentication.groups {
		if !h.undiscovered.Load() { // it has moved
			return
		}
		if b := m.buckets.find(f, h.major); b != nil && f.kind != unknownGroup && b != h.bucket.Load() {
			h.chargeTo(b)
		}
	}
}

// chargeNew charges a bucket that was just made, as the one before was collected, with the requests that may belong to it.
func (m *RESTBucketManager) chargeNew(b *bucket) {
	if b.group.authentication.undiscovered.Load() == 0 {
		return
	}
	m.moves.Lock()
	defer m.moves.Unlock()
	m.chargeUndiscovered(b)
}

// chargeUndiscovered charges a bucket that was just found with all requests that may belong to it. The lock for moves is held.
func (m *RESTBucketManager) chargeUndiscovered(there *bucket) {
	a := there.group.authentication
	if there.group.kind == unknownGroup || there.group.kind == unlimitedGroup || a.undiscovered.Load() == 0 {
		return
	}
	for _, f := range a.groups {
		major := there.major
		if f.kind == unknownGroup {
			major = noMajor
		}
		b := m.buckets.find(f, major)
		if b == nil || b == there {
			continue
		}
		b.lock()
		for h := b.inFlight; h != nil; h = h.next {
			if h.undiscovered.Load() && h.major == there.major {
				h.chargeTo(there)
			}
		}
		b.unlock()
	}
}

// chargeTo charges the request to a bucket, once. The lock for moves is held.
func (h *held) chargeTo(b *bucket) {
	for _, s := range h.provisional {
		if s.bucket == b {
			return
		}
	}
	b.lock()
	defer b.unlock()
	if !b.evicted.Load() {
		now, sent := b.now(), h.permit.Sent()
		s := provisionalCharge{bucket: b, permit: b.window.Adopt(now, sent)}
		s.ticket, s.loans = b.link.adoptProvisional(now, sent)
		h.provisional = append(h.provisional, s)
	}
}

// unchargeFrom takes the charge off a bucket, which is locked, because the request is in flight there now. The lock for moves is
// held.
func (h *held) unchargeFrom(b *bucket) {
	now := b.now()
	for i, s := range h.provisional {
		if s.bucket == b {
			b.window.Return(now, s.permit)
			b.link.endProvisional(now, s, &outcome{})
			h.provisional = slices.Delete(h.provisional, i, i+1)
			return
		}
	}
}

// end takes the charge off again, unless nobody knows where the request was counted.
func (s provisionalCharge) end(o *outcome) {
	b := s.bucket
	b.lock()
	defer b.unlock()
	now := b.now()
	if o.sent && (o.response.Status == 0 || o.response.Status >= http.StatusInternalServerError) {
		b.window.Lost(now, s.permit)
		b.link.endProvisional(now, s, &outcome{sent: true})
	} else {
		b.window.Return(now, s.permit)
		b.link.endProvisional(now, s, &outcome{})
	}
	b.dispatchFree(now)
}
