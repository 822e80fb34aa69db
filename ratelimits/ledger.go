package ratelimits

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// charge stands for one or more answered requests. The server may count them until their reset has certainly passed.
type charge struct {
	received time.Duration // when the last one of the requests was answered
	reset    interval      // contains the time at which the bucket resets, according to the responses
	n        int32         // number of requests
	sure     int32         // number of requests that the server has certainly counted
	counted  int32         // the largest number of counted requests that their responses have named
	others   bool          // other clients sent some of them
	answer   answer        // what the responses say about the end of the charge
	trip     uint16        // the first one of the requests was sent at most this many milliseconds before received
}

// answer says what the response to a request shows. Only a response with limits shows when the request expires.
type answer uint8

const (
	withLimits    answer = iota // the response named limits
	withoutLimits               // the response named no limits
	noAnswer                    // no response came, or only a server error (5xx)
)

// ledger lists the charges in the order in which they expire. Requests in flight are not in it.
type ledger struct {
	first  [1]charge // the only charge, enough for most buckets; n is 0 if nothing is charged; not used if many is set
	many   *manyCharges
	total  int32 // number of charged requests
	unsure int32 // number of charged requests that the server has perhaps not counted
}

// manyCharges is the list of a ledger that has had more than one charge. The first `gone` entries of `all` have
// expired.
type manyCharges struct {
	all  []charge
	gone int
}

// If the list has at least finest charges, a new charge is joined with a neighbour that expires at about the same time.
// "About" means within 1/coarse of the time between the first and the last expiry.
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

// cut shortens the list to its first n charges.
func (l *ledger) cut(n int) {
	if l.many != nil {
		l.many.all = l.many.all[:l.many.gone+n]
	} else if n == 0 {
		l.first[0].n = 0
	}
}

// count adds a charge to the sums (sign is 1) or subtracts it (sign is -1).
func (l *ledger) count(c *charge, sign int32) {
	l.total += sign * c.n
	l.unsure += sign * (c.n - c.sure)
}

// next returns the time at which the first charge expires. There must be at least one charge.
func (l *ledger) next() time.Duration {
	if l.many != nil {
		return l.many.all[l.many.gone].reset.high
	}
	return l.first[0].reset.high
}

// last returns the time at which the last charge expires, 0 if there is no charge.
func (l *ledger) last() time.Duration {
	if list := l.list(); len(list) > 0 {
		return list[len(list)-1].reset.high
	}
	return 0
}

// nth returns the time at which n of the charged requests have expired. n must not exceed total.
func (l *ledger) nth(n int32) time.Duration {
	list, i := l.list(), 0
	for ; n > list[i].n; i++ {
		n -= list[i].n
	}
	return list[i].reset.high
}

// expire removes the charges that have expired. These charges stand for n requests. The server has certainly counted a
// number of them (sure). last is the reset of the charge that expired last. worst is the answer that shows least about
// the expiry.
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

// add inserts a charge in the order of expiry.
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

// insert inserts a charge as the i-th of the charges that have not expired.
func (m *manyCharges) insert(i int, c *charge) {
	if len(m.all) == cap(m.all) && m.gone > 0 {
		m.all, m.gone = m.all[:copy(m.all, m.all[m.gone:])], 0
	}
	m.all = slices.Insert(m.all, m.gone+i, *c)
}

// beside returns a charge next to position i whose expiry differs from that of c by at most the duration about. If
// there is no such charge, it returns nil. It prefers the charge that expires after c, because a join with an earlier
// charge would delay the expiry of the earlier charge.
func beside(list []charge, i int, c *charge, about time.Duration) *charge {
	if i < len(list) && list[i].reset.high-c.reset.high <= about {
		return &list[i]
	}
	if i > 0 {
		o := &list[i-1]
		if max(c.reset.low-o.reset.low, c.reset.high-o.reset.high) <= about { // joins keep low, so a series of joins ends
			return o
		}
	}
	return nil
}

// join adds the requests of o to c, and sets the reset of the joined charge.
func (c *charge) join(o *charge, reset interval) {
	first := min(c.sent(), o.sent())
	c.received, c.counted = max(c.received, o.received), max(c.counted, o.counted)
	c.reset.low, c.reset.high = reset.low, reset.high
	c.n, c.sure, c.others = c.n+o.n, c.sure+o.sure, c.others || o.others
	c.travelled(first)
}

// sent returns a time before which none of the requests was sent. It is wrong if a request took more than a minute.
func (c *charge) sent() time.Duration { return c.received - time.Duration(c.trip)*time.Millisecond }

// travelled records when the first request of the charge was sent.
func (c *charge) travelled(sent time.Duration) {
	c.trip = uint16(min((c.received-sent)/time.Millisecond+1, math.MaxUint16))
}

// unknownReset reports whether there is a charge whose reset no response has named.
func (l *ledger) unknownReset() bool {
	return slices.ContainsFunc(l.list(), func(c charge) bool { return c.answer > withLimits })
}

// dropUnsure removes unsure requests (those that the server has perhaps not counted) if there are too many. The
// argument most is the largest number of requests that the server counts. That number includes the certainly counted
// requests that have not expired, and only the rest of it can be unsure requests. dropUnsure removes those unsure
// requests that expire first, and keeps the largest count that their responses have named.
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

// counted returns the largest number of counted requests that the responses to charged requests have named.
func (l *ledger) counted() (most int32) {
	for _, c := range l.list() {
		most = max(most, c.counted)
	}
	return most
}

func (l *ledger) clear() {
	l.cut(0)
	l.total, l.unsure = 0, 0
}

// change replaces the reset of each charge by the result of a function.
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

// coarsen joins charges in the list that expire at about the same time.
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

// lift changes the resets so that no charge expires before the time until.
func (l *ledger) lift(until time.Duration) {
	l.change(func(c charge) interval { return interval{c.reset.low, max(c.reset.high, until)} })
}

// makeUnsure records that the server has not certainly counted any of the charged requests. In addition, requests that
// were answered by the time before now expire at the time until or earlier.
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
