package shared_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/ratelimits"
)

func TestTheFirstUserGetsALoanWithOneCall(t *testing.T) {
	inWorld(t, func(w *world) {
		a := w.process().use(someKey)
		a.join(3)
		pass(10 * ms)
		require.NotNil(t, a.loan)
		assert.Equal(t, ratelimits.State{}, a.loan.State)
		assert.Equal(t, 1, a.loan.Share)
		assert.Equal(t, map[string]int{"exchange": 1}, w.server.Calls())
		assert.Greater(t, a.bucket.Until(), w.now()+2500*ms)
		pass(10 * time.Second)
		assert.Greater(t, a.bucket.Until(), w.now()+1500*ms, "it is renewed")
		assert.Equal(t, map[string]int{"exchange": 1, "beat": 10}, w.server.Calls())
	})
}
