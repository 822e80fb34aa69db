package ratelimits

import "time"

// LongestTrust is the longest wait that is accepted from a response. A longer wait is reduced to LongestTrust, because
// a wrong value must not stop a bucket for ever. Discord has never been seen to ask for more than a day.
const LongestTrust = 24 * time.Hour

// Window computes, for one bucket, whether a request may be sent now, and if not, when.
//
// Each request takes a [Permit]. Report (response), Lost (sent, but no response) or Return (never sent) ends the
// permit. While the request is in flight, it occupies one of the limit's places. After its response it is charged: it
// keeps its place until the reset in that response has certainly passed. The ledger lists these charges. As long as
// there are free places, more requests may be sent, however many are in flight.
//
// Every [Kind] that no response has ruled out counts as possible, and the ledger is safe for all possible kinds. When
// only one kind is left, places become free earlier. If responses have ruled out every kind, the bucket has changed,
// and all kinds become possible again.
//
// In addition, the window may be
//
//	unknown   no response has named a limit: one request at a time is sent, to learn it
//	unlimited responses carry no limit (Unlimit): everything is sent, until a response carries a limit
//	declared  Declare has set the limit, not the server: responses only say when a request ended
//	held      nothing is sent until a given time, after a 429 or by Hold
//	probing   after a hold, an unknown outcome, a recalled limit, or at an opening that may be late: one
//	          request is sent first; the others wait until it has succeeded. At an opening that may be late, they
//	          wait only for a short time
//	late      a 429 has shown that the bucket opens later than its responses say
//	hidden    a 429 has shown a limit that no header names. In the time for which that limit counts a request, only
//	          as many requests are sent as it accepted before its latest 429; now and then one more is tried
//
// Take, Next and the methods that only read take the present time, which must not decrease from call to call. Report,
// Lost and Return take the time of the outcome. This time may be earlier than the present time, because outcomes may be
// reported late and out of order.
//
// The zero value is an unknown window, ready for use. A Window is not safe for concurrent use.
type Window struct {
	limit     int32 // requests per period; 0: not known
	inflight  int32
	uncounted int32  // number of answered requests that no response has certainly counted
	passed    int32  // number of recently accepted requests; a 429 of a hidden limit sets it to 0
	answered  uint32 // number of outcomes so far, may wrap; minus the value in a permit: those since the permit was taken
	countedAt uint32 // value of answered when windowCount was last the server's own count
	expired   uint32 // number of certainly counted requests that have expired; may wrap, and is used like answered

	origin      limitOrigin // where limit comes from
	probing     probing
	probeOut    bool // the request that must succeed first is in flight
	recentWhole bool // a recent request was the first in the bucket, so its response named the whole period
	punctual    bool // the bucket is known to open at the announced reset
	opening     openingState

	openedWithin uint16 // the announced reset may have been up to this many milliseconds before opened
	returned     int32  // number of places that became free recently: at opened or shortly before

	// longest is the longest reset-after that responses have named recently. The period is probably not longer. recent is
	// the longest reset-after since recentSince. If a value does not recur within two periods, recent replaces it in
	// longest.
	longest, recent, recentSince time.Duration

	outcome time.Duration // when the latest outcome came
	opened  time.Duration // the latest announced reset of a charge that has expired
	// uncountedAt is when the latest uncounted request was answered. If the server has counted that request, the responses
	// to all requests that were sent after uncountedAt include it.
	uncountedAt time.Duration
	ledger      ledger
	evidence    evidence
	rare        *rare // nil until something needs it
}

// limitOrigin says where a window's limit comes from.
type limitOrigin uint8

const (
	learnt    limitOrigin = iota // learnt from responses, if there were any
	recalled                     // only a guess: from older responses (Recall, Relearn), or from the 429 of another limit
	unlimited                    // responses carry no limits
	declared                     // set by Declare: responses do not name it
)

// probing says whether one request must succeed before other requests are sent.
type probing uint8

const (
	notProbing    probing = iota
	probesOpening         // as probes, but only until the bucket is certainly open
	probes                // one request is sent first
	probesAlone           // as probes, but the first request is sent only when nothing is charged
)

