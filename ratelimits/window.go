package ratelimits

import "time"

// LongestTrust is the longest wait that is accepted from a response; a longer wait is reduced to it. Discord has never
// been seen to ask for more than a day, and a wrong value must not stop a bucket for ever.
const LongestTrust = 24 * time.Hour

// Window computes for one bucket how many requests may be sent now, or when the next request may be sent.
//
// Each request takes a [Permit]. Report (for any response), Lost (sent, but no response) or Return (never sent) ends
// it. The request occupies one of the limit's places while it is in flight. Once it has been answered, it is charged:
// it keeps its place until the reset in its own response has certainly passed. The ledger lists these charges. Requests
// may be sent as long as there are free places, however many are in flight.
//
// Every Kind that no response has ruled out counts as possible, and the ledger is safe for all of them. Once the kind
// is known, places become free earlier. If every kind has been ruled out, the bucket has changed, and all kinds are
// possible again.
//
// On top of that the window may be
//
//	unknown   no response has named a limit: one request at a time is sent, to learn it
//	unlimited responses carry no limit (Unlimit): everything is sent, until a response carries a limit
//	declared  Declare has set the limit, not the server: responses only say when a request ended
//	held      nothing is sent until a given time, after a 429 or by Hold
//	probing   after a hold, an unknown outcome, a recalled limit, or at an opening that may be late: one
//	          request is sent first; the others wait until it has succeeded, but at an opening only for a short time
//	late      a 429 has shown that the bucket opens later than its responses say
//	hidden    a 429 has shown a limit that no header names. In the time for which that limit counts a request, only
//	          as many requests are sent as it accepted before its latest 429; now and then one more is tried
//
// Take, Next and all queries take the present time, which must not decrease from call to call. Report, Lost and Return
// take the time of the outcome: the present time or an earlier one, because outcomes may be reported late and out of
// order.
//
// The zero value is an unknown window, ready for use. A Window is not safe for concurrent use.
type Window struct {
	limit     int32 // requests per period; 0: not known
	inflight  int32
	uncounted int32  // answered requests that no response has certainly counted
	passed    int32  // recently accepted requests; a 429 of a hidden limit sets it to 0
	answered  uint32 // outcomes so far, may wrap; minus a permit's value: those since its request was sent
	countedAt uint32 // value of answered when windowCount was last the server's own count
	expired   uint32 // certainly counted requests whose charges have expired; may wrap, and is compared like answered

	origin      limitOrigin // where limit comes from
	probing     probing
	probeOut    bool // the request that is sent first is in flight
	recentWhole bool // a recent request was the first in the bucket, so its response named the whole period
	punctual    bool // the bucket is known to open at the announced reset
	opening     openingState

	openedWithin uint16 // how many milliseconds before opened the announced reset may have been
	returned     int32  // places that became free recently: at opened or shortly before

	// longest is the longest reset-after that responses have named recently: the period is probably not longer. recent
	// is the longest one since recentSince; with it, a value that does not recur for two periods is dropped from
	// longest.
	longest, recent, recentSince time.Duration

	outcome time.Duration // when the latest outcome came
	opened  time.Duration // the latest announced reset of an expired charge
	// When the latest uncounted request was answered. If the server has counted that request, the responses to requests
	// that were sent after its answer include it.
	uncountedAt time.Duration
	ledger      ledger
	evidence    evidence
	rare        *rare // nil until something needs it
}

// limitOrigin says where a limit comes from.
type limitOrigin uint8

const (
	learnt    limitOrigin = iota // learnt from responses, if there were any
	recalled                     // known only from older responses (Recall, Relearn), or from the 429 of another limit
	unlimited                    // responses carry no limits
	declared                     // set by Declare: responses do not name it
)

// probing says whether one request must succeed before other requests are sent.
type probing uint8

const (
	notProbing    probing = iota
	probesOpening         // one request is sent first, until the bucket is certainly open
	probes                // one request is sent first
	probesAlone           // one request is sent first, but only when nothing is charged
)

// mostCounted bounds limits and counts, so that sums do not overflow. A higher limit has the same effect as none.
const mostCounted = 100_000_000

// Permit is the permission to send one request, held from Take until its outcome is reported. It is a plain value.
type Permit struct {
	sent      time.Duration
	opened    time.Duration // the announced reset of the place that the request takes; 0 if other places were free
	answered  uint32
	expired   uint32
	probe     bool
	adopted   bool
	elsewhere bool // the window from which it was sent has recorded other outcomes since
	unawaited bool // no other request waits for its outcome any more
}

// Sent returns the time at which the permit was taken.
func (p Permit) Sent() time.Duration { return p.sent }

// Take takes a permit for a request that is sent now, if one may be sent. Otherwise Next says when to ask again.
func (w *Window) Take(now time.Duration) (Permit, bool) {
	if at, ok := w.Next(now); !ok || at > now {
		return Permit{}, false
	}
	p := Permit{sent: now, answered: w.answered, expired: w.expired, probe: w.probing != notProbing}
	if p.opened = w.reliesOn(now); p.opened > 0 && !p.probe && w.tests(now) {
		w.probing, p.probe = probesOpening, true
		w.writeRare().openBy = w.surelyOpen() // later openings do not postpone openBy
	}
	w.probeOut = p.probe
	w.inflight++
	w.evidence.fixed.count = w.windowCount(now) + 1
	return p, true
}

// Next returns when to call Take again: now if Take would succeed, otherwise a time before which Take fails unless an
// outcome is reported earlier. ok is false if the next permit depends on such an outcome.
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

// awaited returns the number of requests in flight whose outcome the next request may have to wait for.
func (w *Window) awaited() int32 { return w.inflight - w.readRare().unawaited }

