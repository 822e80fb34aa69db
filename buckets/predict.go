package buckets

import (
	"context"
	"errors"
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
		f = later(f, b.group.authentication.global.predict(now, a, q, n.own))
	}
	f = later(f, b.group.authentication.edge.predict(now, a, q, n.own))
	if q := b.queues.subLimitOf(a); q != nil {
		f = later(f, forecast{wait: q.hold.Wait(now), class: ratelimits.ClassSubLimit})
	}
	return f
}

// refuse returns how long the ask will have to wait at its place in b, which is locked, and the error if it must not.
func (m *RESTBucketManager) refuse(now time.Duration, b *bucket, a *ask, arrived time.Duration) (forecast, error) {
	if err := b.outage(); err != nil {
		return forecast{}, err
	}
	if err := a.limits.outage(now); err != nil {
		return forecast{}, err
	}
	if !a.exempt {
		if err := b.group.authentication.global.outage(now); err != nil {
			return forecast{}, err
		}
	}
	n := ahead{} // of one that comes back to its place
	if !a.comesBack {
		if err := m.full(a, b.queues.length()); err != nil {
			return forecast{}, err
		}
		n = b.queues.ahead(a, arrived)
	}
	return b.refusal(now, a, n, b.canTell(now, a, nil, n))
}

// full returns an error if as many wait as may.
func (m *RESTBucketManager) full(a *ask, waiting int) error {
	if bound := m.settings.maxWaiting; bound > 0 && waiting >= bound {
		return &ratelimits.QueueFullError{Route: a.request.Route.Route().String(), Waiting: waiting, Max: bound}
	}
	if bound := m.settings.maxTotal; bound > 0 {
		if total := int(m.waiting.Load()); total >= bound {
			return &ratelimits.QueueFullError{Route: a.request.Route.Route().String(), Waiting: total, Max: bound, Total: true}
		}
	}
	return nil
}

// refusal returns how long an ask will have to wait, and the error if that is too long. known is false as long as others have
// to be asked whether it can leave at once.
func (b *bucket) refusal(now time.Duration, a *ask, n ahead, known bool) (forecast, error) {
	f := b.predict(now, a, n)
	// A wait of exactly the maximum looks a little longer, as the server's times are rounded.
	late := f.wait > 0 && now+f.wait > a.latest+2*precision
	if a.atOnce {
		late = known
	}
	if late {
		return f, a.tooLong(now, b, f)
	}
	return f, nil
}

// tooLong returns the error for a request whose wait is forecast to be longer than it may be, or that has waited longer.
func (a *ask) tooLong(now time.Duration, b *bucket, f forecast) error {
	waited := max(now-a.asked(), 0)
	if f.wait > 0 || now > a.latest {
		f.wait += waited // in all, as what it may wait
	}
	tooLong := &ratelimits.TooLongError{
		Route:    a.request.Route.Route().String(),
		Class:    f.class,
		Global:   f.global,
		Wait:     f.wait,
		Waited:   waited,
		Max:      a.longest,
		Deadline: a.deadline,
		Limit:    b.window.Limit(),
		Period:   b.window.Period(),
		Bucket:   b.group.named(),
		Key:      b.limitKey(f),
		Cause:    b.unreachable(now, a),
	}
	if f.limit != nil {
		rule := f.limit.key.rule
		tooLong.Declared, tooLong.Limit, tooLong.Period = rule.name, rule.limit, rule.period
	}
	return tooLong
}

// limitKey names what a wait in the bucket is for.
func (b *bucket) limitKey(f forecast) string {
	authentication := b.group.authentication
	switch {
	case f.limit != nil:
		return f.limit.key.shown()
	case f.class == ratelimits.ClassEdge:
		return "edge " + b.server().name
	case f.global:
		return "global " + b.server().name + " " + authentication.shown()
	}
	return b.group.shown() + " " + b.group.route.String() + " " + b.major.String() + " " + authentication.shown()
}

// expired returns the error for a request whose context ended while it waited. If nobody could be asked until its deadline, it says so.
func (m *RESTBucketManager) expired(ctx context.Context, a *ask) error {
	err := ctx.Err()
	if !a.deadline || !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	if cause := m.outage(); cause != nil {
		return &ratelimits.TooLongError{Route: a.request.Route.Route().String(), Max: a.longest, Deadline: true, Cause: cause}
	}
	return err
}

