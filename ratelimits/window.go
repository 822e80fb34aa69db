package ratelimits

import "time"

// LongestTrust is the longest wait that is accepted from a response; a longer one is reduced to it. Discord has not
// been observed to ask for more than a day, and a wrong value must not stop a bucket for ever.
const LongestTrust = 24 * time.Hour

// Window computes for one bucket how many requests may be sent now, or when the next one may.
//
// A request takes a [Permit]. Its outcome comes as Report (a response, whatever it says), Lost (sent, but no response)
// or Return (never sent). It takes one of limit places while it is in flight, and from then on until the reset in its
// own response has certainly passed: that is what the ledger keeps. Requests may be sent as long as there are free
// places, however many are in flight.
//
// Every Kind that no response has ruled out counts as possible, and the ledger is safe for all of them. Once the kind
// is known, places become free earlier. If every kind has been ruled out, the bucket has changed, and all kinds are
// possible again.
//
// On top of that the window may be
//
//	unknown   no response has named a limit: one request at a time is sent, to learn it
//	unlimited responses carry no limit (Unlimit): everything is sent, until a response carries a limit
//	declared  the limit is not the server's (Declare): responses only say when a request was over
//	held      nothing is sent until a time, after a 429 or by Hold
//	probing   after a hold, an outcome that nobody knows, a recalled limit, or at an opening that may be late: one
//	          request is sent, the others when it has succeeded
//	late      a 429 has shown that the bucket opens later than its responses say
//	hidden    a 429 has shown another limit than that of the headers: as many are sent as that let through last time
//
// Take, Next and all that asks get the present time, which must not decrease from call to call. Report, Lost and Return
// get the time at which the outcome came. That is the present one or an earlier one: outcomes may be told late, and in
// another order than they came.
//
// The zero value is an unknown window, ready for use. A Window is not safe for concurrent use.
type Window struct {
	limit     int32 // requests per period; 0: not known
	inflight  int32
	uncounted int32  // answered, and not certainly in the count of a response
	passed    int32  // let through of late, since the last 429 of a hidden limit
	answered  uint32 // outcomes so far, wrapping: orders sends against outcomes
	countedAt uint32 // answered, when windowCount was last the count of the server itself
	expired   uint32 // certain charges that have come back, wrapping, for the same reason

	origin      limitOrigin // of the limit
	probing     probing
	probeOut    bool // the one request that goes first is in flight
	recentWhole bool // a request of late was the first that was counted: its response has named the whole period
	punctual    bool // the bucket has opened when it said, as far as one request has tried it
	opening     openingState

	openedWithin uint16 // the announced reset was so many milliseconds before opened at the earliest
	returned     int32  // places that have come back of late: at or shortly before opened

	// The longest reset-after of late: the period is probably not longer. What is not seen again for two periods does not count any more.
	longest, recent, recentSince time.Duration

	outcome time.Duration // when the latest outcome came
	opened  time.Duration // the latest announced reset of a charge that has come back
	// When the latest of uncounted came: what a response to a later request has counted includes it, if anything does.
	uncountedAt time.Duration
	ledger      ledger
	evidence    evidence
	rare        *rare // only after something that needs it
}

// limitOrigin is where a limit is from.
type limitOrigin uint8

const (
	learnt    limitOrigin = iota // from responses, if there were any
	recalled                     // from responses before the window was forgotten
	unlimited                    // responses carry none
	declared                     // from somebody: responses say nothing of it
)

// probing is whether one request goes first, and the others when it has succeeded.
type probing uint8

const (
	notProbing    probing = iota
	probesOpening         // one goes first, until the bucket is open for certain
	probes                // one goes first
	probesAlone           // when nothing else is charged
)

// mostCounted is the highest limit that is counted, so that sums leave room. A higher one is as good as none.
const mostCounted = 100_000_000

// Permit is the permission to send one request, held from Take until its outcome is reported. It is a plain value.
type Permit struct {
	sent      time.Duration
	opened    time.Duration // the announced reset of the place that it takes, 0 if there are others
	answered  uint32
	expired   uint32
	probe     bool
	adopted   bool
	elsewhere bool // others have been answered elsewhere since it was sent
	unawaited bool // nothing waits for its outcome any more
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
		w.writeRare().openBy = w.surelyOpen() // later openings do not prolong it
	}
	w.probeOut = p.probe
	w.inflight++
	w.evidence.fixed.count = w.windowCount(now) + 1
	return p, true
}

// Next returns a time before which Take certainly fails, and at which to ask again; now if Take succeeds already. ok is
// false if the next permit depends on the outcome of a request in flight.
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

// awaited is how many requests are in flight whose outcome the next one may have to wait for.
func (w *Window) awaited() int32 { return w.inflight - w.readRare().unawaited }

// StopWaiting lets the next request go without the outcome of one in flight, which takes too long, where only that is
// missing. The request stays charged. It returns the permit with which to report its outcome.
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

// charged is how many requests the server may count, those in flight included.
func (w *Window) charged(now time.Duration) int32 {
	return max(w.ledger.total+w.inflight, w.windowCount(now))
}

// windowCount is how many the server certainly counts if nothing comes back before the reset that was spoken of.
func (w *Window) windowCount(now time.Duration) int32 {
	if f := &w.evidence.fixed; w.announced(now) < f.until && (w.evidence.refuted&fixed == 0 || w.evidence.kind() == KindNext) {
		return f.count
	}
	return 0
}

