package discordsim

import (
	"slices"
	"time"
)

// evidence records what the answers to accepted requests have shown about the kind of a [SlidingNext] log. Until these
// answers rule out the other kinds, a careful client may take the log for a fixed window, because the answers of both
// look the same. Such a client sends a whole batch when the supposed window is over.
type evidence struct {
	readings []reading // the latest ones
	// fixed, last and leaky are the times at which the client first knew that the bucket is not a fixed window, not a log
	// that names its last place, and not a leaky bucket. Zero: the client does not know that yet.
	fixed, last, leaky time.Time
	longest            reading     // the reading with the longest reset-after
	tries              []time.Time // when the latest refused requests were sent
}

// reading is what the client knows from one answer to an accepted request.
type reading struct {
	sent, read time.Time
	after      time.Duration // reset-after
	spent      int           // number of taken places that the answer names
}

// The reset that a reading names lies between earliest and latest.
func (r reading) earliest() time.Time { return r.sent.Add(r.after - time.Millisecond) }
func (r reading) latest() time.Time   { return r.read.Add(r.after + time.Millisecond) }

// denies reports whether no leaky bucket can have given both answers. In a leaky bucket, more taken places mean a
// longer reset-after.
func (r reading) denies(other reading) bool {
	return r.spent > other.spent && r.after < other.after-rounding || r.spent > other.spent+1 && r.after <= other.after
}

const (
	// rounding is the largest error in the difference between two times in headers, because each of them is rounded.
	rounding    = 2 * time.Millisecond
	maxReadings = 64
	maxTries    = 1024
)

func latest(times ...time.Time) time.Time { return slices.MaxFunc(times, time.Time.Compare) }

// learn compares an answer with earlier ones. Answers may come in any order.
func (e *evidence) learn(r reading) {
	if r.after > e.longest.after {
		e.longest = r
	}
	for _, other := range e.readings {
		first, second := r, other
		if second.earliest().Before(first.earliest()) {
			first, second = second, first
		}
		// Two different fixed windows end at least one period apart.
		span := second.latest().Sub(first.earliest())
		if second.earliest().After(first.latest()) && span < e.longest.after-time.Millisecond {
			e.fixed = earliest(e.fixed, latest(r.read, other.read, e.longest.read))
		}
		if (r.after - other.after).Abs() > rounding {
			e.last = earliest(e.last, latest(r.read, other.read)) // the last place always names the whole period
		}
		if r.denies(other) || other.denies(r) {
			e.leaky = earliest(e.leaky, latest(r.read, other.read))
		}
	}
	e.readings = append(e.readings, r)
	if len(e.readings) > maxReadings {
		e.readings = e.readings[1:]
	}
}

// tried records a request that was refused.
func (e *evidence) tried(sent time.Time) {
	if len(e.tries) == maxTries {
		e.tries = append(e.tries[:0], e.tries[maxTries/2:]...)
	}
	e.tries = append(e.tries, sent)
}

// told reports whether the client had read enough to know the kind before it sent a request.
func (e *evidence) told(sent time.Time) bool {
	for _, at := range []time.Time{e.fixed, e.last, e.leaky} {
		if at.IsZero() || !at.Before(sent) {
			return false
		}
	}
	return true
}

// over returns the end of the latest window that ended by sent, in the view of a client that believes in fixed windows.
// Zero: no window has ended.
func (e *evidence) over(sent time.Time) (over time.Time) {
	for _, r := range e.readings {
		if end := r.read.Add(r.after); !r.read.After(sent) && !end.After(sent) {
			over = latest(over, end)
		}
	}
	return over
}

// believes reports whether a client that took the log for a fixed window had reason to send a request. This is so if
// the window described by earlier answers was over, and the number of requests that the client had sent since the end
// of that window, including this one, was no larger than the limit.
func (k *knowledge) believes(sent time.Time, limit int) bool {
	e := k.evidence
	if e == nil || e.told(sent) {
		return false
	}
	over := e.over(sent)
	if over.IsZero() {
		return false
	}
	for _, f := range k.facts { // such a client believes that a new window begins when the wait of a 429 is over
		if f.at.Before(sent) && !f.until.After(sent) {
			over = latest(over, f.until)
		}
	}
	batch := 0
	count := func(at time.Time) {
		if !at.Before(over) && !at.After(sent) {
			batch++
		}
	}
	for _, s := range k.sends {
		count(s.at)
	}
	for _, at := range e.tries {
		count(at)
	}
	return batch <= limit
}

// hurries reports whether a client had reason to send a request that is refused now. This is so if the longest
// reset-after that the client has read is shorter than the period, and the client's requests within that time do not
// fill the bucket. The longest reset-after can be that short if other clients use a [SlidingNext] log first, or if the
// first answers of windows are stale.
func (k *knowledge) hurries(sent, now time.Time, q *Quota) bool {
	longest := k.longest
	switch {
	case q.NamesNext && k.evidence != nil:
		longest = k.evidence.longest.after
	case q.NamesNext, k.stale.IsZero(), k.stale.After(sent):
		return false
	}
	if longest >= q.Period-time.Millisecond {
		return false
	}
	since, n := now.Add(-longest), 0
	for _, s := range k.sends {
		if s.at.After(since) {
			n++
		}
	}
	return n < q.Limit
}

// believesLag reports whether a client had reason to believe the lagging Remaining of a leaky bucket. This is so if the
// client had read such a Remaining, but had not read an answer that shows by how much each request moves the reset.
func (k *knowledge) believesLag(sent time.Time) bool {
	return !k.lagging.IsZero() && !k.lagging.After(sent) && (k.lagTold.IsZero() || k.lagTold.After(sent))
}
