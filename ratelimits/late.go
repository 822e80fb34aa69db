package ratelimits

import (
	"math"
	"time"
)

// The reset that a response names is the earliest time at which a bucket opens. Some of Discord's buckets open up to
// 0.4 s later (measured in autumn 2026). Only a 429 shows how late a bucket is. From such a 429 a Window computes how
// much later than announced requests have to be sent. The Window keeps the largest result. After some periods a single
// request tries the announced reset again. Each refused try doubles the number of periods until the next try.

const (
	// patientPeriods is how many periods pass between a 429 that shows lateness and the first try of the announced reset.
	// So a bucket that stays late causes one 429 in its first 64 periods, and another one in the next 128.
	patientPeriods = 64
	// punctualTries is how many tries in a row must be accepted before the bucket counts as punctual. With fewer tries, a
	// bucket whose lateness varies would often count as punctual too early.
	punctualTries = 3
	// variation is used if a bucket opens even later than the measured lateness predicts. In that case the lateness
	// varies, so 1/variation of the new measurement is added as a reserve.
	variation = 16
	// enoughTrips is how many round trips must be measured before the shortest of them is used.
	enoughTrips = 16
	// doubtfulPeriods is how many periods long the first lateness of a bucket counts as a possible error: see
	// doubtLateness.
	doubtfulPeriods = 4
	// plausible is the largest lateness that is expected of a bucket which has not shown any. Up to 0.4 s was measured.
	plausible = time.Second / 2
)

// openingState says whether a request has tried the latest opening.
type openingState uint8

const (
	untried     openingState = iota // one place became free, and no request has been accepted since
	untriedMany                     // several places became free at once, and no request has been accepted since
	tried                           // a request that was sent after the opening was accepted
)

// lateness says how much later than announced a bucket opens. The zero value means that the bucket has not shown any
// lateness.
type lateness struct {
	by       time.Duration // how long after the announced reset requests are sent; 0: no lateness is known
	shown    measurement   // the largest measurement
	trip     time.Duration // shortest round trip since lateness was shown
	trips    uint8         // number of round trips since then, at most enoughTrips
	tryAt    time.Duration // time from which a request may try the announced reset again; meaningless if by is 0
	shownAt  time.Duration // when the latest 429 came that showed lateness
	sureAt   time.Duration // until then, the lateness counts as a possible error
	vain     uint8         // number of refused tries since by last grew, at most maxVain
	punctual uint8         // number of accepted tries in a row
}

// measurement has the bounds of the lateness that a 429 has shown. The lower bound is the field least, and the upper
// bound is least + trips. trips is the sum of two round trips: that of the refused request, and that of the request
// whose response announced the reset. The server may have processed each of these two requests at any moment of its
// round trip.
type measurement struct{ least, trips time.Duration }

// expect returns how long after the announced reset requests must be sent in order to arrive when the bucket is
// certainly open. Because requests always take some time to arrive, three quarters of the shortest round trip are
// subtracted for each of the two round trips.
func (l *lateness) expect(m measurement) time.Duration {
	if l.trips >= enoughTrips {
		m.trips = max(m.trips-2*(l.trip/4*3), 0)
	}
	return m.least + m.trips
}

// travel records a round trip.
func (l *lateness) travel(trip time.Duration) {
	if l.trips == 0 || trip < l.trip {
		l.trip = trip
	}
	l.trips = min(l.trips+1, enoughTrips)
	l.by = l.expect(l.shown)
}

// announced returns the latest announced reset whose charges have expired by now.
func (l *lateness) announced(now time.Duration) time.Duration {
	if now >= l.tryAt {
		return now
	}
	return now - l.by
}

// opens returns the time at which charges with the announced reset at expire. It is the inverse of the method
// announced.
func (l *lateness) opens(at time.Duration) time.Duration { return min(at+l.by, max(at, l.tryAt)) }

