package ratelimits

import "time"

// In some sliding logs, reset-after is the time until the log forgets the earliest request. For a request that found
// the log empty, reset-after is the whole period. For all other requests, reset-after is shorter than the period. So
// each request is charged for one period from its response, whatever the reset-after in that response.

// nextEvidence records what responses have said about such a log.
type nextEvidence struct {
	period time.Duration // longest reset-after in the responses to requests that found the log empty; 0: there was none
}

func (e *nextEvidence) refutes(s *sample, longest time.Duration, l *ledger) bool {
	period := e.period
	if s.spent == 1 {
		e.period = max(e.period, s.after)
	}
	if period == 0 {
		return false
	}
	if s.after-s.rounding > period+2*tick || s.spent == 1 && s.after < longest-2*tick {
		return true
	}
	list := l.list()
	for i := range list {
		if c := &list[i]; s.after-s.rounding > c.received+period-s.sent+2*tick && c.certainly(s, period-s.rounding) {
			return true
		}
	}
	return false
}

// occupy keeps requests charged for at least one period from their response. Without all, it does so only for requests
// whose response has named no reset.
func (l *ledger) occupy(period time.Duration, all bool) {
	l.change(func(c charge) interval {
		if all || c.answer > withLimits {
			c.reset.high = max(c.reset.high, c.received+period+tick)
		}
		return c.reset
	})
}
