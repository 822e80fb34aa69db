package buckets_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A Request keeps its place until it is answered, and no longer.
func TestRequestThatIsUsedAgainHasNoPlace(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		m := started(t)
		discover(t, m, message(1), limited("messages", 5, 4, 10*time.Second))
		reused := ask(m, message(1))
		reused.lease.Return()
		reused.again(m)
		require.True(t, reused.granted())
		reused.update(limited("messages", 5, 3, 10*time.Second))
		for left := 2; left >= 0; left-- {
			discover(t, m, message(1), limited("messages", 5, left, 10*time.Second))
		}
		others := asks(m, message(1), 5)
		reused.again(m)
		wait(10*time.Second + 10*time.Millisecond)
		assert.Equal(t, 5, granted(t, others))
		assert.False(t, reused.done(), "it came after all of them")
		require.NoError(t, m.Close())
	})
}
