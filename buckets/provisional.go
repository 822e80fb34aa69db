package buckets

import (
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/ratelight/ratelight/ratelimits"
)

// A request on a route whose hash is not known, or not for its major parameter where hashes differ by that, may be counted in any bucket of
// its major parameter and credential. So it is charged to all of them until its response tells, and two routes that share a limit
// unbeknownst do not exceed it together.

// provisionalCharge is the charge of a request in a bucket to which it may turn out to belong.
type provisionalCharge struct {
	bucket *bucket
	permit ratelimits.Permit
	ticket Ticket // of a bucket that is shared
	loans  int    // of the bucket, when the ticket was issued; another one has voided it
}

// undiscovered reports that the response to a request of a route will tell to which bucket it belongs, and that may be another one than
// this.
func (b *bucket) undiscovered(e *routeEntry) bool {
	return b.group.kind == unknownGroup || b.group.kind == hashGroup && e.groupsByMajor.Load() != nil && b.namingOf(e) == nil
}

// majorIndex finds the buckets of a credential by their major parameter: those that limit something, and the UNKNOWN ones of all routes.
type majorIndex struct {
	mu    sync.Mutex
	first map[major]*bucket // the others follow by nextOfMajor
}

// unknownMajor stands for that of the UNKNOWN buckets. Nothing else has a token and no id.
var unknownMajor = major{token: 1}

func (b *bucket) indexed() major {
	if b.group.kind == unknownGroup {
		return unknownMajor
	}
	return b.major
}

// add adds a bucket that was just made, and can be found.
func (x *majorIndex) add(b *bucket) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if b.group.kind == unlimitedGroup || b.evicted.Load() {
		return
	}
	m := b.indexed()
	b.nextOfMajor, x.first[m] = x.first[m], b
}

// remove takes out a bucket that is evicted.
func (x *majorIndex) remove(b *bucket) {
	x.mu.Lock()
	defer x.mu.Unlock()
	m := b.indexed()
	before := x.first[m]
	switch {
	case before == b && b.nextOfMajor == nil:
		delete(x.first, m)
	case before == b:
		x.first[m] = b.nextOfMajor
	default:
		for before != nil && before.nextOfMajor != b {
			before = before.nextOfMajor
		}
		if before != nil {
			before.nextOfMajor = b.nextOfMajor
		}
	}
}

// of returns the buckets of a major parameter.
func (x *majorIndex) of(m major) (all []*bucket) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for b := x.first[m]; b != nil; b = b.nextOfMajor {
		all = append(all, b)
	}
	return all
}

// chargeProvisionally charges a request that is about to leave, if its bucket is not known, to all the buckets that it may belong to.
func (m *RESTBucketManager) chargeProvisionally(h *held) {
	if !h.undiscovered.Load() {
		return
	}
	m.moves.Lock()
	defer m.moves.Unlock()
	for _, b := range h.entry.authentication.byMajor.of(h.major) {
		if !h.undiscovered.Load() { // it has moved
			return
		}
		if b != h.bucket.Load() {
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
	for _, b := range append(a.byMajor.of(unknownMajor), a.byMajor.of(there.major)...) {
		if b == there {
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
	for _, c := range h.provisional {
		if c.bucket == b {
			return
		}
	}
	b.lock()
	defer b.unlock()
	if !b.evicted.Load() {
		now, sent := b.now(), h.permit.Sent()
		c := provisionalCharge{bucket: b, permit: b.window.Adopt(now, sent)}
		c.ticket, c.loans = b.link.adopt(now, sent)
		h.provisional = append(h.provisional, c)
	}
}

// unchargeFrom takes the charge off a bucket, which is locked, because the request is in flight there now. The lock for moves is
// held.
func (h *held) unchargeFrom(b *bucket) {
	for i, c := range h.provisional {
		if c.bucket == b {
			c.remove(b.now(), false)
			h.provisional = slices.Delete(h.provisional, i, i+1)
			return
		}
	}
}

// end takes the charge off again, unless nobody knows where the request was counted.
func (c provisionalCharge) end(o *outcome) {
	c.bucket.lock()
	defer c.bucket.unlock()
	now := c.bucket.now()
	c.remove(now, o.sent && (o.response.Status == 0 || o.response.Status >= http.StatusInternalServerError))
	c.bucket.dispatchNow(now)
}

// remove takes the charge off its bucket, which is locked. If the request may have been counted there, that stays charged as long as the
// server may remember it.
func (c provisionalCharge) remove(now time.Duration, counted bool) {
	if counted {
		c.bucket.window.Lost(now, c.permit)
	} else {
		c.bucket.window.Return(now, c.permit)
	}
	c.bucket.link.end(now, c.ticket, c.loans, &outcome{sent: counted})
}
