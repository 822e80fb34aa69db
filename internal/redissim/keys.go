package redissim

import "time"

// Keys returns the names of all keys, sorted.
func (s *Server) Keys() []string {
	s.connection.Lock()
	defer s.connection.Unlock()
	return s.Redis.Keys()
}

// Value returns the text of a key, "" if it has none.
func (s *Server) Value(key string) string {
	s.connection.Lock()
	defer s.connection.Unlock()
	text, _ := s.Redis.Get(key)
	return text
}

// Set stores a text under a key without an expiry.
func (s *Server) Set(key, text string) {
	s.connection.Lock()
	defer s.connection.Unlock()
	s.Redis.Del(key)
	_ = s.Redis.Set(key, text) // fails only for a key of another type, which Del has removed
}

// SetForeign stores a value that is not a text under a key, without an expiry.
func (s *Server) SetForeign(key string) {
	s.connection.Lock()
	defer s.connection.Unlock()
	s.Redis.Del(key)
	s.Redis.HSet(key, "name", "mine")
}

// Evict deletes one key, like a server that has no free memory, and reports whether the key existed.
func (s *Server) Evict(key string) bool {
	s.connection.Lock()
	defer s.connection.Unlock()
	return s.Redis.Del(key)
}

// Flush deletes all keys.
func (s *Server) Flush() {
	s.connection.Lock()
	defer s.connection.Unlock()
	s.Redis.FlushAll()
}

// StepClock sets the server's clock forward by d, or back if d is negative. The clock runs on from there.
func (s *Server) StepClock(d time.Duration) {
	s.connection.Lock()
	defer s.connection.Unlock()
	s.ahead, s.stepped = s.ahead+d, true
	s.setClock()
}

// setClock tells miniredis the time if the clock was ever stepped, because a clock of miniredis that was set stands
// still. s.connection must be held.
func (s *Server) setClock() {
	if s.stepped {
		s.Redis.SetTime(time.Now().Add(s.ahead))
	}
}
