package share

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/ratelight/ratelight/bench/internal/report"
)

// cost is the cost of an accident until the next one, or the end. The notes of accidentTable explain the fields.
type cost struct {
	accident
	before, lost                        float64       // in requests per second, and in requests
	back, served                        time.Duration // negative: not before the next accident
	refused, avoidable, buckets, errors int
}

// history has the events of a run in the order of time.
type history struct {
	served    []*request      // requests that the server accepted
	processed []time.Duration // the times at which it accepted them
	refused   []refusal
	failed    []time.Duration
	planned   []time.Duration // times of requests that wait for no other; empty: callers wait for answers
	works     []work
	window    time.Duration // of a bucket
}

// history returns the requests of the run in order.
func (r *run) history() *history {
	h := &history{refused: r.refused, works: r.works, window: r.quota.Period}
	for _, one := range r.requests {
		if one.processed > 0 {
			h.served = append(h.served, one)
			h.processed = append(h.processed, one.processed)
		}
		if one.failure != "" && !one.GivenUp {
			h.failed = append(h.failed, one.Done)
		}
	}
	for _, work := range r.works {
		h.planned = append(h.planned, work.planned()...)
	}
	slices.SortFunc(h.served, func(a, b *request) int { return cmp.Compare(a.processed, b.processed) })
	for _, times := range [][]time.Duration{h.processed, h.failed, h.planned} {
		slices.Sort(times)
	}
	return h
}

// expected returns how many requests should be accepted between two times, and the fraction of them that counts as
// recovered. If callers wait for answers, the number follows from the rate. The fraction is smaller then, because the
// number varies by up to a window.
func (h *history) expected(rate float64, from, to time.Duration) (n, enough float64) {
	if len(h.planned) > 0 {
		return float64(within(h.planned, from, to)), 0.9
	}
	return rate * (to - from).Seconds(), 0.75
}

// cost computes the cost of an accident until the next one.
func (h *history) cost(a accident, affected []affected, next time.Duration) cost {
	from := max(a.at-wholeWindows(6*time.Second, h.window), 0)
	c := cost{accident: a, before: float64(within(h.processed, from, a.at)) / (a.at - from).Seconds(), errors: within(h.failed, a.at, next)}
	expected, _ := h.expected(c.before, a.at, next)
	c.lost = max(expected-float64(within(h.processed, a.at, next)), 0)
	c.back, c.served = h.back(a, c.before, next), h.servedAgain(affected, next)
	c.refused, c.avoidable, c.buckets = h.refusals(a.at, next)
	return c
}

// wholeWindows rounds d down to whole windows, at least one.
func wholeWindows(d, window time.Duration) time.Duration { return max(d.Truncate(window), window) }

// back returns the time from the end of an accident until the first accepted request from which on the rate is back.
// Requests accepted during the accident count, too. -1: it was not back before the next accident.
func (h *history) back(a accident, rate float64, next time.Duration) time.Duration {
	settled := wholeWindows(3*time.Second, h.window)
	for _, from := range h.processed[first(h.processed, a.at):] {
		if from+settled > next {
			break
		}
		if expected, enough := h.expected(rate, from, from+settled); float64(within(h.processed, from, from+settled)) >= enough*expected {
			return max(from-a.until, 0)
		}
	}
	return -1
}

// servedAgain returns the longest wait until a bucket of an affected process served a request sent afterwards. It
// returns -1 if a bucket served none before the next accident.
func (h *history) servedAgain(affected []affected, next time.Duration) (longest time.Duration) {
	for _, affected := range affected {
		waits := make(map[int]time.Duration)
		for _, s := range h.served {
			if _, ok := waits[s.bucket]; !ok && s.sent >= affected.at && s.processed < next {
				waits[s.bucket] = s.processed - max(s.HandedOver, affected.at)
			}
		}
		for bucket := range h.works[affected.place].buckets() {
			wait, ok := waits[bucket]
			if !ok {
				return -1
			}
			longest = max(longest, wait)
		}
	}
	return longest
}

// refusals counts the 429s in [from, to), the avoidable ones among them, and their buckets.
func (h *history) refusals(from, to time.Duration) (n, avoidable, buckets int) {
	seen := make(map[string]bool)
	for _, r := range h.refused {
		if r.at >= from && r.at < to {
			n++
			seen[r.bucket] = true
			if r.avoidable {
				avoidable++
			}
		}
	}
	return n, avoidable, len(seen)
}

// missed lists what an accident cost beyond its targets.
func (c *cost) missed(t targets) (missed []string) {
	miss := func(missing bool, format string, values ...any) {
		if missing {
			missed = append(missed, c.name+": "+fmt.Sprintf(format, values...))
		}
	}
	wanted := "none"
	if c.allowed > 0 {
		wanted = fmt.Sprintf("at most %d", c.allowed)
	}
	miss(c.refused > c.allowed, "%d 429s, %d of them avoidable, %s wanted", c.refused, c.avoidable, wanted)
	miss(c.allowedBuckets > 0 && c.buckets > c.allowedBuckets, "429s in %d buckets, at most %d wanted", c.buckets, c.allowedBuckets)
	late := func(what string, d, wanted time.Duration) {
		after := "after " + report.Time(d).String()
		if d < 0 {
			after = "never"
		}
		miss(wanted > 0 && (d < 0 || d > wanted), "%s %s, after %v wanted", what, after, wanted)
	}
	late("the rate was back", c.back, t.backWithin)
	late("each bucket served again", c.served, t.servedWithin)
	return missed
}

const (
	// simultaneous requests have no order: telling the engine takes so long, plus the time that the machine is behind.
	simultaneous = 5 * time.Millisecond
	// blur exceeds the differences of ways to the server, which may process simultaneous requests in any order.
	blur = 100 * time.Millisecond
)

// inversions counts pairs of requests that different processes made in one bucket one after the other. inverted counts
// those that the server accepted in reverse order. Requests made within atOnce have no order.
//
// A bucket's first window does not count. Until its hash is known, requests wait in each process separately. The
// process that discovers the hash is lent the bucket, because no other process has asked for it yet.
func (h *history) inversions(atOnce time.Duration) (pairs, inverted int) {
	byBucket := make(map[int][]*request)
	for _, s := range h.served {
		byBucket[s.bucket] = append(byBucket[s.bucket], s)
	}
	for _, bucket := range byBucket {
		second := bucket[0].processed + h.window
		slices.SortFunc(bucket, func(a, b *request) int { return cmp.Compare(a.HandedOver, b.HandedOver) })
		for i, earlier := range bucket {
			for _, later := range bucket[i+1:] {
				if later.place == earlier.place || later.HandedOver-earlier.HandedOver < atOnce || later.processed < second {
					continue
				}
				pairs++
				if later.processed+blur < earlier.processed {
					inverted++
				}
			}
		}
	}
	return pairs, inverted
}

// within counts the times in [from, to).
func within(times []time.Duration, from, to time.Duration) int {
	return max(first(times, to)-first(times, from), 0)
}

// first returns the index of the first time that is not before at.
func first(times []time.Duration, at time.Duration) int {
	i, _ := slices.BinarySearch(times, at)
	return i
}
