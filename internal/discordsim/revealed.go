package discordsim

import (
	"slices"
	"time"
)

// revealed records what refusals have shown about a limit that opens later than announced. The package documentation
// says which refusals by such a limit are excused.
type revealed struct {
	shown     []showing // an entry that is both smaller and later than another one is removed
	opening   lateOpening
	tries     int       // refused tries since the largest lateness was shown
	kept      int       // number of periods, since the latest refusal by lateness, in which an own request was accepted
	periodEnd time.Time // end of the latest such period
	early     time.Time // when the client read that, since then, a request was accepted after less lateness; zero: never
}

// showing is a lateness that a refusal shows, and the time at which the client read that refusal.
type showing struct {
	late time.Duration
	at   time.Time
}

// lateOpening is an opening of a limit that came later than announced, and at which requests were refused.
type lateOpening struct {
	at      time.Time // when the limit really opened
	refused int       // number of refused requests
	since   time.Time // when the first refused request was processed
	believe bool      // before that request was sent, the client had read that a request was accepted after less lateness
	try     bool      // the refusal showed no larger lateness, and before the try the client had waited long enough
}

// show records that the client read, at the time at, a refusal that shows a lateness.
func (r *revealed) show(late time.Duration, at time.Time) {
	r.shown = slices.DeleteFunc(r.shown, func(s showing) bool { return s.late <= late && !s.at.Before(at) })
	if !slices.ContainsFunc(r.shown, func(s showing) bool { return s.late >= late && !s.at.After(at) }) {
		r.shown = append(r.shown, showing{late, at})
	}
}

// largest returns the largest lateness that refusals read by the time heard have shown.
func (r *revealed) largest(heard time.Time) (late time.Duration) {
	for _, s := range r.shown {
		if !s.at.After(heard) {
			late = max(late, s.late)
		}
	}
	return late
}

// accept records that the limit accepted an own request.
func (r *revealed) accept(now time.Time, period time.Duration) {
	if !now.Before(r.periodEnd) {
		r.kept, r.periodEnd = r.kept+1, now.Add(period)
	}
}

// refuse judges the refusal of a request by a limit that opens at the time opens. This time is later than announced by
// the duration late.
func (r *revealed) refuse(now, heard, opens time.Time, late time.Duration) (Verdict, string) {
	more := late > r.largest(heard)
	if o := &r.opening; o.at.Equal(opens) {
		o.refused++
		switch {
		case more:
			return Excused, becauseLate
		case o.try && o.believe:
			return Excused, becauseTried
		}
		return Avoidable, becauseLateTold
	}
	o := lateOpening{at: opens, refused: 1, since: now, believe: !r.early.IsZero() && !r.early.After(heard)}
	verdict, reason := Avoidable, becauseLateTold
	switch {
	case more:
		r.tries = 0
		verdict, reason = Excused, becauseLate
	case r.kept >= 1<<min(r.tries, 30):
		o.try = true
		r.tries++
		verdict, reason = Excused, becauseTried
	}
	r.opening, r.kept, r.early = o, 0, time.Time{}
	return verdict, reason
}

// accepted records that the client read, at the time at, that a request was accepted although less time than the
// largest lateness had passed.
func (r *revealed) accepted(made, at time.Time) {
	if made.After(r.opening.since) {
		r.early = earliest(r.early, at)
	}
}

// refusedAt returns how many requests have been refused so far at the late opening at the time opens.
func (r *revealed) refusedAt(opens time.Time) int {
	if r.opening.at.Equal(opens) {
		return r.opening.refused
	}
	return 0
}

// hasRoom reports whether a full limit would have a place for one more own request if it had opened on time.
func (g *gate) hasRoom(now, opens time.Time) bool {
	used := g.counter.OwnUsed(now) - g.counter.overdue(now)
	if g.pace != nil {
		used = g.pace.OwnUsed(now)
	}
	return used+g.refusedAt(opens) < g.counter.Quota().Limit
}

// stay returns how long a request of another client would keep a place, according to the answers so far.
func (g *gate) stay() time.Duration {
	if g.pace != nil {
		return g.pace.quota.Period
	}
	if quota := g.counter.Quota(); quota.Kind == KindLeaky {
		return g.longest / time.Duration(quota.Limit) // each place is taken for at least one interval
	}
	return g.longest
}

// doubtful returns a travel time. If a refusal travels at least that long, another client may have taken the place, as
// far as the client knows. The answers announced when the limit should open, but the client does not know how long the
// requests for these answers had travelled.
func (g *gate) doubtful(late time.Duration, announced time.Time) time.Duration {
	if g.pace != nil {
		return forgetAfter
	}
	there := forgetAfter
	for _, s := range g.sends {
		if s.reset.Equal(announced) {
			there = min(there, s.there)
		}
	}
	return g.stay() - late - there - 2*time.Millisecond // two headers are each rounded to a millisecond
}

// judgeLate judges a refusal by a limit that is full of the client's own requests. It decides whether the limit is full
// because it opens later than announced, and whether the client could know that.
func (w *World) judgeLate(x *exchange, q question) (Verdict, string) {
	g, now := x.refusal.gate, x.call.Now
	opens, announced := now.Add(x.refusal.retry), g.opened(now)
	late := opens.Sub(announced)
	switch {
	case late <= 0 || q.sent.Before(announced) && g.crowded.Before(announced) || !g.hasRoom(now, opens):
		return Avoidable, becauseOwn
	case late >= g.stay(): // the client may take the cause for a request of another client
		return Unavoidable, becauseOthers
	case q.sent.Before(announced): // the refusal teaches the client nothing about lateness
		return Excused, becauseLate
	}
	x.late, x.announced, x.firstLate = late, announced, g.refusedAt(opens) == 0
	return g.refuse(now, q.heard, opens, late)
}
