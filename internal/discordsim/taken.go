package discordsim

import "time"

// takenPlaces are the occupied places of a log or of a leaky bucket, in the order in which they become free.
type takenPlaces struct {
	list []takenPlace // the first `gone` entries are free again
	gone int
	own  int
}

type takenPlace struct {
	back time.Time     // when it becomes free, as announced
	late time.Duration // how much later than announced
	who  Consumer
}

func (p takenPlace) returns() time.Time { return p.back.Add(p.late) }

func (t *takenPlaces) live() []takenPlace { return t.list[t.gone:] }

// expire frees the places whose time has come. It remembers the latest of them, as many as the limit.
func (t *takenPlaces) expire(now time.Time, limit int) {
	for t.gone < len(t.list) && !now.Before(t.list[t.gone].returns()) {
		if t.list[t.gone].who == Own {
			t.own--
		}
		t.gone++
	}
	if drop := min(t.gone, len(t.list)-limit); drop > 16 && drop > len(t.list)/2 {
		t.list = t.list[:copy(t.list, t.list[drop:])]
		t.gone -= drop
	}
}

// opened returns when the place that the next request takes was announced to be free; zero: it was never taken.
func (t *takenPlaces) opened(limit int) time.Time {
	if i := len(t.list) - limit; i >= 0 {
		return t.list[i].back
	}
	return time.Time{}
}

// last returns when all places will be free, as announced; zero if all are free.
func (t *takenPlaces) last() time.Time {
	if live := t.live(); len(live) > 0 {
		return live[len(live)-1].back
	}
	return time.Time{}
}

// add takes a place that is announced to be free at back. It does not become free before an earlier one.
func (t *takenPlaces) add(back time.Time, late time.Duration, who Consumer) {
	if live := t.live(); len(live) > 0 {
		late = max(late, live[len(live)-1].returns().Sub(back))
	}
	t.list = append(t.list, takenPlace{back: back, late: late, who: who})
	if who == Own {
		t.own++
	}
}

// move changes when places become free, as announced.
func (t *takenPlaces) move(to func(time.Time) time.Time) {
	for i := range t.live() {
		t.live()[i].back = to(t.live()[i].back)
	}
}

func (t *takenPlaces) state(now time.Time, limit int) State {
	live := t.live()
	state := State{Limit: limit, Remaining: max(limit-len(live), 0)}
	if len(live) == 0 {
		return state
	}
	last, next := live[len(live)-1], live[0]
	if over := len(live) - limit; over >= 0 {
		next = live[over] // over > 0 after the limit was lowered: this many more places have to become free first
		state.RetryAfter = next.returns().Sub(now)
	}
	state.ResetAfter, state.ResetLate = last.returns().Sub(now), last.late
	state.NextAfter, state.NextLate = next.returns().Sub(now), next.late
	return state
}

// overdue returns how many places are not free although their announced time is over.
func (t *takenPlaces) overdue(now time.Time) (n int) {
	for _, place := range t.live() {
		if place.back.After(now) {
			break
		}
		n++
	}
	return n
}
