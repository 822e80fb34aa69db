package discordsim

import (
	"cmp"
	"fmt"
	"time"
)

// Work is a number of requests for one bucket. The requests of routes that share a bucket belong to one Work.
type Work struct {
	Quota Quota // zero: unlimited
	Count int   // requests
	// By default all requests arrive at the client at the start. If Every is set, one request arrives at the start, and
	// one more after each interval of this length. If Offered is set, it lists the arrival times, in order, and Count is
	// ignored.
	Every   time.Duration
	Offered []time.Duration
	// Route names a route that the client has to discover first: the first request of the route is sent alone, and the
	// others wait for the answer to it. "": the bucket is known from the beginning. Only Certain uses Route.
	Route string
	// Major is the major parameter of the bucket. It decides only the random part of the bucket's lateness.
	Major string
	// Exempt requests do not count against the global limit.
	Exempt bool
}

// Conditions apply to all work.
type Conditions struct {
	// RoundTrip is the time of the fastest round trip, half of it in each direction; see [Latency.Smallest].
	RoundTrip time.Duration
	// Global is the global limit, as in a Config: zero is Discord's limit, and Unlimited() is no limit.
	Global Quota
	// Seed is the seed of the Config. From it, ideal clients know how late each place becomes free.
	Seed uint64
}

// Plan lists the times at which an ideal client sends its requests. The times count from the start.
type Plan struct {
	Sent [][]time.Duration // when the client sends each request of each Work
	// Makespan is when the client has received the last answer.
	Makespan time.Duration
	// MeanWait is how long a request waits at the client on average before it is sent.
	MeanWait time.Duration
}

// Omniscient returns the plan of a client that knows the server's state: every request is processed at the earliest
// moment at which its bucket and the global limit accept it, given when it arrives at the client. If several requests
// could be sent at the same moment, the one whose bucket needs the most time for its remaining requests is sent first.
// The plan assumes that an aligned window without a phase begins at the start.
//
// The plan is greedy. If all requests arrive at the start, no faster plan is known. If requests arrive one by one,
// another plan can be a little faster, because it saves a place for a later request or delays a window on purpose. So a
// lucky client may be slightly faster than this plan.
func Omniscient(conditions Conditions, work ...Work) (Plan, error) {
	return plan(conditions, work, false)
}

// Certain returns the plan of a client that never risks a refusal: a place counts as occupied until the server has
// certainly freed it. The client becomes certain half a round trip after the server has freed the place, and the
// client's next request needs another half to arrive. So each use of a place costs one RoundTrip in addition: a
// saturated fixed window takes period + RoundTrip, and each place of a sliding log takes the same time. A leaky bucket
// loses a round trip only when it was empty before. A route that has to be discovered costs the round trip of one probe
// (the request that is sent alone). The global limit costs no round trip: in every interval of a period, the client
// sends no more requests than the limit, which is safe for every phase of the windows.
func Certain(conditions Conditions, work ...Work) (Plan, error) {
	return plan(conditions, work, true)
}

// plan sends the requests one after the other: in each step, the lane (a Work in progress) that can send first sends
// its next request. The cost grows with the number of requests times the number of Works.
func plan(conditions Conditions, work []Work, certain bool) (Plan, error) {
	if conditions.RoundTrip < 0 {
		return Plan{}, fmt.Errorf("%w: negative round trip", ErrConfig)
	}
	in, lag := conditions.RoundTrip/2, time.Duration(0)
	global := conditions.Global
	if global.Kind == KindNone {
		global = defaultGlobal
	}
	if err := global.validate(); err != nil {
		return Plan{}, err
	}
	if certain {
		lag = conditions.RoundTrip
		if global.limited() {
			global = Sliding(global.Limit, global.longest())
		}
	}
	everyone := &places{quota: global, in: in, draws: newDraws(conditions.Seed, "")}
	lanes, total, err := newLanes(work, conditions.Seed, in, lag)
	if err != nil {
		return Plan{}, err
	}

	known := make(map[string]time.Duration) // by route: when the probe's answer arrives
	var result Plan
	var waited time.Duration
	for range total {
		best, at := choose(lanes, everyone, known, certain)
		waited += at - best.arrival()
		best.sent = append(best.sent, at)
		best.places.take(at)
		if !best.work.Exempt {
			everyone.take(at)
		}
		if _, ok := known[best.work.Route]; !ok {
			known[best.work.Route] = at + conditions.RoundTrip
		}
		result.Makespan = max(result.Makespan, at+conditions.RoundTrip)
	}
	for _, l := range lanes {
		result.Sent = append(result.Sent, l.sent)
	}
	if total > 0 {
		result.MeanWait = waited / time.Duration(total)
	}
	return result, nil
}

