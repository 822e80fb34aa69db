package discordsim

import "time"

// takenPlaces are the occupied places of a log or of a leaky bucket, in the order in which they become free.
type takenPlaces struct {
	list []takenPlace // the first `gone` entries are free again
	gone int
	own  int
}

type takenPlace struct {
	back time.Time     // when the place becomes free, as announced
	late time.Duration // how much later than announced it really becomes free
	who  Consumer
}

func (p takenPlace) returns() time.Time { return p.back.Add(p.late) }

func (t *takenPlaces) live() []takenPlace { return t.list[t.gone:] }

// expire frees the places whose time has come. The list keeps the latest places, at least as many as the limit, because
// the method opened needs them.
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

// opened returns the time at which, as announced, the place for the next request becomes or became free; zero: that
// place was never taken.
func (t *takenPlaces) opened(limit int) time.Time {
	if i := len(t.list) - limit; i >= 0 {
		return t.list[i].back
	}
	return time.Time{}
}

// last returns the announced time at which all places will be free, zero if all places are free.
func (t *takenPlaces) last() time.Time {
	if live := t.live(); len(live) > 0 {
		return live[len(live)-1].back
	}
	return time.Time{}
}

// add takes a place that is announced to become free at the time back. The place does not become free before the places
// that were taken earlier.
func (t *takenPlaces) add(back time.Time, late time.Duration, who Consumer) {
	if live := t.live(); len(live) > 0 {
		late = max(late, live[len(live)-1].returns().Sub(back))
	}
	t.list = append(t.list, takenPlace{back: back, late: late, who: who})
	if who == Own {
		t.own++
	}
}

// move replaces the announced times at which taken places become free.
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
		next = live[over] // the limit was lowered if over > 0: then this many more places have to become free
		state.RetryAfter = next.returns().Sub(now)
	}
	state.ResetAfter, state.ResetLate = last.returns().Sub(now), last.late
	state.NextAfter, state.NextLate = next.returns().Sub(now), next.late
	return state
}

// overdue returns how many places are still taken although they were announced to be free by now.
func (t *takenPlaces) overdue(now time.Time) (n int) {
	for _, place := range t.live() {
		if place.back.After(now) {
			break
		}
		n++
	}
	return n
}
