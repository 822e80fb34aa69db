package ratelimits

import "time"

// defaultWait is the wait after a 429 that does not say how long to wait.
const defaultWait = time.Second

// rare is the state of a Window that most buckets never need: holds, 429s, responses that no kind can have given,
// changed limits. It is separate so that other windows stay small.
type rare struct {
	hold         Throttle
	holdClass    Class         // class of the 429 that caused the hold
	full         time.Duration // the bucket is full until then, according to its latest 429
	refusals     Refusals
	suspected    time.Duration // when evidence.suspected ends
	leftOutUntil time.Duration // when evidence.leftOut is dropped
	raised       int32         // a higher limit that the latest response named; it applies a period after raisedAt
	raisedTwice  bool          // the response before named it, too
	loweredAt    time.Duration // when a lower limit was named; responses to requests sent earlier name the old limit
	raisedAt     time.Duration
	hidden       hiddenLimit
	late         lateness
	openBy       time.Duration // requests wait until then for the request that tries an opening
	unawaited    int32         // requests in flight whose outcome no request waits for
	rounding     time.Duration // how much too long a reset-after, and so the period, may be
}

// noRare is the result of readRare for a window without rare state. It must not be written.
var noRare rare

// readRare returns the rare state for reading.
func (w *Window) readRare() *rare {
	if w.rare == nil {
		return &noRare
	}
	return w.rare
}

// writeRare returns the rare state for writing.
func (w *Window) writeRare() *rare {
	if w.rare == nil {
		w.rare = &rare{}
	}
	return w.rare
}

// next returns when a request may leave according to the hold and the hidden limit, as Window.Next does.
func (r *rare) next(now time.Duration, inflight, awaited int32) (at time.Duration, ok bool) {
	if r.hold.Wait(now) > 0 {
		return r.hold.Until(), true
	}
	return r.hidden.next(now, inflight, awaited)
}

// advance applies a higher limit that two responses have named, when a period has passed or no request is charged.
func (r *rare) advance(w *Window, now time.Duration) {
	if r.raisedTwice && (w.ledger.total == 0 || now >= r.raisedAt+w.longest) {
		w.limit = min(r.raised, 2*w.limit)
		r.raised, r.raisedTwice = 0, false
	}
}

// accepted records that a request was not refused; its response came at received. succeeded says that the bucket has
// certainly accepted the request.
func (r *rare) accepted(now, received, sent time.Duration, succeeded bool) {
	if succeeded {
		r.refusals.Accepted(sent)
	}
	r.hidden.accepted(now, received, sent)
}

// refuse records a 429 of this bucket that was not predicted: another client uses the bucket, or a response was
// misunderstood. The bucket is full now. After the hold one request is sent first. For some time KindNext is suspected.
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

// returned charges another client's request instead of a returned permit if a 429 has since found the bucket full.
func (r *rare) returned(w *Window, now time.Duration, p Permit) {
	if now < r.full && p.sent <= r.refusals.latest && w.ledger.total+w.inflight < w.limit {
		w.ledger.add(&charge{received: now, reset: interval{now, r.full}, n: 1, counted: w.limit, others: true})
	}
}

// meet records a 429 of a limit that the bucket's headers do not name.
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

// AskedWait returns how long a 429 asks to wait: RetryAfter, otherwise ResetAfter if the 429 is about the bucket or its
// resource, otherwise a second. The result is always positive, because the values are rounded and a retry must not loop
// without a wait. It is at most LongestTrust.
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

// Hold lets nothing be sent for d from now on. Then one request is sent first, unless the limit is declared. A shorter
// hold never shortens a longer one. A d above LongestTrust is reduced to it.
func (w *Window) Hold(now, d time.Duration) { w.HoldFor(now, d, ClassOK) }

// HoldRefused is Hold after a 429 of another limit that has no hold of its own. Several 429s in a row make the hold
// longer.
func (w *Window) HoldRefused(now, d time.Duration) { w.HoldFor(now, max(d, w.again(now)), ClassOK) }

// HoldFor is Hold for a 429 of the given class, which HoldClass then returns.
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

// LiftHold ends the hold and forgets what its 429 said about the bucket. One request is still sent first.
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
