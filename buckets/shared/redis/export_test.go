package redis

// Runner lets tests run scripts of their own.
func (s *Store) Runner() *runner { return s.runner }

// Needed returns the commands that Open tries in scripts.
func Needed() (names []string) {
	for _, p := range needed() {
		names = append(names, p[0])
	}
	return names
}