// StopWaiting ends the wait for the outcome of a request that takes too long: the next request may be sent if only that
// outcome is missing. The slow request stays charged; report its outcome with the returned permit.
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

// charged returns how many requests the server may count, including those in flight.
func (w *Window) charged(now time.Duration) int32 {
	return max(w.ledger.total+w.inflight, w.windowCount(now))
}

// windowCount returns how many requests the server certainly counts if none of them expires before the latest announced
// reset.
func (w *Window) windowCount(now time.Duration) int32 {
	f := &w.evidence.fixed
	if w.announced(now) < f.until && (w.evidence.refuted&fixed == 0 || w.evidence.kind() == KindNext) {
		return f.count
	}
	return 0
}

// advance removes expired charges and ends the probing of an opening that is certainly over.
func (w *Window) advance(now time.Duration) {
	if w.ledger.total > 0 && w.ledger.next() <= w.announced(now) {
		n, sure, last, worst := w.ledger.expire(w.announced(now))
		w.reopen(n, last)
		w.expired += uint32(sure)
		// If no response has named the reset of a charge, the period may be longer than assumed, and requests in flight
		// may have filled up a leaky bucket.
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

// Return gives back a permit whose request was never sent. If a 429 has shown since the permit was taken that the
// bucket is full, the permit's place stays charged, because another client's request may have taken it.
func (w *Window) Return(now time.Duration, p Permit) {
	w.advance(now)
	w.land(p)
	w.uncount(p)
	if w.rare != nil {
		w.rare.returned(w, now, p)
	}
	if w.origin == learnt && w.evidence.leftOut == 0 { // else a recent response contradicted the charges
		w.dropOthers()
	}
}

// Lost records that the outcome of a request will never be known: it was sent, and the connection broke or the caller
// gave up. The request stays charged as long as the server may count it. Lost assumes that it has arrived by now.
func (w *Window) Lost(now time.Duration, p Permit) { w.Report(now, p, Response{}) }

// Adopt charges a request that turns out to belong to this bucket. It was sent at the given time with a permit from
// another source. Adopt returns the permit with which to report its outcome here.
func (w *Window) Adopt(now, sent time.Duration) Permit {
	w.advance(now)
	w.inflight++
	sent = min(max(sent, now-farthest), now+farthest) // so that differences do not overflow
	// Every charged request that has been answered may have been processed after this one.
	return Permit{sent: sent, answered: w.answered - uint32(w.ledger.total), expired: w.expired, adopted: true}
}

// AdoptFrom is Adopt for a request that was sent with a permit of another window. Requests of that window that have
// been answered since this one was sent may belong to this bucket, too, and may have been processed after this one.
func (w *Window) AdoptFrom(now time.Duration, from *Window, sent Permit) Permit {
	p := w.Adopt(now, sent.sent)
	elsewhere := from.answered - sent.answered
	p.answered = w.answered - max(w.answered-p.answered, elsewhere) // the counters may wrap
	if p.elsewhere = elsewhere > 0; p.elsewhere {
		w.uncountedAt = max(w.uncountedAt, now)
	}
	return p
}

// Report records the response to a request. A response without limits does not change the known limits.
func (w *Window) Report(now time.Duration, p Permit, r Response) { w.ReportReceived(now, now, p, r) }

// ReportReceived is Report for a response that was received a while ago, or by a process with another clock. received
// is the latest time at which that can have happened.
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
		case !p.probe || w.HoldWait(received) > 0: // a hold means that another 429 has come since this request was sent
		case r.Status > 0 && r.Status < 500:
			w.probing = notProbing
		case r.Limited: // an error that says how many requests the bucket counts
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
		if p.opened == 0 && p.sent < w.surelyOpen() { // a request sent later may have taken its place
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

// land stops counting a request as in flight.
func (w *Window) land(p Permit) {
	w.inflight = max(w.inflight-1, 0)
	if p.unawaited {
		rare := w.writeRare()
		rare.unawaited = max(rare.unawaited-1, 0)
	} else if p.probe || w.inflight == 0 {
		w.probeOut = false
	}
}

// uncount subtracts a request that the server has not counted from windowCount, unless a response has set windowCount
// to the server's own count since the request was sent.
func (w *Window) uncount(p Permit) {
	if !p.adopted && int32(p.answered-w.countedAt) >= 0 {
		w.evidence.fixed.count = max(w.evidence.fixed.count-1, 0)
	}
}

// leaveUncounted records the end of n requests that no response has certainly counted.
func (w *Window) leaveUncounted(n int32, received time.Duration) {
	w.uncounted += n
	w.uncountedAt = max(w.uncountedAt, received)
}

// chargeWithoutLimits charges a request whose response named no limits. It is certain that the server counted it only
// if the response is outdated.
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

// charge adds a charge to the ledger in the way that is safe for all kinds that are still possible.
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

// Recall gives a new window the limits that were known before the bucket was evicted. They apply until the first
// response that carries limits replaces them. They may be outdated, so one request is sent first.
func (w *Window) Recall(limit int, period time.Duration) {
	if limit > 0 && w.limit == 0 && w.origin != unlimited {
		w.limit, w.longest = int32(min(limit, mostCounted)), min(max(period, 0), LongestTrust)
		w.origin, w.probing = recalled, probes
	}
}

// Relearn lets the next response that carries limits replace the known limits. One request is sent first.
func (w *Window) Relearn() {
	if w.limit > 0 {
		w.origin, w.probing = recalled, max(w.probing, probes)
	}
}

// Unlimit records that this bucket's responses carry no limits, so that no request has to wait. The first response that
// carries limits ends that.
func (w *Window) Unlimit() {
	if w.limit == 0 || w.origin == recalled {
		w.limit, w.origin = 0, unlimited
		w.ledger.clear()
	}
}
