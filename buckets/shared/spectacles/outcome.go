package spectacles

import (
	"strconv"
	"time"

	"github.com/ratelight/ratelight/ratelimits"
)

// kind is the kind of a report. lua/report.lua uses the same numbers.
type kind int

const (
	limited  kind = 1 + iota // a response whose headers name a limit
	refused                  // a 429 for the bucket, or for its resource (class shared)
	globally                 // a 429 for the global limit
	nothing                  // a response without limit headers, or no response
	unsent                   // the permit was not used
	adopted                  // a request was sent without a permit
	held                     // a hold, whatever its cause
)

// defaultWait is the length of a hold after a 429 that names no wait.
const defaultWait = time.Second

// report is an event in a bucket that has to be reported to the server.
type report struct {
	kind      kind
	name      string
	gen       int64
	limit     int
	remaining int
	until     time.Duration // latest possible end of the window or the hold, by our clock
	stamp     int64
	since     time.Duration
}

// outcome returns the report for the response to a request.
func outcome(now time.Duration, p *permit, r *ratelimits.Response) report {
	o := report{kind: nothing, name: p.name, gen: p.gen, stamp: r.Stamp, since: now}
	if r.Limited {
		o.limit, o.remaining = r.Limit, r.Remaining
		o.kind, o.until = limited, now+r.ResetAfter+time.Millisecond // the header may be rounded down by a millisecond
	}
	wait := defaultWait
	if r.HasRetryAfter {
		wait = r.RetryAfter
	} else if r.Limited {
		wait = r.ResetAfter
	}
	switch r.Class {
	case ratelimits.ClassUser, ratelimits.ClassShared:
		o.kind, o.until = refused, now+wait+time.Millisecond
	case ratelimits.ClassGlobal:
		o.kind, o.until = globally, now+wait+time.Millisecond
	}
	return o
}

// over returns whether the report is no longer needed, because the lease and the hold have ended.
func (r *report) over(now, lease time.Duration) bool { return now-r.since > lease && now > r.until }

// words returns the arguments of the script lua/report.lua for this report.
func (r *report) words(now time.Duration) []string {
	integer := func(n int64) string { return strconv.FormatInt(n, 10) }
	wait := max(ceilMillis(r.until-now), 1)
	return []string{
		r.name, integer(int64(r.kind)), integer(r.gen),
		integer(int64(r.limit)), integer(int64(r.remaining)), integer(wait), integer(r.stamp),
	}
}
