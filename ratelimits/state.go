package ratelimits

import "time"

// State describes a window so that another process can continue with it. Its times count from the moment at which
// Window.State was called.
type State struct {
	// Limit is the number of requests per window, 0 if it is not known.
	Limit int
	// Used is the number of charged requests. They have been answered or lost; requests in flight are not included.
	Used int
	// Reset is the time until none of these requests is charged any more. It is 0 if none is charged now, or if no limit
	// is known.
	Reset time.Duration
	// Period is the length of the window, as far as it is known.
	Period time.Duration
	// Hold is how long nothing may be sent. HoldClass is the class of the 429 that caused the hold.
	Hold      time.Duration
	HoldClass Class
	// Probing says that after the hold one request has to succeed before other requests are sent.
	Probing bool
	// Unlimited says that responses carry no limits.
	Unlimited bool
	// Declared says that Window.Declare has set the limit.
	Declared bool
}

// NewWindow returns a window that continues from a state that was taken now. Use Adopt to add the requests that are in
// flight.
func NewWindow(now time.Duration, s State) Window {
	var w Window
	switch {
	case s.Unlimited:
		w.origin = unlimited
	case s.Limit > 0:
		w.limit, w.longest = int32(min(s.Limit, mostCounted)), min(max(s.Period, 0), LongestTrust)
		if s.Declared {
			w.origin = declared
		}
		if s.Used > 0 && s.Reset > 0 {
			w.leaveUncounted(int32(min(s.Used, mostCounted)), now)
			w.ledger.add(&charge{received: now, reset: interval{now, now + min(s.Reset, LongestTrust)}, n: w.uncounted})
		}
	}
	w.outcome, w.recentSince = now, now
	w.HoldFor(now, s.Hold, s.HoldClass)
	if s.Probing && !s.Declared {
		w.probing = probes
	}
	return w
}

// State returns what another process, or another Window, needs to continue from here. It does not contain requests in
// flight. The window may know more than fits into a State, for example when each place of a sliding bucket becomes
// free. In that case the State has a value that is safe.
func (w *Window) State(now time.Duration) State {
	w.advance(now)
	rare := w.readRare()
	s := State{
		Limit: int(w.limit), Used: int(max(w.charged(now)-w.inflight, 0)), Period: w.longest,
		Hold: rare.hold.Wait(now), HoldClass: w.HoldClass(now), Probing: w.Probing() || w.ledger.unknownReset(),
		Unlimited: w.Unlimited(), Declared: w.Declared(),
	}
	switch {
	case w.origin == recalled: // the limit is only a guess
		s.Limit, s.Used = 0, int(w.uncounted)
	case w.limit == 0 && w.origin != unlimited:
		s.Used = int(w.uncounted) // the receiver may know the limit
	case s.Used > 0:
		s.Reset = max(w.ledger.last()-now, w.evidence.fixed.until-now, tick) + rare.late.by
	}
	return s
}
