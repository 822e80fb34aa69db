package ratelimits

import (
	"math"
	"time"
)

// A sliding log counts each request for a period. If reset-after is the time until the log forgets the latest request,
// reset-after is always the whole period, because the latest request is the answered one.

// refutesLog reports whether a response names another period than earlier responses.
func refutesLog(s *sample, longest time.Duration) bool {
	return longest > 0 && (s.after-longest).Abs() > 2*tick+s.rounding
}

// certainly returns how many requests, besides the answered one, the response s of a sliding log must have counted:
// those that were processed before the answered one, but less than one period before it.
func (l *ledger) certainly(s *sample, period time.Duration) (n int32) {
	list := l.list()
	for i := range list {
		if c := &list[i]; c.certainly(s, period) {
			n += c.sure
		}
	}
	return n
}

// certainly reports whether the response s of a sliding log with this period must have counted the sure requests of the
// charge.
func (c *charge) certainly(s *sample, period time.Duration) bool {
	return c.sure > 0 && !c.others &&
		c.received <= s.sent && c.trip < math.MaxUint16 && c.sent()+period-2*tick > s.received
}