// refuseWaiters takes out those who wait and who must not, by what judge says of them, and tells them so. ahead is how many wait before
// them. It reports whether there are any; then somebody else may be the first, and has to be woken.
func (b *bucket) refuseWaiters(judge func(w *waiter, n ahead) error) (any bool) {
	for q := range b.queues.all {
		any = b.refuseOf(q, judge) || any
	}
	return any
}

// refuseOf is refuseWaiters for one queue.
func (b *bucket) refuseOf(q *queue, judge func(w *waiter, n ahead) error) (any bool) {
	before := 0
	for w := range q.waiters {
		if err := judge(w, b.queues.aheadOf(&w.ask, w.Arrived, before)); err != nil {
			b.remove(w)
			b.resolve(w, Lease{}, err)
			any = true
			continue
		}
		before++
	}
	return any
}

// refuseLate refuses those who wait and, after a hold was raised, would wait too long.
func (b *bucket) refuseLate(now time.Duration) {
	late := b.refuseWaiters(func(w *waiter, n ahead) error {
		known := w.atOnce && b.canTell(now, &w.ask, w, n) // nobody else is asked that, as there may be very many
		_, err := b.refusal(now, &w.ask, n, known)
		return err
	})
	if late {
		b.dispatchNow(now)
	}
}

// answerPatience is how long even those who do not wait wait for the answer of others.
const answerPatience = time.Second

// refuseOverdue refuses those who have waited longer than they may, because nothing was known that their wait could have been
// predicted from.
func (b *bucket) refuseOverdue(now time.Duration) {
	if b.queues == nil {
		return
	}
	b.queues.overdue = 0
	late := b.refuseWaiters(func(w *waiter, _ ahead) error {
		if now > w.latest && !(w.atOnce && now <= w.latest+answerPatience) {
			return w.tooLong(now, b, forecast{})
		}
		b.queues.awaitOverdue(w)
		return nil
	})
	if late {
		b.dispatchNow(now)
	}
	b.watchOverdue(now)
}

// refuseAll tells all who wait the same.
func (b *bucket) refuseAll(err error) {
	b.refuseWaiters(func(*waiter, ahead) error { return err })
}

// refuseQueue tells all who wait in a queue the same.
func (b *bucket) refuseQueue(q *queue, err error) {
	b.refuseOf(q, func(*waiter, ahead) error { return err })
}

// overduePause is how long after one look the next one comes for those who have waited longer than they may, so that many of them cost
// little.
const overduePause = 20 * time.Millisecond

// awaitOverdue notes until when somebody who waits may wait.
func (qs *queues) awaitOverdue(w *waiter) {
	latest := w.latest + 1 // a wait of exactly the maximum is not too long
	if w.atOnce {
		latest += answerPatience
	}
	if qs.overdue == 0 || latest < qs.overdue {
		qs.overdue = latest
	}
}

// awaitOverdue sees to it that somebody who waits does not wait longer than he may while nobody can be asked.
func (b *bucket) awaitOverdue(now time.Duration, w *waiter) {
	b.queues.awaitOverdue(w)
	b.watchOverdue(now)
}

// watchOverdue sets the alarm to when somebody will have waited too long, while nobody can be asked: nothing else may happen until then.
func (b *bucket) watchOverdue(now time.Duration) {
	m := b.manager()
	if qs := b.queues; qs != nil && qs.overdue > 0 && m.outage() != nil {
		b.wakeAt(now, max(qs.overdue, now+overduePause))
	}
}

// refuseLate refuses those who wait below a gate and would wait too long after its hold was raised.
func (g *gate) refuseLate() {
	if g.manager.waiting.Load() == 0 {
		return
	}
	g.eachBusy(func(b *bucket) {
		b.dispatchNow(b.now()) // nobody is refused who can leave, but has not been looked at yet
		b.refuseLate(b.now())
	})
}

