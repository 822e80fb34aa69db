package shared_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// most returns how many were sent within d at most.
func most(d time.Duration, senders ...*sender) (n int) {
	var all []time.Duration
	for _, s := range senders {
		s.mu.Lock()
		all = append(all, s.sent...)
		s.mu.Unlock()
	}
	slices.Sort(all)
	for first, last := 0, 0; last < len(all); last++ {
		for all[last]-all[first] >= d {
			first++
		}
		n = max(n, last-first+1)
	}
	return n
}

func TestOneAloneGetsEverythingAtOnce(t *testing.T) {
	withFleet(t, func(f *fleet) {
		s := f.sender(50)
		defer s.end()
		s.send(50)
		time.Sleep(time.Millisecond)
		assert.Zero(t, s.waiting())
		assert.Equal(t, 50, s.part())
	})
}

func TestFourThatStartTogetherUseAllOfTheLimit(t *testing.T) {
	withFleet(t, func(f *fleet) {
		var senders []*sender
		for range 4 {
			s := f.sender(50)
			defer s.end()
			senders = append(senders, s)
		}
		for _, s := range senders {
			s.send(300)
		}
		for range 400 {
			time.Sleep(100 * time.Millisecond)
			left := 0
			for _, s := range senders {
				left += s.waiting()
			}
			if left == 0 {
				break
			}
		}
		require.LessOrEqual(t, f.now(), 26*time.Second)
		require.LessOrEqual(t, most(time.Second, senders...), 50)
	})
}
