package buckets_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/ratelimits"
)

// A Request keeps its place until it is answered, and no longer.
func TestRequestThatIsUsedAgainHasNoPlace(t *testing.T) {
	inBubble(t, func(t *testing.T) {
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
		firstOpens(t, others, limited("messages", 5, 4, 10*time.Second))
		assert.Equal(t, 5, granted(t, others))
		assert.False(t, reused.done(), "it came after all of them")
	})
}

// Also where it was granted at once in between, as there was room.
func TestRequestKeepsItsPlaceThroughAGrantWithoutAWait(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := started(t)
		discover(t, m, message(1), limited("messages", 5, 4, 10*time.Second))
		older, younger := ask(m, message(1)), ask(m, message(1))
		require.True(t, older.granted() && younger.granted())
		older.update(plain(502))
		older.again(m)
		require.True(t, older.granted())
		usedUp := inBucket(refused(ratelimits.ClassUser, 10*time.Second), "messages", 5, 0, 10*time.Second)
		younger.update(usedUp)
		older.update(usedUp)
		younger.again(m)
		older.again(m)
		wait(10*time.Second + 10*time.Millisecond)
		assert.True(t, older.granted())
		assert.False(t, younger.done(), "it goes after the first one, which came before it")
	})
}
