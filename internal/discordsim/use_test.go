package discordsim

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// observed collects the uses of limits of one class.
func observed(class Class, uses *[]LimitUse) func(*Config) {
	return func(c *Config) {
		c.ObserveLimit = func(use LimitUse) {
			if use.Class == class {
				*uses = append(*uses, use)
			}
		}
	}
}

func TestUsesOfABucketTellItsWindows(t *testing.T) {
	t.Parallel()
	var uses []LimitUse
	quota := Fixed(2, time.Second)
	w := messages(t, Rule{Hash: "h", Quota: quota}, observed(ClassUser, &uses), func(c *Config) {
		c.Foreign = []ForeignUse{{Request: post, At: []time.Duration{100 * time.Millisecond}}}
	})
	send(w, 0, 1, post)
	send(w, 200*time.Millisecond, 1, post)
	send(w, time.Second, 1, post)
	use := func(at time.Duration, who Consumer, taken bool, remaining int, reset time.Duration) LimitUse {
		retry := time.Duration(0)
		if remaining == 0 {
			retry = reset
		}
		return LimitUse{
			At: start.Add(at), Who: who, Class: ClassUser, Hash: "h", Major: "1", Taken: taken, Quota: quota,
			State: State{Limit: 2, Remaining: remaining, ResetAfter: reset, RetryAfter: retry, NextAfter: reset},
		}
	}
	assert.Equal(t, []LimitUse{
		use(0, Own, true, 1, time.Second),
		use(100*time.Millisecond, Foreign, true, 0, 900*time.Millisecond),
		use(200*time.Millisecond, Own, false, 0, 800*time.Millisecond),
		use(time.Second, Own, true, 1, time.Second),
	}, uses)
}

func TestUsesOfOtherLimitsAreObserved(t *testing.T) {
	t.Parallel()
	var global, shared []LimitUse
	rule := Rule{Quota: Unlimited(), Shared: &SharedLimit{Quota: Fixed(1, time.Second)}}
	w := messages(t, rule, func(c *Config) {
		c.Global = Fixed(3, time.Second)
		c.ObserveLimit = func(use LimitUse) {
			switch use.Class {
			case ClassGlobal:
				global = append(global, use)
			case ClassShared:
				shared = append(shared, use)
			case ClassUser:
				assert.Zero(t, use.Quota)
				assert.Zero(t, use.State)
			}
		}
	})
	send(w, 0, 4, post)
	taken := func(uses []LimitUse) (taken []bool) {
		for _, use := range uses {
			assert.Empty(t, use.Hash)
			taken = append(taken, use.Taken)
		}
		return taken
	}
	require.Equal(t, []bool{true, true, true, false}, taken(global))
	require.Equal(t, []bool{true, false, false}, taken(shared))
	assert.Empty(t, global[0].Major)
	assert.Equal(t, "1", shared[0].Major)
	assert.Equal(t, 2, global[0].State.Remaining)
}
