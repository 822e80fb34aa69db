package ratelimits

import (
	"encoding/binary"
	"time"
)

// Rest is a Window that nobody uses, packed into a third of its size. It is a plain value. The zero value is the zero Window.
type Rest struct{ bytes [restSize]byte }

// restSize is enough but for one in a hundred: unproven ones that have answered many requests and are still open.
const restSize = 64

// Rest returns what has to be remembered of the window while nobody uses it. Nothing is lost: the Window of a Rest lets the
// same requests go at the same times, and tells the kind from the same responses.
//
// ok is false if the window cannot rest now: requests are in flight, it is held or has been refused of late, requests may be
// counted in one of two windows, a log has not got all its places back, or the kind is not proven and the times of too many
// requests are kept. Most of that ends when the window has closed. The window itself stays as it was.
func (w *Window) Rest(now time.Duration) (r Rest, ok bool) {
	w.advance(now)
	if w.inflight > 0 || w.probeOut || w.trouble != nil && !w.trouble.over(w, now) {
		return Rest{}, false
	}
	if s := w.sliding; s != nil {
		if s.expire(now); len(s.returns) > 0 {
			return Rest{}, false
		}
	}
	p := packing{writes: true}
	p.window(w)
	if p.failed || p.at > restSize {
		return Rest{}, false
	}
	copy(r.bytes[:], p.bytes[:p.at])
	return r, true
}

// Window returns the window again.
func (r Rest) Window() Window {
	var w Window
	var p packing
	copy(p.bytes[:], r.bytes[:])
	p.window(&w)
	return w
}

// packing writes the parts of a window one after the other, or reads them in the same order. A part is a number of as few
// bytes as it needs (a varint), and so times are taken relative to others that are probably near.
type packing struct {
	bytes  [restSize + binary.MaxVarintLen64]byte
	at     int // how many of them are written, or read
	writes bool
	failed bool // something was too large
}

func (p *packing) window(w *Window) {
	blind, rolled, compares := w.blinds != 0, w.previous != interval{}, w.closing.least != 0
	together, slides := w.evidence.series != nil, w.sliding != nil
	p.flags(&w.unlimited, &w.recalled, &w.probing, &blind, &rolled, &together, &slides)
	p.flags(&w.closing.known, &w.closing.single, &compares, &w.evidence.has, &w.unheard)
	p.digits((*uint8)(&w.kind), (*uint8)(&w.evidence.favourite), &w.evidence.distrust)
	p.counts(&w.limit, &w.used, &w.said, &w.passed)
	p.count(&w.answered)
	p.count(&w.turn)
	p.time(&w.outcome, 0)
	p.time(&w.period, 0)
	p.time(&w.longest, w.period)
	if blind {
		p.counts(&w.blinds)
		p.time(&w.blindAt, w.outcome)
	}
	if rolled {
		p.time(&w.previous.high, w.outcome)
		p.time(&w.previous.low, w.previous.high)
	}
	p.evidence(&w.evidence, w.period, w.outcome)
	p.closing(&w.closing, w.evidence.reference.reset())
	if compares {
		p.counts(&w.closing.leastSpent)
		p.time(&w.closing.least, w.evidence.reference.after)
	}
	if together {
		p.series(&w.evidence, w.outcome)
	}
	if slides {
		p.sliding(w)
	}
}

func (p *packing) evidence(e *evidence, period, outcome time.Duration) {
	p.small(&e.votes)
	r := &e.reference
	p.counts(&r.spent)
	p.time(&r.after, period)
	p.time(&r.received, outcome)
	p.time(&r.sent, r.received)
}

func (p *packing) closing(c *closing, reset interval) {
	p.small(&c.denials)
	p.time(&c.within.low, reset.low)
	p.time(&c.within.high, reset.high)
	p.time(&c.latest, c.within.high)
	p.time(&c.low, c.within.low)
	p.time(&c.saidAt, c.latest)
}

func (p *packing) series(e *evidence, outcome time.Duration) {
	if !p.writes {
		e.series = &series{}
	}
	s := e.series
	p.time(&s.slotLow, e.reference.after)
	p.time(&s.slotHigh, s.slotLow)
	p.number(&s.counts)
	n := uint64(len(s.earlier))
	p.number(&n)
	if !p.writes && n > 0 {
		s.earlier = make([]time.Duration, min(n, maxEarlier))
	}
	after := (outcome + tick - 1).Truncate(tick)
	for i := len(s.earlier) - 1; i >= 0; i-- {
		p.time(&s.earlier[i], after)
		after = s.earlier[i]
	}
}

func (p *packing) sliding(w *Window) {
	if !p.writes {
		w.sliding = &sliding{}
	}
	s := w.sliding
	p.time(&s.period, w.period)
	p.time(&s.full, w.outcome)
	p.time(&s.slotLow, 0)
	p.time(&s.slotHigh, s.slotLow)
}

// flags packs up to seven of them into one byte.
func (p *packing) flags(flags ...*bool) {
	n := uint64(0)
	for i, flag := range flags {
		if *flag {
			n |= 1 << i
		}
	}
	p.number(&n)
	for i, flag := range flags {
		*flag = n>>i&1 == 1
	}
}

// digits packs up to three numbers below four into one byte.
func (p *packing) digits(digits ...*uint8) {
	n := uint64(0)
	for i, digit := range digits {
		p.failed = p.failed || *digit > 3
		n |= uint64(*digit) << (2 * i)
	}
	p.number(&n)
	for i, digit := range digits {
		*digit = uint8(n >> (2 * i) & 3)
	}
}

func (p *packing) small(small *uint8) {
	n := uint64(*small)
	p.number(&n)
	*small = uint8(n)
}

func (p *packing) counts(counts ...*int32) {
	for _, c := range counts {
		n := uint32(*c)
		p.count(&n)
		*c = int32(n)
	}
}

func (p *packing) count(c *uint32) {
	n := uint64(*c)
	p.number(&n)
	*c = uint32(n)
}

// units are what times are often multiples of.
var units = [...]time.Duration{time.Nanosecond, time.Microsecond, time.Millisecond}

// never stands for the time 0, which is seldom near to any other.
const never = uint64(len(units))

// time packs a time, in the largest unit that it is a multiple of relative to the base.
func (p *packing) time(t *time.Duration, base time.Duration) {
	n := never
	if p.writes && *t != 0 {
		d := *t - base
		unit := len(units) - 1
		for d%units[unit] != 0 {
			unit--
		}
		n = zigzag(int64(d / units[unit]))
		p.failed = p.failed || n > 1<<61
		n = n<<2 | uint64(unit)
	}
	p.number(&n)
	if p.writes {
		return
	}
	*t = 0
	if n != never {
		*t = base + time.Duration(unzigzag(n>>2))*units[n&3]
	}
}

// zigzag makes a small number of a small one, be it negative or not.
func zigzag(n int64) uint64   { return uint64(n<<1) ^ uint64(n>>63) }
func unzigzag(n uint64) int64 { return int64(n>>1) ^ -int64(n&1) }

func (p *packing) number(n *uint64) {
	length := 0
	switch {
	case p.at > restSize:
		p.failed = true
	case p.writes:
		length = binary.PutUvarint(p.bytes[p.at:], *n)
	default:
		*n, length = binary.Uvarint(p.bytes[p.at:])
	}
	p.at += length
}