// choose returns the lane that can send first, and the time at which it can send.
func choose(
	lanes []*lane, everyone *places, known map[string]time.Duration, certain bool,
) (best *lane, at time.Duration) {
	for _, l := range lanes {
		if l.left() == 0 {
			continue
		}
		t := max(l.arrival(), l.places.next())
		if !l.work.Exempt {
			t = max(t, everyone.next())
		}
		if certain && l.work.Route != "" {
			t = max(t, known[l.work.Route])
		}
		if best == nil || t < at || t == at && l.need() > best.need() {
			best, at = l, t
		}
	}
	return best, at
}

// lane is one Work in progress.
type lane struct {
	work   Work
	places places
	sent   []time.Duration
}

func newLanes(work []Work, seed uint64, in, lag time.Duration) (lanes []*lane, total int, err error) {
	for i, w := range work {
		w.Count = cmp.Or(len(w.Offered), w.Count)
		if err := w.Quota.validate(); err != nil {
			return nil, 0, fmt.Errorf("work %d: %w", i, err)
		}
		if w.Count < 0 || w.Every < 0 {
			return nil, 0, fmt.Errorf("%w: work %d has a negative count or rhythm", ErrConfig, i)
		}
		p := places{quota: w.Quota, draws: newDraws(seed, w.Major), in: in, lag: lag}
		lanes = append(lanes, &lane{work: w, places: p})
		total += w.Count
	}
	return lanes, total, nil
}

func (l *lane) left() int { return l.work.Count - len(l.sent) }

// arrival returns the time at which the lane's next request arrives at the client.
func (l *lane) arrival() time.Duration {
	if len(l.work.Offered) > 0 {
		return l.work.Offered[len(l.sent)]
	}
	return time.Duration(len(l.sent)) * l.work.Every
}

// need estimates how long the bucket takes for the remaining requests.
func (l *lane) need() time.Duration {
	if !l.work.Quota.limited() {
		return 0
	}
	return time.Duration(float64(l.left()) / float64(l.work.Quota.Limit) * float64(l.work.Quota.Period))
}

// places models a quota as the client sees it. All times are times of sending. Each request occupies one of quota.Limit
// places. Places become free in the order in which they were taken, so request k may be sent when the place of request
// k-quota.Limit is free.
type places struct {
	quota Quota
	draws draws
	in    time.Duration // travel time from the client to the server
	lag   time.Duration // how long after a place became free the client is certain of that

	last    time.Duration
	returns []time.Duration // a ring buffer: when the places of the latest quota.Limit requests become free
	taken   int
	window  time.Duration // when the open window of a fixed quota closes, as a time of sending
	empty   time.Duration // when a leaky bucket is announced to be empty
}

// next returns the earliest time for one more request.
func (p *places) next() time.Duration {
	if !p.quota.limited() || p.taken < p.quota.Limit {
		return p.last
	}
	return max(p.last, p.returns[p.taken%p.quota.Limit])
}

// take sends a request at the time at, which must not be before next() or before an earlier request.
func (p *places) take(at time.Duration) {
	p.last = at
	if !p.quota.limited() {
		return
	}
	back := p.back(at)
	if p.taken < p.quota.Limit {
		p.returns = append(p.returns, back)
	} else {
		p.returns[p.taken%p.quota.Limit] = back
	}
	p.taken++
}

// back returns the time at which the place of a request can be used again, if the request is sent at the time at.
func (p *places) back(at time.Duration) time.Duration {
	if p.quota.Kind == KindFixed {
		if p.taken == 0 || at >= p.window {
			p.window = p.windowEnd(at) + p.draws.next(p.quota.Lateness)
		}
		return p.window + p.lag
	}
	late := p.draws.next(p.quota.Lateness)
	back := at + p.quota.Period + p.lag
	if p.quota.Kind == KindLeaky {
		p.empty = max(at+p.lag, p.empty) + p.quota.interval()
		back = p.empty
	}
	if back += late; p.taken > 0 {
		back = max(back, p.returns[(p.taken-1)%p.quota.Limit]) // places become free in the order in which they were taken
	}
	return back
}

// windowEnd returns the announced end of the window that a request opens.
func (p *places) windowEnd(at time.Duration) time.Duration {
	if p.quota.Aligned {
		return at + p.quota.toBoundary(at+p.in)
	}
	return at + p.quota.Period
}