// wait postpones the next try of the announced reset, and restarts the count of accepted tries.
func (l *lateness) wait(now, period time.Duration) {
	l.tryAt, l.punctual = now+times(patientPeriods<<l.vain, period), 0
}

// show records a 429 that showed lateness. m is the measurement, and try says whether the refused request was a try of
// the announced reset.
func (l *lateness) show(now, period time.Duration, m measurement, try bool) {
	switch {
	case l.expect(m) > l.by:
		if l.by > 0 {
			m.least += m.least / variation
		} else {
			l.sureAt = now + times(doubtfulPeriods, period)
		}
		l.shown, l.by, l.vain = m, l.expect(m), 0
		l.wait(now, period+l.by)
	case try:
		l.vain = min(l.vain+1, maxVain)
		l.wait(now, period+l.by)
	}
	l.shownAt = now
}

// trust limits the times of a lateness that another process has written.
func (l *lateness) trust() {
	for _, d := range []*time.Duration{&l.by, &l.shown.least, &l.shown.trips, &l.trip} {
		*d = min(max(*d, 0), LongestTrust)
	}
}

// tried reports whether a request was a try: the request was sent after tryAt, and before the bucket was expected to
// open.
func (l *lateness) tried(sent, opened time.Duration) bool {
	return sent >= l.tryAt && sent < opened+l.by
}

// keep records an accepted try, and reports whether the bucket counts as punctual now.
func (l *lateness) keep() (over bool) {
	l.punctual++
	if over = l.punctual >= punctualTries; over {
		*l = lateness{}
	}
	return over
}

// If the lateness is new, doubtLateness makes the next try early. It is called after a response that no kind can have
// given. Perhaps the bucket now works in another way, and that change looked like lateness.
func (w *Window) doubtLateness(now time.Duration) {
	if late := &w.rare.late; late.by > 0 && now < late.sureAt {
		late.tryAt = min(late.tryAt, now+w.longest)
	}
}

// Late returns how much later than announced the bucket opens. known is false until a request has tried an opening. As
// long as it is false, the first request after an opening is sent alone.
func (w *Window) Late() (by time.Duration, known bool) {
	by = w.readRare().late.by
	return by, by > 0 || w.punctual
}

// ExpectLate tells a new window how late its bucket probably opens. by is the result of Late for another bucket with
// the same bucket hash.
func (w *Window) ExpectLate(now, by time.Duration) {
	if w.punctual = by <= 0; w.punctual {
		if w.rare != nil {
			w.rare.late = lateness{}
		}
	} else {
		late := &w.writeRare().late
		late.by = min(by, LongestTrust)
		late.shown.least = late.by
		late.wait(now, max(w.longest, time.Second))
	}
}

// opens returns when charges with the announced reset at expire.
func (w *Window) opens(at time.Duration) time.Duration {
	if w.rare == nil {
		return at
	}
	return w.rare.late.opens(at)
}

// announced returns the latest announced reset whose charges have expired by now.
func (w *Window) announced(now time.Duration) time.Duration {
	if w.rare == nil {
		return now
	}
	return w.rare.late.announced(now)
}

// reopen records that n charged requests have expired. opened is the announced reset of the last one.
func (w *Window) reopen(n int32, opened interval) {
	if opened.high > w.opened+plausible { // the places that became free earlier are certainly open
		w.returned = 0
	}
	if opened.high > w.opened {
		switch closes := w.evidence.fixed.closes; {
		case w.evidence.windows() && closes.high <= opened.high: // other responses have named the end more precisely
			opened.low = max(opened.low, closes.low)
		case w.returned > 0 && w.opening != tried && w.evidence.kind() == KindLog: // perhaps an earlier place is late
			opened.low = min(opened.low, w.openedFrom())
		}
		if w.opened, w.opening = opened.high, untried; n > 1 {
			w.opening = untriedMany
		}
		w.openedWithin = uint16(min((opened.high-opened.low)/time.Millisecond+1, math.MaxUint16))
	}
	w.returned = min(w.returned+n, w.limit)
}

