package ratelimits

import (
	"math"
	"time"
)

// visitor is called for every field of a window or a permit, always in the same order. It writes the field, reads it,
// or converts it to another clock. Some instants are not intervals, such as the time of a response. They are visited
// with low or with high, whichever makes every comparison with them safe.
type visitor interface {
	low(t *time.Duration, known bool)  // an instant before which something has not happened; known: it is set
	high(t *time.Duration, known bool) // an instant by which something has happened; known: it is set
	trip(ms *uint16)                   // ms from an earlier instant, which moves as by low, to one visited by high
	span(d *time.Duration)
	number(n, most int64) int64 // a number from 0 to most
	length(n int) int           // the length of a list that follows
	require(holds bool, otherwise string)
}

// number calls a visitor for a number of any type.
func number[N ~uint8 | ~int32 | ~uint32](v visitor, n *N, most int64) {
	*n = N(v.number(int64(*n), most))
}

func flags(v visitor, all ...*bool) {
	for _, f := range all {
		x := int64(0)
		if *f {
			x = 1
		}
		*f = v.number(x, 1) == 1
	}
}

func (w *Window) visit(v visitor) {
	for _, n := range []*int32{&w.limit, &w.inflight, &w.uncounted, &w.passed, &w.returned} {
		number(v, n, mostCounted)
	}
	number(v, &w.answered, math.MaxUint32)
	since := w.answered - w.countedAt
	number(v, &since, math.MaxUint32)
	w.countedAt = w.answered - since
	number(v, &w.expired, math.MaxUint32)
	number(v, &w.origin, int64(declared))
	number(v, &w.probing, int64(probesAlone))
	flags(v, &w.probeOut, &w.recentWhole, &w.punctual)
	number(v, &w.opening, int64(tried))
	v.span(&w.longest)
	v.span(&w.recent)
	v.high(&w.recentSince, w.recentSince != 0)
	v.high(&w.outcome, w.outcome != 0 || w.answered > 0)
	if v.high(&w.opened, w.opened != 0); w.opened != 0 {
		v.trip(&w.openedWithin)
	}
	v.high(&w.uncountedAt, w.uncountedAt != 0)
	w.ledger.visit(v)
	w.evidence.visit(v)
	unusual := w.rare != nil
	if flags(v, &unusual); unusual {
		w.writeRare().visit(v)
	}
	v.require(!w.evidence.suspected || w.rare != nil, "a suspicion that never ends")
	v.require(w.readRare().unawaited <= w.inflight, "more requests that nobody waits for than requests in flight")
	v.require(!w.probeOut || w.inflight > 0, "waits for a request that is not in flight")
	v.require(w.origin != declared || w.probing == notProbing, "a declared limit that a request has to try")
}

func (p *Permit) visit(v visitor) {
	v.low(&p.sent, true)
	v.low(&p.opened, p.opened != 0)
	number(v, &p.answered, math.MaxUint32)
	number(v, &p.expired, math.MaxUint32)
	flags(v, &p.probe, &p.adopted, &p.elsewhere, &p.unawaited)
}

func (i *interval) visit(v visitor, known bool) {
	v.low(&i.low, known)
	v.high(&i.high, known)
}

// visit calls the visitor for each charge. If the visitor reads charges, the ledger must be empty.
func (l *ledger) visit(v visitor) {
	list := l.list()
	n := v.length(len(list))
	anew := n > len(list)
	if anew {
		list = make([]charge, n)
	}
	for i := range list {
		list[i].visit(v)
	}
	if anew {
		v.require(l.fill(list), "impossible charges")
	}
}

// fill sets the charges of an empty ledger. It returns false if they are not valid.
func (l *ledger) fill(list []charge) bool {
	sum, last := int64(0), list[0].reset.high
	for i := range list {
		c := &list[i]
		if sum += int64(c.n); c.n < 1 || c.sure > c.n || c.reset.high < last || sum > 4*mostCounted {
			return false
		}
		last = c.reset.high
		l.count(c, 1)
	}
	l.many = &manyCharges{all: list}
	return true
}

func (c *charge) visit(v visitor) {
	number(v, &c.n, mostCounted)
	number(v, &c.sure, mostCounted)
	number(v, &c.counted, mostCounted)
	number(v, &c.answer, int64(noAnswer))
	flags(v, &c.others)
	v.high(&c.received, true)
	v.trip(&c.trip)
	c.reset.visit(v, true)
}

func (e *evidence) visit(v visitor) {
	number(v, &e.refuted, int64(everyKind))
	number(v, &e.seen, math.MaxUint8)
	number(v, &e.leftOut, math.MaxUint8)
	flags(v, &e.others, &e.suspected)
	known := e.reset != interval{}
	e.reset.visit(v, known)
	v.high(&e.at, known)
	e.fixed.visit(v)
	v.span(&e.leaky.slot.low)
	v.span(&e.leaky.slot.high)
	v.span(&e.next.period)
}

func (e *fixedEvidence) visit(v visitor) {
	e.closes.visit(v, e.least > 0)
	v.span(&e.least)
	number(v, &e.leastSpent, mostCounted)
	number(v, &e.count, mostCounted)
	v.high(&e.until, e.until != 0)
}

func (r *rare) visit(v visitor) {
	for _, t := range []*time.Duration{
		&r.hold.until, &r.full, &r.refusals.latest, &r.suspected, &r.leftOutUntil, &r.loweredAt, &r.raisedAt,
		&r.hidden.tryAt, &r.hidden.met, &r.hidden.until, &r.late.tryAt, &r.late.shownAt, &r.late.sureAt, &r.openBy,
	} {
		v.high(t, *t != 0)
	}
	number(v, &r.holdClass, NumClasses-1)
	number(v, &r.refusals.row, math.MaxUint8)
	number(v, &r.raised, mostCounted)
	flags(v, &r.raisedTwice)
	number(v, &r.hidden.room, mostCounted)
	number(v, &r.hidden.vain, maxVain)
	number(v, &r.unawaited, mostCounted)
	v.span(&r.hidden.span)
	v.span(&r.rounding)
	for _, d := range []*time.Duration{&r.late.by, &r.late.shown.least, &r.late.shown.trips, &r.late.trip} {
		v.span(d)
	}
	number(v, &r.late.trips, enoughTrips)
	v.require(r.late.by >= 0, "a bucket that opens before its announced reset")
	number(v, &r.late.vain, maxVain)
	number(v, &r.late.punctual, punctualTries)
	r.hidden.passed.visit(v)
}
