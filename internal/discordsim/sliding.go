package discordsim

import "time"

// slidingLog remembers when each request was accepted. The place of that request is free again when one period and the
// lateness have passed.
type slidingLog struct {
	quota  Quota
	draws  draws
	places takenPlaces
}

// add counts a request, even if the log is full.
func (s *slidingLog) add(now time.Time, who Consumer) {
	s.places.expire(now, s.quota.Limit)
	s.places.add(now.Add(s.quota.Period), s.draws.next(s.quota.Lateness), who)
}

func (s *slidingLog) Take(now time.Time, who Consumer) bool {
	s.places.expire(now, s.quota.Limit)
	if len(s.places.live()) >= s.quota.Limit {
		return false
	}
	s.add(now, who)
	return true
}

func (s *slidingLog) State(now time.Time) State {
	s.places.expire(now, s.quota.Limit)
	return s.places.state(now, s.quota.Limit)
}

func (s *slidingLog) OwnUsed(now time.Time) int {
	s.places.expire(now, s.quota.Limit)
	return s.places.own
}

func (s *slidingLog) overdue(now time.Time) int {
	s.places.expire(now, s.quota.Limit)
	return s.places.overdue(now)
}

func (s *slidingLog) opened(now time.Time) time.Time {
	s.places.expire(now, s.quota.Limit)
	return s.places.opened(s.quota.Limit)
}

func (s *slidingLog) Quota() Quota { return s.quota }

func (s *slidingLog) resize(now time.Time, quota Quota) {
	s.places.expire(now, s.quota.Limit)
	longer := quota.Period - s.quota.Period
	s.places.move(func(back time.Time) time.Time { return back.Add(longer) })
	s.quota = quota
}