// openedFrom returns the earliest instant at which, as announced, the latest opening can have been.
func (w *Window) openedFrom() time.Duration {
	return w.opened - time.Duration(w.openedWithin)*time.Millisecond
}

// reliesOn returns the latest announced reset that has passed, if the next request needs a place that became free
// recently. Otherwise it returns 0.
func (w *Window) reliesOn(now time.Duration) time.Duration {
	late := w.readRare().late.by
	if w.origin != learnt || w.returned+w.ledger.total+w.inflight < w.limit || now >= w.opened+late+w.longest {
		return 0
	}
	return w.opened
}

// tests reports whether the next request must be sent alone to try the opening on which it relies. This is so if the
// bucket may open later than expected, and no request has tried this opening yet.
func (w *Window) tests(now time.Duration) bool {
	by, known := w.Late()
	late := &w.readRare().late
	switch {
	case w.opening == tried || now >= w.surelyOpen():
		return false
	case by > 0 && now < late.tryAt:
		return w.opening == untriedMany
	}
	return !known || by > 0
}

// surelyOpen returns the time at which the bucket is certainly open, even if it opens late. If a request tries the
// opening, other requests wait only until that time, because the request may be a large upload.
func (w *Window) surelyOpen() time.Duration { return w.opened + w.readRare().late.by + plausible }

// accept records that the bucket accepted a request, which shows that it was open.
func (w *Window) accept(now time.Duration, p Permit) {
	if p.sent >= w.opened {
		if w.opening = tried; w.probing == probesOpening {
			w.probing, w.probeOut = notProbing, false
		}
	}
	if w.rare != nil && w.rare.late.by > 0 {
		w.rare.late.travel(now - p.sent)
	}
	switch by, known := w.Late(); {
	case p.opened == 0:
	case !known && p.sent <= p.opened+plausible:
		w.punctual = true
	case by > 0 && w.rare.late.tried(p.sent, p.opened):
		w.punctual = w.rare.late.keep()
	}
}

// refusedLate derives from a 429 how late the bucket opens. ok reports whether lateness is the only explanation of the
// 429. This is so if two conditions hold: the request relied on a place that was announced to be free, and a place
// taken by another client would become free later than the 429 says. Requests that were in flight when such a 429 came
// may also get 429s. These 429s show the same lateness.
func (w *Window) refusedLate(now time.Duration, p Permit, r *Response) (m measurement, ok bool) {
	wait := r.AskedWait()
	if r.Limited && r.ResetAfter > 0 {
		wait = min(wait, r.ResetAfter+tick) // Retry-After may be rounded up to a second
	}
	m.least = p.sent - p.opened + wait
	m.trips = min(now-p.sent+time.Duration(w.openedWithin)*time.Millisecond, w.longest/2)
	rare := w.readRare()
	switch {
	case w.origin != learnt || p.opened == 0 || m.least <= 0 || !r.HasRetryAfter && !r.Limited || r.Code != 0:
	case r.Limited && int32(min(r.Limit, mostCounted)) != w.limit: // another limit refused the request
	case r.Limited && r.Remaining > 0: // the bucket was open
	case r.Limited && w.evidence.windows() && wait+tick < r.ResetAfter:
		// A full window asks to wait until it closes.
	case r.Limited && r.ResetAfter >= w.longest-tick && (m.least >= w.longest/2 || !w.movedReset(p, r)):
		// The bucket counted this request, and then another limit refused the request.
	case rare.late.shownAt > 0 && p.sent <= rare.late.shownAt && m.least <= rare.late.by+plausible:
		m.trips = min(m.trips, max(rare.late.by-m.least, 0)) // the same lateness, except if this 429 certainly shows more
		return m, true
	case w.evidence.leftOut > 0 && now < rare.leftOutUntil:
	case w.evidence.others || w.evidence.kind() == KindLeaky:
		return m, now+wait < p.opened-time.Duration(w.openedWithin)*time.Millisecond+w.shortestStay()
	default: // if the wait were longer, another client's request might have come within a round trip after the opening
		return m, m.least < w.longest && (m.least < plausible || m.least+m.trips < w.longest-tick)
	}
	return m, false
}

