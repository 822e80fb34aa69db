package shared

import (
	"strconv"
	"time"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/ratelimits"
)

// era is what a session knows of the server's era. An era is a time in which the server has forgotten nothing and its clock was not set. It
// ends when any session notices that this is not so, or when the server itself does: with the session's next call, and then all others
// learn with their next calls that there is a new one. A state says of which era it is. One of an earlier era may be older than what has
// happened since, and its times are those of another clock: it is waited out, see restart.
type era struct {
	number int64         // 0: none is known
	over   bool          // the session has noticed that it has to end
	since  time.Duration // when the call was received that told of it
}

// eraTime is how long the server keeps the number: longer than any state. After that an era begins though nothing was lost.
const eraTime = 2 * ratelimits.LongestTrust

// latestEra is the highest number that can be one. Scripts count with 53 bits.
const latestEra = 1 << 52

// eraNumber returns the number of the era.
func (s *session) eraNumber() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.era.number
}

// eraOver reports that the session has noticed that the era has to end.
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

// tellClock takes in what the server's clock shows, and reports that it was set. Then it ends the era: until the next one begins, the clock
// is that of the era that ends.
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
	s.tell(buckets.SharedEvent{Kind: buckets.ClockSet})
	return true
}

// eraArguments adds the era that a call is made in, and whether it has to end.
func (s *session) eraArguments(number int64, arguments []string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	over := "0"
	if s.era.over && s.era.number == number {
		over = "1"
	}
	return append(arguments, strconv.FormatInt(number, 10), over)
}

// entered takes in the era that a reply tells of, and with it the clock, and reports that it is a new one, after one that was known.
func (s *session) entered(r *reply) (lost bool) {
	number := r.values[0]
	s.mu.Lock()
	defer s.mu.Unlock()
	if number == s.era.number || r.sent <= s.era.since && s.era.number > number { // the latter was overtaken
		return false
	}
	lost = s.era.number != 0
	s.era = era{number: number, since: r.received}
	s.engine = engineClock{}
	s.engine.tell(r.sent, r.received, r.engine)
	s.engine.known, s.engine.set = s.naps == 0 || r.sent >= s.napAt, r.received
	return lost
}

// hasEra reports that a reply begins with an era.
func (r *reply) hasEra() bool {
	return len(r.values) > 0 && r.values[0] > 0 && r.values[0] <= latestEra
}

// startAnew takes in that an era has begun: nothing is granted or lent any more, and what is known is only waited out.
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

// outdate takes in that what is known of the bucket is of an earlier era, if it is. b.mu is held.
func (b *bucket) outdate() {
	k, number := b.known, b.session.eraNumber()
	if k == nil || k.era == number {
		return
	}
	if b.loan == nil && b.returned == nil { // else that is what counts
		b.remember()
	}
	b.known, b.kept = nil, ""
	b.dead = nil
	clear(b.vouched)
}

// remember keeps what is known of the bucket, as the server knows less. b.mu is held.
func (b *bucket) remember() {
	b.recalls = &recollection{window: &b.known.window, until: b.knownUntil}
}

// recollection is what was known of a bucket before the server lost it.
type recollection struct {
	window *ratelimits.Window
	until  time.Duration // when its window ends, by our clock
}

// restart makes the state one of this era. What it says is waited out, for a period at most, and at least until all sessions have noticed and
// said what they have in flight. Then one request goes first.
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
