package shared_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/ratelimits"
)

// TestALoanThatIsReturnedAfterANapKeepsItsCharges tests that the charges of a lent bucket are kept when its holder was
// suspended for a moment.
func TestALoanThatIsReturnedAfterANapKeepsItsCharges(t *testing.T) {
	inWorld(t, func(w *world) {
		asleep := time.Duration(0)
		a := w.sleepy(&asleep).use(someKey)
		a.join(1)
		pass(100 * ms)
		require.True(t, a.lent)
		asleep = 2 * time.Second
		require.LessOrEqual(t, a.until(), w.now())
		a.giveBack(ratelimits.State{Limit: 5, Used: 5, Reset: 8 * time.Second, Period: 10 * time.Second})
		pass(100 * ms)
		b := w.process().use(someKey)
		b.join(1)
		pass(7 * time.Second)
		assert.Zero(t, b.leaves())
		assert.False(t, b.lent)
		pass(4 * time.Second) // for a period at most
		assert.True(t, b.served(1))
	})
}