// mostCounted is the upper bound of limits and counts, so that sums do not overflow. A limit of this size never makes a
// request wait.
const mostCounted = 100_000_000

// Permit is the permission to send one request. It is valid from Take until the request's outcome is reported. It is a
// plain value.
type Permit struct {
	sent      time.Duration
	opened    time.Duration // the announced reset of the recently freed place that the request needs; 0: it needs none
	answered  uint32
	expired   uint32
	probe     bool
	adopted   bool
	elsewhere bool // while the request was in flight, another window recorded outcomes that may concern this bucket
	unawaited bool // no other request waits for the request's outcome any more
}

// Sent returns the time at which the permit was taken.
func (p Permit) Sent() time.Duration { return p.sent }

// Take takes a permit for a request that is sent now. It returns false if no request may be sent now; then Next says
// when to call Take again.
func (w *Window) Take(now time.Duration) (Permit, bool) {
	if at, ok := w.Next(now); !ok || at > now {
		return Permit{}, false
	}
	p := Permit{sent: now, answered: w.answered, expired: w.expired, probe: w.probing != notProbing}
	if p.opened = w.reliesOn(now); p.opened > 0 && !p.probe && w.tests(now) {
		w.probing, p.probe = probesOpening, true
		w.writeRare().openBy = w.surelyOpen() // openings after this one do not postpone openBy
	}
	w.probeOut = p.probe
	w.inflight++
	w.evidence.fixed.count = w.windowCount(now) + 1
	return p, true
}

// Next returns the time at which to call Take again. If Take would succeed, that time is now. Otherwise Take fails
// before that time, unless an outcome is reported earlier. If ok is false, no such time is known: the next permit
// depends on an outcome.
func (w *Window) Next(now time.Duration) (at time.Duration, ok bool) {
	w.advance(now)
	if w.rare != nil {
		if at, ok = w.rare.next(now, w.inflight, w.awaited()); !ok || at > now {
			return at, ok
		}
	}
	switch {
	case w.probing == probesOpening && w.probeOut:
		return w.readRare().openBy, true
	case w.probeOut || w.probing == probesAlone && w.awaited() > 0:
		return 0, false
	case w.probing == probesAlone && w.ledger.total > 0:
		return w.opens(w.ledger.last()), true
	case w.origin == unlimited:
		return now, true
	case w.limit == 0:
		return now, w.awaited() == 0
	}
	missing := w.ledger.total + w.inflight + 1 - w.limit
	switch {
	case w.windowCount(now) >= w.limit:
		return w.opens(w.evidence.fixed.until), true
	case missing <= 0:
		return now, true
	case missing > w.ledger.total:
		return 0, false
	}
	return w.opens(w.ledger.nth(missing)), true
}

// awaited returns how many requests are in flight, without those for which StopWaiting was called.
func (w *Window) awaited() int32 { return w.inflight - w.readRare().unawaited }

// StopWaiting says that no request must wait any longer for the outcome of a request that takes too long. If the next
// request was waiting only for that outcome, it may be sent. The slow request still occupies its place. Report its
// outcome with the returned permit.
func (w *Window) StopWaiting(p Permit) Permit {
	if p.unawaited {
		return p
	}
	if p.unawaited = true; p.probe {
		w.probeOut = false
	}
	w.writeRare().unawaited++
	return p
}

// charged returns how many requests the server may count, including requests in flight.
func (w *Window) charged(now time.Duration) int32 {
	return max(w.ledger.total+w.inflight, w.windowCount(now))
}

// windowCount returns how many requests the server counts, if that number cannot fall before the latest announced
// reset. Otherwise it returns 0.
func (w *Window) windowCount(now time.Duration) int32 {
	f := &w.evidence.fixed
	if w.announced(now) < f.until && (w.evidence.refuted&fixed == 0 || w.evidence.kind() == KindNext) {
		return f.count
	}
	return 0
}

