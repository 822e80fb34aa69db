package shared

import (
	"strconv"
	"time"

	"github.com/ratelight/ratelight/ratelimits"
)

// era is the server's era, as a session knows it. Within one era the server loses nothing, and its clock is not set. A
// session that notices a loss or a set clock ends the era with its next call; the server may lose the era, too. The
// other sessions learn of the new era with their next calls. Each state names its era. A state of an earlier era may be
// outdated, and its times are by another clock, so its bucket is held; see restart.
type era struct {
	number int64         // 0: not known
	over   bool          // whether this session has noticed that the era must end
	none   bool          // whether the server has no number
	fades  bool          // whether the server will soon let the number expire
	since  time.Duration // when the reply with this number arrived
	least  int64         // the latest earlier number; the server may have gone back to a state before it
}

// eraTime is how long the server stores the number: longer than any state. If the number expires, a new era begins
// without a loss.
const eraTime = 2 * ratelimits.LongestTrust

// latestEra bounds the numbers of eras, so that a number can always be increased.
const latestEra = 1 << 52

func (s *session) eraNumber() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.era.number
}

// eraOver reports whether the session has noticed that the era must end.
func (s *session) eraOver() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.era.over
}

// endEra lets the session's next call end the era.
func (s *session) endEra() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.era.over = true
}

// tellClock records the server's clock, and reports whether the clock was set. If it was, tellClock ends the era but
// keeps the old clock until the next era begins.
func (s *session) tellClock(r *reply) (stepped bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.engine
	if s.era.over || !s.engine.tell(r.sent, r.received, r.engine) {
		return false
	}
	if s.era.number != 0 {
		s.engine, s.era.over = before, true
	}
	s.meter.count(&s.meter.counted.ClockSteps)
	s.tell(Event{Kind: ClockSet})
	return true
}

// lifeSlack is the precision with which a server lets values expire.
const lifeSlack = 2 * time.Millisecond

// liveIn adds the steps that show that the session is alive, and the guard that lets the steps after them take effect
// only in the given era. lease is the time, by the server's clock, until which the server should already store the
// session as alive.
func (s *session) liveIn(number int64, call *Call) (lease time.Duration) {
	lifetime := s.lifetime()
	s.agents.mu.Lock()
	lease = s.agents.lease
	s.agents.mu.Unlock()
	if lifetime < sessionTime {
		lease = 0 // earlier calls may have shortened the session's life already, because the session is closing
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	next := eraText(max(s.era.number, s.era.least, s.clock.Now().UnixMilli()) + 1)
	era := Step{Key: s.store.keys.era(), Value: next, Life: eraTime} // begins an era if there is none
	if number != 0 {
		call.Guard = versionOf(eraText(number))
	}
	if number != 0 && number == s.era.number {
		switch {
		case s.era.none: // the next call begins an era
		case s.era.over:
			era.Version = call.Guard
		case s.era.fades:
			era.Version, era.Value = call.Guard, eraText(number)
		}
	}
	call.Steps = append(call.Steps, era,
		Step{Key: s.store.keys.life(s.id), Value: alive, Any: true, Life: lifetime})
	return lease
}

// alive is the value of the key that expires when the session counts as dead.
const alive = "1 "

// eraText returns the value that the server stores for an era.
func eraText(number int64) string { return strconv.FormatInt(number, 10) + " " }

// lived records what the reply to a call of liveIn says about the era and about the session's life.
func (s *session) lived(call *Call, r *reply, number int64, lease time.Duration) error {
	if len(r.values) == 0 {
		return errReply
	}
	first := r.values[0]
	text := first.Value
	if first.Replaced {
		text = call.Steps[0].Value
	}
	is, err := strconv.ParseInt(versionOf(text), 10, 64)
	if text != "" && (err != nil || is <= 0 || is > latestEra) {
		return s.wrongKey(call.Steps[0].Key, "has no number of an era")
	}
	s.mu.Lock()
	s.era.fades = s.era.number == is && first.Life < eraTime/2 && !first.Replaced
	s.era.none = is == 0
	s.mu.Unlock()
	if is != 0 {
		s.saw(is, r, len(r.values) > 1)
	}
	// The server has gone back to an earlier era, or has lost the latest calls of this session.
	earlier := is != 0 && is < number && is == s.eraNumber()
	if earlier || len(r.values) > 1 && r.engine < lease && r.engine+r.values[1].Life+lifeSlack < lease {
		s.endEra()
	}
	r.anew = is == 0 || number != 0 && is != number || s.eraNumber() != is || s.eraOver()
	return nil
}

// entered records the era and the clock of a reply, and reports whether the era is new and an earlier one was known.
func (s *session) entered(number int64, r *reply) (lost bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if number == s.era.number || r.sent <= s.era.since && s.era.number > number { // known, or from a late reply
		return false
	}
	if lost = s.era.number != 0; lost {
		s.spare(r.received)
	}
	s.era = era{number: number, since: r.received, least: max(s.era.least, s.era.number)}
	s.engine = engineClock{}
	s.engine.tell(r.sent, r.received, r.engine)
	s.engine.known, s.engine.set = s.naps == 0 || r.sent >= s.napAt, r.received
	return lost
}

// startAnew begins an era. All granted permits and all loans are void. A known state now only says how long to hold its
// bucket.
func (s *session) startAnew() {
	s.lost()
	s.agents.mu.Lock()
	all := make([]*bucket, 0, len(s.agents.byName))
	for _, b := range s.agents.byName {
		all = append(all, b)
	}
	s.agents.mu.Unlock()
	for _, b := range all {
		b.mu.Lock()
		b.outdate()
		switch {
		case b.loan != nil:
			b.endSoon(s.now())
		case b.active:
			b.asks = true
			b.say(s.now())
		}
		b.mu.Unlock()
	}
}

// outdate removes a known state of an earlier era. b.mu must be held.
func (b *bucket) outdate() {
	k, number := b.known, b.session.eraNumber()
	if k == nil || k.era == number {
		return
	}
	if b.loan == nil && b.returned == nil { // otherwise the state of the loan is newer
		b.remember()
	}
	b.known, b.kept = nil, ""
	b.dead = nil
}

// remember keeps the known state for recall, because the server has lost it. A state that was remembered before and has
// not been reported to the server is kept, too. b.mu must be held.
func (b *bucket) remember() {
	next := &recollection{window: &b.known.window, until: b.knownUntil}
	if before := b.recalls; before != nil {
		next.until = max(next.until, before.until)
		if !next.window.Known() || next.window.Declared() { // the server may have gone back to the known state
			next.window = before.window
		}
	}
	b.recalls = next
}

// recollection is the known state of a bucket that the server has lost.
type recollection struct {
	window *ratelimits.Window
	until  time.Duration // end of the window, by our clock
}

// restart moves the state into the given era. It holds the bucket for the rest of the old window, a period at most, but
// at least until all sessions have noticed the new era and reported their requests in flight. Then one request goes
// first.
func (s *state) restart(number int64, now time.Duration) {
	if s.era == number {
		return
	}
	if s.version.life != 0 {
		w := s.window
		s.window, s.queue, s.flights = blank(&w), nil, nil
		s.readmit(now)
		s.recall(now, &w, max(min(w.Reset()-now, w.Period()), settleTime))
	}
	s.era = number
}

// readmit resets what the state says about members by the clock of an earlier era.
func (s *state) readmit(now time.Duration) {
	s.mixed = now
	for i := range s.members {
		s.members[i].seen, s.members[i].waiting = now, 0
	}
}
