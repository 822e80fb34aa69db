package buckets

import (
	"slices"
	"time"
)

// What processes share of a declared limit. A request that is subject to it may need permits of several sources that processes share: of the
// limit, of others, and of its bucket. Each has to be asked for, and the answer takes its time. So what was granted is kept for a moment,
// while the others are asked.

// keepTime is how long that is: longer than an answer takes, and most buckets' windows; but not so long that it holds others up for
// much longer than the limits do.
const keepTime = 2 * time.Second

// keptPermits are those of a declared limit that processes share which nobody could use yet, as something else was missing.
type keptPermits struct {
	all   []keptPermit // in the order of their ends
	alarm alarm
}

type keptPermit struct {
	permit
	until time.Duration
}

func (k *keptPermits) any() bool { return len(k.all) > 0 }

// take takes the latest of them.
func (k *keptPermits) take() (p permit, ok bool) {
	last := len(k.all) - 1
	if last < 0 {
		return p, false
	}
	p, k.all = k.all[last].permit, k.all[:last]
	return p, true
}

// takeAny takes a permit that was kept, or a new one. The lock is held.
func (d *declaredLimit) takeAny(now time.Duration, p *permit) (ok bool) {
	if *p, ok = d.kept.take(); ok {
		return true
	}
	return d.source.take(now, p)
}

// keep keeps a permit for a moment, if others would have to be asked for the next one. The lock is held.
func (d *declaredLimit) keep(now time.Duration, p permit) bool {
	if d.link.alone(now) || d.evicted.Load() || d.manager.closed() {
		return false
	}
	until := now + keepTime
	d.kept.all = append(d.kept.all, keptPermit{p, until})
	d.kept.alarm.set(d.manager.settings.clock, now, until, d.returnKept)
	return true
}

// returnKept gives back what was kept for too long.
func (d *declaredLimit) returnKept() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.kept.alarm.rang()
	now := d.now(d.manager.now())
	for d.kept.any() {
		first := &d.kept.all[0]
		if first.until > now {
			d.kept.alarm.set(d.manager.settings.clock, now, first.until, d.returnKept)
			return
		}
		d.source.giveBack(now, &first.permit)
		d.kept.all = slices.Delete(d.kept.all, 0, 1)
	}
}

// connect links the limit to those of other processes, if limits are shared, once.
func (d *declaredLimit) connect() {
	session := d.manager.session()
	if session == nil || d.manager.sharesByRoute() { // then others cannot know of it
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.link == nil && !d.evicted.Load() {
		d.tells = true
		d.link = &sharedLink{arrivals: d.eachArrival}
		d.link.remote = session.Bucket(d.key.sharedKey(d.credential), &d.window, d.changed)
	}
}

// disconnect ends that. The lock is held.
func (d *declaredLimit) disconnect() {
	if d.link == nil {
		return
	}
	d.kept.alarm.stop()
	for p, ok := d.kept.take(); ok; p, ok = d.kept.take() {
		d.source.giveBack(d.clock, &p)
	}
	d.link.close()
}

// counted lets the others know how many wait.
func (d *declaredLimit) counted(now time.Duration) {
	if d.link != nil && !d.evicted.Load() {
		d.link.remote.Demand(d.now(now), d.waiting, d.link.arrivals)
	}
}

// eachArrival yields when those arrived who wait, in order. The lock is held.
func (d *declaredLimit) eachArrival(yield func(time.Duration) bool) {
	d.told = d.told[:0]
	for q := range d.queues.All {
		d.told = append(d.told, q.place.arrivals...)
	}
	slices.Sort(d.told)
	for _, arrived := range d.told {
		if !yield(arrived) {
			return
		}
	}
}

// changed is called when other processes have something new to say of the limit.
func (d *declaredLimit) changed() {
	d.serve()
	d.mu.Lock()
	if d.evicted.Load() {
		d.mu.Unlock()
		return
	}
	now := d.now(d.manager.now())
	d.counted(now)
	d.moveOn(now)
	err := d.link.remote.Err()
	var buckets []*bucket
	for q := range d.queues.All {
		buckets = append(buckets, q.bucket)
	}
	d.mu.Unlock()
	for _, b := range buckets { // it may be later than was thought
		b.lock()
		if now := b.now(); err == nil {
			b.refuseLate(now)
			b.refuseOverdue(now)
		} else {
			b.refuseStanding(now, &d.line, err)
		}
		b.unlock()
	}
}

// refuseStanding tells all the same who stand in a line.
func (b *bucket) refuseStanding(now time.Duration, l *line, err error) {
	for q := range b.queues.all {
		if q.line == l {
			b.refuseQueue(q, err)
		}
	}
	b.dispatchNow(now)
}

// outage returns what all are told who wait for the limit, if that is how it is when the others cannot be asked.
func (d *declaredLimit) outage(time.Duration) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.link == nil {
		return nil
	}
	return d.link.remote.Err()
}

// alone reports that nobody else has to be asked what may leave.
func (d *declaredLimit) alone(now time.Duration) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.link.alone(d.now(now))
}

// declaredCanTell is canTell as far as declared limits are concerned. Of those who wait only that one counts in whose line they stand, as the
// others are asked later.
func (b *bucket) declaredCanTell(now time.Duration, a *ask, w *waiter, n ahead) bool {
	if w == nil {
		return a.limits.each(func(d *declaredLimit) bool { return d.alone(now) || d.outage(now) != nil })
	}
	q := b.queues.find(a)
	if q == nil || q.line == nil {
		return true
	}
	d, ok := q.line.above.(*declaredLimit)
	return !ok || d.canTell(now, q, n.own)
}

// canTell reports that it is known whether one of a queue in line can take a permit at once, with so many ahead in it.
func (d *declaredLimit) canTell(now time.Duration, q *queue, ahead int) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.link == nil || d.evicted.Load() {
		return true
	}
	now = d.now(now)
	if at, known := d.next(now); known && at <= now {
		return false // somebody is about to
	}
	f := d.link.remote.Predict(now, d.before(q, ahead))
	return f.Own || f.Certain || d.link.remote.Err() != nil
}

// each calls a function with each of the limits until one returns false, and reports whether none did.
func (s *limitSet) each(f func(d *declaredLimit) bool) bool {
	if s == nil {
		return true
	}
	for _, d := range s.all {
		if !f(d) {
			return false
		}
	}
	return true
}

// outage returns what all are told who wait for one of the limits, if that is how it is when the others cannot be asked.
func (s *limitSet) outage(now time.Duration) (err error) {
	s.each(func(d *declaredLimit) bool {
		err = d.outage(now)
		return err == nil
	})
	return err
}
