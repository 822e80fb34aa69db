package buckets

import (
	"context"
	"time"

	"github.com/ratelight/ratelight/ratelimits"
)

// forecast is how long somebody will have to wait, and for what.
type forecast struct {
	wait   time.Duration
	class  ratelimits.Class // of the 429 that caused the hold, ClassOK if there is none
	global bool             // it is for the global limit or the edge rather than for the bucket
	limit  *declaredLimit   // it is for this one, nil if for none
}

// declared returns the name of the declared limit that it is for, empty if it is for none.
func (f forecast) declared() string {
	if f.limit == nil {
		return ""
	}
	return f.limit.key.rule.name
}

// later returns the longer wait.
func later(f, other forecast) forecast {
	if other.wait > f.wait {
		return other
	}
	return f
}

// predict returns the predicted wait of an ask in a queue, nil if that does not exist, with so many ahead in it: until there is a slot, for
// those ahead, and for those of other queues in line, which are served in turn with it.
func (g *gate) predict(now time.Duration, a *ask, q *queue, ahead int) forecast {
	if g.open.Load() {
		return forecast{}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	f := forecast{wait: max(g.limit.Wait(now), g.part.wait(now)), global: true}
	if g.limit.HoldWait(now) > 0 {
		f.class = g.class
	}
	if limit := g.most(); limit > 0 {
		f.wait += time.Duration(g.before(a, q, ahead)/limit) * time.Second
	}
	return f
}

// predict returns how long an ask of a queue, nil if there is none yet, with so many ahead in it has to wait for the limit.
func (d *declaredLimit) predict(now time.Duration, a *ask, q *queue, ahead int) forecast {
	d.mu.Lock()
	defer d.mu.Unlock()
	f := d.predictPermit(d.now(now), d.before(a, q, ahead))
	f.limit = d
	return f
}

// predictDeclared returns the longest wait for a declared limit.
func (a *ask) predictDeclared(now time.Duration, q *queue, ahead int) (f forecast) {
	if a.limits != nil {
		for _, d := range a.limits.all {
			f = later(f, d.predict(now, a, q, ahead))
		}
	}
	return f
}

// wait returns how long it will be until there is a part of the limit, 0 if there is one or that is not known.
func (p *globalPart) wait(now time.Duration) time.Duration {
	if p == nil || !p.divided {
		return 0
	}
	part, until := p.remote.Part(now)
	if part > 0 {
		return 0
	}
	return max(until-now, 0)
}

// predict returns how long an ask would have to wait with so many ahead of it.
func (b *bucket) predict(now time.Duration, a *ask, n ahead) forecast {
	q := b.queues.find(a)
	f := b.predictPermit(now, n.all)
	f = later(f, a.predictDeclared(now, q, n.own))
	if !a.exempt {
		f = later(f, a.global().predict(now, a, q, n.own))
	}
	f = later(f, b.group.authentication.edge.predict(now, a, q, n.own))
	if q := b.queues.subLimitOf(a); q != nil {
		f = later(f, forecast{wait: q.hold.Wait(now), class: ratelimits.ClassSubLimit})
	}
	return f
}

// predictNext returns how long a request like the first of those who wait would wait behind all of them, or any request if nobody waits.
func (b *bucket) predictNext(now time.Duration) time.Duration {
	like, n := &ask{
		request: &Request{}, own: &routeEntry{authentication: b.group.authentication}, exempt: b.limitOf != nil && b.limitOf.exempt,
	}, b.queues.length()
	for q := range b.queues.all {
		if head := q.waiting.Head(); head != nil && like.entry == nil {
			like = &head.Value.ask
		}
	}
	return b.predict(now, like, ahead{n, n}).wait
}

// Predict returns how long a request that came now would have to wait, counting those that wait already, and what it would wait for,
// without queueing it. The wait is 0 if it could leave at once (then it would wait for nothing), and if nothing is known from which it
// could be told: while the response to a request that went first is awaited (WaitsForProbe), or another process (WaitsForOutage).
//
// It is what is known now: whoever comes meanwhile is ahead. The errors are those of AcquireRequest for a request that is refused whatever it
// would wait; neither the max rate limit nor the bounds of queues count. The request is not changed. Its
// Authorization, Fields and Group have to be those that it is sent with, else limits that depend on them are not found. It does not block.
func (m *RESTBucketManager) Predict(r *Request) (wait time.Duration, because WaitsFor, err error) {
	if err := checked(context.Background(), r); err != nil {
		return 0, WaitsForNothing, err
	}
	if err := m.admits(r); err != nil {
		return 0, WaitsForNothing, err
	}
	request := *r
	request.subLimitKey = m.subLimitKeyOf(r.Route, r.Fields)
	owner := limitsOwner(r)
	e, _ := m.findEntry(r.Route.Route(), m.hash(owner))
	if e == nil { // it may have been restored
		e, _ = m.findEntry(r.Route.Route(), m.digestOf(owner))
	}
	if e == nil && !m.hints(owner) {
		return m.predictUnseen(r)
	}
	a := m.askBut(context.Background(), &request)
	if a.limits, err = m.knownLimitsOf(a.own, &request); err != nil {
		return 0, WaitsForNothing, err
	}
	major := a.major()
	group := a.entry.groupOf(major)
	if group.kind == unknownGroup || group.kind == foreignGroup {
		major = noMajor
	}
	b := m.buckets.find(group, group.keyIn(&request.Route, major))
	if b == nil {
		return m.predictUnseen(r)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.now()
	if err := b.waitError(); err != nil {
		return 0, WaitsForOutage, err
	}
	n := ahead{}
	if !a.comesBack {
		n = b.queues.ahead(&a, b.arrived+1)
	}
	f := b.predict(now, &a, n)
	if at, ok := b.nextPermit(now); f.wait == 0 && ok && at <= now && !b.awaitsOutcome(&a) && !b.blocks(now, &a) {
		return 0, WaitsForNothing, nil
	}
	because, f = b.outlook(now, &a, f)
	return f.wait, because, nil
}

// predictUnseen is Predict for a request in whose bucket nothing waits, and nothing is known but what stands above it.
func (m *RESTBucketManager) predictUnseen(r *Request) (wait time.Duration, because WaitsFor, err error) {
	now, route := m.now(), r.Route.Route()
	a, _ := m.authentications.Load(m.digestOf(r))
	known := a != nil
	if !known {
		a = &authentication{digest: m.digestOf(r), server: &server{name: r.Server}}
	}
	asked := &ask{group: r.Group, weight: m.weightOf(r.Group)}
	if asked.limits, err = m.knownLimitsOf(&routeEntry{manager: m, authentication: a, rules: m.rulesOf(route)}, r); err != nil {
		return 0, WaitsForNothing, err
	}
	f := asked.predictDeclared(now, nil, 0)
	if known {
		f = later(f, a.edge.predict(now, asked, nil, 0))
		if !route.GlobalExempt() {
			f = later(f, a.global.predict(now, asked, nil, 0))
		}
	}
	switch {
	case f.wait == 0:
		return 0, WaitsForNothing, nil
	case f.limit != nil:
		return f.wait, WaitsForDeclared, nil
	case f.class == ratelimits.ClassEdge:
		return f.wait, WaitsForEdge, nil
	}
	return f.wait, WaitsForGlobal, nil
}
