package shared

import (
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// agents holds the buckets of a session, and what is needed to keep the session alive for them.
type agents struct {
	next    atomic.Uint64 // latest number that was given to a request or a call
	beating chan struct{} // holds one element while a beat (a periodic call) is in progress

	mu     sync.Mutex // locked after the mutex of a bucket
	byName map[string]*bucket
	active map[*bucket]struct{} // busy buckets: the session stays alive for them
	stop   func()               // stops the ticks; nil if there are none
	saw    time.Duration        // start of the latest call that succeeded
	read   time.Duration        // when the session last asked which of its loans other sessions need
	naps   int                  // number of suspensions of this process that aliveUntil has handled
	lease  time.Duration        // end of the time for which the server stores the session as alive, by the server's clock
	since  time.Duration        // start of the first call after the session may last have counted as dead
	needs  map[string]*needs    // loans that this session needs, by the session that has the loan
	long   map[string]struct{}  // sessions whose keys would live too long, because the server's clock was set back
}

func (s *session) startAgents() {
	s.agents.beating = make(chan struct{}, 1)
	s.agents.saw = -sessionTime // no process knows the session yet
	s.agents.long, s.agents.needs = map[string]struct{}{}, map[string]*needs{}
	s.agents.byName, s.agents.active = map[string]*bucket{}, map[*bucket]struct{}{}
	s.listen("want", s.toldWants)
	s.listen("state", func(rest string) {
		name, kept := cutName(rest)
		if b := s.named(name); b != nil {
			b.told(kept)
		}
	})
	s.watch(s.outageChanged)
}

// closeAgents reports the remaining news of all busy buckets, concurrently.
func (s *session) closeAgents() {
	all := s.allAgents()
	for _, b := range all {
		b.abandon()
	}
	if away, _ := s.away(); away || len(all) == 0 {
		return
	}
	s.beat(s.context)
	var calls sync.WaitGroup
	for _, b := range all {
		calls.Go(b.sayRest)
	}
	calls.Wait()
}

func (s *session) named(name string) *bucket {
	s.agents.mu.Lock()
	defer s.agents.mu.Unlock()
	return s.agents.byName[name]
}

func (s *session) allAgents() []*bucket {
	s.agents.mu.Lock()
	defer s.agents.mu.Unlock()
	all := make([]*bucket, 0, len(s.agents.active))
	for b := range s.agents.active {
		all = append(all, b)
	}
	return all
}

// saw records a successful call in an era. lives says whether the call has also renewed the value that shows that the
// session is alive.
func (s *session) saw(era int64, r *reply, lives bool) {
	now, lifetime, lost := s.now(), s.lifetime(), s.entered(era, r)
	if era != s.eraNumber() {
		return // a later call was answered first
	}
	s.agents.mu.Lock()
	// The last part of the condition is true if a later call was answered first.
	if lost || now >= s.agents.saw+believedTime || r.sent < s.agents.since && s.agents.since <= r.sent+believedTime {
		s.agents.since = r.sent
		if lost { // all permits and loans that were granted before are void
			s.agents.since, s.agents.lease = now, 0
		}
	}
	if lives {
		s.agents.saw, s.agents.lease = max(s.agents.saw, r.sent), r.engine+lifetime
	}
	s.agents.mu.Unlock()
	if lost {
		s.startAnew()
	}
}

// believedTime is how long after the start of a call all other sessions certainly count this session as alive. It is
// shorter than sessionTime, because the clocks of the other sessions may run faster.
const believedTime = sessionTime * 9 / 10

// aliveUntil returns the time until which all other sessions count this session as alive even if no further call
// succeeds.
func (s *session) aliveUntil() time.Duration {
	naps := s.awake()
	s.agents.mu.Lock()
	defer s.agents.mu.Unlock()
	if naps != s.agents.naps {
		s.agents.naps, s.agents.saw = naps, -sessionTime
	}
	return s.agents.saw + believedTime
}

// believedUntil returns the result of aliveUntil, or 0 if other sessions may have counted this session as dead at some
// time after from. In that case permits and loans which this session got at the time from may belong to another
// session.
func (s *session) believedUntil(from time.Duration) time.Duration {
	alive := s.aliveUntil()
	s.agents.mu.Lock()
	defer s.agents.mu.Unlock()
	if from < s.agents.since {
		return 0
	}
	return alive
}

// aliveSince returns the start of the first call after the latest time at which other sessions may have counted this
// session as dead.
func (s *session) aliveSince() time.Duration {
	s.agents.mu.Lock()
	defer s.agents.mu.Unlock()
	return s.agents.since
}

// activate marks the bucket as busy, so that the session stays alive for it. b.mu must be held.
func (b *bucket) activate() {
	if b.active {
		return
	}
	b.active = true
	s := b.session
	s.agents.mu.Lock()
	defer s.agents.mu.Unlock()
	s.agents.active[b] = struct{}{}
	s.agents.byName[b.name] = b
	if s.agents.stop == nil {
		s.agents.stop = s.eachSecond(s.tickAgents)
	}
}

// forgetIdle ends the busy state of a bucket that has nothing to do, and removes the bucket if it is closed. b.mu must
// be held.
func (s *session) forgetIdle(b *bucket) {
	if b.inUse() || b.hold > s.now() || b.returned != nil || b.loan != nil || b.calling || b.due {
		return
	}
	b.active = false
	s.agents.mu.Lock()
	defer s.agents.mu.Unlock()
	delete(s.agents.active, b)
	if b.closed {
		delete(s.agents.byName, b.name)
	}
	if len(s.agents.active) == 0 && s.agents.stop != nil {
		s.agents.stop()
		s.agents.stop = nil
	}
}

// settle waits until the outcomes and the returned loans of all busy buckets whose names begin with begin have been
// reported to the server.
func (s *session) settle(begin string) {
	for _, b := range s.allAgents() {
		if strings.HasPrefix(b.name, begin) {
			b.settle()
		}
	}
}

// tickAgents runs once a second. It ends requests and loans that have lasted too long, and sends a beat if one is
// needed. While there are loans, it sends a beat every time: calls for buckets also keep the session alive, but only
// the reply to a beat says which loans other sessions need. While requests are in flight, it sends a beat after a
// second without a call, so that the session notices a loss early enough to report these requests. Otherwise it sends a
// beat after two seconds without a call. Without a Subscriber, it also sends a beat every three seconds: if the server
// has gone back to an older state, the older state may contain loans which this session does not know.
func (s *session) tickAgents() {
	away, _ := s.away()
	now, loans, pause := s.now(), false, 2*beatPeriod
	for _, b := range s.allAgents() {
		lent, flying := b.tick(away)
		loans = loans || lent
		if flying {
			pause = beatPeriod
		}
	}
	s.agents.mu.Lock()
	silent := now-s.agents.saw >= pause*9/10
	unread := s.store.subscriber == nil && now-s.agents.read >= sessionTime
	s.agents.mu.Unlock()
	if !away && (loans || silent || unread) {
		s.beat(s.context)
	}
}

// tick ends requests and loans that have lasted too long. lent reports whether the bucket is lent to this session, and
// flying whether requests are in flight or outcomes have to be reported.
func (b *bucket) tick(away bool) (lent, flying bool) {
	now := b.session.now()
	b.mu.Lock()
	for _, p := range b.permits {
		if p.number > 0 && b.loan == nil && now-p.sent > b.session.store.options.lease {
			b.end(p, outcome{at: now})
		}
	}
	// The manager has to check whether requests have waited too long, or to end a loan that has expired.
	news := away && b.queued() > 0 || b.loan != nil && (b.loan.offered || b.loanUntil() <= now)
	if b.returned != nil && !away {
		b.say(now)
	}
	b.session.forgetIdle(b)
	lent, flying = b.loan != nil && !b.loan.alone, len(b.permits) > 0 || len(b.ended) > 0
	b.mu.Unlock()
	if news {
		b.notify()
	}
	return lent, flying
}

// outageChanged adapts all busy buckets to the start or the end of an outage.
func (s *session) outageChanged() {
	for _, b := range s.allAgents() {
		b.mu.Lock()
		now := s.now()
		if away, _ := s.away(); away { // read again, because the loop may take long
			b.stopTimer()
			if b.inUse() {
				b.goAlone(now)
			}
		} else {
			b.failing = 0
			b.backAgain()
			if l := b.loan; l != nil && s.endedErr() != nil {
				l.wanted = true
			}
			b.stopTimer()
			if b.due || b.queued() > 0 || b.untold(now) {
				b.say(now)
			}
		}
		b.mu.Unlock()
		b.notify()
	}
}
