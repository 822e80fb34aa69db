package shared

import (
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ratelight/ratelight/ratelimits"
)

// agents are the buckets of a session.
type agents struct {
	next    atomic.Uint64 // number of tickets
	beating chan struct{} // holds one element while a beat is on its way

	mu     sync.Mutex // taken after that of a bucket
	byName map[string]*bucket
	active map[*bucket]struct{} // which have something to do, so that the session has to stay alive
	stop   func()               // ends the ticks; nil if there are none
	saw    time.Duration        // when the latest call that came through was begun
	since  time.Duration        // when the first of them was begun since the others may have held the session for dead
}

func (s *session) startAgents() {
	s.agents.beating = make(chan struct{}, 1)
	s.agents.byName, s.agents.active = map[string]*bucket{}, map[*bucket]struct{}{}
	s.listen("want", func(name string) {
		if b := s.named(name); b != nil {
			b.want()
		}
	})
	s.listen("wake", func(name string) {
		if b := s.named(name); b != nil {
			b.wake()
		}
	})
	s.watch(s.outageChanged)
}

// closeAgents says all that is left to say, of many buckets at a time where nothing is in flight.
func (s *session) closeAgents() {
	all := s.allAgents()
	for _, b := range all {
		b.Close()
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

// saw takes in how many sessions are alive, by a call that was begun at the given time.
func (s *session) saw(live int, begun time.Duration) {
	s.mu.Lock()
	// Fewer are believed after a while: a server that has just lost its state knows nobody else yet.
	if live >= s.live || begun-s.liveAt > 2*sessionTime {
		s.live, s.liveAt = max(live, 1), begun
	}
	s.mu.Unlock()
	now := s.now()
	s.agents.mu.Lock()
	if now >= s.agents.saw+sessionTime*9/10 {
		s.agents.since = begun
	}
	s.agents.saw = max(s.agents.saw, begun)
	s.agents.mu.Unlock()
}

// believed reports that the others have certainly believed all the time, from a moment until now, that the session is alive. If not,
// permits that were granted at that moment may have been given to somebody else.
func (s *session) believed(from, now time.Duration) bool {
	s.agents.mu.Lock()
	defer s.agents.mu.Unlock()
	return from >= s.agents.since && now < s.agents.saw+sessionTime*9/10
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
	if len(b.tickets)+len(b.outcomes)+len(b.drops) > 0 || b.hold > 0 || b.returned != nil || b.loan != nil || b.calling || b.due {
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

// tickAgents does what is due once a second.
func (s *session) tickAgents() {
	away, _ := s.away()
	for _, b := range s.allAgents() {
		b.tick(away)
	}
	if !away {
		s.beat(s.context)
	}
}

// tick ends what has lasted too long.
func (b *bucket) tick(away bool) {
	now := b.session.now()
	b.mu.Lock()
	for _, t := range b.tickets {
		if t.stage == flying && b.loan == nil && now-t.since > b.session.store.options.lease {
			b.end(now, t, ratelimits.Response{}, false)
		}
	}
	// Who waits may have waited too long by now, or a loan may have ended that the server did not renew.
	news := away && b.line.Len() > 0 || b.loan != nil && (b.loan.until <= now || b.loan.offered)
	b.session.forgetIdle(b)
	b.mu.Unlock()
	if news {
		b.notify()
	}
}

// outageChanged lets all buckets know that the server is away, or back.
func (s *session) outageChanged() {
	for _, b := range s.allAgents() {
		b.mu.Lock()
		now := s.now()
		if away, _ := s.away(); away { // now: the others may have taken long, and this may not be the latest news
			b.stopTimer()
			if len(b.tickets) > 0 {
				b.goAlone(now)
			}
		} else {
			b.failing = 0
			b.backAgain()
			if l := b.loan; l != nil && s.endedErr() != nil {
				l.until, l.wanted = 0, true
			}
			b.stopTimer()
			if b.due || b.line.Len() > 0 {
				b.say(now)
			}
		}
		b.mu.Unlock()
		b.notify()
	}
}
