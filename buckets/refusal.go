package buckets

import (
	"time"

	"github.com/ratelight/ratelight/internal/fifo"
	"github.com/ratelight/ratelight/ratelimits"
)

// forecast is how long somebody will have to wait, and for what.
type forecast struct {
	wait   time.Duration
	class  ratelimits.Class // of the 429 whose hold it is, ClassOK if it is none
	global bool             // it is for the global limit or the edge rather than for the bucket
}

// later returns the longer wait.
func later(f, other forecast) forecast {
	if other.wait > f.wait {
		return other
	}
	return f
}

// foresee is predict as far as the bucket itself is concerned.
func (b *RESTBucket) foresee(now time.Duration, ahead int) forecast {
	if b.link != nil && !b.link.lent {
		return b.link.predict(now, ahead)
	}
	return forecast{wait: b.window.Predict(now, ahead), class: b.window.HoldClass(now)}
}

// predict returns how long an ask would have to wait with so many ahead of it.
func (b *RESTBucket) predict(now time.Duration, a *ask, ahead int) forecast {
	f := b.foresee(now, ahead)
	if !a.exempt {
		f = later(f, b.group.authentication.global.foresee(now, ahead))
	}
	f = later(f, b.group.authentication.edge.foresee(now, ahead))
	if b.queue != nil {
		f = later(f, forecast{wait: b.queue.subLimitWait(now, a), class: ratelimits.ClassSubLimit})
	}
	return f
}

// refusal returns how long an ask will have to wait, and the error if that is too long. answered is false as long as others have
// to be asked whether it can leave at once.
func (b *RESTBucket) refusal(now time.Duration, a *ask, ahead int, answered bool) (forecast, error) {
	f := b.predict(now, a, ahead)
	// A wait of exactly the maximum looks a little longer, as the server's times are rounded.
	if a.atOnce && answered || f.wait > 0 && now+f.wait > a.latest+2*precision && !(a.atOnce && !answered) {
		return f, a.tooLong(now, b, f)
	}
	return f, nil
}

// refuseWaiters takes out those who wait and who must not, by what judge says of them, and tells them so. ahead is how many wait before
// them. It reports whether there are any; then somebody else may be the first, and has to be woken.
func (b *RESTBucket) refuseWaiters(judge func(w *waiter, ahead int) error) (any bool) {
	q := b.queue
	each := func(waiting *fifo.Queue[*waiter], ahead int) {
		for e := waiting.Head(); e != nil; {
			w := e.Value
			e = e.Next()
			if err := judge(w, ahead); err != nil {
				b.remove(w)
				b.resolve(w, Lease{}, err)
				any = true
				continue
			}
			ahead++
		}
	}
	each(&q.waiting, 0)
	for _, s := range q.subLimits {
		each(&s.waiting, q.waiting.Len())
	}
	return any
}

// refuseLate refuses those who wait and, after a hold was raised, would wait too long.
func (b *RESTBucket) refuseLate(now time.Duration) {
	if b.queue == nil {
		return
	}
	late := b.refuseWaiters(func(w *waiter, ahead int) error {
		answered := w.atOnce && b.canTell(now, &w.ask, w) // nobody else is asked that, as there may be very many
		_, err := b.refusal(now, &w.ask, ahead, answered)
		return err
	})
	if late {
		b.dispatchFree(now)
	}
}

// answerPatience is how long even those who do not wait wait for the answer of others.
const answerPatience = time.Second

// refuseOverdue refuses those who have waited longer than they may, because nothing was known that their wait could have been
// predicted from.
func (b *RESTBucket) refuseOverdue(now time.Duration) {
	if b.queue == nil {
		return
	}
	b.queue.overdue = 0
	late := b.refuseWaiters(func(w *waiter, _ int) error {
		if now > w.latest && !(w.atOnce && now <= w.latest+answerPatience) {
			return w.tooLong(now, b, forecast{})
		}
		b.queue.awaitOverdue(w)
		return nil
	})
	if late {
		b.dispatchFree(now)
	}
	b.watchOverdue(now)
}

// refuseAll tells all who wait the same.
func (b *RESTBucket) refuseAll(err error) {
	b.refuseWaiters(func(*waiter, int) error { return err })
}

// overduePause is how long after one look the next one comes for those who have waited longer than they may, so that many of them cost
// little.
const overduePause = 20 * time.Millisecond

// awaitOverdue notes until when somebody who waits may wait.
func (q *queue) awaitOverdue(w *waiter) {
	latest := w.latest + 1 // a wait of exactly the maximum is not too long
	if w.atOnce {
		latest += answerPatience
	}
	if q.overdue == 0 || latest < q.overdue {
		q.overdue = latest
	}
}

// awaitOverdue sees to it that somebody who waits does not wait longer than he may while nobody can be asked.
func (b *RESTBucket) awaitOverdue(now time.Duration, w *waiter) {
	b.queue.awaitOverdue(w)
	b.watchOverdue(now)
}

// watchOverdue sets the alarm to when somebody will have waited too long, while nobody can be asked: nothing else may happen until then.
func (b *RESTBucket) watchOverdue(now time.Duration) {
	m := b.manager()
	if q := b.queue; q != nil && q.overdue > 0 && !m.closed() && m.outage() != nil {
		q.alarm.set(m.settings.clock, now, max(q.overdue, now+overduePause), b.ring)
	}
}

// refuseLate refuses those who wait below a gate and would wait too long after its hold was raised.
func (g *gate) refuseLate() {
	if g.manager.waiting.Load() == 0 {
		return
	}
	for b := range g.waiting {
		b.refuseLate(b.now())
	}
}

// waiting yields all buckets below the gate in which somebody may wait, each locked.
func (g *gate) waiting(yield func(*RESTBucket) bool) {
	if a := g.authentication; a != nil {
		a.waiting(yield)
		return
	}
	for _, a := range g.manager.authentications.All() {
		if a.edge == g && !a.waiting(yield) {
			return
		}
	}
}
