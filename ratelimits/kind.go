package ratelimits

import (
	"strconv"
	"time"
)

// Kind is the way in which a bucket refills. No header names it, so it is inferred: each response may rule out kinds.
// (Most of Discord's buckets have been sliding logs since November 2022; some are still fixed windows.)
type Kind uint8

const (
	// KindUnproven means that several kinds can have given the responses so far. The bucket is treated in a way that is
	// safe for all these kinds: each request is charged until the reset in its own response has certainly passed.
	KindUnproven Kind = iota
	// KindFixed means that all places become free together when the window ends.
	KindFixed
	// KindLog means that each place becomes free one period after its request was processed. The reset-after in responses
	// is the time until the last place becomes free.
	KindLog
	// KindLeaky means that places become free one at a time. The interval between them is the period divided by the limit.
	KindLeaky
	// KindNext is like KindLog, but reset-after is the time until the first place becomes free.
	KindNext
)

var kindNames = [...]string{"unproven", "fixed", "sliding log", "leaky", "sliding log (next)"}

// String returns the kind in lower case.
func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return "kind(" + strconv.Itoa(int(k)) + ")"
}

// tick is the precision of Discord's decimals: a value in a header differs by at most one millisecond from the exact
// value.
const tick = time.Millisecond

// interval is a span of time in which an instant or a duration certainly lies.
type interval struct{ low, high time.Duration }

func (i interval) overlaps(o interval) bool { return i.low <= o.high && o.low <= i.high }

// farthest returns the largest possible distance between an instant of i and an instant of o.
func (i interval) farthest(o interval) time.Duration { return max(i.high-o.low, o.high-i.low) }

func (i interval) intersect(o interval) interval {
	return interval{max(i.low, o.low), min(i.high, o.high)}
}

func (i interval) union(o interval) interval {
	return interval{min(i.low, o.low), max(i.high, o.high)}
}

// sample has the values of one response that carried limits.
type sample struct {
	after          time.Duration // the longest possible reset-after
	rounding       time.Duration // by how much after may be too long: the largest such value of the responses so far
	spent          int32         // limit minus remaining; at least 1, because the answered request is included
	sent, received time.Duration // the server processed the request between these two
	reset          interval      // contains the time at which the bucket resets, according to this response
}

// read fills the sample from a response. (Here and in observe, each field is set separately, because it is slow to copy
// a struct that was just written.)
func (s *sample) read(now, sent time.Duration, r *Response) {
	s.after, s.spent = min(r.ResetAfter, LongestTrust), int32(min(max(r.Limit-r.Remaining, 1), mostCounted))
	s.sent, s.received = sent, now
	s.rounding = r.ResetRounding
	s.reset.low, s.reset.high = sent+s.after-s.rounding-tick, now+s.after+tick
}

// kinds has one bit for each kind.
type kinds uint8

const (
	fixed kinds = 1 << iota
	log
	leaky
	next
	everyKind = fixed | log | leaky | next
)
