package shared_test

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets/shared"
	"github.com/ratelight/ratelight/ratelimits"
)

// elsewhere is the key of a bucket that no other process uses.
var elsewhere = shared.Key{Hash: "elsewhere"}

// TestWhoKnowsNothingIsToldThatTheClockWasSet tests that no window ends early for a process that has not seen the clock
// before it was set: another process that has seen it ends the era.
func TestWhoKnowsNothingIsToldThatTheClockWasSet(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.limited()
		a.join(4)
		pass(10 * ms)
		for range 4 {
			a.answer(headers(5, 0, 8*time.Second, 1000))
		}
		pass(2 * time.Second)
		w.step(time.Minute)
		b.process.use(elsewhere).join(1)
		pass(10 * ms)
		late := w.process().use(someKey)
		late.join(5)
		pass(500 * ms)
		assert.False(t, late.lent)
		assert.Zero(t, late.leaves())
	})
}

// TestASmallStepIsNoLoss tests that a fail-over between machines with nearly the same time holds no bucket.
func TestASmallStepIsNoLoss(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.limited()
		w.step(50 * ms)
		a.join(1)
		b.join(1)
		pass(1500 * ms)
		assert.Zero(t, a.stats().Losses+b.stats().Losses)
		assert.Zero(t, a.stats().ClockSteps+b.stats().ClockSteps)
	})
}

// TestWhoClosesEndsNoEra tests that the simultaneous last calls of a session are not mistaken for a loss of state.
func TestWhoClosesEndsNoEra(t *testing.T) {
	inWorld(t, func(w *world) {
		stays, closes := w.process().use(someKey), w.process()
		stays.join(1)
		for _, hash := range []string{"1", "2", "3", "4", "5", "6"} {
			key := someKey
			key.Hash = hash
			closes.use(key).join(2)
		}
		pass(1500 * ms)
		closes.session.Close()
		pass(1500 * ms)
		assert.Zero(t, stays.stats().Losses)
	})
}

// If the server returns to states of an earlier era while all other processes are silent, the buckets of those states
// are held.
func TestAnEarlierEraDoesNotComeBack(t *testing.T) {
	inWorld(t, func(w *world) {
		const key = "rl2:{default}:e"
		a, _ := w.contested()
		a.answer(headers(5, 4, time.Minute, 1000))
		pass(10 * ms)
		before := make(map[string]string)
		for _, stored := range w.server.Keys() {
			before[stored] = w.server.Value(stored)
		}
		number := w.server.Value(key)
		n, err := strconv.Atoi(strings.TrimSpace(number))
		require.NoError(t, err)
		w.server.Set(key, strconv.Itoa(n+5)+" ")
		other := elsewhere
		for range 3 { // learns of the era that began
			other.Major += "1"
			a.process.use(other).join(1)
			pass(time.Second)
		}
		w.server.Flush()
		for stored, value := range before {
			w.server.Set(stored, value)
		}
		other.Major += "1"
		a.process.use(other).join(1)
		pass(20 * ms)
		now := w.server.Value(key)
		ended, err := strconv.Atoi(strings.TrimSpace(now))
		require.NoError(t, err)
		require.Greater(t, ended, n+5)
		late := w.process().use(someKey)
		late.join(5)
		pass(500 * ms)
		assert.False(t, late.lent)
		assert.Zero(t, late.leaves())
	})
}

// The server's clock is set back while a process has a loan. The state that the process returns afterwards must have no
// times of the earlier clock: they would look like another step.
func TestLoanThatIsReturnedAfterTheClockWasSet(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.process().use(someKey), w.process().use(someKey)
		a.join(1)
		pass(100 * ms)
		require.True(t, a.lent)
		w.step(-time.Hour)
		b.process.use(elsewhere).join(1)
		pass(3 * time.Second)
		losses := a.stats().Losses + b.stats().Losses
		a.giveBack(ratelimits.State{Limit: 5, Period: time.Second})
		pass(3 * time.Second)
		b.join(5)
		pass(3 * time.Second)
		assert.True(t, b.lent || b.served(5))
		assert.Equal(t, losses, a.stats().Losses+b.stats().Losses)
	})
}

// The server may have lost a state of an earlier era when that era ended. This loss needs to be reported only once.
func TestLossOfAnEarlierEraEndsNoOther(t *testing.T) {
	inWorld(t, func(w *world) {
		const global = "rl2:{default}:g:bot"
		p, q := w.process(), w.process()
		p.session.Global("bot", 0, func() {})
		b := q.use(someKey)
		pass(10 * ms)
		b.join(1)
		pass(100 * ms)
		state := "rl2:{default}:b:" + someKey.Credential + "/" + someKey.Hash + "/" + someKey.Major
		before := map[string]string{global: w.server.Value(global), state: w.server.Value(state)}
		b.giveBack(ratelimits.State{Limit: 5, Period: time.Second})
		pass(time.Minute)
		require.NotEqual(t, before[global], w.server.Value(global))
		for key, value := range before {
			w.server.Set(key, value)
		}
		b.join(1)
		pass(2 * time.Second)
		era := w.server.Value("rl2:{default}:e")
		pass(2 * time.Minute)
		assert.Equal(t, era, w.server.Value("rl2:{default}:e"))
	})
}

// All processes die, the server's clock is set back, and another process starts. For a moment it knows states with
// times of the other clock.
func TestNewProcessAfterTheClockWasSetBackIsNotToldToWait(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.limited()
		a.join(4)
		pass(20 * ms)
		a.link.kill(true)
		b.link.kill(true)
		w.server.StepClock(-time.Hour)
		c := w.process().use(someKey)
		c.join(1)
		for range 3000 {
			pass(ms)
			require.Less(t, c.forecast(0).Wait, 10*time.Second, "any max wait would refuse it")
		}
	})
}
