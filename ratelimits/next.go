package ratelimits

import "time"

// In a sliding log, reset-after may also be the time until the log forgets the earliest request. That is the whole
// period only for a request that found the log empty, and less for all others. So each request is charged for a period
// from its answer, whatever its reset-after.

// nextEvidence records what responses have said about such a log.
type nextEvidence struct {
	period time.Duration // longest reset-after of a request that found the log empty; 0: no request did
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

// occupy keeps requests charged for a period from their answer: all requests, or only those without a known reset.
func (l *ledger) occupy(period time.Duration, all bool) {
	l.change(func(c charge) interval {
		if all || c.answer > withLimits {
			c.reset.high = max(c.reset.high, c.received+period+tick)
		}
		return c.reset
	})
}
