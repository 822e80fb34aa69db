//go:build locktimes

package buckets

import (
	"math"
	"sync"
	"time"
)

// mutex measures how long it is held.
type mutex struct {
	sync.Mutex
	since   time.Time
	longest time.Duration
	counts  [512]int // of holds, by the logarithm of how long they were
}

const countsPerDoubling = 8

func (m *mutex) Lock() {
	m.Mutex.Lock()
	m.since = time.Now()
}

func (m *mutex) Unlock() {
	held := time.Since(m.since)
	m.longest = max(m.longest, held)
	m.counts[int(countsPerDoubling*math.Log2(float64(max(held, 1))))]++
	m.Mutex.Unlock()
}

// held returns how long 99 of 100 holds lasted at most since it was asked last, and the longest.
func (m *mutex) held() (p99, longest time.Duration) {
	m.Mutex.Lock()
	defer m.Mutex.Unlock()
	all := 0
	for _, n := range m.counts {
		all += n
	}
	upTo := 0
	for i, n := range m.counts {
		if upTo += n; p99 == 0 && upTo*100 >= all*99 {
			p99 = time.Duration(math.Exp2(float64(i+1) / countsPerDoubling))
		}
	}
	longest = m.longest
	m.counts, m.longest = [512]int{}, 0
	return p99, longest
}
