package discordsim

import "time"

// slidingLog remembers when each request was accepted. A place is free again exactly one period later.
type slidingLog struct {
	quota Quota
	log   []logEntry // oldest first; the first `gone` entries have expired
	gone  int
	own   int
}

type logEntry struct {
	at  time.Time
	who Consumer
}

func (s *slidingLog) live() []logEntry { return s.log[s.gone:] }

func (s *slidingLog) expire(now time.Time) {
	for s.gone < len(s.log) && !now.Before(s.log[s.gone].at.Add(s.quota.Period)) {
		if s.log[s.gone].who == Own {
			s.own--
		}
		s.gone++
	}
	if s.gone > 16 && s.gone > len(s.log)/2 {
		s.log = s.log[:copy(s.log, s.log[s.gone:])]
		s.gone = 0
	}
}

// add counts a request without asking whether there is room.
func (s *slidingLog) add(now time.Time, who Consumer) {
	s.expire(now)
	s.log = append(s.log, logEntry{at: now, who: who})
	if who == Own {
		s.own++
	}
}

func (s *slidingLog) Take(now time.Time, who Consumer) bool {
	s.expire(now)
	if len(s.live()) >= s.quota.Limit {
		return false
	}
	s.add(now, who)
	return true
}

func (s *slidingLog) State(now time.Time) State {
	s.expire(now)
	live := s.live()
	state := State{Limit: s.quota.Limit, Remaining: max(s.quota.Limit-len(live), 0)}
	if len(live) == 0 {
		return state
	}
	left := func(i int) time.Duration { return live[i].at.Add(s.quota.Period).Sub(now) }
	state.ResetAfter = left(len(live) - 1)
	state.NextAfter = left(0)
	if over := len(live) - s.quota.Limit; over >= 0 {
		state.RetryAfter = left(over) // over > 0 after the limit was lowered: that many more have to go first
		state.NextAfter = state.RetryAfter
	}
	return state
}

func (s *slidingLog) OwnUsed(now time.Time) int {
	s.expire(now)
	return s.own
}

func (s *slidingLog) Quota() Quota { return s.quota }

func (s *slidingLog) resize(now time.Time, quota Quota) {
	s.expire(now)
	s.quota = quota
}
