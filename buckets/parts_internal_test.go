package buckets

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
)

// A server does long work in parts. With the functions of this file, tests can act between the parts and check that no
// work is left.

// ByParts stops the server's work as if one part of it had just ended. part does the next part and reports whether more
// work is left; resume lets the server go on by itself.
func ByParts(m *RESTBucketManager) (part func() (more bool), resume func()) {
	s := m.discord
	s.mu.Lock()
	s.working = true
	s.mu.Unlock()
	return func() bool {
			s.mu.Lock()
			more := s.dispatch(s.now())
			for _, tell := range s.letGo(s.now()) {
				tell()
			}
			synctest.Wait()
			return more
		}, func() {
			s.mu.Lock()
			s.working = false
			s.unlock(s.now())
			synctest.Wait()
		}
}

// Meanwhile calls a function the next time the server releases its lock.
func Meanwhile(m *RESTBucketManager, act func()) {
	m.discord.mu.Lock()
	defer m.discord.mu.Unlock()
	m.discord.tell(act)
}

// WhenClosing calls a function when the manager, while closing, releases the lock for a moment.
func WhenClosing(m *RESTBucketManager, act func()) {
	Meanwhile(m, func() {
		if m.closed() {
			act()
		} else {
			WhenClosing(m, act)
		}
	})
}

// Collect runs the garbage collector.
func Collect(m *RESTBucketManager) { m.collect() }

// CheckIdle checks that no work is left and that all counts agree with the requests in flight.
func CheckIdle(t *testing.T, m *RESTBucketManager) {
	t.Helper()
	s := m.discord
	s.mu.Lock()
	defer s.mu.Unlock()
	assert.Empty(t, s.leaving, "buckets whose requests move")
	assert.Empty(t, s.late, "late queues")
	assert.Empty(t, s.overdue, "overdue leases")
	assert.Empty(t, s.touched, "lines to check")
	assert.Zero(t, s.judging)
	assert.False(t, s.working)
	undiscovered, inFlight, waiting := 0, 0, 0
	for _, a := range s.accounts {
		for _, all := range a.undiscovered {
			undiscovered += len(all)
		}
	}
	for _, b := range s.buckets {
		assert.False(t, b.leaving)
		for h := b.inFlight; h != nil; h = h.next {
			inFlight++
			if h.undiscovered {
				undiscovered--
			}
		}
		n := 0
		for q := range b.queues.all {
			n += q.waiting.Len()
			assert.False(t, q.late)
		}
		assert.Equal(t, b.queues.length(), n)
		waiting += n
	}
	assert.Zero(t, undiscovered, "requests whose bucket is not known")
	assert.Equal(t, s.waiting, waiting)
	if !m.closed() {
		assert.Equal(t, s.budget.inFlight, inFlight)
		assert.LessOrEqual(t, s.awaited.Len(), inFlight)
	}
}
