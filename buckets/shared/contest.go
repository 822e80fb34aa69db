package shared

import (
	"math/rand/v2"
	"time"
)

// longestPause bounds the pause after a call that had no effect because another session was faster.
const longestPause = 100 * time.Millisecond

// contest spreads the calls of sessions that want to replace the same value at the same time. A session whose call was
// overtaken by another session pauses for a random time. The bound of that time doubles with each such call in a row,
// up to longestPause. The caller must lock it.
type contest struct {
	lost int           // number of calls in a row that another session overtook
	trip time.Duration // how long the latest call took
}

// ended records how a call ended.
func (c *contest) ended(lost bool, r *reply) {
	if c.trip = r.received - r.sent; lost {
		c.lost = min(c.lost+1, 10)
	} else {
		c.lost = 0
	}
}

// pause returns how long to wait before the next call, 0 if no session overtook the latest call.
func (c *contest) pause() time.Duration {
	if c.lost == 0 {
		return 0
	}
	return rand.N(min(c.trip<<c.lost, longestPause) + 1)
}
