package buckets

import (
	"time"

	"github.com/ratelight/ratelight/internal/fifo"
	"github.com/ratelight/ratelight/ratelimits"
)

// subLimit is where the requests of one key wait for a hidden limit on what their bodies ask for, while others of the same
// bucket pass. It exists from the 429 that revealed the limit until its hold has ended and nobody waits any more.
//
// How much the limit allows is not known, so after the hold its requests go one at a time, each when the one before has
// succeeded.
type subLimit struct {
	hold     ratelimits.Throttle
	refusals ratelimits.Refusals
	waiting  fifo.Queue[*waiter]
	oneOut   bool // one of its requests is back in the bucket's queue, or in flight
}

// subLimitOf returns the sub-limit of an ask, nil if there is none.
func (q *queue) subLimitOf(a *ask) *subLimit { return q.subLimits[a.request.subLimitKey] }

// blocks reports that an ask has to go behind others. Whether it belongs into a sub-limit can be told only by its key.
func (q *queue) blocks(a *ask) bool {
	return q.waiting.Len() > 0 || len(q.subLimits) > 0 && (a.request.subLimitKey == 0 || q.subLimitOf(a) != nil)
}

// divert puts a waiter of the queue into its sub-limit, and reports whether it has one. The one whose turn it is passes, unless
// the sub-limit is held again.
func (q *queue) divert(now time.Duration, w *waiter) bool {
	if len(q.subLimits) == 0 {
		return false
	}
	if w.subLimit != nil {
		if w.subLimit.hold.Wait(now) == 0 {
			return false
		}
		w.subLimit.oneOut, w.subLimit = false, nil
	}
	s := q.subLimitOf(&w.ask)
	if s == nil {
		return false
	}
	q.waiting.Remove(&w.Element)
	w.bucket.Load().link.leave(now, w)
	s.waiting.Insert(&w.Element)
	return true
}

// openSubLimits lets the first request of each sub-limit whose hold has ended back into the queue, where it stands according to when
// it arrived, and forgets sub-limits that nobody needs. It returns when the next sub-limit opens, 0 if none will by itself.
func (q *queue) openSubLimits(now time.Duration) (opens time.Duration) {
	for key, s := range q.subLimits {
		switch head := s.waiting.Head(); {
		case s.hold.Wait(now) > 0:
			if opens == 0 || s.hold.Until() < opens {
				opens = s.hold.Until()
			}
		case s.oneOut:
		case head == nil:
			delete(q.subLimits, key)
		default:
			w := head.Value
			s.waiting.Remove(head)
			s.oneOut, w.subLimit = true, s
			q.waiting.Insert(head)
			w.bucket.Load().link.join(now, w)
		}
	}
	return opens
}

// subLimitWait returns how long the hold of an ask's sub-limit lasts, 0 if it has none.
func (q *queue) subLimitWait(now time.Duration, a *ask) time.Duration {
	if s := q.subLimitOf(a); s != nil {
		return s.hold.Wait(now)
	}
	return 0
}

// leaveSubLimit takes a waiter out of the sub-limit in which it waits.
func (q *queue) leaveSubLimit(w *waiter) bool {
	s := q.subLimitOf(&w.ask)
	return s != nil && s.waiting.Remove(&w.Element)
}

// refuseSubLimit holds all requests of one key back for d, or longer after several refusals in a row. It returns for how long,
// 0 if they were held back already.
func (b *RESTBucket) refuseSubLimit(now, d time.Duration, key uint64) time.Duration {
	q := b.open()
	s := q.subLimit(key)
	before := s.hold.Wait(now)
	s.hold.Extend(now, max(d, s.refusals.Again(now, before > 0)))
	q.divertAll(now)
	if before > 0 {
		return 0
	}
	return s.hold.Wait(now)
}

// subLimit returns the sub-limit of a key, creating it if need be.
func (q *queue) subLimit(key uint64) *subLimit {
	if q.subLimits == nil {
		q.subLimits = make(map[uint64]*subLimit)
	}
	if q.subLimits[key] == nil {
		q.subLimits[key] = &subLimit{}
	}
	return q.subLimits[key]
}

// divertAll puts all who wait in the queue and have a sub-limit into it.
func (q *queue) divertAll(now time.Duration) {
	for e := q.waiting.Head(); e != nil; {
		w := e.Value
		e = e.Next()
		q.divert(now, w)
	}
}
