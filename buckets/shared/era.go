package shared

import (
	"strconv"
	"time"

	"github.com/ratelight/ratelight/ratelimits"
)

// era is what a session knows of the server's era. Within one era the server loses nothing, and the server's clock is
// not set. A session that notices a loss or a set clock ends the era with its next call. The era also ends if the
// server loses the era's number. The other sessions learn of the new era with their next calls. Each state contains the
// number of its era. A state of an earlier era may be outdated, and the times in it are by another clock. Therefore the
// bucket of such a state is held; see restart.
type era struct {
	number int64         // 0: not known
	over   bool          // whether this session has noticed a reason to end the era
	none   bool          // whether the server has no number of an era
	fades  bool          // whether the server will soon let the number expire
	since  time.Duration // when the first reply with this number arrived
	least  int64         // the highest earlier number; a new number must be higher, even if the server has gone back
}

// eraTime is how long the server stores the number of an era, which is longer than it stores any state. If the number
// expires, a new era begins without a loss.
const eraTime = 2 * ratelimits.LongestTrust

// latestEra bounds the numbers of eras, so that a number can always be increased.
const latestEra = 1 << 52

func (s *session) eraNumber() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.era.number
}

// eraOver reports whether the session has noticed a reason to end the era.
func (s *session) eraOver() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.era.over
}

// endEra makes the session's next call end the era.
func (s *session) endEra() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.era.over = true
}

// tellClock records the time in a reply, and reports whether the server's clock was set. If so, tellClock ends the era,
// and the session uses the measurements of the old clock until the next era begins.
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

// lifeSlack bounds the error of a life in a reply.
const lifeSlack = 2 * time.Millisecond

// liveIn adds to a call the steps that show that the session is alive. It also adds the guard that lets the steps after
// these take effect only in the given era. lease is the time, by the server's clock, until which the server should
// store the session as alive even without this call.
func (s *session) liveIn(number int64, call *Call) (lease time.Duration) {
	lifetime := s.lifetime()
	s.agents.mu.Lock()
	lease = s.agents.lease
	s.agents.mu.Unlock()
	if lifetime < sessionTime {
		lease = 0 // the session is closing, so an earlier call may have shortened its life
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	next := eraText(max(s.era.number, s.era.least, s.clock.Now().UnixMilli()) + 1)
	era := Step{Key: s.store.keys.era(), Value: next, Life: eraTime} // begins an era if the server has none
	if number != 0 {
		call.Guard = versionOf(eraText(number))
	}
	if number != 0 && number == s.era.number {
		switch {
		case s.era.none: // the step begins an era
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

// alive is the value of the key that shows that a session is alive. When the key expires, the session counts as dead.
const alive = "1 "

// eraText returns the value that the server stores for the era with the number.
func eraText(number int64) string { return strconv.FormatInt(number, 10) + " " }

// lived records what the reply to a call with the steps of liveIn says about the era and about the session's life.
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
	// In these cases the server has gone back to an earlier era, or has lost the latest calls of this session.
	earlier := is != 0 && is < number && is == s.eraNumber()
	if earlier || len(r.values) > 1 && r.engine < lease && r.engine+r.values[1].Life+lifeSlack < lease {
		s.endEra()
	}
	r.anew = is == 0 || number != 0 && is != number || s.eraNumber() != is || s.eraOver()
	return nil
}

// entered records the era and the time in a reply. It reports whether a new era has followed one that this session
// knew.
func (s *session) entered(number int64, r *reply) (lost bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if number == s.era.number || r.sent <= s.era.since && s.era.number > number { // known, or the reply is late
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

// startAnew adapts the session to a new era. All granted permits and all loans are void. Known states of buckets now
// only say how long to hold these buckets.
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

// outdate removes the known state if it is of an earlier era. b.mu must be held.
func (b *bucket) outdate() {
	k, number := b.known, b.session.eraNumber()
	if k == nil || k.era == number {
		return
	}
	if b.loan == nil && b.returned == nil { // otherwise the state of the loan is newer than the known state
		b.remember()
	}
	b.known, b.kept = nil, ""
	b.dead = nil
}

// remember stores what is known of the bucket for recall, because the server has lost its state. If the bucket still
// remembers an earlier state that has not been reported to the server, remember combines the two. b.mu must be held.
func (b *bucket) remember() {
	next := &recollection{window: &b.known.window, until: b.knownUntil}
	if before := b.recalls; before != nil {
		next.until = max(next.until, before.until)
		if !next.window.Known() || next.window.Declared() { // the known state may be what the server went back to
			next.window = before.window
		}
	}
	b.recalls = next
}

// recollection is what is remembered of a bucket's state that the server has lost.
type recollection struct {
	window *ratelimits.Window
	until  time.Duration // end of the window, by our clock
}

// restart moves the state into the given era. It holds the bucket until the old window ends, at most for a period. But
// the hold lasts at least until all sessions have noticed the new era and reported their requests in flight. After
// that, one request is sent before all others.
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

// readmit resets what the state says about its members, because the times in it are by the clock of an earlier era.
func (s *state) readmit(now time.Duration) {
	s.mixed = now
	for i := range s.members {
		s.members[i].seen, s.members[i].waiting = now, 0
	}
}
