package ratelimits

import "time"

// defaultWait is the wait after a 429 that does not say how long to wait.
const defaultWait = time.Second

// rare is the part of a Window's state that most buckets never need: it concerns holds, 429s, responses that no kind
// can have given, and changed limits. It is a separate struct so that most windows stay small.
type rare struct {
	hold         Throttle
	holdClass    Class         // class of the 429 that caused the hold
	full         time.Duration // time until which the bucket is full, according to its latest 429
	refusals     Refusals
	suspected    time.Duration // when evidence.suspected ends
	leftOutUntil time.Duration // when evidence.leftOut is dropped
	raised       int32         // a higher limit that the latest response has named; it applies one period after raisedAt
	raisedTwice  bool          // the response before the latest one has also named raised
	loweredAt    time.Duration // when a lower limit was named; responses to requests sent earlier name the old limit
	raisedAt     time.Duration
	hidden       hiddenLimit
	late         lateness
	openBy       time.Duration // time until which requests wait for the outcome of a request that tries an opening
	unawaited    int32         // number of requests in flight for which StopWaiting was called
	rounding     time.Duration // by how much a reset-after, and so the period, may be too long
}

// noRare is the result of readRare for a window without rare state. Nothing may write to it.
var noRare rare

// readRare returns the rare state. The caller must not change it.
func (w *Window) readRare() *rare {
	if w.rare == nil {
		return &noRare
	}
	return w.rare
}

// writeRare returns the rare state, which the caller may change. If there is none, it makes one.
func (w *Window) writeRare() *rare {
	if w.rare == nil {
		w.rare = &rare{}
	}
	return w.rare
}

// next returns the time at which a request may be sent according to the hold and the hidden limit. The results mean the
// same as those of Window.Next.
func (r *rare) next(now time.Duration, inflight, awaited int32) (at time.Duration, ok bool) {
	if r.hold.Wait(now) > 0 {
		return r.hold.Until(), true
	}
	return r.hidden.next(now, inflight, awaited)
}

// advance applies a higher limit that two responses have named, if a period has passed or no request is charged.
func (r *rare) advance(w *Window, now time.Duration) {
	if r.raisedTwice && (w.ledger.total == 0 || now >= r.raisedAt+w.longest) {
		w.limit = min(r.raised, 2*w.limit)
		r.raised, r.raisedTwice = 0, false
	}
}

// accepted records that a request was not refused. The response to the request came at the time received. succeeded
// says that the bucket has certainly accepted the request.
func (r *rare) accepted(now, received, sent time.Duration, succeeded bool) {
	if succeeded {
		r.refusals.Accepted(sent)
	}
	r.hidden.accepted(now, received, sent)
}

// refuse records an unexpected 429 of this bucket, which is full now: another client uses it, or responses were
// misunderstood. After the hold, one request is sent before the others. For some time, KindNext is suspected.
func (w *Window) refuse(now time.Duration, r *Response) {
	w.evidence.others = true // another client may use the bucket
	if w.evidence.kind() != KindNext {
		w.evidence.forget()
	}
	wait, rare := r.AskedWait(), w.writeRare()
	rare.full = now + min(max(wait, r.ResetAfter+tick), LongestTrust)
	if full := w.limit - w.ledger.total - w.inflight; full > 0 {
		w.ledger.add(&charge{received: now, reset: interval{now, rare.full}, n: full, counted: w.limit, others: true})
	}
	wait = max(wait, w.again(now))
	w.suspect(now+min(wait, LongestTrust), w.longest)
	w.HoldFor(now, wait, ClassUser)
}

// returned charges a request of another client in place of a returned permit, if a 429 has shown since Take that the
// bucket is full.
func (r *rare) returned(w *Window, now time.Duration, p Permit) {
	if now < r.full && p.sent <= r.refusals.latest && w.ledger.total+w.inflight < w.limit {
		w.ledger.add(&charge{received: now, reset: interval{now, r.full}, n: 1, counted: w.limit, others: true})
	}
}

// meet records a 429 of a hidden limit, which the bucket's headers do not name.
func (w *Window) meet(now time.Duration, p Permit, r *Response) {
	wait := max(r.AskedWait(), w.again(now))
	w.writeRare().hidden.refuse(now, p.sent, min(wait, LongestTrust), w.passed)
	w.passed = 0
	w.HoldFor(now, wait, ClassShared)
}

func (w *Window) again(now time.Duration) time.Duration {
	rare := w.writeRare()
	return rare.refusals.Again(now, rare.hold.Wait(now) > 0)
}

// AskedWait returns how long a 429 asks to wait. This is RetryAfter. Without a RetryAfter, the wait is ResetAfter for a
// 429 of the bucket or its resource, and one second for any other 429. The result is positive, so that retries never
// loop without a wait, and at most LongestTrust.
func (r *Response) AskedWait() time.Duration {
	clipped := r.Clip()
	switch {
	case r.HasRetryAfter:
		return min(clipped.RetryAfter+tick, LongestTrust)
	case clipped.Limited && (clipped.Class == ClassUser || clipped.Class == ClassShared):
		return min(clipped.ResetAfter+tick, LongestTrust)
	}
	return defaultWait
}

// Hold stops all requests for the duration d from now on. After that, one request is sent before the others, except if
// the limit is declared. A hold that ends earlier than the existing one has no effect. A d above LongestTrust counts as
// LongestTrust.
func (w *Window) Hold(now, d time.Duration) { w.HoldFor(now, d, ClassOK) }

// HoldRefused is like Hold, but for a 429 of another limit if that limit has no hold of its own. Several such 429s in a
// row make the hold longer.
func (w *Window) HoldRefused(now, d time.Duration) { w.HoldFor(now, max(d, w.again(now)), ClassOK) }

// HoldFor is like Hold, but it is for a 429 of the given class. During the hold, HoldClass returns that class.
func (w *Window) HoldFor(now, d time.Duration, class Class) {
	if d <= 0 {
		return
	}
	if rare := w.writeRare(); rare.hold.Extend(now, min(d, LongestTrust)) {
		rare.holdClass = class
	}
	if w.origin != declared {
		w.probing = max(w.probing, probes)
	}
}

// LiftHold ends the hold and forgets what the 429 that caused it said about the bucket. One request is still sent
// before the others.
func (w *Window) LiftHold(now time.Duration) {
	if w.rare == nil {
		return
	}
	if w.HoldClass(now) == ClassUser {
		w.ledger.clear()
		w.evidence.fixed.count, w.rare.full = 0, 0
	}
	w.rare.hold, w.rare.hidden, w.rare.refusals.row = Throttle{}, hiddenLimit{}, 0
}
