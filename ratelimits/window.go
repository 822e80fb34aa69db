package ratelimits

import "time"

const (
	// LongestTrust is the longest wait that a response is believed. Nothing longer than a day has been seen of Discord;
	// nonsense must not stop a bucket for ever.
	LongestTrust = 24 * time.Hour
	// unsaidWait is the wait after a 429 that does not say how long, doubled each time it happens again.
	unsaidWait = time.Second
)

// Window is the arithmetic of one bucket: how many requests may leave now, or when the next one may.
//
// A request takes a [Permit] and is charged from then on. Its outcome comes as Report (a response, whatever it says), Lost
// (sent, but no response) or Return (never sent). Requests leave as long as fewer are charged than the limit allows,
// however many are in flight.
//
// What is known of the bucket decides how it hands out permits:
//
//	unknown   no response has named a limit: one request at a time goes, it will bring the headers
//	limited   as the Kind says; KindUnproven until responses have shown how the bucket fills up
//	unlimited responses carry no limit (Unlimit): everything goes, until one carries a limit after all
//
// and on top of that:
//
//	held      until a time, after a 429 or by Hold
//	probing   after a hold: one request goes, the rest when it has succeeded
//	serial    after surprises in close succession: one request at a time for some windows
//
// # Fixed windows
//
// A response with reset-after A, received at r for a request sent at s, says that its window closes between s + A and
// r + A. All responses of one window are intersected, and the upper end is the moment at which it is certain that the
// window has closed. Then the count starts again, with the requests that are in flight, as they may be counted in the new
// window; a response which shows that its request fell into the old one gives its charge back.
//
// While the kind is not proven, the latest possible end is taken instead of the intersection, which is the moment when a
// sliding bucket, too, is certainly full again.
//
// # Use
//
// The zero value is an unknown window, ready for use. Time must not run backwards from call to call. A Window is not safe
// for concurrent use.
type Window struct {
	limit    int32 // requests per window; 0: not known
	used     int32 // charged in the current window, those in flight included
	inflight int32
	said     int32  // the most that the server has counted in the current window, and what was sent since
	blinds   int32  // answered without limits in this turn and not counted by a response since, the last one at blindAt
	passed   int32  // let through since the last 429 of a shared resource
	answered uint32 // outcomes so far, wrapping: orders sends against outcomes
	turn     uint32 // how often the window was replaced by a new one

	kind      Kind
	unlimited bool
	recalled  bool // what is known is from before the window was forgotten
	unheard   bool // requests may be counted in the current window whose responses came elsewhere
	probing   bool
	probeOut  bool // the one request that goes first is in flight

	closing  closing
	previous interval      // in which the window before closed
	period   time.Duration // the window is at least as long
	longest  time.Duration // longest reset-after of late: the window is probably not longer
	blindAt  time.Duration
	outcome  time.Duration // when the latest outcome came
	evidence evidence
	sliding  *sliding // only while a sliding kind is proven
	trouble  *trouble // only after it had some
}

// Permit is the permission to send one request, held from Take until its outcome is reported. It is a plain value.
type Permit struct {
	sent     time.Duration
	answered uint32
	turn     uint32
	probe    bool
	adopted  bool
	unheard  bool // others have been answered elsewhere since it was sent
}

// Sent returns the time at which the permit was taken.
func (p Permit) Sent() time.Duration { return p.sent }

// Take takes a permit for a request that is sent now, if one may leave. Otherwise Next tells when to ask again.
func (w *Window) Take(now time.Duration) (Permit, bool) {
	if at, ok := w.Next(now); !ok || at > now {
		return Permit{}, false
	}
	p := Permit{sent: now, answered: w.answered, turn: w.turn, probe: w.probing}
	w.probeOut = w.probing
	w.inflight++
	w.used++
	w.said++
	return p, true
}

// Next returns a time before which Take certainly gives nothing, now if it gives a permit already. At that time ask again. ok
// is false when no time alone will help, only the outcome of a request in flight.
func (w *Window) Next(now time.Duration) (at time.Duration, ok bool) {
	w.advance(now)
	trouble := w.troubles()
	if trouble.hold.Wait(now) > 0 {
		return trouble.hold.Until(), true
	}
	if w.trouble != nil {
		if at, ok = trouble.hidden.next(now, w.inflight); !ok || at > now {
			return at, ok
		}
	}
	switch {
	case w.probing && w.probeOut:
		return 0, false
	case w.inflight > 0 && trouble.surprise.serial > 0:
		return 0, false
	case w.unlimited:
		return now, true
	case w.limit == 0:
		return now, w.inflight == 0
	case w.sliding != nil:
		return w.sliding.next(w.kind, now, int(w.limit), int(w.inflight))
	case w.used < w.limit && !(w.probing && w.adrift() && !w.recalled):
		return now, true
	}
	at, ok = w.settles()
	switch {
	case w.closing.known && (!ok || w.closing.at(w.kind) < at):
		return w.closing.at(w.kind), true
	case ok || w.inflight > 0:
		return at, ok
	}
	return max(w.adriftUntil(), now), true
}

