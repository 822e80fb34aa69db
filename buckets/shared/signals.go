package shared

import "strings"

// eachSecond calls tick in a goroutine of its own about once a second from now on, until stop is called or the session is closed. Ticks
// of the same ticker may overlap if one takes longer.
func (s *session) eachSecond(tick func()) (stop func()) {
	t := &ticker{tick}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tickers[t] = struct{}{}
	s.schedule()
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.tickers, t)
	}
}

// schedule sets the timer of the next tick unless it is set. s.mu is held.
func (s *session) schedule() {
	if s.timer == nil && !s.closed && len(s.tickers) > 0 {
		s.timer = s.clock.AfterFunc(beatPeriod, s.tick)
	}
}

func (s *session) tick() {
	s.mu.Lock()
	s.timer = nil
	ticks := make([]func(), 0, len(s.tickers))
	for t := range s.tickers {
		ticks = append(ticks, t.tick)
	}
	s.schedule()
	s.mu.Unlock()
	for _, tick := range ticks {
		s.spawn(tick)
	}
}

// watch calls changed, from a goroutine of the session, when an outage begins and when it ends, until stop is called.
func (s *session) watch(changed func()) (stop func()) {
	w := &watcher{changed}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.watchers[w] = struct{}{}
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.watchers, w)
	}
}

func (s *session) tellWatchers() {
	s.mu.Lock()
	all := make([]func(), 0, len(s.watchers))
	for w := range s.watchers {
		all = append(all, w.changed)
	}
	s.mu.Unlock()
	s.spawn(func() {
		for _, changed := range all {
			changed()
		}
	})
}

// listen calls received for the messages to this session that begin with the topic and a space, with what follows. There is
// one listener of a topic. received is called from a goroutine of the session and must not block.
func (s *session) listen(topic string, received func(rest string)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.topics[topic] = received
}

func (s *session) received(message string) {
	topic, rest, _ := strings.Cut(message, " ")
	s.mu.Lock()
	f := s.topics[topic]
	if s.closed {
		f = nil
	}
	s.mu.Unlock()
	if f != nil {
		f(rest)
	}
}
