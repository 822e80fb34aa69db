package soak

import (
	"runtime"
	"sync"
	"time"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/internal/discordsim"
)

// Checkpoint is what there was after a round, when everything had come to rest.
type Checkpoint struct {
	Weather string
	// Heap is the memory in use after a garbage collection, in bytes.
	Heap       uint64
	Goroutines int
	// Waiting and InFlight are those of the manager, Buckets, Routes and Authentications what it still knows.
	Waiting, InFlight, Buckets, Routes, Authentications int
	// MostBuckets and MostWaiting are the largest numbers that were seen during the round.
	MostBuckets, MostWaiting int
}

// checkpoint measures and searches what is there between two rounds.
func (s *soak) checkpoint(round int, w weather, most buckets.Stats) Checkpoint {
	now := s.look()
	if s.rest() && now.Waiting == 0 { // what waits may know its token
		s.search.dump("transport", s.transport)
	}
	return Checkpoint{
		Weather: w.String(), Heap: heap(), Goroutines: runtime.NumGoroutine(),
		Waiting: now.Waiting, InFlight: now.InFlight,
		Buckets: now.Buckets, Routes: now.Routes, Authentications: now.Authentications,
		MostBuckets: max(most.Buckets, now.Buckets), MostWaiting: max(most.Waiting, now.Waiting),
	}
}

// rest waits until nothing in the bubble moves, and reports whether things may now be read without their locks.
func (s *soak) rest() bool {
	if s.Virtual {
		s.Rest()
	}
	return s.Virtual && !raceDetector
}

// heap returns the memory in use.
func heap() uint64 {
	runtime.GC()
	runtime.GC() // what pools keep lives through one
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// goroutines returns how many there are, when those that are about to end have done so.
func (s *soak) goroutines(before int) (now int) {
	for range 50 {
		if now = runtime.NumGoroutine(); now <= before {
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	return now
}

// look searches what the manager shows of itself.
func (s *soak) look() buckets.Stats {
	stats := s.transport.Manager().Stats()
	s.search.value("stats", stats, allFormats...)
	for snapshot := range s.transport.Manager().Buckets() {
		s.search.value("snapshot", snapshot, "%+v", "%#v")
	}
	if s.rest() { // fmt takes no locks
		s.search.value("transport", s.transport, allFormats...)
		s.search.value("manager", s.transport.Manager(), allFormats...)
	}
	return stats
}

// invalidCount counts the answers for which Discord bans an address, as they are given.
type invalidCount struct {
	period time.Duration

	mu     sync.Mutex
	recent []time.Time
	all    int
	peak   int
}

// observe is called for every event of the simulator.
func (c *invalidCount) observe(e discordsim.Event) {
	switch {
	case e.Status == 401, e.Status == 403, e.Status == 429 && e.Class != discordsim.ClassShared:
	default:
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	old := 0
	for old < len(c.recent) && e.At.Sub(c.recent[old]) >= c.period {
		old++
	}
	c.recent = append(c.recent[:copy(c.recent, c.recent[old:])], e.At)
	c.all++
	c.peak = max(c.peak, len(c.recent))
}

// most is the largest number within a period, total that of all.
func (c *invalidCount) most() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.peak
}

func (c *invalidCount) total() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.all
}
