package ratelimits

import "time"

// evidence is what each kind has to remember of earlier responses to see that a later one rules it out. The zero value is evidence
// of nothing.
type evidence struct {
	refuted   kinds
	others    bool     // seem to use the bucket, too
	suspected bool     // it is rather a log that names its next place than a fixed window, until rare.suspected
	seen      uint8    // responses since everything was open, up to 255
	leftOut   uint8    // responses in a row that were left out, the latest not longer ago than rare.leftOutUntil
	reset     interval // the latest that a response has spoken of, which came at
	at        time.Duration
	fixed     fixedEvidence
	leaky     leakyEvidence
	next      nextEvidence
}

// kindOf is the one kind that a set of refuted ones leaves. A log that names its next place answers like a fixed window until a reset moves.
var kindOf = [everyKind + 1]Kind{
	everyKind &^ fixed: KindFixed, log | leaky: KindFixed, everyKind &^ log: KindLog, everyKind &^ leaky: KindLeaky, everyKind &^ next: KindNext,
}

func (e *evidence) kind() Kind { return kindOf[e.refuted&everyKind] }

// windows reports that all requests come back together, as far as anything is known.
func (e *evidence) windows() bool {
	return e.kind() == KindFixed && (!e.suspected || e.refuted&next != 0)
}

// mayBeNext reports that reset-after may be the time until the first request comes back, and that something speaks for it.
func (e *evidence) mayBeNext() bool {
	return e.refuted&next == 0 && (e.refuted&fixed != 0 || e.suspected)
}

// suspectedPeriods is for how many periods a bucket is rather taken for a log that names its next place than for a fixed window, after
// something that no other kind explains, but somebody else or a mistake of the server's might. It costs a part of a round trip each period.
const suspectedPeriods = 64

// suspect takes in that something has happened that fits a log which names its next place, and seems to fit no other kind.
func (w *Window) suspect(from, period time.Duration) {
	if w.evidence.refuted&next == 0 {
		rare := w.writeRare()
		rare.suspected, w.evidence.suspected = max(rare.suspected, from+suspectedPeriods*period), true
	}
}

// verdict is what becomes of a response that is taken in.
type verdict uint8

const (
	consistent   verdict = iota
	contradicted         // no kind is left that can have answered so: it may be wrong, or an earlier one
	believed             // soon again: the bucket works otherwise than it did
)

// enoughLeftOut is how many responses that no kind can have given are believed if they come soon after each other. Fewer may be wrong, or
// follow one that was.
const enoughLeftOut = 3

// judge takes in a response. One that no kind can have given leaves everything open again, and is left out itself.
func (w *Window) judge(s *sample) verdict {
	e := &w.evidence
	e.suspected = e.suspected && s.received < w.rare.suspected
	before, v := e.kind(), consistent
	w.refute(s)
	if e.refuted == everyKind || !e.suspected && before != KindNext && e.kind() == KindNext {
		v = w.contradict(s)
	}
	e.seen = max(e.seen, e.seen+1)
	if s.reset.low > e.reset.high {
		e.reset, e.at = s.reset, s.received
	}
	return v
}

// contradict begins again. If it has to do so often, the bucket works otherwise than it did, and the response is the first of that.
func (w *Window) contradict(s *sample) verdict {
	e, rare := &w.evidence, w.writeRare()
	if s.received >= rare.leftOutUntil {
		e.leftOut = 0
	}
	if e.leftOut+1 >= enoughLeftOut {
		w.evidence, w.longest = evidence{}, 0
		w.refute(s)
		return believed
	}
	onlyNext := e.refuted != everyKind
	if !onlyNext {
		w.doubtLateness(s.received)
	}
	e.forget()
	e.fixed, e.leftOut = fixedEvidence{}, e.leftOut+1
	rare.leftOutUntil = max(s.reset.high, w.ledger.last())
	if onlyNext {
		w.suspect(s.received, max(w.longest, s.after))
	}
	return contradicted
}

// refute takes a response to each kind that is left, to rule it out or to remember.
func (w *Window) refute(s *sample) {
	e, l := &w.evidence, &w.ledger
	if s.rounding > w.readRare().rounding {
		w.writeRare().rounding = s.rounding
	}
	s.rounding = w.readRare().rounding
	longest := max(w.longest, s.after) - s.rounding   // no period is shorter
	if s.sent >= e.at && s.reset.high < e.reset.low { // the reset that a bucket speaks of moves only forwards
		e.refuted = everyKind
		return
	}
	if e.refuted&(fixed|next) != fixed|next && e.fixed.refutes(s, longest) {
		e.refuted |= fixed
	}
	if e.refuted&leaky == 0 && e.leaky.refutes(s, e.reset, w.readRare().late.by) {
		e.refuted |= leaky
	}
	if e.refuted&log == 0 && refutesLog(s, w.longest) {
		e.refuted |= log
	}
	if e.refuted&next == 0 && e.next.refutes(s, longest, l) {
		e.refuted |= next
	}
	if e.refuted&(log|next) != log|next && s.spent <= l.certainly(s, w.leastPeriod()) {
		e.refuted |= log | next
	}
}

// leastPeriod is the shortest that the period can be, by the responses so far.
func (w *Window) leastPeriod() time.Duration { return w.longest - w.readRare().rounding }

// enough responses that all fit a sliding bucket, which is easily refuted unless resets are rounded, make that more likely
// than others who use the bucket.
const enough = 4

// slides reports that somebody else would be needed to explain what a fixed window has counted, and nobody if the bucket is a sliding one.
func (w *Window) slides(s *sample, expired int32) bool {
	e, l := &w.evidence, &w.ledger
	return e.seen > enough && w.readRare().rounding == 0 && !e.others && e.refuted&fixed == 0 &&
		e.refuted&(log|leaky) != log|leaky && s.received < s.sent+w.longest &&
		l.within(s)+w.inflight+1 < s.spent && s.spent <= l.total-l.unsure+expired+1
}

// forget leaves everything open again, but for the latest reset and for what is counted if it is a fixed window.
func (e *evidence) forget() {
	e.refuted, e.seen, e.leaky, e.next = 0, 0, leakyEvidence{}, nextEvidence{}
	e.fixed = fixedEvidence{count: e.fixed.count, until: e.fixed.until}
}
