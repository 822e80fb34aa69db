package shared_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/ratelimits"
)

// TestAHoldThatIsOverBeforeItIsSaidKeepsNobodyAwake tests that a session sends no more beats once it has nothing to
// report.
func TestAHoldThatIsOverBeforeItIsSaidKeepsNobodyAwake(t *testing.T) {
	inWorld(t, func(w *world) {
		b := w.process().use(someKey)
		b.bucket.Hold(w.now(), ms/2, 0) // less than it takes to learn the time
		pass(5 * time.Second)
		calls := w.server.Total()
		require.NotZero(t, calls)
		pass(10 * time.Second)
		assert.Equal(t, calls, w.server.Total())
	})
}

// A hold without end lasts a day, in all processes.
func TestTheLongestHoldReachesOtherProcesses(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.limited()
		a.bucket.Hold(w.now(), math.MaxInt64, ratelimits.ClassUser)
		pass(10 * ms)
		for _, u := range []*user{a, b} {
			u.join(1)
			pass(10 * ms)
			f := u.bucket.Predict(w.now(), 0)
			assert.InDelta(t, ratelimits.LongestTrust.Seconds(), f.Wait.Seconds(), 5, "%+v", f)
		}
	})
}

// A request has a permit, but still waits for the global limit, when another process gets a 429 for the channel.
func TestAHoldAlsoAppliesToAGrantedRequestThatHasNotLeft(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.limited()
		a.asleep = true
		a.join(1)
		pass(10 * ms)
		require.True(t, a.may())
		b.bucket.Hold(b.now(), 3*time.Second, ratelimits.ClassShared)
		pass(10 * ms)
		assert.False(t, a.may())
		pass(2900 * ms)
		assert.False(t, a.may())
		pass(100 * ms)
		assert.True(t, a.mayOrOwns(), "the hold is over")
	})
}
