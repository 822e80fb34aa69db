package discordsim

import "time"

// leakyBucket is the generic cell rate algorithm: all it knows is when it will be empty. Each request moves that
// instant one interval later; a request is refused if the instant would then lie further away than limit intervals.
type leakyBucket struct {
	quota Quota
	empty time.Time // when every request is forgotten
	own   time.Time // the same, had only Own requests been counted
}

// level is how far away the instant lies: the number of occupied places in units of the interval.
func level(empty, now time.Time) time.Duration { return max(empty.Sub(now), 0) }

func (l *leakyBucket) capacity() time.Duration {
	return time.Duration(l.quota.Limit) * l.quota.interval()
}

func (l *leakyBucket) Take(now time.Time, who Consumer) bool {
	interval := l.quota.interval()
	if level(l.empty, now)+interval > l.capacity() {
		return false
	}
	l.empty = now.Add(level(l.empty, now) + interval)
	if who == Own {
		l.own = now.Add(level(l.own, now) + interval)
	}
	return true
}

func (l *leakyBucket) State(now time.Time) State {
	interval, used := l.quota.interval(), level(l.empty, now)
	remaining := max(l.capacity()-used, 0) / interval
	state := State{Limit: l.quota.Limit, Remaining: int(remaining), ResetAfter: used}
	if used > 0 {
		state.NextAfter = used - (l.capacity() - (remaining+1)*interval)
	}
	if remaining == 0 {
		state.RetryAfter = state.NextAfter
	}
	return state
}

func (l *leakyBucket) OwnUsed(now time.Time) int {
	interval := l.quota.interval()
	return int((level(l.own, now) + interval - 1) / interval)
}

func (l *leakyBucket) Quota() Quota { return l.quota }

// resize keeps the number of occupied places, fractions included.
func (l *leakyBucket) resize(now time.Time, quota Quota) {
	scale := float64(quota.interval()) / float64(l.quota.interval())
	rescale := func(empty time.Time) time.Time {
		return now.Add(time.Duration(float64(level(empty, now)) * scale))
	}
	l.empty, l.own, l.quota = rescale(l.empty), rescale(l.own), quota
}
