package buckets

import (
	"slices"
	"time"
)

// What processes share of a declared limit. A request that is subject to it may need permits of several sources that processes share: of the
// limit, of others, and of its bucket. Each has to be asked for, and the answer takes its time. So what was granted is kept for a moment,
// while the others are asked.

// mostKept is how long that is at most: longer than an answer takes, and most buckets' windows; but not so long that it holds others up for
// much longer than the limits do, or that they take a permit for that of a request that will never be answered.
const mostKept = 2 * time.Second

// keepTime is how long a permit of the limit is kept whose request waits for something else: a period, less if processes share it.
func (d *declaredLimit) keepTime() time.Duration {
	if !d.shared.Load() {
		return d.key.rule.period
	}
	return min(d.key.rule.period, mostKept)
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
		remote := session.Bucket(d.key.sharedKey(d.credential), &d.window, d.changed)
		d.link = &sharedLink{remote: remote, arrivals: d.eachArrival}
		d.tells = true
		d.shared.Store(true)
	}
}

// disconnect ends that. The lock is held.
func (d *declaredLimit) disconnect() {
	if d.link != nil {
		d.link.close()
	}
}

// counted lets everybody know how many wait, in this process and others.
func (d *declaredLimit) counted(now time.Duration) {
	d.note()
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
		b.mu.Lock()
		if now := b.now(); err == nil {
			b.rejectLate(now)
			b.rejectOverdue(now)
		} else {
			b.rejectStanding(now, &d.line, err)
		}
		b.mu.Unlock()
	}
}

// rejectStanding tells all the same who stand in a line.
func (b *bucket) rejectStanding(now time.Duration, l *line, err error) {
	for q := range b.queues.all {
		if q.line == l {
			b.rejectQueue(q, err)
		}
	}
	b.dispatchNow(now)
}

// waitError returns what all are told who wait for the limit, if that is how it is when the others cannot be asked.
func (d *declaredLimit) waitError(time.Duration) error {
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
		return a.limits.each(func(d *declaredLimit) bool { return d.alone(now) })
	}
	q := b.queues.find(a)
	if q == nil || q.line == nil {
		return true
	}
	d, ok := q.line.above.(*declaredLimit)
	return !ok || d.canTell(now, a, q, n.own)
}

// canTell reports that it is known whether one of a queue in line can take a permit at once, with so many ahead in it.
func (d *declaredLimit) canTell(now time.Duration, a *ask, q *queue, ahead int) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.link == nil || d.evicted.Load() {
		return true
	}
	now = d.now(now)
	if at, known := d.next(now); known && at <= now {
		return false // somebody is about to
	}
	f := d.link.remote.Predict(now, d.before(a, q, ahead))
	return f.Own || f.Certain
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

// waitError returns what all are told who wait for one of the limits, if that is how it is when the others cannot be asked.
func (s *limitSet) waitError(now time.Duration) (err error) {
	s.each(func(d *declaredLimit) bool {
		err = d.waitError(now)
		return err == nil
	})
	return err
}