// advance takes off what has come back.
func (w *Window) advance(now time.Duration) {
	if w.ledger.total > 0 && w.ledger.next() <= w.announced(now) {
		n, sure, last, worst := w.ledger.expire(w.announced(now))
		w.reopen(n, last)
		w.expired += uint32(sure)
		if worst > withLimits { // the period may be longer than it seemed, and a leaky bucket fuller by all that is in flight
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

// Return gives back a permit whose request was never sent. If the bucket was said to be full since it was taken, something else fills it.
func (w *Window) Return(now time.Duration, p Permit) {
	w.advance(now)
	w.land(p)
	w.uncount(p)
	if w.rare != nil {
		w.rare.returned(w, now, p)
	}
	if w.origin == learnt && w.evidence.leftOut == 0 { // else what is not sure is not only what responses may have counted
		w.dropOthers()
	}
}

// Lost records that the outcome of a request will never be known: it was sent, and the connection broke or the caller
// gave up. It stays charged as long as the server may count it, assuming that it has reached the server by now.
func (w *Window) Lost(now time.Duration, p Permit) { w.Report(now, p, Response{}) }

// Adopt charges a request that was sent at the given time with a permit of another source, and returns the permit with
// which to report its outcome here. It is for a request that turns out to belong to this bucket.
func (w *Window) Adopt(now, sent time.Duration) Permit {
	w.advance(now)
	w.inflight++
	sent = min(max(sent, now-farthest), now+farthest) // so that differences have room
	// Whatever is charged and answered may have been processed after it.
	return Permit{sent: sent, answered: w.answered - uint32(w.ledger.total), expired: w.expired, adopted: true}
}

// AdoptFrom is Adopt for a request that was sent with a permit of another window. It takes into account that requests
// answered there since may belong to this bucket as well, and have been processed after this one.
func (w *Window) AdoptFrom(now time.Duration, from *Window, sent Permit) Permit {
	p := w.Adopt(now, sent.sent)
	elsewhere := from.answered - sent.answered
	p.answered = w.answered - max(w.answered-p.answered, elsewhere) // which may wrap
	if p.elsewhere = elsewhere > 0; p.elsewhere {
		w.uncountedAt = max(w.uncountedAt, now)
	}
	return p
}

// Report records the response to a request. A response without limits does not change those that are known.
func (w *Window) Report(now time.Duration, p Permit, r Response) { w.ReportReceived(now, now, p, r) }

// ReportReceived is Report for a response that was received at another time than now, the latest that is possible: by another clock, or a
// while ago.
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
	default: // it was not counted
		w.uncount(p)
	}
	switch r.Class {
	case ClassOK:
		switch {
		case !p.probe || w.HoldWait(received) > 0: // then another refusal has come since it was sent
		case r.Status > 0 && r.Status < 500:
			w.probing = notProbing
		case r.Limited: // an error, but it tells how full the bucket is
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
		if p.opened == 0 && p.sent < w.surelyOpen() { // perhaps a later request took its place, as others are late
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

// land takes a request out of those in flight.
func (w *Window) land(p Permit) {
	w.inflight = max(w.inflight-1, 0)
	if p.unawaited {
		rare := w.writeRare()
		rare.unawaited = max(rare.unawaited-1, 0)
	} else if p.probe || w.inflight == 0 {
		w.probeOut = false
	}
}

// uncount takes off what the sending of a request has added to windowCount, if no count of the server's has come up to that since.
func (w *Window) uncount(p Permit) {
	if !p.adopted && int32(p.answered-w.countedAt) >= 0 {
		w.evidence.fixed.count = max(w.evidence.fixed.count-1, 0)
	}
}

// leaveUncounted takes in that so many requests are over, which no response has certainly counted.
func (w *Window) leaveUncounted(n int32, received time.Duration) {
	w.uncounted += n
	w.uncountedAt = max(w.uncountedAt, received)
}

// chargeWithoutLimits charges a request that was answered without limits: the server may have counted it, or not. It has
// certainly counted one whose answer is outdated.
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
	case w.evidence.refuted&^next == log|leaky && now < closes.low: // it is in this window, if it is one
		c.reset, c.answer = closes, withLimits
	case w.evidence.kind() == KindLeaky:
		c.reset.high = w.evidence.leaky.fills(now, w.ledger.last(), w.inflight+1, w.limit) + tick
	}
	w.charge(&c)
}

// charge enters a charge in the ledger.
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

// Recall gives a new window the limits that were known before the bucket was evicted. They may be outdated: one request
// is sent first, and the first response that carries limits replaces them. Until then they apply.
func (w *Window) Recall(limit int, period time.Duration) {
	if limit > 0 && w.limit == 0 && w.origin != unlimited {
		w.limit, w.longest = int32(min(limit, mostCounted)), min(max(period, 0), LongestTrust)
		w.origin, w.probing = recalled, probes
	}
}

// Relearn lets the next response that carries limits replace those that are known. One request is sent first.
func (w *Window) Relearn() {
	if w.limit > 0 {
		w.origin, w.probing = recalled, max(w.probing, probes)
	}
}

// Unlimit records that this bucket's responses carry no limits, so that nothing has to wait. The first response that
// carries limits ends it.
func (w *Window) Unlimit() {
	if w.limit == 0 || w.origin == recalled {
		w.limit, w.origin = 0, unlimited
		w.ledger.clear()
	}
}
