package ratelimits

import (
	"strconv"
	"time"
)

// Kind is the way in which a bucket fills up again. No header names it (most of Discord's buckets have been sliding since
// November 2022, some stayed fixed), so it is told from what responses rule out.
type Kind uint8

const (
	// KindUnproven: more than one kind can have answered as this bucket did. Treated so that all of them are safe: each request
	// comes back when the reset that its own response spoke of has certainly passed.
	KindUnproven Kind = iota
	// KindFixed: all requests come back together when the window closes.
	KindFixed
	// KindLog: each request comes back a period after it was processed, and reset-after says when the last of them does.
	KindLog
	// KindLeaky: one request after the other comes back, each a limit-th part of the period after the one before.
	KindLeaky
	// KindNext is KindLog, but reset-after says when the first of them comes back.
	KindNext
)

var kindNames = [...]string{"unproven", "fixed", "sliding log", "leaky", "sliding log that names its next place"}

// String returns the kind in lower case.
func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return "kind(" + strconv.Itoa(int(k)) + ")"
}

// tick is the precision of Discord's decimals: a value is at most one millisecond away from what the server meant.
const tick = time.Millisecond

// interval is a span of time in which something certainly lies.
type interval struct{ low, high time.Duration }

func (i interval) overlaps(o interval) bool { return i.low <= o.high && o.low <= i.high }

// farthest is how far apart two instants can be at most that lie in the intervals.
func (i interval) farthest(o interval) time.Duration { return max(i.high-o.low, o.high-i.low) }

func (i interval) intersect(o interval) interval {
	return interval{max(i.low, o.low), min(i.high, o.high)}
}

// sample is one successful response that carried limits.
type sample struct {
	after          time.Duration // reset-after
	spent          int32         // limit - remaining, at least 1: its own request
	sent, received time.Duration // it was processed in between
	reset          interval      // in which the instant lies that reset-after speaks of
}

// read takes what a response says. (Here and where it is charged each field is set by itself, as copies of what was just written are slow.)
func (s *sample) read(now, sent time.Duration, r *Response) {
	s.after, s.spent = min(r.ResetAfter, LongestTrust), int32(min(max(r.Limit-max(r.Remaining, 0), 1), mostCounted))
	s.sent, s.received = sent, now
	s.reset.low, s.reset.high = sent+s.after-tick, now+s.after+tick
}

// kinds is a set of kinds.
type kinds uint8

const (
	fixed kinds = 1 << iota
	log
	leaky
	next
	everyKind = fixed | log | leaky | next
)
