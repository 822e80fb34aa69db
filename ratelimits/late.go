package ratelimits

import (
	"math"
	"time"
)

// The reset that a response names is when a bucket opens at the earliest: some of Discord's open up to 0.4 s later than
// they say (measured in autumn 2026). Only a 429 shows it. So a Window measures from such a 429 how much later requests
// have to leave, and keeps the largest of these measurements. After some periods it tries the announced reset again,
// with one request alone; each try in vain doubles the number of periods until the next one.

const (
	// patientPeriods is how many periods pass between a 429 that shows lateness and the first try of the announced reset.
	// A bucket that stays late draws one such 429 in its first 64 periods, and another one in the next 128.
	patientPeriods = 64
	// punctualTries in a row that are accepted end lateness. Fewer would often end one of random length.
	punctualTries = 3
	// A lateness that has been exceeded is not always the same, and is set higher than measured by such a part.
	variation = 16
	// doubtfulPeriods is for how many periods the first lateness of a bucket is doubted.
	doubtfulPeriods = 4
	// plausible is how late a bucket opens at most that is not known to be late. Real ones were 0.4 s late.
	plausible = time.Second
)

// lateness is how much later than announced a bucket opens. The zero value is that of a bucket that has not shown any.
type lateness struct {
	by       time.Duration // requests leave so long after the announced reset
	tryAt    time.Duration // from then on requests try the announced reset; means nothing if by is 0
	shownAt  time.Duration // when the latest 429 came that showed lateness
	sureAt   time.Duration // until then it may have been something else
	vain     uint8         // tries that were refused since by has grown
	punctual uint8         // tries in a row that were accepted
}

// announced returns the latest reset that has passed at a time: charges with an announced reset up to it have come back.
func (l *lateness) announced(now time.Duration) time.Duration {
	if now >= l.tryAt {
		return now
	}
	return now - l.by
}

// opens returns when the bucket opens whose announced reset is at. It is the inverse of announced.
func (l *lateness) opens(at time.Duration) time.Duration { return min(at+l.by, max(at, l.tryAt)) }

// wait prolongs the time until the announced reset is tried.
func (l *lateness) wait(now, period time.Duration) {
	l.tryAt, l.punctual = now+times(patientPeriods<<l.vain, period), 0
}

// show records that a 429 showed a lateness. A try is a request that left before the bucket was expected to open.
func (l *lateness) show(now, by, period time.Duration, try bool) {
	switch {
	case by > l.by:
		if l.by > 0 {
			by += by / variation
		} else {
			l.sureAt = now + times(doubtfulPeriods, period)
		}
		l.by, l.vain = by, 0
	case try:
		l.vain = min(l.vain+1, maxVain)
	}
	l.wait(now, period+l.by)
	l.shownAt = now
}

// keep records that a try was accepted, and reports whether so many were in a row that the lateness is over.
func (l *lateness) keep() (over bool) {
	l.punctual++
	if over = l.punctual >= punctualTries; over {
		*l = lateness{}
	}
	return over
}

// doubtLateness forgets lateness that was shown shortly before a response which no kind can have given: the bucket had
// begun to count in another way, and that looked like lateness.
func (w *Window) doubtLateness(now time.Duration) {
	if late := &w.rare.late; late.by > 0 && now < late.sureAt {
		*late = lateness{}
	}
}

// Late returns how much later than responses announce the bucket opens. known is false as long as no opening has been
// tried yet; then the first request after one goes alone.
func (w *Window) Late() (by time.Duration, known bool) {
	by = w.readRare().late.by
	return by, by > 0 || w.punctual
}

// ExpectLate tells a new window how late other buckets of its kind open, as Late has returned it for one of them.
func (w *Window) ExpectLate(now, by time.Duration) {
	if w.punctual = by <= 0; !w.punctual {
		late := &w.writeRare().late
		late.by = min(by, LongestTrust)
		late.wait(now, max(w.longest, time.Second))
	}
}

// opening returns when a bucket opens that has announced its reset for at.
func (w *Window) opening(at time.Duration) time.Duration {
	if w.rare == nil {
		return at
	}
	return w.rare.late.opens(at)
}

// announced returns the latest announced reset after which the bucket has opened by now.
func (w *Window) announced(now time.Duration) time.Duration {
	if w.rare == nil {
		return now
	}
	return w.rare.late.announced(now)
}

// reopen records that n charges have come back, the last of which had announced its reset for opened.
func (w *Window) reopen(n int32, opened interval) {
	if opened.high > w.opened+plausible { // what came back before has had its time
		w.returned = 0
	}
	if opened.high > w.opened {
		w.opened = opened.high
		w.openedWithin = uint16(min((opened.high-opened.low)/time.Millisecond+1, math.MaxUint16))
	}
	w.returned = min(w.returned+n, w.limit)
}

// reliesOn returns the announced reset of the place that the next request takes, if that has just come back; else 0.
func (w *Window) reliesOn(now time.Duration) time.Duration {
	late := w.readRare().late.by
	if w.origin != learnt || w.returned == 0 || w.returned+w.ledger.total+w.inflight < w.limit || now >= w.opened+late+w.longest {
		return 0
	}
	return w.opened
}

