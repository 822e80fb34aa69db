package processes

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// Accident is what an accident cost.
type Accident struct {
	Name      string
	At, Until time.Duration
	// Before is the rate before it, in requests a second.
	Before float64
	// Lost is how many requests fewer came through, until the next accident, than were made, or than would have at that rate if
	// nobody makes a request before another one was answered.
	Lost float64
	// Back is when the rate was back, counted from its end; negative: not before the next one.
	Back time.Duration
	// Served is how long requests had to wait, at most, until a bucket that the accident touched served one again; negative: until the
	// next accident at least.
	Served time.Duration
	// Refused is how many 429s there were until the next one, Avoidable those of them that a client would have avoided that knew what all
	// processes knew, and RefusedBuckets the number of buckets. Errors is how many requests failed in another way.
	Refused, Avoidable, RefusedBuckets, Errors int
	// Seconds are how many requests came through in each second around it, from At - Around on.
	Seconds []int
	// Missed says which targets were missed and by how much. Empty: none, or nothing is judged.
	Missed []string

	allowed, allowedBuckets int
}

// Around is how many seconds before an accident Accident.Seconds begins.
const Around = 2

// happenings are the times at which things happened, each in order.
type happenings struct {
	served, failed []time.Duration
	refused        []refusal
	planned        []time.Duration // requests that are made whatever becomes of others; none: callers wait for answers
	through        []served        // what came through, by when it was processed
	period         time.Duration   // length of a window
}

// refusal is a 429.
type refusal struct {
	at        time.Duration
	bucket    string
	avoidable bool
}

// steady is how long before an accident its rate is measured, and settled how long after it the rate has to be back: whole windows.
func (h happenings) steady() time.Duration { return wholeWindows(6*time.Second, h.period) }

func (h happenings) settled() time.Duration { return wholeWindows(3*time.Second, h.period) }

func wholeWindows(d, period time.Duration) time.Duration { return max(d.Truncate(period), period) }

// expected is how many requests should come through in a time, and which part of that is enough to be back. If callers wait for answers
// it is those at a rate, and as many more or less as there are in a window, which is a matter of when one looks.
func (h happenings) expected(rate float64, from, to time.Duration) (n, enough float64) {
	if len(h.planned) > 0 {
		return float64(within(h.planned, from, to)), 0.9
	}
	return rate * (to - from).Seconds(), 0.75
}

// account works out what an accident cost until the next one, or the end. felt is the part of what happened in which it was felt.
func account(a accident, h happenings, felt *happenings, all []touched, next time.Duration) Accident {
	from := max(a.at-h.steady(), 0)
	before := float64(within(h.served, from, a.at)) / (a.at - from).Seconds()
	cost := Accident{
		Name: a.name, At: a.at, Until: a.until, allowed: a.allowed, allowedBuckets: a.allowedBuckets,
		Before: before, Errors: within(h.failed, a.at, next), Back: felt.back(a, before, next), Served: h.servedAgain(all, next),
	}
	cost.Refused, cost.Avoidable, cost.RefusedBuckets = h.refusals(a.at, next)
	expected, _ := h.expected(before, a.at, next)
	cost.Lost = max(expected-float64(within(h.served, a.at, next)), 0)
	for second := a.at - Around*time.Second; second < next; second += time.Second {
		cost.Seconds = append(cost.Seconds, within(h.served, second, min(second+time.Second, next)))
	}
	return cost
}

// refusals counts 429s from one time to another, the latter not included, those that were avoidable, and their buckets.
func (h happenings) refusals(from, to time.Duration) (n, avoidable, buckets int) {
	seen := make(map[string]bool)
	for _, r := range h.refused {
		if r.at < from || r.at >= to {
			continue
		}
		n++
		if r.avoidable {
			avoidable++
		}
		seen[r.bucket] = true
	}
	return n, avoidable, len(seen)
}

// back is how long after its end an accident was felt: until the first request from which on the rate is what it was. Those that
// had come through before count as well.
func (h happenings) back(a accident, rate float64, next time.Duration) time.Duration {
	for _, from := range h.served[first(h.served, a.at):] {
		if from+h.settled() > next {
			break
		}
		if expected, enough := h.expected(rate, from, from+h.settled()); float64(within(h.served, from, from+h.settled())) >= enough*expected {
			return max(from-a.until, 0)
		}
	}
	return -1
}

// touched are the buckets that have to do with what an accident left, from a time on.
type touched struct {
	at      time.Duration
	buckets map[int]bool
}

// servedAgain is how long requests had to wait, at most, until a bucket that was touched served one that was sent afterwards.
func (h happenings) servedAgain(all []touched, next time.Duration) (longest time.Duration) {
	for _, touched := range all {
		waits := make(map[int]time.Duration)
		for _, s := range h.through {
			if _, ok := waits[s.bucket]; !ok && s.sent >= touched.at && s.processed < next {
				waits[s.bucket] = s.processed - max(s.arrived, touched.at)
			}
		}
		for bucket := range touched.buckets {
			wait, ok := waits[bucket]
			if !ok {
				return -1
			}
			longest = max(longest, wait)
		}
	}
	return longest
}

// in is the part of what was made and came through in the buckets of some work.
func (h happenings) in(work Work) *happenings {
	part := &happenings{period: h.period, planned: offers([]Work{work})}
	buckets := work.buckets()
	for _, s := range h.through {
		if buckets[s.bucket] {
			part.served = append(part.served, s.processed)
		}
	}
	return part
}

// missed says what an accident cost more than it may.
func (a Accident) missed(targets Targets) (missed []string) {
	if a.Refused > a.allowed {
		wanted := "none"
		if a.allowed > 0 {
			wanted = fmt.Sprintf("at most %d", a.allowed)
		}
		missed = append(missed, fmt.Sprintf("%s: %d 429s, %d of them avoidable, %s wanted", a.Name, a.Refused, a.Avoidable, wanted))
	}
	if a.allowedBuckets > 0 && a.RefusedBuckets > a.allowedBuckets {
		missed = append(missed, fmt.Sprintf("%s: 429s in %d buckets, at most %d wanted", a.Name, a.RefusedBuckets, a.allowedBuckets))
	}
	missed = append(missed, late(a.Name, "the rate was back", a.Back, targets.BackWithin)...)
	return append(missed, late(a.Name, "each bucket served again", a.Served, targets.ServedWithin)...)
}

// late says that something came later than wanted, or never. Nothing is wanted of 0.
func late(name, what string, after, wanted time.Duration) []string {
	switch {
	case wanted == 0 || after >= 0 && after <= wanted:
		return nil
	case after < 0:
		return []string{fmt.Sprintf("%s: %s never, after %v wanted", name, what, wanted)}
	}
	return []string{fmt.Sprintf("%s: %s after %v, %v wanted", name, what, after.Round(time.Millisecond), wanted)}
}

// byProcessing sorts what came through.
func byProcessing(through []served) []served {
	return slices.SortedFunc(slices.Values(through), func(a, b served) int { return cmp.Compare(a.processed, b.processed) })
}

// within counts times from one to another, the latter not included.
func within(times []time.Duration, from, to time.Duration) int {
	return max(first(times, to)-first(times, from), 0)
}

// first is the index of the first time that is not before another.
func first(times []time.Duration, at time.Duration) int {
	i, _ := slices.BinarySearch(times, at)
	return i
}
