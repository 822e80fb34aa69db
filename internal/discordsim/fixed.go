package discordsim

import "time"

// fixedWindow counts the requests of one window and forgets them together at its end.
//
// States: closed (end is zero: nothing is counted, unless the quota is aligned) and open (until end). The first
// request opens the window; the first look at or after end closes it. A window contains its beginning but not its end.
// A refusal may extend a window beyond its period.
type fixedWindow struct {
	quota     Quota
	end       time.Time
	extended  time.Duration // by how much refusals have moved the end
	used, own int
}

func (f *fixedWindow) roll(now time.Time) {
	if !f.end.IsZero() && now.Before(f.end) {
		return
	}
	f.used, f.own, f.end, f.extended = 0, 0, time.Time{}, 0
	if f.quota.Aligned {
		f.end = f.quota.windowEnd(now)
	}
}

func (f *fixedWindow) Take(now time.Time, who Consumer) bool {
	f.roll(now)
	if f.used >= f.quota.Limit {
		f.end, f.extended = f.end.Add(f.quota.Extend), f.extended+f.quota.Extend
		return false
	}
	if f.end.IsZero() {
		f.end = now.Add(f.quota.Period)
	}
	f.used++
	if who == Own {
		f.own++
	}
	return true
}

func (f *fixedWindow) State(now time.Time) State {
	f.roll(now)
	state := State{Limit: f.quota.Limit, Remaining: max(f.quota.Limit-f.used, 0)}
	if f.end.IsZero() {
		return state
	}
	state.ResetAfter = f.end.Sub(now)
	state.NextAfter = state.ResetAfter
	if state.Remaining == 0 {
		state.RetryAfter = state.ResetAfter
	}
	return state
}

func (f *fixedWindow) OwnUsed(now time.Time) int {
	f.roll(now)
	if !f.end.IsZero() && !now.Before(f.end.Add(-f.extended)) {
		return 0 // what its own requests took is over; only refusals keep the window open
	}
	return f.own
}

func (f *fixedWindow) Quota() Quota { return f.quota }

// resize applies the new limit at once and the new period from the next window on.
func (f *fixedWindow) resize(now time.Time, quota Quota) {
	f.roll(now)
	f.quota = quota
}
