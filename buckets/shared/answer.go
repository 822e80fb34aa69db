package shared

import (
	"slices"
	"time"
)

// take records the reply to a call. b.mu must be held.
func (b *bucket) take(q *turn, r *reply) error {
	now, main := r.received, r.values[0]
	shown := versionOf(main.Value)
	if main.Replaced {
		shown = q.next.version.String()
	}
	b.dead = nil
	defer func() {
		for i, session := range q.silent {
			switch lives := b.session.lives(session, r.values[1+i]); {
			case lives == 0 && b.known != nil && b.known.version.String() != shown:
				b.asks, b.due = true, true // a message has brought a newer state, so the session may be alive again
			case lives == 0:
				b.dead, b.due = append(b.dead, session), true
			default:
				b.vouched[session] = r.sent + lives - sessionTime
			}
		}
		if b.known != nil {
			b.vouch(b.known)
		}
	}()
	switch {
	case main.Replaced:
		b.delivered(q)
		// A message may have brought an even newer state before the reply arrived.
		if k := b.known; k == nil || k.version.life != q.next.version.life || k.version.number < q.next.version.number {
			b.learn(q.next, q.kept, now)
		}
		if len(q.granted) > 0 && b.queued() > 0 && !q.next.waits(b.session.id) { // the call did not report all waiters
			b.due = true
		}
		if q.lends {
			b.accept(&loan{state: b.decoded(), low: q.low, high: q.high, share: 1, at: r.sent})
			if b.closed { // no request would use the loan
				b.giveUp()
				b.due = true
			}
		}
	case q.kept == "" && versionOf(main.Value) == q.expected.String():
		b.asks, b.unsure = false, nil
		if q.owner != "" {
			b.lent(q, r)
		} else {
			b.knownAt = max(b.knownAt, now)
		}
	case main.Value == "":
		b.read(q, nil, "", r)
	default:
		s, err := decode(main.Value)
		if err != nil {
			return b.session.wrongKey(b.key, err.Error())
		}
		b.read(q, &s, main.Value, r)
	}
	return nil
}

// lent records that the bucket is still lent to another session. b.mu must be held.
func (b *bucket) lent(q *turn, r *reply) {
	said := true
	if len(r.values) > 2 {
		said = b.session.heardWants(q, b.name, r.values[2])
	}
	lives := b.session.lives(q.owner, r.values[1])
	if lives == 0 { // the session with the loan is dead; the next call takes the bucket over
		return
	}
	if b.looks++; !said {
		b.looks = 1 // look again soon
	}
	b.lookedAt, b.lentTill = r.received, r.received+lives
	for i := range b.waiters {
		b.waiters[i].known = true
	}
}

// vouch records in a state the latest times at which its sessions are known to have been alive.
func (b *bucket) vouch(s *state) {
	for i, m := range s.members {
		if at, ok := b.vouched[m.session]; ok {
			s.members[i].seen = max(m.seen, b.session.sentTime(at))
		}
	}
}

// delivered removes the news that a call has reported to the server. b.mu must be held.
func (b *bucket) delivered(q *turn) {
	b.unsure, b.asks, b.looks = nil, false, 0
	b.recalls = nil
	clear(b.vouched)
	for _, session := range q.told {
		delete(b.wantedBy, session)
	}
	b.ended = slices.DeleteFunc(b.ended, func(o outcome) bool { return slices.Contains(q.ended, o.number) })
	if b.returned == q.returned {
		b.returned = nil
	}
	if b.hold == q.hold {
		b.hold = 0
	}
}

// read records a state that differs from the one that a call expected. s is nil if the server has no state. b.mu must
// be held.
func (b *bucket) read(call *turn, s *state, kept string, r *reply) {
	b.due, b.asks = true, false
	now := r.received
	if q := b.unsure; q != nil && s != nil && s.member(b.session.id).call >= q.number {
		b.delivered(q)
	}
	b.unsure = nil
	if k := b.known; k != nil && k.version.life != 0 && b.returned == nil && !b.outdated(now) &&
		(s == nil || s.version.life != k.version.life || s.version.number < k.version.number) {
		if k.version != call.expected { // a message with a newer state arrived before the reply
			return
		}
		b.remember()
		if s != nil && s.version.life == k.version.life { // no process writes an older state, so the server went back
			b.session.endEra()
		} else {
			b.session.lost()
		}
	}
	if s == nil {
		s = b.unknown()
		kept = ""
	}
	number := b.session.eraNumber()
	// If a time in the state is in the future, the server's clock was set back before this session began.
	if s.era == number && s.latest() > b.session.engineLatest(now)+clockStep {
		b.session.endEra()
		s.era = 0 // so that restart holds the bucket: the times in the state are by another clock
	}
	s.restart(number, b.session.engineTime(now))
	b.learn(s, kept, now)
}

// learn records the server's current state, and the permits that it grants to this session. b.mu must be held.
func (b *bucket) learn(s *state, kept string, now time.Duration) {
	b.known, b.kept, b.knownAt, b.dead = s, kept, now, nil
	if n := len(s.members); n >= b.mates || now-b.matesAt > memberMemory { // members may be missing after a loss
		b.mates, b.matesAt = n, now
	}
	rest := s.window.Period() // for a state of an earlier era, restart uses the whole period
	if at, ok := b.session.engineTimeOf(s.era, now); ok {
		rest = s.window.Reset() - at
		if period := s.window.Period(); period > 0 { // the server's clock may have been set back
			rest = min(rest, period)
		}
	}
	b.knownUntil = now + rest
	b.looks, b.unused = 0, 0
	at := func(session string, number uint64) int {
		if session != b.session.id {
			return -1
		}
		return slices.IndexFunc(b.waiters, func(w waiter) bool { return w.number == number })
	}
	for _, p := range s.queue {
		if i := at(p.session, p.number); i >= 0 {
			b.waiters[i].known = true
		}
	}
	if s.owner != "" {
		return
	}
	for _, f := range s.flights {
		if i := at(f.session, f.number); i >= 0 {
			w := b.waiters[i]
			w.since = now
			b.granted, b.waiters = append(b.granted, w), slices.Delete(b.waiters, i, i+1)
		} else if f.session == b.session.id && !b.needsPermit(f.number) {
			b.unused++
		}
	}
}

// told records the state in a message from another session.
func (b *bucket) told(kept string) {
	s, err := decode(kept)
	if err != nil {
		return
	}
	b.mu.Lock()
	k := b.known
	news := b.loan == nil && b.returned == nil && b.unsure == nil &&
		(k == nil || k.version.life == 0 || s.version.life == k.version.life && s.version.number > k.version.number) &&
		s.era == b.session.eraNumber()
	if news {
		now := b.session.now()
		unsaid := b.due || b.untold(now)
		b.learn(&s, kept, now)
		b.stopTimer()
		if unsaid || b.queued() > 0 && !s.waits(b.session.id) { // after a loan the server does not know the waiters
			b.say(now)
		} else if !b.calling {
			b.rest(now)
		}
	}
	b.mu.Unlock()
	if news {
		b.notify()
	} else {
		b.mu.Lock()
		b.asks = b.asks || s.era > b.session.eraNumber()
		b.mu.Unlock()
		b.wake()
	}
}
