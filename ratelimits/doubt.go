package ratelimits

import (
	"slices"
	"time"
)

// doubt is a request that was answered, and counted in the current window, in the one before, or perhaps in the next one. In
// any case it is forgotten when the reset that its own response spoke of has certainly passed.
type doubt struct {
	until time.Duration
	next  bool // it may be the next window
}

// doubt keeps a request charged of whose window only the reset is known.
func (w *Window) doubt(reset interval) {
	t := w.inTrouble()
	t.doubts = append(t.doubts, doubt{reset.high, w.closing.known && reset.high >= w.closing.within.low+w.period})
}

// settleDoubts takes off the charge of those that are certainly forgotten.
func (w *Window) settleDoubts(now time.Duration) {
	t := w.inTrouble()
	before := len(t.doubts)
	t.doubts = slices.DeleteFunc(t.doubts, func(d doubt) bool { return d.until <= now })
	w.used = max(w.used-int32(before-len(t.doubts)), w.inflight, w.said+w.blinds) // those may be of this window all the same
}

// settles returns when the next doubt ends. ok is false if there is none.
func (w *Window) settles() (at time.Duration, ok bool) {
	doubts := w.troubles().doubts
	for i, d := range doubts {
		if i == 0 || d.until < at {
			at = d.until
		}
	}
	return at, len(doubts) > 0
}

// carryDoubts keeps those that may be counted in the window that begins, and returns how many they are.
func (w *Window) carryDoubts(now time.Duration) int32 {
	if w.trouble == nil {
		return 0
	}
	t := w.trouble
	t.doubts = slices.DeleteFunc(t.doubts, func(d doubt) bool { return !d.next || d.until <= now })
	return int32(len(t.doubts))
}
