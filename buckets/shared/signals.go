package shared

import (
	"strconv"
	"strings"
)

// eachSecond calls tick about once a second until stop is called or the session is closed. Each call is made in a new
// goroutine, so calls that take longer than a second overlap.
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

// schedule sets the timer of the next tick if a tick is needed and the timer is not set. s.mu must be held.
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

// watch lets a goroutine of the session call changed whenever an outage begins or ends, until stop is called.
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

// listen lets a goroutine of the session call received for each message to this session that begins with topic and a
// space. The argument is the rest of the message. A topic has one listener. received must not block.
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

// withName encodes a name, so that a message can begin with it. cutName splits such a message into the name and the
// rest.
func withName(name string) string { return strconv.Itoa(len(name)) + " " + name }

func cutName(message string) (name, rest string) {
	length, text, _ := strings.Cut(message, " ")
	n, err := strconv.Atoi(length)
	if err != nil || n < 0 || n > len(text) {
		return "", ""
	}
	return text[:n], text[n:]
}
