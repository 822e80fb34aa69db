package fleet

import (
	"slices"
	"time"
)

// TooSlow looks for an interval in which requests with a path waited all the time, but fewer than n of them were sent.
// The interval has the length within, and lies between from and until. If there is such an interval, TooSlow returns
// the time at which it begins. A bucket that is served at its rate has no such interval.
func (f *Fleet) TooSlow(path string, n int, within, from, until time.Duration) (at time.Duration, found bool) {
	waits, sent := f.waits(path)
	for _, w := range waits {
		w.from, w.until = max(w.from, from), min(w.until, until)
		for at := w.from; at+within < w.until; {
			i, _ := slices.BinarySearch(sent, at+1) // index of the first request that was sent after the time at
			if i+n > len(sent) || sent[i+n-1] > at+within {
				return at, true
			}
			at = sent[i]
		}
	}
	return 0, false
}

// interval is a span of time.
type interval struct{ from, until time.Duration }

// waits returns the intervals in which at least one request with a path waited to be sent, and the times at which such
// requests were sent, both in order of time.
func (f *Fleet) waits(path string) (waits []interval, sent []time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, r := range f.records { // in the order of their arrival at processes
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