// adrift reports that every request of this window was answered without limits, so that nothing will tell when it closes.
func (w *Window) adrift() bool { return !w.closing.known && w.inflight == 0 && w.used > 0 }

// adriftUntil is when it has probably closed: a period after the last of them.
func (w *Window) adriftUntil() time.Duration { return max(w.outcome+w.longest+tick, w.closing.latest) }

// advance starts a new window if the current one has certainly closed. What is carried over to the new one may be over by now,
// too.
func (w *Window) advance(now time.Duration) {
	switch {
	case w.sliding != nil || w.limit == 0 || w.unlimited:
		return
	case w.closing.known && now >= w.closing.at(w.kind):
		w.roll(now, interval{w.closing.within.low, w.closing.at(w.kind)})
	case len(w.troubles().doubts) > 0:
		w.settleDoubts(now)
	}
	if len(w.troubles().doubts) == 0 && w.adrift() && now >= w.adriftUntil() {
		w.roll(now, interval{w.outcome, w.adriftUntil()})
		w.probing = true // the longest that was seen may not be all of it
	}
}

// roll replaces the window, which closes in end, by a new one of which nothing is known yet. Requests in flight may be
// counted in it, so they are charged to it.
func (w *Window) roll(now time.Duration, end interval) {
	w.previous, w.closing = end, closing{}
	w.used = w.inflight + w.carryDoubts(now)
	if w.blindAt > end.low {
		w.used += w.blinds // it may have closed before they were processed
	}
	blind := w.blinds > 0
	w.blinds, w.said, w.unheard = 0, 0, false
	w.evidence.trim(w.used - w.inflight)
	w.raiseLimit()
	w.nextTurn()
	// A sliding bucket may hold on to what was answered without limits, and somebody else may be there first.
	if blind && w.kind != KindFixed || w.troubles().surprise.contested > 0 {
		w.probing = true
	}
}

func (w *Window) nextTurn() {
	w.turn++
	if w.trouble != nil {
		w.trouble.surprise.nextTurn()
	}
}

// Return gives back a permit whose request was never sent.
func (w *Window) Return(now time.Duration, p Permit) {
	w.advance(now)
	w.land(p)
	w.uncharge(p)
}

// uncharge takes the charge of a request back that has landed.
func (w *Window) uncharge(p Permit) {
	w.used = max(w.used-1, w.inflight)
	if !p.adopted {
		w.said = max(w.said-1, 0)
	}
}

// Lost says that the outcome of a request will never be known: it was sent, and the connection broke or the caller gave
// up. It stays charged as long as the server may remember it, if it has reached it by now.
func (w *Window) Lost(now time.Duration, p Permit) { w.Report(now, p, Response{}) }

// Adopt charges a request that was sent with a permit from elsewhere, at the given time, and returns the permit under which
// its outcome is to be reported here. It is how a request moves that turns out to belong to this bucket.
func (w *Window) Adopt(now, sent time.Duration) Permit {
	w.advance(now)
	// Whatever is charged and answered may have been processed after it.
	answered := w.answered - uint32(max(w.charged(now)-int(w.inflight), 0))
	p := Permit{sent: sent, answered: answered, turn: w.turn, adopted: true}
	if sent < w.previous.high {
		p.turn-- // it may have been counted in the window before
	}
	w.inflight++
	w.used++
	return p
}

// AdoptFrom is Adopt for a request that was sent with a permit of another window. Whatever has been answered there since may belong
// here, too, and have been processed after it.
func (w *Window) AdoptFrom(now time.Duration, from *Window, sent Permit) Permit {
	p := w.Adopt(now, sent.sent)
	elsewhere := from.answered - sent.answered
	p.answered = w.answered - max(w.answered-p.answered, elsewhere) // which may wrap
	p.unheard = elsewhere > 0
	return p
}

// Report says what the response to a request was. A response without limits changes nothing that is known.
func (w *Window) Report(now time.Duration, p Permit, r Response) {
	w.advance(now)
	w.land(p)
	w.answered++
	earlier := w.outcome
	w.outcome = now
	if r.Class == ClassUser {
		w.distrust(now)
	}
	switch {
	case r.Limited && 1 <= r.Limit && r.Limit <= largestSensible:
		w.observe(now, p, &r, earlier)
	case r.Class != ClassOK && w.sliding == nil: // it was not counted
		w.uncharge(p)
	default:
		w.blind(now, earlier, p)
	}
	switch r.Class {
	case ClassOK:
		if r.Status > 0 && r.Status < 500 {
			if w.trouble != nil {
				w.trouble.refusals.Accepted(p.sent)
			}
			w.probing = w.probing && !p.probe
		}
		w.passed++
		if w.trouble != nil {
			w.trouble.hidden.accepted(now, p.sent)
		}
	case ClassUser:
		w.refuse(now, p, r)
	case ClassShared:
		wait := max(r.wait(unsaidWait), w.again(now))
		w.inTrouble().hidden.refuse(now, p.sent, min(wait, LongestTrust), w.passed)
		w.passed = 0
		w.HoldFor(now, wait, ClassShared)
	}
	if w.limit == 0 || w.unlimited || w.sliding != nil {
		w.used = w.inflight // the rest is counted elsewhere, or not at all
	}
}

