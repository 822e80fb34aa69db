package shared

import (
	"maps"
	"sync"
	"time"
)

// meter counts the events of a session. Its mutex is locked after all other mutexes.
type meter struct {
	mu      sync.Mutex
	counted Stats
}

func (m *meter) count(counter *uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	*counter++
}

// called counts a call to the server that has ended.
func (m *meter) called(script string, took time.Duration, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.counted.Calls == nil {
		m.counted.Calls = map[string]Calls{}
	}
	c := m.counted.Calls[script]
	c.Calls++
	c.Time += took
	if err != nil {
		c.Errors++
	}
	m.counted.Calls[script] = c
}

func (s *session) loanEnded(l *loan) {
	counted := &s.meter.counted
	switch {
	case l == nil || l.alone:
	case s.now() >= s.believedUntil(l.at):
		s.meter.count(&counted.LoansExpired)
	default:
		s.meter.count(&counted.LoansReturned)
	}
}

func (s *session) Stats() Stats {
	quota, need := s.quota()
	s.meter.mu.Lock()
	stats := s.meter.counted
	stats.Calls = maps.Clone(stats.Calls)
	s.meter.mu.Unlock()
	stats.Loans = int(stats.LoansTaken - stats.LoansReturned - stats.LoansExpired)
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	stats.Outages, stats.OutageTime = s.outage.times, s.outage.total(now)
	if s.closed {
		return stats
	}
	stats.Quota, stats.QuotaNeed = quota, need
	if s.outage.away {
		stats.Outage, stats.OutageClass = max(now-s.outage.since, 1), ErrorClass(s.outage.cause)
	}
	return stats
}

// quota returns how many requests a second this process may send under all global limits together, and how many it
// needs.
func (s *session) quota() (have, need int) {
	globals, _ := s.parts.all()
	for _, g := range globals {
		now := s.now()
		part, _ := g.Part(now)
		have += part
		g.mu.Lock()
		need += min(g.demand.need(now), g.limit)
		g.mu.Unlock()
	}
	return have, need
}
