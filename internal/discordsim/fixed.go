package discordsim

import "time"

// fixedWindow counts the requests of one window and forgets them together at its end.
//
// A window is open until end plus its lateness, or it is closed: end is zero, and nothing is counted. The first request
// opens a closed window. The first call at or after its closing time closes the window; aligned windows then open again
// at once. A window includes its beginning but not its closing time. A refusal may extend a window beyond its period.
type fixedWindow struct {
	quota     Quota
	draws     draws
	end       time.Time     // as announced
	late      time.Duration // how much later than announced the window closes
	before    time.Time     // the announced end of the previous window; zero: there was none
	extended  time.Duration // by how much refusals have postponed the end
	used, own int
}

func (f *fixedWindow) close() time.Time { return f.end.Add(f.late) }

func (f *fixedWindow) roll(now time.Time) {
	if !f.end.IsZero() && now.Before(f.close()) {
		return
	}
	if f.used > 0 {
		f.before = f.end
	}
	f.used, f.own, f.end, f.late, f.extended = 0, 0, time.Time{}, 0, 0
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
	if f.used == 0 {
		f.late = f.draws.next(f.quota.Lateness)
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
	state.ResetAfter, state.ResetLate = f.close().Sub(now), f.late
	state.NextAfter, state.NextLate = state.ResetAfter, f.late
	if state.Remaining == 0 {
		state.RetryAfter = state.ResetAfter
	}
	return state
}

func (f *fixedWindow) OwnUsed(now time.Time) int {
	f.roll(now)
	if !f.end.IsZero() && !now.Before(f.close().Add(-f.extended)) {
		return 0 // the client's own requests no longer count; only refusals keep the window open
	}
	return f.own
}

func (f *fixedWindow) overdue(now time.Time) int {
	f.roll(now)
	if f.end.IsZero() || f.end.After(now) {
		return 0
	}
	return f.used
}

func (f *fixedWindow) opened(now time.Time) time.Time {
	f.roll(now)
	if f.used >= f.quota.Limit {
		return f.end
	}
	return f.before
}

func (f *fixedWindow) Quota() Quota { return f.quota }

// resize applies the new limit at once, and the new period from the next window on.
func (f *fixedWindow) resize(now time.Time, quota Quota) {
	f.roll(now)
	f.quota = quota
}
