package buckets

import "time"

// A request that needs several limits may find one of them closed whenever the others are open, because requests that
// need fewer limits take each permit as soon as it is free. So, in the order of ranks, the first request that cannot
// leave has a reservation. The request does not reserve permits, but the instant at which all its limits will be open.
// Other requests leave before this request only if they do not delay it. Batch schedulers call this rule EASY
// backfilling.
//
// A queue that needs declared limits has a reservation in all its lines or in none, so no two queues wait for each
// other. A queue that needs no declared limits has a reservation only in its bucket's line, for the instant of its turn
// above the bucket, because turns in a bucket also count while the global limit is busy. A queue of earlier rank has
// precedence.

// lines returns the lines of all limits that the first request of a queue needs.
func (q *queue) lines() []*line {
	k := &q.waiting.Head().Value.ask
	all := []*line{q.bucket.line()}
	for _, d := range k.limits.all() {
		all = append(all, &d.line)
	}
	if s := k.account.server; !s.edge.open {
		all = append(all, &s.edgeLine)
	}
	if a := k.account; !k.exempt && !a.global.open {
		all = append(all, &a.globalLine)
	}
	return all
}

// opens returns the instant at which the first request of a queue will be able to leave, or now if it already can. ok
// is false if that depends on the outcome of a request.
func (q *queue) opens(now time.Duration) (at time.Duration, ok bool) {
	k := &q.waiting.Head().Value.ask
	if k.limits == nil {
		wait := k.predict(now, nil, q, 0, k.opensAbove(now)).wait
		return now + wait, wait > 0
	}
	at = now
	for _, l := range q.lines() {
		next, known := l.limit.nextFor(now, k)
		open := known && next <= now
		if !open {
			next = l.limit.behind(now, 0)
		}
		if at = max(at, next); !open && next <= now {
			return 0, false
		}
	}
	return at, true
}

// reserve gives the queue a reservation for the instant at which its first request can leave, unless a queue of earlier
// rank has a reservation in one of the same lines.
func (q *queue) reserve(now time.Duration) {
	if q.reserved != nil || q.reserveFailed == now {
		return
	}
	at, ok := q.opens(now)
	if !ok {
		return
	}
	all := []*line{q.bucket.line()}
	if q.waiting.Head().Value.limits != nil {
		all = q.lines()
	}
	for _, l := range all {
		if l.reserved != nil && l.reserved.rank() <= q.rank() {
			return
		}
	}
	for _, l := range all {
		l.reserved.unreserve()
		l.reserved = q
	}
	q.reserved, q.reservedAt = all, at
	q.line.server.touch(q.line)
}

// unreserve ends the reservation of a queue, if it has one; the queue may be nil. unreserve also touches the queue's
// own line, where the queue may have let other queues go first.
func (q *queue) unreserve() {
	if q == nil {
		return
	}
	q.touchReserved()
	for _, l := range q.reserved {
		l.reserved = nil
	}
	if q.reserved = nil; q.line != nil {
		q.line.server.touch(q.line)
	}
}

func (q *queue) touchReserved() {
	for _, l := range q.reserved {
		l.server.touch(l)
	}
}

// delays reports whether the line's reservation would be delayed if a request of q left now. It ignores a reservation
// of a later rank than q. If q is nil, the request is in no queue and has no rank, so every reservation counts.
func (l *line) delays(now time.Duration, q *queue) bool {
	r := l.reserved
	return r != nil && r != q && (q == nil || r.rank() < q.rank()) && l.limit.behind(now, 1) > max(r.reservedAt, now)
}

// givesWay reports whether a queue of earlier rank is first in a line in which q has its reservation. It touches all
// lines in which this is so, except the line that is being served (served).
func (q *queue) givesWay(served *line) (gives bool) {
	for _, l := range q.reserved {
		if first := l.first(); first != nil && first.rank() < q.rank() {
			if gives = true; l != served {
				l.server.touch(l)
			}
		}
	}
	return gives
}

// serveReserved lets the queue with the line's reservation leave if it can. It returns the time at which that queue
// will be able to leave. If there is no reservation, or if the time is no longer known, it returns 0.
func (s *server) serveReserved(now time.Duration, l *line) (at time.Duration) {
	for l.reserved != nil {
		q := l.reserved
		at, ok := q.opens(now)
		if !ok {
			q.unreserve()
			return 0
		}
		if at > q.reservedAt { // now others may leave without a delay for q
			q.touchReserved()
		}
		q.reservedAt = at
		if q.reservedAt > now {
			return q.reservedAt
		}
		if q.waiting.Head().Value.limits == nil { // this queue must wait for its turn above the bucket
			return 0
		}
		if q.givesWay(l) {
			return 0
		}
		if s.goOn(now, q); q.reserved != nil { // another process took a shared permit first
			q.unreserve()
			q.reserveFailed = now
		}
	}
	return 0
}

// leaveNoneUnused ends the line's reservation when the reservation has left a shared permit unused for mostKept,
// because another process may need the permit. It returns the time at which to check again, 0 if no permit is left
// unused.
func (s *server) leaveNoneUnused(now time.Duration, l *line) (at time.Duration) {
	link, q := l.shared(), l.reserved
	if link == nil {
		return 0
	}
	if q != nil {
		if next, ok := link.remote.Next(now); !ok || next > now {
			q = nil
		}
	}
	switch {
	case q == nil:
		link.unused = 0
		return 0
	case link.unused == 0:
		link.unused = now
	case now >= link.unused+mostKept:
		q.unreserve()
		q.reserveFailed, link.unused = now, 0
		return 0
	}
	return link.unused + mostKept
}
