package ratelimits

import "time"

// State is what is known of a window, in a form that another process can go on with. Its times count from when it was taken.
type State struct {
	// Limit is the number of requests per window, 0 if it is not known.
	Limit int
	// Used is how many requests are charged that were answered, or never will be.
	Used int
	// Reset is how long it takes until all of those have certainly come back, 0 if they have, or if no limit is known.
	Reset time.Duration
	// Period is the length of the window, as far as it is known.
	Period time.Duration
	// Stamp is the largest Response.Stamp that was seen, 0 if there was none. It names the window.
	Stamp int64
	// Hold is how long nothing may be sent, and HoldClass of which 429.
	Hold      time.Duration
	HoldClass Class
	// Probing says that after the hold one request has to succeed before the others follow.
	Probing bool
	// Unlimited says that responses carry no limits.
	Unlimited bool
}

// NewWindow returns a window that goes on from a state that was taken just now. What was in flight then has to be adopted by it.
func NewWindow(now time.Duration, s State) Window {
	var w Window
	switch {
	case s.Unlimited:
		w.unlimited = true
	case s.Limit > 0:
		w.limit, w.longest = int32(min(s.Limit, mostCounted)), max(s.Period, 0)
		if s.Used > 0 && s.Reset > 0 {
			w.unheard = int32(min(s.Used, mostCounted))
			w.ledger.add(&charge{received: now, reset: interval{now, now + min(s.Reset, LongestTrust)}, n: w.unheard})
		}
	}
	w.outcome, w.recentSince = now, now
	w.HoldFor(now, s.Hold, s.HoldClass)
	w.probing = w.probing || s.Probing
	return w
}

// State returns what another process, or another Window, needs to go on from here. Requests in flight are not in it. Where the
// window knows more than a State can say, like when each place of a sliding bucket comes back, it says what is safe.
func (w *Window) State(now time.Duration) State {
	w.advance(now)
	rare := w.readRare()
	s := State{
		Limit: int(w.limit), Used: int(max(w.charged(now)-w.inflight, 0)), Period: w.longest,
		Hold: rare.hold.Wait(now), HoldClass: w.HoldClass(now), Probing: w.probing || w.ledger.blind(), Unlimited: w.unlimited,
	}
	switch {
	case w.recalled: // which is no more than a guess
		s.Limit, s.Used = 0, int(w.unheard)
	case w.limit == 0 && !w.unlimited:
		s.Used = int(w.unheard) // somebody else may know of what
	case s.Used > 0:
		s.Reset = max(w.ledger.last()-now, tick)
	}
	return s
}