// movedReset reports whether other requests of this client may be the cause of the reset that a 429 names.
func (w *Window) movedReset(p Permit, r *Response) bool {
	return w.inflight > 0 || w.ledger.last() >= p.sent+r.ResetAfter-tick
}

// shortestStay returns the shortest time for which a request of another client keeps its place.
func (w *Window) shortestStay() time.Duration {
	if w.evidence.refuted&leaky == 0 {
		return w.longest / time.Duration(w.limit)
	}
	return w.longest
}

// refuseLate records a 429 that shows only how late the bucket opens.
func (w *Window) refuseLate(now time.Duration, p Permit, m measurement, r *Response) {
	late := &w.writeRare().late
	try := late.tried(p.sent, p.opened)
	w.punctual = false
	late.show(now, w.longest, m, try)
	if f := &w.evidence.fixed; f.until <= p.sent {
		f.count = 0 // this count belongs to the previous window, which has closed late
	}
	w.HoldFor(now, max(r.AskedWait(), w.again(now)), ClassUser)
}

// mostLateSecond is the largest lateness of a second of the global limit that is believed. A longer wait means that
// other clients use the limit.
const mostLateSecond = globalPeriod / 2

// Late returns how much later than expected the server's seconds (the windows of the global limit) begin. It is 0 if no
// lateness is known.
func (g *Global) Late() time.Duration { return g.late.by }

// ExpectLate tells a new Global how late the server's seconds probably begin.
func (g *Global) ExpectLate(now, by time.Duration) {
	if by > 0 {
		g.late.by = min(by, mostLateSecond)
		g.late.shown.least = g.late.by
		g.late.wait(now, globalPeriod)
	}
}

// Tries reports whether the next request must try whether the server's seconds begin on time again. Send that request
// alone.
func (g *Global) Tries(now time.Duration) bool {
	return g.late.by > 0 && now >= g.late.tryAt && g.reliesOn(now) > 0
}

// reopen records that a slot became free. opened is when the slot would have become free if the server's seconds began
// on time.
func (g *Global) reopen(opened time.Duration) {
	if opened > g.opened+mostLateSecond {
		g.returned = 0
	}
	g.opened, g.returned = opened, min(g.returned+1, g.limit)
}

// reliesOn returns the time at which the slot for the next request became free, if the server's seconds begin on time.
// It returns 0 if the slot has been free for so long that the lateness of a second does not matter.
func (g *Global) reliesOn(now time.Duration) time.Duration {
	g.expire(now)
	if g.returned == 0 || g.returned+g.used() < g.limit || now >= g.opened+g.late.by+mostLateSecond {
		return 0
	}
	return g.opened
}

// Accepted records that the global limit accepted a request. Call Accepted before Report.
func (g *Global) Accepted(slot Slot) {
	if s := g.held(slot); s != nil && s.opened > 0 && g.late.tried(s.at, s.opened) {
		g.late.keep()
	}
}

// Refused records a 429 of the global limit. wait is the time that the 429 asks to wait. If this wait is short, and the
// request took a slot that had just become free, the server's seconds begin late. Call Refused before Report.
func (g *Global) Refused(now time.Duration, slot Slot, wait time.Duration) {
	s := g.held(slot)
	if s == nil || s.opened == 0 {
		return
	}
	trip := now - s.at
	m := measurement{least: s.at - s.opened + wait}
	m.trips = min(max(2*trip-g.credit(), 0), max(mostLateSecond-m.least, 0))
	if m.least < mostLateSecond {
		g.late.show(now, globalPeriod, m, g.late.tried(s.at, s.opened))
	}
}
