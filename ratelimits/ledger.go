package ratelimits

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// charge is requests that were answered and that the server may still count: until their reset has certainly passed.
type charge struct {
	received time.Duration // when the last of them was answered
	reset    interval      // in which the instant lies that their responses' reset-after speaks of
	n        int32         // how many
	sure     int32         // so many of them were certainly counted
	counted  int32         // the most that the server had counted by their responses
	others   bool          // some are somebody else's
	answer   answer        // which says when they come back
	trip     uint16        // the first was sent at most so many milliseconds before received
}

// answer is what is known of the answer to a request: only one with limits says when it comes back.
type answer uint8

const (
	withLimits    answer = iota // one has
	withoutLimits               // it has named no limits
	noAnswer                    // there was none, or only that of a server that has failed
)

// ledger lists the charges in the order in which they come back. Requests in flight are not in it.
type ledger struct {
	first  [1]charge // which is all that most buckets need; of no requests if there is none
	many   *manyCharges
	total  int32 // requests
	unsure int32 // that may not have been counted
}

// manyCharges is the list of a ledger that has had more than one: all, but for those that are gone.
type manyCharges struct {
	all  []charge
	gone int
}

// So many charges are told apart. One more is taken together with one beside it if both come back within a coarse-th part of the time
// in which all of them do.
const (
	finest = 64
	coarse = 32
)

func (l *ledger) list() []charge {
	switch {
	case l.many != nil:
		return l.many.all[l.many.gone:]
	case l.first[0].n > 0:
		return l.first[:]
	}
	return nil
}

// cut leaves the first n of the list.
func (l *ledger) cut(n int) {
	if l.many != nil {
		l.many.all = l.many.all[:l.many.gone+n]
	} else if n == 0 {
		l.first[0].n = 0
	}
}

// count keeps the sums, for one more charge or one less.
func (l *ledger) count(c *charge, sign int32) {
	l.total += sign * c.n
	l.unsure += sign * (c.n - c.sure)
}

// next is when the first of them comes back. There has to be one.
func (l *ledger) next() time.Duration {
	if l.many != nil {
		return l.many.all[l.many.gone].reset.high
	}
	return l.first[0].reset.high
}

// last is when all have, 0 if there are none.
func (l *ledger) last() time.Duration {
	if list := l.list(); len(list) > 0 {
		return list[len(list)-1].reset.high
	}
	return 0
}

// nth is when so many have, which are not more than there are.
func (l *ledger) nth(n int32) time.Duration {
	list, i := l.list(), 0
	for ; n > list[i].n; i++ {
		n -= list[i].n
	}
	return list[i].reset.high
}

// expire takes off what has come back: n requests, of which sure were certainly counted. It returns when the last of them
// came back as announced, and how little was known of any of them.
func (l *ledger) expire(now time.Duration) (n, sure int32, last interval, worst answer) {
	list, over := l.list(), 0
	for over < len(list) && list[over].reset.high <= now {
		c := &list[over]
		l.count(c, -1)
		n, sure = n+c.n, sure+c.sure
		last, worst = c.reset, max(worst, c.answer)
		over++
	}
	if l.many != nil {
		l.many.gone += over
	} else if over > 0 {
		l.first[0].n = 0
	}
	return n, sure, last, worst
}

// add charges requests.
func (l *ledger) add(c *charge) {
	l.count(c, 1)
	if l.many == nil && l.first[0].n == 0 {
		l.first[0] = *c
		return
	}
	if l.many == nil {
		l.many = &manyCharges{all: append(make([]charge, 0, 4), l.first[0])}
	}
	list := l.list()
	i := len(list)
	for i > 0 && list[i-1].reset.high > c.reset.high {
		i--
	}
	if len(list) >= finest {
		if o := beside(list, i, c, (l.last()-list[0].reset.high)/coarse); o != nil {
			o.join(c, o.reset.union(c.reset))
			o.answer = max(o.answer, c.answer)
			return
		}
	}
	l.many.insert(i, c)
}

// insert inserts a charge at the i-th place of those that are not gone.
func (m *manyCharges) insert(i int, c *charge) {
	if len(m.all) == cap(m.all) && m.gone > 0 {
		m.all, m.gone = m.all[:copy(m.all, m.all[m.gone:])], 0
	}
	m.all = slices.Insert(m.all, m.gone+i, *c)
}