// advance removes expired charges. It also ends probing that was necessary only until the bucket was certainly open.
func (w *Window) advance(now time.Duration) {
	if w.ledger.total > 0 && w.ledger.next() <= w.announced(now) {
		n, sure, last, worst := w.ledger.expire(w.announced(now))
		w.reopen(n, last)
		w.expired += uint32(sure)
		// If no response has named the reset of an expired charge, the period may be longer than assumed, or requests in
		// flight may have filled up a leaky bucket.
		if worst > withLimits {
			w.probing = probes
			if worst == noAnswer && w.evidence.refuted&leaky == 0 {
				w.probing = probesAlone
			}
		}
	}
	if w.probing == probesOpening && now >= w.readRare().openBy {
		w.probing, w.probeOut = notProbing, false
	}
	if w.rare != nil {
		w.rare.advance(w, now)
	}
}

// Return gives back a permit whose request was never sent. If a 429 has shown, after the permit was taken, that the
// bucket is full, the place stays charged: another client's request may have taken it.
func (w *Window) Return(now time.Duration, p Permit) {
	w.advance(now)
	w.land(p)
	w.uncount(p)
	if w.rare != nil {
		w.rare.returned(w, now, p)
	}
	if w.origin == learnt && w.evidence.leftOut == 0 { // otherwise a recent response contradicted the charges
		w.dropOthers()
	}
}

// Lost records that the outcome of a request will never be known: the request was sent, but the connection broke or the
// caller gave up. The request stays charged as long as the server may count it. Lost assumes that the request has
// reached the server by now.
func (w *Window) Lost(now time.Duration, p Permit) { w.Report(now, p, Response{}) }

// Adopt takes over a request in flight that turns out to belong to this bucket. The request was sent at the time sent,
// with a permit from another source. Report the request's outcome here, with the permit that Adopt returns.
func (w *Window) Adopt(now, sent time.Duration) Permit {
	w.advance(now)
	w.inflight++
	sent = min(max(sent, now-farthest), now+farthest) // so that differences do not overflow
	// Every request that has been answered and is charged may have been processed after this one.
	return Permit{sent: sent, answered: w.answered - uint32(w.ledger.total), expired: w.expired, adopted: true}
}

// AdoptFrom is like Adopt, for a request that was sent with a permit of another window. Other requests of that window
// may have been answered since this request was sent. These requests may also belong to this bucket, and may have been
// processed after this request.
func (w *Window) AdoptFrom(now time.Duration, from *Window, sent Permit) Permit {
	p := w.Adopt(now, sent.sent)
	elsewhere := from.answered - sent.answered
	p.answered = w.answered - max(w.answered-p.answered, elsewhere) // the counters may wrap
	if p.elsewhere = elsewhere > 0; p.elsewhere {
		w.uncountedAt = max(w.uncountedAt, now)
	}
	return p
}

// Report records the response to a request, which came now. A response without limits does not change the known limits.
func (w *Window) Report(now time.Duration, p Permit, r Response) { w.ReportReceived(now, now, p, r) }

// ReportReceived is like Report, for a response that was received earlier, or by a process with another clock. received
// is the latest time at which the response can have been received.
func (w *Window) ReportReceived(now, received time.Duration, p Permit, r Response) {
	r.clip()
	w.advance(now)
	w.land(p)
	w.answered++
	w.outcome = max(w.outcome, received)
	outdated := r.Limited && w.isOutdated(&r)
	if outdated {
		w.noteOutdated(&r)
		r.Limited = false
	}
	if w.origin == declared {
		w.chargeDeclared(received, p, &r)
		return
	}
	switch {
	case r.Limited:
		w.observe(received, p, &r)
	case w.origin == unlimited:
	case w.limit == 0:
		w.leaveUncounted(1, received)
	case r.Class == ClassOK:
		w.chargeWithoutLimits(received, p, r.Status == 0 || r.Status >= 500, outdated)
	default: // a 429: the server did not count it
		w.uncount(p)
	}
	switch r.Class {
	case ClassOK:
		switch {
		case !p.probe || w.HoldWait(received) > 0: // with a hold, another 429 has come since this request was sent
		case r.Status > 0 && r.Status < 500:
			w.probing = notProbing
		case r.Limited: // a server error, but it says how many requests the bucket counts
			w.probing = min(w.probing, probes)
		}
		w.passed++
		if w.rare != nil {
			w.rare.accepted(w.outcome, received, p.sent, r.Status > 0 && r.Status < 500)
		}
		if r.Status > 0 && r.Status < 500 {
			w.accept(received, p)
		}
	case ClassUser:
		if p.opened == 0 && p.sent < w.surelyOpen() { // a request that was sent later may have taken the place
			p.opened = w.reliesOn(received)
		}
		if m, ok := w.refusedLate(received, p, &r); ok {
			w.refuseLate(received, p, m, &r)
			break
		}
		w.refuse(received, &r)
	case ClassShared:
		w.meet(received, p, &r)
	}
}

