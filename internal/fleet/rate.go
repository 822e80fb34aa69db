package fleet

import (
	"slices"
	"time"
)

// TooSlow looks for an interval of length within, between from and until, in which requests for a path waited all the
// time and fewer than n were sent. It returns the beginning of the interval. If a bucket is served at its rate, there
// is no such interval.
func (f *Fleet) TooSlow(path string, n int, within, from, until time.Duration) (at time.Duration, found bool) {
	waits, sent := f.waits(path)
	for _, w := range waits {
		w.from, w.until = max(w.from, from), min(w.until, until)
		for at := w.from; at+within < w.until; {
			i, _ := slices.BinarySearch(sent, at+1) // the first request that was sent afterwards
			if i+n > len(sent) || sent[i+n-1] > at+within {
				return at, true
			}
			at = sent[i]
		}
	}
	return 0, false
}

// interval is a time in which requests wait.
type interval struct{ from, until time.Duration }

// waits returns the intervals in which requests for a path waited to be sent, and the times when they were sent, both
// in order.
func (f *Fleet) waits(path string) (waits []interval, sent []time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, r := range f.records { // in the order in which they arrived
		if r.request.Path != path {
			continue
		}
		until := r.ended
		switch {
		case r.sent > 0:
			sent, until = append(sent, r.sent), r.sent
		case until == 0:
			until = f.Now()
		}
		if last := len(waits) - 1; last >= 0 && r.arrived <= waits[last].until {
			waits[last].until = max(waits[last].until, until)
		} else {
			waits = append(waits, interval{r.arrived, until})
		}
	}
	slices.Sort(sent)
	return waits, sent
}