// beside returns the charge at or before a place with which one can be taken together that comes back about as late, nil if there is none.
func beside(list []charge, i int, c *charge, about time.Duration) *charge {
	if i < len(list) {
		if o := &list[i]; o.reset.high-c.reset.high <= about {
			return o
		}
	} else if o := &list[i-1]; c.reset.low-o.reset.low <= about { // the last, which may become later, but not by more each time
		return o
	}
	return nil
}

// join takes two charges together.
func (c *charge) join(o *charge, reset interval) {
	first := min(c.sent(), o.sent())
	c.received, c.counted = max(c.received, o.received), max(c.counted, o.counted)
	c.reset.low, c.reset.high = reset.low, reset.high
	c.n, c.sure, c.others = c.n+o.n, c.sure+o.sure, c.others || o.others
	c.travelled(first)
}

// sent is a time at which none of them had been sent yet, but for those that took more than a minute.
func (c *charge) sent() time.Duration { return c.received - time.Duration(c.trip)*time.Millisecond }

// travelled notes when the first of them was sent.
func (c *charge) travelled(sent time.Duration) {
	c.trip = uint16(min((c.received-sent)/time.Millisecond+1, math.MaxUint16))
}

// unknownReset reports that of a charge no response has said when it comes back.
func (l *ledger) unknownReset() bool {
	return slices.ContainsFunc(l.list(), func(c charge) bool { return c.answer > withLimits })
}

// dropUnsure takes in that the server counts so many at most. What it has certainly counted and not forgotten yet is among them, so that of
// the others there cannot be more than the rest. Nobody knows which, so those go that come back first, but what their responses had counted
// is still known.
func (l *ledger) dropUnsure(now time.Duration, most int32) {
	list, kept := l.list(), 0
	for i := range list {
		if list[i].reset.low > now {
			most -= list[i].sure
		}
	}
	excess, counted := max(l.unsure-most, 0), int32(0)
	for _, c := range list {
		off := min(c.n-c.sure, excess)
		excess -= off
		l.total, l.unsure = l.total-off, l.unsure-off
		counted = max(counted, c.counted)
		if c.n -= off; c.n > 0 {
			c.counted = counted
			list[kept] = c
			kept++
		}
	}
	l.cut(kept)
}

// counted is the most that the server has counted.
func (l *ledger) counted() (most int32) {
	for _, c := range l.list() {
		most = max(most, c.counted)
	}
	return most
}

// clear forgets everything.
func (l *ledger) clear() {
	l.cut(0)
	l.total, l.unsure = 0, 0
}

// change changes when charges come back.
func (l *ledger) change(reset func(charge) interval) {
	list := l.list()
	for i, c := range list {
		list[i].reset = reset(c)
	}
	slices.SortStableFunc(list, func(a, b charge) int { return cmp.Compare(a.reset.high, b.reset.high) })
	if len(list) > finest {
		l.coarsen(list)
	}
}

// coarsen takes together those that come back at about the same time, as many may after a change.
func (l *ledger) coarsen(list []charge) {
	about, kept, since := (l.last()-list[0].reset.high)/coarse, 0, list[0].reset.high
	for i := 1; i < len(list); i++ {
		c, o := &list[i], &list[kept]
		if c.reset.high-since <= about {
			o.join(c, o.reset.union(c.reset))
			o.answer = max(o.answer, c.answer)
			continue
		}
		kept++
		list[kept], since = *c, c.reset.high
	}
	l.cut(kept + 1)
}

// lift lets nothing come back before a moment.
func (l *ledger) lift(until time.Duration) {
	l.change(func(c charge) interval { return interval{c.reset.low, max(c.reset.high, until)} })
}

// makeUnsure leaves open what was counted. All that was answered before a moment comes back by another one.
func (l *ledger) makeUnsure(before, until time.Duration) {
	list := l.list()
	for i := range list {
		list[i].sure = 0
	}
	l.unsure = l.total
	l.change(func(c charge) interval {
		if c.received > before {
			return c.reset
		}
		return interval{min(c.reset.low, until), min(c.reset.high, until)}
	})
}
