package shared

import (
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/ratelight/ratelight/ratelimits"
)

// This file handles the requests of this process in a bucket. Each request that the server knows has a number, and is
// in one of these states:
//
//	waits      in the queue of all processes, which contains only the earliest requests of each process
//	granted    has a permit and may be sent; if it is not sent, it does not count
//	in flight  was sent; the manager has its Permit
//	ended      its outcome is known here, but the server does not know it yet
//
// While the bucket is lent, the server does not know the manager's requests.

// waiter is a request that waits or is granted.
type waiter struct {
	arrived time.Duration
	number  uint64
	known   bool          // whether the server is known to have the request in its queue
	since   time.Duration // time of the grant
}

// permit is a request in flight.
type permit struct {
	number uint64 // 0: the server does not know the request
	sent   time.Duration
	window ratelimits.Permit // from the manager's window
	index  int               // index in bucket.permits, -1 once the permit has ended
}

var permits = sync.Pool{New: func() any { return new(permit) }}

type outcome struct {
	number   uint64
	sent, at time.Duration
	unsent   bool
	response ratelimits.Response
}

// mostPlaces is the largest number of places that one process has in the queue.
const mostPlaces = 64

// queued returns the number of waiting requests that have not been granted.
func (b *bucket) queued() int { return max(b.waiting-len(b.granted), 0) }

// seat records the arrivals of the first waiting requests. It skips the first len(b.granted) of them, because these
// have permits. It reports whether the server has to learn of a change.
func (b *bucket) seat(waiting int, arrivals iter.Seq[time.Duration]) (news bool) {
	b.waiting = waiting
	if n := len(b.granted) - waiting; n > 0 {
		b.granted, b.unused, news = b.granted[:waiting], b.unused+n, true
	}
	now := b.spare[:0]
	if b.queued() > 0 {
		granted := len(b.granted)
		for arrived := range arrivals {
			if granted--; granted >= 0 {
				continue
			}
			now = append(now, waiter{arrived: arrived})
			if len(now) == mostPlaces {
				break
			}
		}
	}
	before := b.waiters
	for i := range now {
		for len(before) > 0 && before[0].arrived < now[i].arrived {
			before, news = before[1:], true
		}
		if len(before) > 0 && before[0].arrived == now[i].arrived {
			now[i], before = before[0], before[1:]
		} else {
			now[i].number, news = b.session.agents.next.Add(1), true
		}
	}
	b.waiters, b.spare = now, b.waiters
	return news || len(before) > 0
}

// nextGrant returns the oldest granted request whose permit is still valid. If a permit was not used for half a lease,
// or if this session may have counted as dead since the grant, the permit may belong to another session. nextGrant
// removes such grants, and their requests get new places in the queue.
func (b *bucket) nextGrant(now time.Duration) (w waiter, ok bool) {
	for len(b.granted) > 0 {
		w := b.granted[0]
		if now-w.since < b.session.store.options.lease/2 && now < b.session.believedUntil(w.since) {
			return w, true
		}
		b.granted, b.unused, b.due = b.granted[1:], b.unused+1, true
		b.wakeAt(now, now)
	}
	return w, false
}

// fly adds a request to the requests in flight.
func (b *bucket) fly(sent time.Duration, window ratelimits.Permit) *permit {
	p := permits.Get().(*permit)
	*p = permit{sent: sent, window: window, index: len(b.permits)}
	b.permits = append(b.permits, p)
	return p
}

// land removes a request from the requests in flight. It returns false if the request is not in flight.
func (b *bucket) land(p Permit) (permit, bool) {
	at, ok := p.(*permit)
	if !ok || at.index < 0 || at.index >= len(b.permits) || b.permits[at.index] != at {
		return permit{}, false
	}
	landed, last := *at, len(b.permits)-1
	b.permits[at.index] = b.permits[last]
	b.permits[at.index].index = at.index
	b.permits[last] = nil
	b.permits = b.permits[:last]
	at.index = -1
	permits.Put(at)
	return landed, true
}

// end records the outcome of a request of which the server knows. b.mu must be held.
func (b *bucket) end(p *permit, o outcome) {
	o.number, o.sent = p.number, p.sent
	p.number = 0
	b.ended = append(b.ended, o)
	if wait := b.untoldFor(&o); wait > 0 && !b.due && !b.calling {
		if len(b.ended) == 1 {
			b.tellAt = o.at + wait
		}
		b.activate()
		b.stopTimer()
		b.rest(o.at)
		return
	}
	b.say(o.at)
}

// untoldFor returns how long an outcome may stay unreported. The result is 0 if the outcome says something that the
// other sessions do not expect. Otherwise these sessions need the outcome only when the window ends.
func (b *bucket) untoldFor(o *outcome) time.Duration {
	r := &o.response
	if b.known == nil || b.closed || o.unsent || !r.Limited || r.Class != ratelimits.ClassOK {
		return 0
	}
	w, now := &b.known.window, b.session.engineTime(o.at)
	at, ok := w.Next(now)
	if !ok || !w.Known() || w.Probing() || w.Limit() != r.Limit || r.Remaining < w.Remaining(now) {
		return 0
	}
	if at <= now { // no request has to wait for the end of the window
		at = w.Reset()
	}
	return min((at-now)/4, longestUntold)
}

// alive reports whether a number belongs to a request of this process that waits, is granted or in flight, or whose
// outcome the server does not know yet.
func (b *bucket) alive(number uint64) bool {
	is := func(w waiter) bool { return w.number == number }
	return b.flying(number) != nil || slices.ContainsFunc(b.waiters, is) || slices.ContainsFunc(b.granted, is) ||
		slices.ContainsFunc(b.ended, func(o outcome) bool { return o.number == number })
}

// needsPermit reports whether a number belongs to a request of this process that is granted or was sent.
func (b *bucket) needsPermit(number uint64) bool {
	unsent := func(o outcome) bool { return o.number == number && o.unsent }
	return b.alive(number) && !slices.ContainsFunc(b.ended, unsent)
}

// flying returns the request in flight that has the number, nil if there is none.
func (b *bucket) flying(number uint64) *permit {
	if i := slices.IndexFunc(b.permits, func(p *permit) bool { return p.number == number }); i >= 0 && number > 0 {
		return b.permits[i]
	}
	return nil
}

// inUse reports whether the bucket has requests that the server knows, or that have to be reported to it.
func (b *bucket) inUse() bool {
	numbered := func(p *permit) bool { return p.number > 0 }
	return b.waiting > 0 || len(b.granted) > 0 || len(b.ended) > 0 || slices.ContainsFunc(b.permits, numbered)
}

// untold reports whether calls have to be repeated. This is so if there is an outcome that the server does not know.
// This is also so if the bucket is lent to another session and this process still has requests or a hold to report. In
// that case calls are repeated until the other session has returned the bucket, even if no request waits in this
// process.
func (b *bucket) untold(now time.Duration) bool {
	return len(b.ended) > 0 || b.looks > 0 && (b.inUse() || b.hold > now || b.recalls != nil)
}

// sent is a request that the server has to charge.
type sent struct {
	number uint64
	at     time.Duration
}

// sentRequests returns the requests that were sent and that the server knows or has to learn of, ordered by number.
func (b *bucket) sentRequests() (all []sent) {
	for _, p := range b.permits {
		if p.number > 0 {
			all = append(all, sent{p.number, p.sent})
		}
	}
	for i := range b.ended {
		if o := &b.ended[i]; !o.unsent {
			all = append(all, sent{o.number, o.sent})
		}
	}
	slices.SortFunc(all, func(x, y sent) int { return int(x.number) - int(y.number) })
	return all
}
