package discordsim

import "time"

// leakyBucket frees one place each interval while any place is taken. A place becomes free one interval after the
// previous one, or after it was taken if all other places are free by then. Its lateness is added to that.
type leakyBucket struct {
	quota  Quota
	draws  draws
	places takenPlaces
	own    takenPlaces // the places that would be taken if only Own requests had been counted
}

// take adds a place to one of the bucket's lists.
func (l *leakyBucket) take(places *takenPlaces, now time.Time, late time.Duration, who Consumer) {
	places.add(latest(now, places.last()).Add(l.quota.interval()), late, who)
}

func (l *leakyBucket) expire(now time.Time) {
	l.places.expire(now, l.quota.Limit)
	l.own.expire(now, l.quota.Limit)
}

func (l *leakyBucket) Take(now time.Time, who Consumer) bool {
	l.expire(now)
	if len(l.places.live()) >= l.quota.Limit {
		return false
	}
	late := l.draws.next(l.quota.Lateness)
	l.take(&l.places, now, late, who)
	if who == Own {
		l.take(&l.own, now, late, who)
	}
	return true
}

func (l *leakyBucket) State(now time.Time) State {
	l.expire(now)
	return l.places.state(now, l.quota.Limit)
}

func (l *leakyBucket) OwnUsed(now time.Time) int {
	l.expire(now)
	return l.own.own
}

func (l *leakyBucket) overdue(now time.Time) int {
	l.expire(now)
	return l.places.overdue(now)
}

func (l *leakyBucket) opened(now time.Time) time.Time {
	l.expire(now)
	return l.places.opened(l.quota.Limit)
}

func (l *leakyBucket) Quota() Quota { return l.quota }

// resize keeps the number of occupied places, fractions included.
func (l *leakyBucket) resize(now time.Time, quota Quota) {
	l.expire(now)
	scale := float64(quota.interval()) / float64(l.quota.interval())
	rescale := func(back time.Time) time.Time { return now.Add(time.Duration(float64(back.Sub(now)) * scale)) }
	l.places.move(rescale)
	l.own.move(rescale)
	l.quota = quota
}