// land records that a request is no longer in flight.
func (w *Window) land(p Permit) {
	w.inflight = max(w.inflight-1, 0)
	if p.unawaited {
		rare := w.writeRare()
		rare.unawaited = max(rare.unawaited-1, 0)
	} else if p.probe || w.inflight == 0 {
		w.probeOut = false
	}
}

// uncount subtracts from windowCount a request that the server has not counted. It does nothing if, since the request
// was sent, a response has set windowCount to the server's own count.
func (w *Window) uncount(p Permit) {
	if !p.adopted && int32(p.answered-w.countedAt) >= 0 {
		w.evidence.fixed.count = max(w.evidence.fixed.count-1, 0)
	}
}

// leaveUncounted records that n requests have ended, and that no response has certainly counted them.
func (w *Window) leaveUncounted(n int32, received time.Duration) {
	w.uncounted += n
	w.uncountedAt = max(w.uncountedAt, received)
}

// chargeWithoutLimits charges a request whose response named no usable limits. The server has certainly counted the
// request if the response is outdated.
func (w *Window) chargeWithoutLimits(now time.Duration, p Permit, lost, outdated bool) {
	w.leaveUncounted(1, now)
	closes := w.evidence.fixed.closes
	c := charge{received: now, reset: interval{p.sent, now + w.longest + tick}, n: 1, answer: withoutLimits}
	if lost {
		c.answer = noAnswer
	}
	if outdated {
		c.sure = 1
		c.travelled(p.sent)
	}
	switch {
	case w.evidence.refuted&^next == log|leaky && now < closes.low: // a fixed window counts the request until it closes
		c.reset, c.answer = closes, withLimits
	case w.evidence.kind() == KindLeaky:
		c.reset.high = w.evidence.leaky.fills(now, w.ledger.last(), w.inflight+1, w.limit) + tick
	}
	w.charge(&c)
}

// charge adds a charge to the ledger in a way that is safe for all possible kinds.
func (w *Window) charge(c *charge) {
	switch {
	case w.evidence.windows() && c.answer == withLimits:
		w.ledger.window(c, w.leastPeriod())
		return
	case w.evidence.mayBeNext():
		c.reset.high = max(c.reset.high, c.received+w.longest+tick)
	}
	w.ledger.add(c)
}

// Recall gives a new window the limit and the period that were known before the bucket was evicted. They apply until a
// response carries limits. Because they may be outdated, one request is sent first.
func (w *Window) Recall(limit int, period time.Duration) {
	if limit > 0 && w.limit == 0 && w.origin != unlimited {
		w.limit, w.longest = int32(min(limit, mostCounted)), min(max(period, 0), LongestTrust)
		w.origin, w.probing = recalled, probes
	}
}

// Relearn makes the next response that carries limits replace the known limits. One request is sent first.
func (w *Window) Relearn() {
	if w.limit > 0 {
		w.origin, w.probing = recalled, max(w.probing, probes)
	}
}

// Unlimit records that this bucket's responses carry no limits. Then no request has to wait, until a response carries
// limits.
func (w *Window) Unlimit() {
	if w.limit == 0 || w.origin == recalled {
		w.limit, w.origin = 0, unlimited
		w.ledger.clear()
	}
}
