package buckets

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/ratelight/ratelight/ratelimits"
)

// bucket is one bucket of Discord's: the window of a real bucket hash, with queues in front of it: see queue. The UNKNOWN bucket of a
// route is one too.
//
// Requests leave it under these conditions: no refusal is being read, and an ordered request has none before it in flight; their sub-limit,
// if one is known, lets them; the window has a permit, and of an UNKNOWN bucket that processes share, this one may find out where the route
// belongs; the budget of invalid requests is not used up (then the request is rejected); the declared limits that apply have permits,
// the edge is open, and the global limit has a slot, which is asked for last so that none ages in a queue. A queue that lacks one of the last
// three stands in line there.
type bucket struct {
	group    *limitGroup
	major    major
	collided atomic.Bool
	evicted  atomic.Bool // changed only under the lock

	mu sync.Mutex
	source
	inFlight      *held // in flight
	queues        *queues
	arrived       time.Duration // when the latest request did
	limit         int32         // that the latest response named, and the route that it was for
	reading       int32         // refusals of which only the headers are known
	limitOf       *routeEntry
	namings       naming         // one for each route whose responses have named the bucket's hash, as most have but one
	sent          uint32         // requests that have been sent from here, wrapping
	busy          busyPlace      // in the list of its authentication
	discoveryLink *discoveryLink // nil if it is not an UNKNOWN bucket that is shared

	nextInGroup, previousInGroup *bucket // guarded by the limit group's lock
}

func (b *bucket) manager() *RESTBucketManager { return b.group.authentication.global.manager }

func (b *bucket) server() *server { return b.group.authentication.server }

// complete connects a bucket that was just made, which is locked, with those of other processes, holds it as long as its resource is held, and
// unlocks it. That must not be done while the table makes it: the others may have something to say of it at once, and whoever holds a
// resource has to see it.
func (b *bucket) complete() {
	completed := false
	defer func() {
		if !completed { // a panic of the store's as a request comes: the next one makes another one
			b.manager().remove(b)
		}
		b.mu.Unlock()
	}()
	b.link, b.discoveryLink = b.manager().newSharedLink(b), b.manager().newDiscoveryLink(b)
	now := b.now()
	b.hold(now, b.server().holdWait(now, b.resource()), ratelimits.ClassShared)
	completed = true
}

// now returns what time it is. Who asks with the bucket locked never hears an earlier time than whoever had it locked before.
func (b *bucket) now() time.Duration { return b.manager().now() }

// addInFlight notes a lease as in flight in this bucket, and removeInFlight takes it out again.
func (b *bucket) addInFlight(h *held) {
	if h.undiscovered.Load() {
		b.group.authentication.undiscovered.Add(1)
	}
	if h.pausesBucket() {
		b.reading++
	}
	if h.ordered {
		b.makeQueues().ordered++
	}
	if h.subLimit != nil {
		h.subLimit.inFlight = true
	}
	b.sent++
	h.order = b.sent
	if h.bucket.Load() != b { // it may have been here before
		h.bucket.Store(b)
	}
	h.previous, h.next = nil, b.inFlight
	if b.inFlight != nil {
		b.inFlight.previous = h
	}
	b.inFlight = h
}

func (b *bucket) removeInFlight(h *held) {
	if h.ordered {
		b.queues.ordered--
	}
	if h.subLimit != nil {
		h.subLimit.inFlight = false
	}
	if h.undiscovered.Load() {
		b.group.authentication.undiscovered.Add(-1)
		h.undiscovered.Store(false)
	}
	if h.pausesBucket() {
		b.reading--
	}
	if h.previous == nil {
		b.inFlight = h.next
	} else {
		h.previous.next = h.next
	}
	if h.next != nil {
		h.next.previous = h.previous
	}
	h.next, h.previous = nil, nil
}

// bucket returns the bucket of a limit group and a major parameter. The UNKNOWN bucket of a route has no major parameter: it is for
// all of them.
func (m *RESTBucketManager) bucket(group *limitGroup, major major) *bucket {
	b, _ := m.findBucket(group, major)
	return b
}

// findBucket is bucket, and reports whether it was found and not made.
func (m *RESTBucketManager) findBucket(group *limitGroup, major major) (b *bucket, found bool) {
	if group.kind == unknownGroup || group.kind == foreignGroup {
		major = noMajor
	}
	if b := m.buckets.find(group, major); b != nil {
		return b, true
	}
	b, found = m.buckets.findOrMake(group, major, func() *bucket {
		b := &bucket{group: group, major: major}
		b.mu.Lock() // until it is complete
		if m.letsAllGo(group) {
			b.window.Unlimit()
		}
		period := time.Duration(group.lastPeriod.Load())
		b.window.Recall(int(group.lastLimit.Load()), period)
		if late := group.lastLate.Load(); late > 0 {
			b.window.ExpectLate(m.now(), time.Duration(late-1))
		}
		m.doubt(b, period)
		group.add(b)
		return b
	})
	if !found {
		b.complete()
	}
	return b, found
}

// lockedBucket is bucket with the lock held, and certainly not evicted.
func (m *RESTBucketManager) lockedBucket(group *limitGroup, major major) *bucket {
	for {
		b := m.bucket(group, major)
		b.mu.Lock()
		if !b.evicted.Load() {
			return b
		}
		b.mu.Unlock()
	}
}

// close rejects all that wait, stops the alarm, and lets the other processes know all that is known. Leases in flight end as usual.
func (b *bucket) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.evicted.Store(true)
	if b.queues != nil {
		b.queues.alarm.stop()
		b.rejectAll(ErrClosed)
		clear(b.queues.subLimits)
	}
	b.link.close()
}
