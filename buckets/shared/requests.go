package shared

import (
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/ratelimits"
)

// The requests of this process in a bucket. Each that the server knows has a number there:
//
//	waits    in the queue of all processes; only the first ones of each process have a place
//	granted  may be sent; if nobody takes it, it counts as never sent
//	flies    was sent, and the manager has a permit of it
//	ended    its outcome is known here, and not yet at the server
//
// While the bucket is lent the manager's requests wait and fly without the server.

// waiter is a request that waits, or that was granted.
type waiter struct {
	arrived time.Duration
	number  uint64
	known   bool          // the server knows its place
	since   time.Duration // when it was granted
}

// permit is a request that flies.
type permit struct {
	number uint64 // 0: the server does not know it
	sent   time.Duration
	window ratelimits.Permit // of the manager's window
	index  int               // among those that fly, -1 once it has ended
}

var permits = sync.Pool{New: func() any { return new(permit) }}

// outcome is what became of a request.
type outcome struct {
	number   uint64
	sent, at time.Duration
	unsent   bool
	response ratelimits.Response
}

// mostPlaces is how many requests of a process have a place in the queue at most.
const mostPlaces = 64

// queued returns how many requests wait.
func (b *bucket) queued() int { return max(b.waiting-len(b.granted), 0) }

// seat takes in when those arrived who wait now, of whom as many as were granted have their permits. It reports whether the server has to hear
// of that.
func (b *bucket) seat(waiting int, arrivals iter.Seq[time.Duration]) (news bool) {
	b.waiting = waiting
	if len(b.granted) > waiting {
		b.granted, news = b.granted[:waiting], true
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

// nextGrant returns the permit that was granted first, if that still holds. If nobody took it for long others may have it, or have it already;
// then whoever it was for gets another place.
func (b *bucket) nextGrant(now time.Duration) (w waiter, ok bool) {
	for len(b.granted) > 0 {
		w := b.granted[0]
		if now-w.since < b.session.store.options.lease/2 && now < b.session.believedUntil(w.since) {
			return w, true
		}
		b.granted, b.due = b.granted[1:], true
		b.wakeAt(now, now)
	}
	return w, false
}

// fly adds a request to those that fly.
func (b *bucket) fly(sent time.Duration, window ratelimits.Permit) *permit {
	p := permits.Get().(*permit)
	*p = permit{sent: sent, window: window, index: len(b.permits)}
	b.permits = append(b.permits, p)
	return p
}

// land takes a request out of those that fly. It reports false if it is none of them.
func (b *bucket) land(p buckets.SharedPermit) (permit, bool) {
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

// end notes what became of a request that the server knows. b.mu is held.
func (b *bucket) end(p *permit, o outcome) {
	o.number, o.sent = p.number, p.sent
	p.number = 0
	b.ended = append(b.ended, o)
	b.say(o.at)
}

// alive reports that a number stands for a request, as far as the server is not known to know better.
func (b *bucket) alive(number uint64) bool {
	is := func(w waiter) bool { return w.number == number }
	return b.flying(number) != nil || slices.ContainsFunc(b.waiters, is) || slices.ContainsFunc(b.granted, is) ||
		slices.ContainsFunc(b.ended, func(o outcome) bool { return o.number == number })
}

// flying returns the request of that number, nil if it does not fly.
func (b *bucket) flying(number uint64) *permit {
	if i := slices.IndexFunc(b.permits, func(p *permit) bool { return p.number == number }); i >= 0 && number > 0 {
		return b.permits[i]
	}
	return nil
}

// inUse reports that the server knows of requests that are not over, or has to.
func (b *bucket) inUse() bool {
	return b.waiting > 0 || len(b.granted) > 0 || len(b.ended) > 0 || slices.ContainsFunc(b.permits, func(p *permit) bool { return p.number > 0 })
}

// untold reports that the server has to hear of something that it does not take before another session returns the
// bucket: what became of requests, or a hold. It is said again until it gets through, whether or not anybody waits
// here.
func (b *bucket) untold(now time.Duration) bool {
	return b.looks > 0 && (b.inUse() || b.hold > now || b.recalls != nil)
}

// sent is a request that the server has to charge.
type sent struct {
	number uint64
	at     time.Duration
}

// sentRequests returns the requests that were sent and, as far as is known, the server knows of, in their order.
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
