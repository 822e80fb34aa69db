package ratelimits

import (
	"math"
	"time"
)

// A sliding log counts each request for a period. If its reset-after is the time until the latest of them is forgotten, which is the one
// that is answered, that is always the whole period.

// refutesLog reports that a response tells another period than before.
func refutesLog(s *sample, longest time.Duration) bool {
	return longest > 0 && (s.after-longest).Abs() > 2*tick+s.rounding
}

// certainly is how many requests a log has certainly counted by a response, without that one: they were processed before, and less than
// a period ago.
func (l *ledger) certainly(s *sample, period time.Duration) (n int32) {
	list := l.list()
	for i := range list {
		if c := &list[i]; c.certainly(s, period) {
			n += c.sure
		}
	}
	return n
}

// certainly reports that a log of a period has counted some of our requests by a response, for certain.
func (c *charge) certainly(s *sample, period time.Duration) bool {
	return c.sure > 0 && !c.others && c.received <= s.sent && c.trip < math.MaxUint16 && c.sent()+period-2*tick > s.received
}
