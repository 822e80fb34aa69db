package shared_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestAHoldThatIsOverBeforeItIsSaidKeepsNobodyAwake tests that a session says no more that it is alive once there is nothing to say.
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
