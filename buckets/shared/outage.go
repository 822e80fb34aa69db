package shared

import (
	"fmt"
	"time"
)

// Outage is what a process does while the server that keeps the shared limits cannot be reached.
type Outage uint8

const (
	// OutageWait sends nothing until the server can be reached again. No limit is ever exceeded. Requests wait up to
	// their max wait or deadline, and then fail with an error that is an OutageError and a *ratelimits.TooLongError.
	OutageWait Outage = iota
	// OutageFail refuses requests with an OutageError at once.
	OutageFail
	// OutageShare continues with an equal share of every limit, divided by the number of processes when the server was
	// last reached. It costs throughput where processes need different amounts, and causes some 429s when the server
	// returns.
	OutageShare
	// OutageFull continues as if there were no other process. That is right for buckets that only one process uses; in
	// other buckets most requests beyond the limit get a 429.
	OutageFull
)

var outageNames = [...]string{"wait", "fail", "share", "full"}

// String returns the policy in lower case.
func (o Outage) String() string {
	if int(o) < len(outageNames) {
		return outageNames[o]
	}
	return fmt.Sprintf("outage(%d)", o)
}

const (
	// enoughFailures calls in a row, each begun after the one before had failed, mean that the server is away. One can be lost.
	enoughFailures = 2
	// longestSilence without any success means that, too.
	longestSilence = time.Second
	firstProbe     = 100 * time.Millisecond
	longestProbe   = time.Second
)

// outage is what a session knows of whether the server is there.
type outage struct {
	away     bool
	since    time.Duration // the start of the first call that failed
	failures int
	failedAt time.Duration // when the latest of them did
	cause    error

	times uint64        // outages, this one included
	spent time.Duration // in those that are over
}

// failed takes in that a call failed, and reports that with it an outage begins.
func (o *outage) failed(start, now time.Duration, cause error) (begins bool) {
	o.cause = cause
	switch {
	case o.failures == 0:
		o.since, o.failures = start, 1
	case start > o.failedAt:
		o.failures++
	}
	o.since, o.failedAt = min(o.since, start), now
	if o.away || o.failures < enoughFailures && now-o.since < longestSilence {
		return false
	}
	o.away = true
	o.times++
	return true
}

// end takes in that a call came through, or that there will be none, and reports that an outage ends with it.
func (o *outage) end(now time.Duration) (ends bool) {
	ends = o.away
	*o = outage{times: o.times, spent: o.total(now)}
	return ends
}

// total returns how long all outages were until now.
func (o *outage) total(now time.Duration) time.Duration {
	if !o.away {
		return o.spent
	}
	return o.spent + now - o.since
}
