package buckets

import (
	"context"
	"errors"
	"time"

	"github.com/ratelight/ratelight/ratelimits"
)

// Who would wait for too long is rejected: at once, when something makes the wait longer, or when it was too long although nobody could tell.
// (The server refuses requests; the manager rejects them, or lets them wait.)

// judge returns how long the ask will have to wait at its place in b, which is locked, and the error if it must not.
func (m *RESTBucketManager) judge(now time.Duration, b *bucket, a *ask, arrived time.Duration) (forecast, error) {
	if err := b.waitError(); err != nil {
		return forecast{}, err
	}
	if err := a.limits.waitError(now); err != nil {
		return forecast{}, err
	}
	if !a.exempt {
		if err := a.global().waitError(now); err != nil {
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
	return b.judge(now, a, n, b.canTell(now, a, nil, n))
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

// judge returns how long an ask will have to wait, and the error if that is too long. known is false as long as others have
// to be asked whether it can leave at once.
func (b *bucket) judge(now time.Duration, a *ask, n ahead, known bool) (forecast, error) {
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
	waited := now - a.asked()
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
		Key:      b.limitKey(a, f),
		Cause:    b.unreachable(now, a),
	}
	if f.limit != nil {
		rule := f.limit.key.rule
		tooLong.Declared, tooLong.Limit, tooLong.Period = rule.name, rule.limit, rule.period
	}
	return tooLong
}

// limitKey names what a wait in the bucket is for.
func (b *bucket) limitKey(a *ask, f forecast) string {
	switch {
	case f.limit != nil:
		return f.limit.key.shown()
	case f.class == ratelimits.ClassEdge:
		return "edge " + b.server().name
	case f.global:
		return "global " + b.server().name + " " + a.own.authentication.shown()
	}
	return b.group.shown() + " " + b.group.of() + " " + b.major.String() + " " + b.group.authentication.shown()
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

// rejectWaiters takes out those who wait and who must not, by what judge says of them, and tells them so. ahead is how many wait before
// them. It reports whether there are any; then somebody else may be the first, and has to be woken.
func (b *bucket) rejectWaiters(judge func(w *waiter, n ahead) error) (any bool) {
	for q := range b.queues.all {
		any = b.rejectOf(q, judge) || any
	}
	return any
}

// rejectOf is rejectWaiters for one queue.
func (b *bucket) rejectOf(q *queue, judge func(w *waiter, n ahead) error) (any bool) {
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

// rejectLate rejects those who wait and, after a hold was raised, would wait too long.
func (b *bucket) rejectLate(now time.Duration) {
	late := b.rejectWaiters(func(w *waiter, n ahead) error {
		known := w.atOnce && b.canTell(now, &w.ask, w, n) // nobody else is asked that, as there may be very many
		_, err := b.judge(now, &w.ask, n, known)
		return err
	})
	if late {
		b.dispatchNow(now)
	}
}

// answerPatience is how long even those who do not wait wait for the answer of others.
const answerPatience = time.Second

// rejectOverdue rejects those who have waited longer than they may, because nothing was known that their wait could have been
// predicted from.
func (b *bucket) rejectOverdue(now time.Duration) {
	if b.queues == nil {
		return
	}
	b.queues.overdue = 0
	late := b.rejectWaiters(func(w *waiter, _ ahead) error {
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

// rejectAll tells all who wait the same.
func (b *bucket) rejectAll(err error) {
	b.rejectWaiters(func(*waiter, ahead) error { return err })
}

// rejectQueue tells all who wait in a queue the same.
func (b *bucket) rejectQueue(q *queue, err error) {
	b.rejectOf(q, func(*waiter, ahead) error { return err })
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

// rejectLate rejects those who wait below a gate and would wait too long after its hold was raised.
func (g *gate) rejectLate() {
	if g.manager.waiting.Load() == 0 {
		return
	}
	g.eachBusy(func(b *bucket) {
		b.dispatchNow(b.now()) // nobody is rejected who can leave, but has not been looked at yet
		b.rejectLate(b.now())
	})
}

// rejectWithoutPart rejects those who wait for a part that does not come, and have waited longer than they may, or will have when it comes, or
// must not wait for it.
func (g *gate) rejectWithoutPart(now time.Duration) {
	err := g.waitError(now)
	g.eachBusy(func(b *bucket) {
		if !b.queues.standIn(&g.line) {
			return
		}
		b.rejectOverdue(b.now())
		if b.rejectLate(b.now()); err != nil {
			b.rejectAll(err)
		}
	})
}

// eachBusy calls a function with all buckets below the gate in which somebody may wait, each locked.
func (g *gate) eachBusy(f func(*bucket)) {
	if a := g.authentication; a != nil {
		a.eachBusy(f)
		if byToken := a.server.byToken.Load(); byToken != nil && byToken != a {
			byToken.eachBusy(f) // requests with this credential may wait there
		}
		return
	}
	for _, a := range g.manager.authentications.All() {
		if a.edge == g {
			a.eachBusy(f)
		}
	}
}
