package discordsim

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// observed returns a change of a Config: the world collects the uses of limits in a map, by class.
func observed(uses map[Class][]LimitUse) func(*Config) {
	return func(c *Config) {
		c.ObserveLimit = func(use LimitUse) { uses[use.Class] = append(uses[use.Class], use) }
	}
}

func TestUsesOfABucketTellItsWindows(t *testing.T) {
	t.Parallel()
	uses := make(map[Class][]LimitUse)
	quota := Fixed(2, second)
	w := messages(t, Rule{Hash: "h", Quota: quota}, observed(uses), func(c *Config) {
		c.Foreign = []ForeignUse{{Request: post, At: []time.Duration{100 * ms}}}
	})
	for _, now := range []time.Duration{0, 200 * ms, second} {
		send(w, now, 1, post)
	}
	use := func(now time.Duration, who Consumer, taken bool, remaining int, reset, retry time.Duration) LimitUse {
		return LimitUse{
			At: at(now), Who: who, Class: ClassUser, Hash: "h", Major: "1", Taken: taken, Quota: quota,
			State: State{Limit: 2, Remaining: remaining, ResetAfter: reset, RetryAfter: retry, NextAfter: reset},
		}
	}
	assert.Equal(t, []LimitUse{
		use(0, Own, true, 1, second, 0),
		use(100*ms, Foreign, true, 0, 900*ms, 900*ms),
		use(200*ms, Own, false, 0, 800*ms, 800*ms),
		use(second, Own, true, 1, second, 0),
	}, uses[ClassUser])
}

func TestUsesOfOtherLimitsAreObserved(t *testing.T) {
	t.Parallel()
	uses := make(map[Class][]LimitUse)
	rule := Rule{Quota: Unlimited(), Shared: &SharedLimit{Quota: Fixed(1, second)}}
	send(messages(t, rule, observed(uses), globalOf(Fixed(3, second))), 0, 4, post)
	for class, want := range map[Class]struct {
		taken []bool
		major string
		left  int // after the first use
	}{
		ClassUser:   {[]bool{true, true, true}, "1", 0},
		ClassGlobal: {[]bool{true, true, true, false}, "", 2},
		ClassShared: {[]bool{true, false, false}, "1", 0},
	} {
		var taken []bool
		for _, use := range uses[class] {
			assert.Equal(t, want.major, use.Major, class)
			assert.Equal(t, class != ClassUser, use.Hash == "", class)
			assert.Equal(t, class == ClassUser, use.Quota == Quota{} && use.State == State{}, class)
			taken = append(taken, use.Taken)
		}
		assert.Equal(t, want.taken, taken, class)
		assert.Equal(t, want.left, uses[class][0].State.Remaining, class)
	}
}
