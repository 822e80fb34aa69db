package shared

import (
	"strconv"
	"time"

	"github.com/ratelight/ratelight/ratelimits"
)

// era is the server's era, as a session knows it. In one era the server loses nothing, and its clock is not set. A
// session that notices a violation ends the era with its next call; the server may end it, too. The other sessions
// learn of the new era with their next calls. Each state names its era. A state of an earlier era may be outdated, and
// its times are those of another clock, so it is waited out; see restart.
type era struct {
	number int64         // 0: not known
	over   bool          // whether the session has noticed that the era must end
	since  time.Duration // when the reply that told of it arrived
}

// eraTime is how long the server stores the number, longer than any state. Then a new era begins without a loss.
const eraTime = 2 * ratelimits.LongestTrust

// latestEra bounds the numbers of eras. Lua's integers are exact up to 53 bits.
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

// endEra ends the era with the next call.
func (s *session) endEra() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.era.over = true
}

// tellClock records the server's clock, and reports whether it was set. If so, it ends the era but keeps the old clock
// until the next one begins.
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

// eraArguments appends the era of a call and whether it must end.
func (s *session) eraArguments(number int64, arguments []string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	over := "0"
	if s.era.over && s.era.number == number {
		over = "1"
	}
	return append(arguments, strconv.FormatInt(number, 10), over)
}

// entered records the era and the clock of a reply, and reports whether this is a new era after a known one.
func (s *session) entered(r *reply) (lost bool) {
	number := r.values[0]
	s.mu.Lock()
	defer s.mu.Unlock()
	if number == s.era.number || r.sent <= s.era.since && s.era.number > number { // known, or from a late reply
		return false
	}
	lost = s.era.number != 0
	s.era = era{number: number, since: r.received}
	s.engine = engineClock{}
	s.engine.tell(r.sent, r.received, r.engine)
	s.engine.known, s.engine.set = s.naps == 0 || r.sent >= s.napAt, r.received
	return lost
}

// hasEra reports whether a reply begins with an era.
func (r *reply) hasEra() bool {
	return len(r.values) > 0 && r.values[0] > 0 && r.values[0] <= latestEra
}

// startAnew begins an era: all granted permits and all loans are void, and known states are only waited out.
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
		if b.loan == nil && b.active {
			b.asks = true
			b.say(s.now())
		}
		b.mu.Unlock()
		b.want("")
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
	clear(b.vouched)
}

// remember keeps the known state to be waited out, because the server has lost it. b.mu must be held.
func (b *bucket) remember() {
	b.recalls = &recollection{window: &b.known.window, until: b.knownUntil}
}

// recollection is the known state of a bucket that the server has lost.
type recollection struct {
	window *ratelimits.Window
	until  time.Duration // end of its window, by our clock
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
		s.mixed = now
		for i := range s.members {
			s.members[i].seen, s.members[i].waiting = now, 0
		}
		s.recall(now, &w, max(min(w.Reset()-now, w.Period()), settleTime))
	}
	s.era = number
}
