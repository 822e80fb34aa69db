package spectacles

import (
	"strconv"
	"time"

	"github.com/ratelight/ratelight/ratelimits"
)

// kind is what a report says, numbered as in lua/report.lua.
type kind int

const (
	limited  kind = 1 + iota // headers
	refused                  // 429 of the bucket or its resource
	globally                 // 429 of the global limit
	nothing                  // no headers, or no answer
	unsent                   // the permit was not used
	adopted                  // sent without a permit
	held                     // nothing may be sent, whatever it was that said so
)

// A 429 that does not say for how long is over after that time.
const defaultWait = time.Second

// report is something that the engine has to know of a bucket.
type report struct {
	kind      kind
	name      string
	gen       int64
	limit     int
	remaining int
	until     time.Duration // of ours, the latest at which it is over
	stamp     int64
	since     time.Duration
}

// outcome returns what a response says of a request.
func outcome(now time.Duration, p *permit, r *ratelimits.Response) report {
	o := report{kind: nothing, name: p.name, gen: p.gen, stamp: r.Stamp, since: now}
	if r.Limited {
		o.limit, o.remaining = r.Limit, r.Remaining
		o.kind, o.until = limited, now+r.ResetAfter+time.Millisecond // by which the header may be rounded
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

// over reports that it is of no use any more: leases have ended, and so has what it would hold.
func (r *report) over(now, lease time.Duration) bool { return now-r.since > lease && now > r.until }

// words returns the report as the script wants it.
func (r *report) words(now time.Duration) []string {
	integer := func(n int64) string { return strconv.FormatInt(n, 10) }
	wait := max(ceilMillis(r.until-now), 1)
	return []string{
		r.name, integer(int64(r.kind)), integer(r.gen), integer(int64(r.limit)), integer(int64(r.remaining)), integer(wait), integer(r.stamp),
	}
}
