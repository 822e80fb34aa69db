package ratelimits

import "time"

// defaultWait is the wait after a 429 that does not say how long.
const defaultWait = time.Second

// rare is what a Window remembers of what most buckets never meet: holds, refusals, responses that no kind can have given, other limits.
// It is kept apart so that those buckets stay small.
type rare struct {
	hold         Throttle
	holdClass    Class         // of the 429 that the hold comes from
	full         time.Duration // until then the latest 429 of the bucket has found it full
	refusals     Refusals
	suspected    time.Duration // until then evidence.suspected holds
	leftOutUntil time.Duration // until then evidence.leftOut counts
	raised       int32         // a higher limit that the latest response named, at raisedAt: believed a period later
	raisedTwice  bool          // and the one before it, too
	loweredAt    time.Duration // when a response named a lower limit; those to requests of before name the one that was
	raisedAt     time.Duration
	hidden       hiddenLimit
	late         lateness
	openBy       time.Duration // until then the first request of an opening is waited for
	unawaited    int32         // requests in flight whose outcome nothing waits for any more
	rounding     time.Duration // by how much a reset-after, and so the period, may have seemed too long
}

// noRare is what is read of a window that has met none of it. Nothing writes to it.
var noRare rare

// readRare returns it for reading.
func (w *Window) readRare() *rare {
	if w.rare == nil {
		return &noRare
	}
	return w.rare
}

// writeRare returns it for writing.
func (w *Window) writeRare() *rare {
	if w.rare == nil {
		w.rare = &rare{}
	}
	return w.rare
}

// next returns when a request may leave as far as holds and hidden limits go, as Window.Next does.
func (r *rare) next(now time.Duration, inflight, awaited int32) (at time.Duration, ok bool) {
	if r.hold.Wait(now) > 0 {
		return r.hold.Until(), true
	}
	return r.hidden.next(now, inflight, awaited)
}

// advance lets time do its work.
func (r *rare) advance(w *Window, now time.Duration) {
	if r.raisedTwice && (w.ledger.total == 0 || now >= r.raisedAt+w.longest) {
		w.limit = min(r.raised, 2*w.limit)
		r.raised, r.raisedTwice = 0, false
	}
}

// accepted takes in that a request was not refused, as was received then. It was let through for certain if it has succeeded.
func (r *rare) accepted(now, received, sent time.Duration, succeeded bool) {
	if succeeded {
		r.refusals.Accepted(sent)
	}
	r.hidden.accepted(now, received, sent)
}

// refuse takes in a 429 of this bucket. By what was known it was not to be expected: somebody else uses the bucket, or something was
// understood wrongly. It is full now. One request goes first when the hold has ended, and for some time to come.
func (w *Window) refuse(now time.Duration, r *Response) {
	w.evidence.others = true // perhaps
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

// returned charges what fills the place of a permit that was given back, if that was taken before the bucket was said to be full.
func (r *rare) returned(w *Window, now time.Duration, p Permit) {
	if now < r.full && p.sent <= r.refusals.latest && w.ledger.total+w.inflight < w.limit {
		w.ledger.add(&charge{received: now, reset: interval{now, r.full}, n: 1, counted: w.limit, others: true})
	}
}

// meet takes in a 429 of a limit that the bucket's headers do not show.
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
// resource, otherwise a second. It is always positive, because the values are rounded and a retry must not loop without
// a wait, and at most LongestTrust.
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

// Hold lets nothing be sent for d from now on, and then one request first, unless the limit is declared. A shorter hold never shortens a
// longer one. More than LongestTrust is reduced to it.
func (w *Window) Hold(now, d time.Duration) { w.HoldFor(now, d, ClassOK) }

// HoldRefused is Hold after a 429 of another limit that nothing else holds. Several in a row make the hold longer.
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

// LiftHold ends the hold and forgets what the 429 that caused it said about the bucket. One request is still sent
// first.
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
