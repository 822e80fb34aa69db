package shared

import (
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// agents are the buckets of a session.
type agents struct {
	next    atomic.Uint64 // number of requests and calls
	beating chan struct{} // holds one element while a beat is on its way

	mu     sync.Mutex // taken after that of a bucket
	byName map[string]*bucket
	active map[*bucket]struct{} // which have something to do, so that the session has to stay alive
	stop   func()               // ends the ticks; nil if there are none
	saw    time.Duration        // when the latest call that came through was begun
	naps   int                  // of our clock that are known here
	beatAt time.Duration        // when the latest beat that came through was begun
	lease  time.Duration        // until when the server knows that the session is alive, by its clock
	since  time.Duration        // when the first of them was begun since the others may have held the session for dead
}

func (s *session) startAgents() {
	s.agents.beating = make(chan struct{}, 1)
	s.agents.saw = -sessionTime // nobody has heard of it
	s.agents.byName, s.agents.active = map[string]*bucket{}, map[*bucket]struct{}{}
	s.listen("want", func(rest string) {
		session, name, _ := strings.Cut(rest, " ")
		if b := s.named(name); b != nil {
			b.want(session)
		}
	})
	s.listen("state", func(rest string) {
		length, rest, _ := strings.Cut(rest, " ")
		if n, err := strconv.Atoi(length); err == nil && n >= 0 && n <= len(rest) {
			if b := s.named(rest[:n]); b != nil {
				b.told(rest[n:])
			}
		}
	})
	s.watch(s.outageChanged)
}

// closeAgents says all that is left to say, of many buckets at a time where nothing is in flight.
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

// saw takes in that the others believe in the session, by a reply that begins with the era.
func (s *session) saw(r *reply) {
	now, lifetime, lost := s.now(), s.lifetime(), s.entered(r)
	if r.values[0] != s.eraNumber() {
		return // it was overtaken
	}
	s.agents.mu.Lock()
	if lost || now >= s.agents.saw+believedTime || r.sent < s.agents.since && s.agents.since <= r.sent+believedTime { // the latter: a reply was overtaken
		s.agents.since = r.sent
		if lost { // what was given until now
			s.agents.since = now
		}
	}
	s.agents.saw, s.agents.lease = max(s.agents.saw, r.sent), r.engine+lifetime
	s.agents.mu.Unlock()
	if lost {
		s.startAnew()
	}
}

// believedTime is how long after the start of a call all others certainly believe in a session. Their clocks may run faster.
const believedTime = sessionTime * 9 / 10

// aliveUntil returns until when all others believe in the session if no other call comes through.
func (s *session) aliveUntil() time.Duration {
	naps := s.awake()
	s.agents.mu.Lock()
	defer s.agents.mu.Unlock()
	if naps != s.agents.naps {
		s.agents.naps, s.agents.saw = naps, -sessionTime
	}
	return s.agents.saw + believedTime
}

// believedUntil returns until when the others believe in the session if no other call comes through, and have certainly done so all the time
// since a moment; 0 if they have not. What was granted or lent then may have been given to somebody else.
func (s *session) believedUntil(from time.Duration) time.Duration {
	alive := s.aliveUntil()
	s.agents.mu.Lock()
	defer s.agents.mu.Unlock()
	if from < s.agents.since {
		return 0
	}
	return alive
}

// activate lets the session stay alive for the bucket. b.mu is held.
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

// forgetIdle ends that, if the bucket has nothing to do. A closed one is forgotten with it. b.mu is held.
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

// settle waits until what there is to say of buckets with names that begin so has been said.
func (s *session) settle(begin string) {
	for _, b := range s.allAgents() {
		if strings.HasPrefix(b.name, begin) {
			b.settle()
		}
	}
}

// countPeriod is how old what is known of the number of sessions may be.
const countPeriod = 10 * time.Second

// tickAgents does what is due once a second. The calls of buckets say that the session is alive, too, but not which of its loans are wanted.
func (s *session) tickAgents() {
	away, _ := s.away()
	now, loans := s.now(), false
	for _, b := range s.allAgents() {
		loans = b.tick(away) || loans
	}
	s.agents.mu.Lock()
	silent := now-s.agents.saw >= beatPeriod*9/10 || now-s.agents.beatAt >= countPeriod
	s.agents.mu.Unlock()
	if !away && (loans || silent) {
		s.beat(s.context)
	}
}

// tick ends what has lasted too long, and reports whether the bucket is lent to this session.
func (b *bucket) tick(away bool) (lent bool) {
	now := b.session.now()
	b.mu.Lock()
	for _, p := range b.permits {
		if p.number > 0 && b.loan == nil && now-p.sent > b.session.store.options.lease {
			b.end(p, outcome{at: now})
		}
	}
	// Who waits may have waited too long by now, or a loan may have ended that the server did not renew.
	news := away && b.queued() > 0 || b.loan != nil && (b.loan.offered || b.loanUntil() <= now)
	if b.returned != nil && !away {
		b.say(now)
	}
	b.session.forgetIdle(b)
	lent = b.loan != nil && !b.loan.alone
	b.mu.Unlock()
	if news {
		b.notify()
	}
	return lent
}

// outageChanged lets all buckets know that the server is away, or back.
func (s *session) outageChanged() {
	for _, b := range s.allAgents() {
		b.mu.Lock()
		now := s.now()
		if away, _ := s.away(); away { // now: the others may have taken long, and this may not be the latest news
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
