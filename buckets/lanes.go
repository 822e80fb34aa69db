package buckets

import (
	"time"

	"github.com/ratelight/ratelight/internal/fifo"
	"github.com/ratelight/ratelight/ratelimits"
)

// lane is where the requests of one shape wait for a hidden limit on what their bodies ask for, while others of the same
// bucket pass. It exists from the 429 that revealed the limit until its hold has ended and nobody waits any more.
//
// How much the limit allows is not known, so after the hold its requests go one at a time, each when the one before has
// succeeded.
type lane struct {
	hold     ratelimits.Throttle
	refusals ratelimits.Refusals
	waiting  fifo.Queue[*waiter]
	busy     bool // one of its requests is back in the bucket's queue, or in flight
}

// laneOf returns the lane of an ask, nil if there is none.
func (q *queue) laneOf(a *ask) *lane { return q.lanes[a.request.shape] }

// blocks reports that an ask has to go behind others. Whether it belongs into a lane can be told only by its shape.
func (q *queue) blocks(a *ask) bool {
	return q.waiting.Len() > 0 || len(q.lanes) > 0 && (a.request.shape == 0 || q.laneOf(a) != nil)
}

// detour puts a waiter of the queue into its lane, and reports whether it has one. The one whose turn it is passes, unless
// the lane is held again.
func (q *queue) detour(now time.Duration, w *waiter) bool {
	if len(q.lanes) == 0 {
		return false
	}
	if w.lane != nil {
		if w.lane.hold.Wait(now) == 0 {
			return false
		}
		w.lane.busy, w.lane = false, nil
	}
	lane := q.laneOf(&w.ask)
	if lane == nil {
		return false
	}
	q.waiting.Remove(&w.Element)
	w.bucket.Load().partner.leave(now, w)
	lane.waiting.Insert(&w.Element)
	return true
}

// openLanes lets the first request of each lane whose hold has ended back into the queue, where it stands according to when
// it arrived, and forgets lanes that nobody needs. It returns when the next lane opens, 0 if none will by itself.
func (q *queue) openLanes(now time.Duration) (opens time.Duration) {
	for shape, lane := range q.lanes {
		switch head := lane.waiting.Head(); {
		case lane.hold.Wait(now) > 0:
			if opens == 0 || lane.hold.Until() < opens {
				opens = lane.hold.Until()
			}
		case lane.busy:
		case head == nil:
			delete(q.lanes, shape)
		default:
			w := head.Value
			lane.waiting.Remove(head)
			lane.busy, w.lane = true, lane
			q.waiting.Insert(head)
			w.bucket.Load().partner.join(now, w)
		}
	}
	return opens
}

// laneWait returns how long the hold of an ask's lane lasts, 0 if it has none.
func (q *queue) laneWait(now time.Duration, a *ask) time.Duration {
	if lane := q.laneOf(a); lane != nil {
		return lane.hold.Wait(now)
	}
	return 0
}

// leaveLane takes a waiter out of the lane in which it waits.
func (q *queue) leaveLane(w *waiter) bool {
	lane := q.laneOf(&w.ask)
	return lane != nil && lane.waiting.Remove(&w.Element)
}

// refuseLane holds all requests of one shape back for d, or longer after several refusals in a row. It returns for how long,
// 0 if they were held back already.
func (b *RESTBucket) refuseLane(now, d time.Duration, shape uint64) time.Duration {
	q := b.open()
	lane := q.openLane(shape)
	before := lane.hold.Wait(now)
	lane.hold.Extend(now, max(d, lane.refusals.Again(now, before > 0)))
	q.detours(now)
	if before > 0 {
		return 0
	}
	return lane.hold.Wait(now)
}

// openLane returns the lane of a shape, creating it if need be.
func (q *queue) openLane(shape uint64) *lane {
	if q.lanes == nil {
		q.lanes = make(map[uint64]*lane)
	}
	if q.lanes[shape] == nil {
		q.lanes[shape] = &lane{}
	}
	return q.lanes[shape]
}

// detours puts all who wait in the queue and have a lane into it.
func (q *queue) detours(now time.Duration) {
	for e := q.waiting.Head(); e != nil; {
		w := e.Value
		e = e.Next()
		q.detour(now, w)
	}
}
