package discordsim

import "time"

// leakyBucket frees one place per interval as long as any place is taken. A place becomes free one interval after the
// place taken before it or, if all other places were free, one interval after it was taken. If the place has a
// lateness, it becomes free that much later.
type leakyBucket struct {
	quota  Quota
	draws  draws
	places takenPlaces
	own    takenPlaces // the places that would be taken if other clients had sent nothing
}

// take adds a taken place to one of the bucket's two lists.
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

// resize keeps the number of taken places, including the fraction of the place that is becoming free.
func (l *leakyBucket) resize(now time.Time, quota Quota) {
	l.expire(now)
	scale := float64(quota.interval()) / float64(l.quota.interval())
	rescale := func(back time.Time) time.Time { return now.Add(time.Duration(float64(back.Sub(now)) * scale)) }
	l.places.move(rescale)
	l.own.move(rescale)
	l.quota = quota
}
