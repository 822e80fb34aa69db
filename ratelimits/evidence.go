package ratelimits

import "time"

// evidence records what the responses of a window have shown so far. A later response may contradict them, and so rule
// out kinds.
type evidence struct {
	refuted   kinds
	others    bool     // other clients seem to use the bucket
	suspected bool     // KindNext is more likely than KindFixed, until the time rare.suspected
	seen      uint8    // number of responses since all kinds became possible (again), at most 255
	leftOut   uint8    // number of recent contradicted responses; the count begins anew at rare.leftOutUntil
	reset     interval // the latest reset that a response named; at is when that response came
	at        time.Duration
	fixed     fixedEvidence
	leaky     leakyEvidence
	next      nextEvidence
}

// kindOf maps a set of refuted kinds to the kind that is assumed. Usually the assumed kind is the only one that is not
// refuted. But KindFixed is assumed even if KindNext is not refuted, because the responses of KindNext look like those
// of a fixed window until a reset moves.
var kindOf = [everyKind + 1]Kind{
	everyKind &^ fixed: KindFixed,
	log | leaky:        KindFixed,
	everyKind &^ log:   KindLog,
	everyKind &^ leaky: KindLeaky,
	everyKind &^ next:  KindNext,
}

func (e *evidence) kind() Kind { return kindOf[e.refuted&everyKind] }

// windows reports whether all requests are assumed to expire together, as in a fixed window.
func (e *evidence) windows() bool {
	return e.kind() == KindFixed && (!e.suspected || e.refuted&next != 0)
}

// mayBeNext reports whether KindNext is possible and there is a sign of it.
func (e *evidence) mayBeNext() bool {
	return e.refuted&next == 0 && (e.refuted&fixed != 0 || e.suspected)
}

// suspectedPeriods is how many periods KindNext is preferred to KindFixed after an event that only KindNext explains.
// The event may have another cause: another client, or a mistake of the server. While KindNext is preferred, each
// period takes longer, by a part of a round trip.
const suspectedPeriods = 64

// suspect records an event that only KindNext seems to explain.
func (w *Window) suspect(from, period time.Duration) {
	if w.evidence.refuted&next == 0 {
		rare := w.writeRare()
		rare.suspected, w.evidence.suspected = max(rare.suspected, from+suspectedPeriods*period), true
	}
}

// verdict says how a response fits the evidence.
type verdict uint8

const (
	consistent   verdict = iota
	contradicted         // no kind can have given the responses so far: this one or an earlier one may be wrong
	believed             // the last of several contradicted responses: the bucket now works in another way
)

// enoughLeftOut is how many responses that contradict the evidence must come soon after each other to be believed.
// After enoughLeftOut such responses, the bucket has changed. Fewer of them may be mistakes of the server, or correct
// responses after a mistake.
const enoughLeftOut = 3

// judge updates the evidence with a response. If the response contradicts the evidence, judge makes all kinds possible
// again. The response itself becomes evidence only if it is the last of enoughLeftOut such responses within a short
// time: see contradict.
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

// contradict makes all kinds possible again after a response that contradicts the evidence. If the response is the last
// of enoughLeftOut such responses within a short time, the bucket now works in another way, and this response is the
// first evidence of the new way.
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

// refute rules out the kinds that cannot have given a response. For the other kinds, it records the response.
func (w *Window) refute(s *sample) {
	e, l := &w.evidence, &w.ledger
	if s.rounding > w.readRare().rounding {
		w.writeRare().rounding = s.rounding
	}
	s.rounding = w.readRare().rounding
	longest := max(w.longest, s.after) - s.rounding   // the shortest possible period
	if s.sent >= e.at && s.reset.high < e.reset.low { // the reset of a bucket never moves back
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

// leastPeriod returns the shortest possible period according to the responses so far.
func (w *Window) leastPeriod() time.Duration { return w.longest - w.readRare().rounding }

// enough is how many responses must have come before a high count is explained by a sliding bucket rather than by other
// clients. If a bucket does not slide, usually one response shows that, unless resets are rounded.
const enough = 4

// slides reports whether the count in a response is better explained by a sliding bucket: in a fixed window, only other
// clients could explain it.
func (w *Window) slides(s *sample, expired int32) bool {
	e, l := &w.evidence, &w.ledger
	return e.seen > enough && w.readRare().rounding == 0 && !e.others && e.refuted&fixed == 0 &&
		e.refuted&(log|leaky) != log|leaky && s.received < s.sent+w.longest &&
		l.within(s)+w.inflight+1 < s.spent && s.spent <= l.total-l.unsure+expired+1
}

// forget makes all kinds possible again. It keeps the latest reset, and the count of a fixed window.
func (e *evidence) forget() {
	e.refuted, e.seen, e.leaky, e.next = 0, 0, leakyEvidence{}, nextEvidence{}
	e.fixed = fixedEvidence{count: e.fixed.count, until: e.fixed.until}
}
