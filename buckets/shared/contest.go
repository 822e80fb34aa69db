package shared

import (
	"math/rand/v2"
	"time"
)

// longestPause bounds the pause after a call that had no effect because another session was faster.
const longestPause = 100 * time.Millisecond

// contest spreads the calls of sessions that want to replace the same value at the same time. After a call that had no
// effect because another session was faster, the session pauses for a random time. The bound of that time doubles with
// each such call in a row, up to longestPause. The caller of the methods must hold a lock that guards the contest.
type contest struct {
	lost int           // number of calls in a row that had no effect because another session was faster
	trip time.Duration // how long the latest call took
}

// ended records the end of a call. lost says whether the call had no effect because another session was faster.
func (c *contest) ended(lost bool, r *reply) {
	if c.trip = r.received - r.sent; lost {
		c.lost = min(c.lost+1, 10)
	} else {
		c.lost = 0
	}
}

// pause returns how long to wait before the next call, 0 if the latest call was not lost.
func (c *contest) pause() time.Duration {
	if c.lost == 0 {
		return 0
	}
	return rand.N(min(c.trip<<c.lost, longestPause) + 1)
}