// refuseClosed refuses those who wait for a part that does not come, and have waited longer than they may, or will have when it comes, or
// must not wait for it.
func (g *gate) refuseClosed(now time.Duration) {
	err := g.outage(now)
	g.eachBusy(func(b *bucket) {
		if !b.queues.standIn(&g.line) {
			return
		}
		b.refuseOverdue(b.now())
		if b.refuseLate(b.now()); err != nil {
			b.refuseAll(err)
		}
	})
}

// eachBusy calls a function with all buckets below the gate in which somebody may wait, each locked.
func (g *gate) eachBusy(f func(*bucket)) {
	if g.authentication != nil {
		g.authentication.eachBusy(f)
		return
	}
	for _, a := range g.manager.authentications.All() {
		if a.edge == g {
			a.eachBusy(f)
		}
	}
}

// canTell reports that it is known whether an ask can leave at once that waits as w, or comes now if that is nil, with so many ahead of it. Where
// others have to be asked for that, even those who do not wait have to wait for their answer.
func (b *bucket) canTell(now time.Duration, a *ask, w *waiter, n ahead) bool {
	switch {
	case b.window.HoldWait(now) > 0 || b.queues.subLimitOf(a) != nil:
		return true // whatever the others say
	case a.atOnce && b.unreachable(now, a) != nil:
		return true // nobody can say
	case b.link != nil:
		f := b.link.remote.Predict(now, n.all)
		switch {
		case !f.Own && b.link.remote.Err() != nil:
			return true
		case !f.Own && (w == nil || !f.Certain):
			return false
		}
	case b.discovery != nil && !b.discovery.canTell():
		return false
	}
	if w != nil && b.leaves(now) {
		return false // somebody is about to
	}
	if !b.declaredCanTell(now, a, w, n) {
		return false
	}
	if a.exempt || b.group.authentication.global.partKnown() {
		return true
	}
	return w != nil && b.queues.lineOf(a) != &b.group.authentication.global.line
}

// leaves reports that the first in the queue can leave as soon as somebody looks, as far as the bucket is concerned.
func (b *bucket) leaves(now time.Duration) bool {
	first, _ := b.first(now)
	if first == nil {
		return false
	}
	at, ok := b.next(now, &first.ask)
	return ok && at <= now
}

// outage returns why nobody can be asked at the moment, nil if that is not so or not known.
func (m *RESTBucketManager) outage() error {
	if session, ok := m.session().(SharedStatus); ok {
		return session.Outage()
	}
	return nil
}

// unreachable returns why nobody can be asked at the moment, nil if an ask in the bucket does not wait for that.
func (b *bucket) unreachable(now time.Duration, a *ask) error {
	err := b.manager().outage()
	discovers := b.discovery == nil || b.discovery.may || b.discovery.probing
	alone := func(d *declaredLimit) bool { return d.alone(now) }
	if err == nil || b.link.alone(now) && discovers && a.limits.each(alone) && (a.exempt || b.group.authentication.global.certain(now)) {
		return nil
	}
	return err
}

// outage returns what everybody who waits in the bucket is to be told, if that is how it is when the others cannot be asked.
func (b *bucket) outage() error {
	switch {
	case b.link != nil:
		return b.link.remote.Err()
	case b.discovery != nil && !b.discovery.may:
		return b.discovery.remote.Err()
	}
	return nil
}

// outage returns what everybody who waits for the limit is to be told, if that is how it is when the others cannot be asked.
func (g *gate) outage(now time.Duration) error {
	if g.part == nil {
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.syncPart(now) {
		return nil
	}
	return g.part.remote.Err()
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
	e, _ := m.findEntry(r.Route.Route(), m.hash(r))
	if e == nil { // it may have been restored
		e, _ = m.findEntry(r.Route.Route(), m.digestOf(r))
	}
	if e == nil {
		return m.predictUnseen(r)
	}
	a := m.askBut(context.Background(), &request)
	if a.limits, err = m.knownLimitsOf(a.entry, &request); err != nil {
		return 0, WaitsForNothing, err
	}
	major := a.major()
	group := e.groupOf(major)
	if group.kind == unknownGroup {
		major = noMajor
	}
	b := m.buckets.find(group, major)
	if b == nil {
		return m.predictUnseen(r)
	}
	b.lock()
	defer b.unlock()
	now := b.now()
	if err := b.outage(); err != nil {
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
