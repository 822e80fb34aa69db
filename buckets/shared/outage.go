package shared

import (
	"fmt"
	"time"
)

// Outage is a policy: it says what happens to requests while the server that keeps the shared limits cannot be reached.
type Outage uint8

const (
	// OutageWait sends nothing until the server can be reached again, so no limit is exceeded. Requests wait up to their
	// max wait or deadline. After that they fail with an error that is both an OutageError and a *ratelimits.TooLongError.
	OutageWait Outage = iota
	// OutageFail rejects requests with an OutageError at once.
	OutageFail
	// OutageShare sends requests within an equal share of every limit: the limit divided by the number of processes when
	// the server was last reached. It costs throughput if processes need different amounts, and causes some 429s.
	OutageShare
	// OutageFull sends requests as if there were no other process. This causes no 429s in buckets that only one process
	// uses. In other buckets, most requests beyond the limit get a 429.
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
	// enoughFailures is how many failed calls in a row mean an outage, if each call started after the previous one had
	// failed. A single call may fail without an outage.
	enoughFailures = 2
	// longestSilence is how long after the first failure a further failure means an outage in any case, if no call has
	// succeeded in between.
	longestSilence = time.Second
	firstProbe     = 100 * time.Millisecond
	longestProbe   = time.Second
)

// outage is what a session knows about the availability of the server.
type outage struct {
	away     bool
	since    time.Duration // start of the first call that failed
	failures int
	failedAt time.Duration // end of the latest call that failed
	cause    error

	times uint64        // number of outages so far, including the current one
	spent time.Duration // total length of past outages
}

// failed records that a call failed, and reports whether an outage begins.
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

// end records that a call succeeded, or that no further calls will be made. It reports whether an outage ends.
func (o *outage) end(now time.Duration) (ends bool) {
	ends = o.away
	*o = outage{times: o.times, spent: o.total(now)}
	return ends
}

// total returns the total length of all outages until now.
func (o *outage) total(now time.Duration) time.Duration {
	if !o.away {
		return o.spent
	}
	return o.spent + now - o.since
}