// tests reports that the next request, which relies on an opening, goes alone: none has tried that opening yet, and the
// bucket may open later than expected.
func (w *Window) tests(now time.Duration) bool {
	by, known := w.Late()
	late := &w.readRare().late
	switch {
	case w.accepted >= w.opened || now > w.opened+by+plausible:
		return false
	case by > 0 && now < late.tryAt:
		return w.returned > 1
	}
	return !known || by > 0
}

// accept records that a request of this bucket was let through: it shows when the bucket was open.
func (w *Window) accept(p Permit) {
	w.accepted = max(w.accepted, p.sent)
	switch by, known := w.Late(); {
	case p.opened == 0:
	case !known && p.sent <= p.opened+plausible:
		w.punctual = true
	case by > 0 && p.sent < p.opened+by:
		w.punctual = w.writeRare().late.keep()
	}
}

// refusedLate returns how late the bucket opens by a 429, and whether lateness is the only explanation: the request left
// after the announced reset, nothing that left after it was accepted before, and another client's request would have
// taken the place for longer. What was in flight together with a request that showed lateness shows the same.
func (w *Window) refusedLate(now time.Duration, p Permit, r *Response) (by time.Duration, ok bool) {
	wait := r.AskedWait()
	if r.Limited && r.ResetAfter > 0 {
		wait = min(wait, r.ResetAfter+tick) // Retry-After may be rounded up to a second
	}
	by = p.sent - p.opened + wait + (now-p.sent)/latenessMargin
	rare := w.readRare()
	switch {
	case w.origin != learnt || p.opened == 0 || !r.HasRetryAfter && !r.Limited || r.Code != 0:
	case r.Limited && int32(min(r.Limit, mostCounted)) != w.limit:
	case r.Limited && r.ResetAfter >= w.longest-tick: // the bucket has counted the request: a limit beyond it refused
	case rare.late.shownAt > 0 && p.sent <= rare.late.shownAt:
		return by, by < 2*w.longest
	case rare.late.by == 0 && w.accepted >= p.opened, w.evidence.leftOut > 0 && now < rare.leftOutUntil:
	case w.evidence.others || w.evidence.kind() == KindLeaky:
		return by, now+wait < p.opened-time.Duration(w.openedWithin)*time.Millisecond+w.shortestStay()
	default:
		return by, by < w.longest
	}
	return 0, false
}

// latenessMargin is the part of a round trip by which a measured lateness is exceeded, as the next request may travel
// faster.
const latenessMargin = 4

// shortestStay is for how long another client's request keeps its place at least, for all that is known.
func (w *Window) shortestStay() time.Duration {
	if w.evidence.refuted&leaky == 0 {
		return w.longest / time.Duration(w.limit)
	}
	return w.longest
}

// refuseLate records a 429 that shows how late the bucket opens, and nothing else.
func (w *Window) refuseLate(now time.Duration, p Permit, by time.Duration, r *Response) {
	late := &w.writeRare().late
	try := p.sent < p.opened+late.by && p.sent > late.shownAt
	w.punctual, w.evidence.others = false, false
	late.show(now, by, w.longest, try)
	if f := &w.evidence.fixed; f.until <= p.sent {
		f.count = 0 // of the window that has closed late
	}
	w.HoldFor(now, max(r.AskedWait(), w.again(now)), ClassUser)
}

// mostLateSecond is how late a second of the global limit opens at most: a longer wait means that other clients use it.
const mostLateSecond = globalPeriod / 2

// Late returns how much later the server's seconds open than they should, 0 if that is not known.
func (g *Global) Late() time.Duration { return g.late.by }

// ExpectLate tells a new Global how late the server's seconds open.
func (g *Global) ExpectLate(now, by time.Duration) {
	if by > 0 {
		g.late.by = min(by, mostLateSecond)
		g.late.wait(now, globalPeriod)
	}
}

// Tries reports that the next request tries whether the seconds are punctual again. It should go alone.
func (g *Global) Tries(now time.Duration) bool {
	return g.late.by > 0 && now >= g.late.tryAt && g.reliesOn(now) > 0
}

// reopen records that a slot has come back that would have done so at opened if the seconds were punctual.
func (g *Global) reopen(opened time.Duration) {
	if opened > g.opened+mostLateSecond {
		g.returned = 0
	}
	g.opened, g.returned = opened, min(g.returned+1, g.limit)
}

// reliesOn returns when the slot came back that the next request takes, were the seconds punctual; 0 if that is long ago.
func (g *Global) reliesOn(now time.Duration) time.Duration {
	g.expire(now)
	if g.returned == 0 || g.returned+g.used() < g.limit || now >= g.opened+g.late.by+mostLateSecond {
		return 0
	}
	return g.opened
}

// Accepted records that a request was let through. Call it before Report.
func (g *Global) Accepted(slot Slot) {
	if s := g.held(slot); s != nil && s.opened > 0 && s.at < s.opened+g.late.by {
		g.late.keep()
	}
}

// Refused records a 429 of the global limit that asks to wait. If the request took a slot that had just come back, and
// the wait is short, the server's seconds open late. Call it before Report.
func (g *Global) Refused(now time.Duration, slot Slot, wait time.Duration) {
	s := g.held(slot)
	if s == nil || s.opened == 0 {
		return
	}
	by := s.at - s.opened + wait + (now-s.at)/latenessMargin
	if by < mostLateSecond {
		g.late.show(now, by, globalPeriod, s.at < s.opened+g.late.by && s.at > g.late.shownAt)
	}
}