// land takes a request out of those in flight.
func (w *Window) land(p Permit) {
	w.inflight = max(w.inflight-1, 0)
	if p.probe {
		w.probeOut = false
	}
}

// blind keeps a request charged that was answered without limits: the server may have counted it, or not. A log can tell
// when its places come back only as long as it knows who took them.
func (w *Window) blind(now, earlier time.Duration, p Permit) {
	w.blinds++
	w.blindAt = now
	if !p.adopted {
		w.said = max(w.said-1, 0)
	}
	if w.kind == KindUnproven && w.used-w.inflight > 1 {
		w.evidence.remember(earlier)
		w.evidence.trim(w.used - w.inflight)
	}
	switch {
	case w.kind == KindLog:
		w.sliding.append(now)
		w.unprove(now)
	case w.kind == KindLeaky:
		w.sliding.fill(now)
	case w.closing.known && w.kind == KindUnproven:
		w.closing.latest = max(w.closing.latest, now+w.longest+tick) // a sliding bucket has one more to give back
	}
}

// Hold lets nothing leave for d from now on, and then one request first. A shorter hold never shortens a longer one, and
// more than a day is not believed.
func (w *Window) Hold(now, d time.Duration) { w.HoldFor(now, d, ClassOK) }

// HoldRefused is Hold after a 429 that speaks of another limit, which nothing else holds. Several in a row make it longer.
func (w *Window) HoldRefused(now, d time.Duration) { w.HoldFor(now, max(d, w.again(now)), ClassOK) }

// HoldFor is Hold for a 429 of the given class, which HoldClass then returns.
func (w *Window) HoldFor(now, d time.Duration, class Class) {
	if d <= 0 {
		return
	}
	if t := w.inTrouble(); t.hold.Extend(now, min(d, LongestTrust)) {
		t.holdClass = class
	}
	w.probing = true
}

// LiftHold ends the hold, and what the 429 that caused it has said of the bucket is forgotten. One request goes first all the same.
func (w *Window) LiftHold(now time.Duration) {
	if w.HoldWait(now) == 0 {
		return
	}
	if w.HoldClass(now) == ClassUser {
		w.used, w.closing = w.inflight, closing{}
	}
	w.trouble.hold, w.trouble.hidden = Throttle{}, hiddenLimit{}
}

// Recall tells a new window what was known of the bucket before it was forgotten. That is no more than a guess: one request
// goes first, and the first response that carries limits replaces it. But should there be none, it bounds what goes.
func (w *Window) Recall(limit int, period time.Duration) {
	if limit > 0 && w.limit == 0 && !w.unlimited {
		w.limit, w.longest = int32(min(limit, largestSensible)), period
		w.recalled, w.probing = true, true
	}
}

// Relearn lets the next response that carries limits replace what is known of them, with one request first.
func (w *Window) Relearn() {
	if w.limit > 0 {
		w.recalled, w.probing = true, true
	}
}

// Unlimit says that this bucket's responses carry no limits, so that nothing has to wait. The first response that does
// carry them ends it.
func (w *Window) Unlimit() {
	if w.limit == 0 || w.recalled {
		w.limit, w.recalled, w.unlimited = 0, false, true
	}
}

// wait returns how long a 429 asks to wait: what it says, else the time until the bucket is full, else the given one. It is
// never nothing, because what was said is rounded, and because a 429 must not be answered by an endless loop.
func (r *Response) wait(unsaid time.Duration) time.Duration {
	switch {
	case r.HasRetryAfter:
		return r.RetryAfter + tick
	case r.Limited:
		return r.ResetAfter + tick
	}
	return unsaid
}

// distrust lets nothing that was proven count any longer, after a 429 of this bucket. By what was known it was not to be
// expected: somebody else uses the bucket, or something was understood wrongly.
func (w *Window) distrust(now time.Duration) {
	if w.sliding != nil {
		w.evidence.wrong()
	}
	w.unprove(now)
}

// refuse takes in a 429 of this bucket. One request goes first when the hold has ended, and for some windows to come.
func (w *Window) refuse(now time.Duration, p Permit, r Response) {
	surprise := &w.inTrouble().surprise
	surprise.note(now, p.sent, w.turn)
	if w.limit > 0 && (r.Limited || w.closing.known) {
		w.used = max(w.limit, w.inflight)
	}
	wait := r.wait(unsaidWait << surprise.strikes)
	w.HoldFor(now, max(wait, w.again(now)), ClassUser)
}

func (w *Window) again(now time.Duration) time.Duration {
	t := w.inTrouble()
	return t.refusals.Again(now, t.hold.Wait(now) > 0)
}
