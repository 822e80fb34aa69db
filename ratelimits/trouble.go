package ratelimits

// trouble is what a Window remembers of holds, refusals and contradictions. Most buckets never make any, so it is kept apart.
type trouble struct {
	hold        Throttle
	holdClass   Class // of the 429 that the hold comes from
	refusals    Refusals
	raisedTwice bool  // the response before the latest named a higher limit, too
	raised      int32 // a higher limit that the latest response named: believed from the next window on
	hidden      hiddenLimit
	surprise    surprises
	doubts      []doubt
}

// noTrouble is what is read of a window that never had any. Nothing writes to it.
var noTrouble trouble

// troubles is for reading.
func (w *Window) troubles() *trouble {
	if w.trouble == nil {
		return &noTrouble
	}
	return w.trouble
}

// inTrouble is for writing.
func (w *Window) inTrouble() *trouble {
	if w.trouble == nil {
		w.trouble = &trouble{}
	}
	return w.trouble
}
