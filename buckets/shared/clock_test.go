package shared_test

import (
	"testing"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/ratelimits"
)

func TestWindowKeepsItsLengthWhenTheClockIsSetBack(t *testing.T) {
	inWorld(t, func(w *world) {
		_, b := w.usedUp(990 * ms)
		pass(10 * ms)
		w.step(-time.Hour)
		b.join(3)
		pass(900 * ms)
		require.True(t, b.served(0), "the window must not be shorter")
		pass(1200 * ms)
		assert.True(t, b.served(1), "the window must not be longer; then one request is sent first")
	})
}

// Another process has noticed that the server's clock was set, and has ended the era. For a process that has never seen
// the earlier clock, a window must then not end early.
func TestNewProcessLearnsThatTheClockWasSet(t *testing.T) {
	inWorld(t, func(w *world) {
		_, b := w.usedUp(8 * time.Second)
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

// All processes die, the server's clock is set back, and a new process starts. At first the new process reads states
// with times by the earlier clock. Even then it must not predict a long wait.
func TestNewProcessAfterTheClockWasSetBackPredictsNoLongWait(t *testing.T) {
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
			require.Less(t, c.forecast(0).Wait, 10*time.Second, "predicted wait")
		}
	})
}

// The server's clock is set back while a process has a loan. The returned state must contain no times by the earlier
// clock, because these would look like another step of the clock.
func TestLoanThatIsReturnedAfterTheClockWasSet(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.lent()
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

// A fail-over to a machine whose clock differs only little must count neither as a loss nor as a step of the clock.
func TestSmallStepOfTheClockIsNoLoss(t *testing.T) {
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

// sleeper is the clock of a process that was suspended: the wall clock is ahead of the monotonic clock.
type sleeper struct {
	clockwork.Clock
	asleep *time.Duration
}

func (s sleeper) Now() time.Time {
	look()
	return s.Clock.Now().Add(*s.asleep)
}

// sleepy returns a process that was suspended for the given time. A test can change that time.
func (w *world) sleepy(asleep *time.Duration) *process {
	return w.join(w.server, sleeper{realClock, asleep})
}

// five returns the state of an unused bucket of five requests a second.
func (w *world) five() ratelimits.State { return ratelimits.State{Limit: 5, Period: time.Second} }

func TestLoanAndPartAreVoidAfterASuspension(t *testing.T) {
	for name, ahead := range map[string]time.Duration{
		"the wall clock went on":           time.Minute,
		"the wall clock was set meanwhile": -time.Minute,
	} {
		eachWorld(t, name, func(t *testing.T, w *world) {
			asleep := time.Duration(0)
			p := w.sleepy(&asleep)
			a, global := p.use(someKey), p.session.Global("bot", 50, func() {})
			a.join(1)
			global.Need(w.now(), 1, 0)
			pass(100 * ms)
			require.True(t, a.lent)
			require.Greater(t, a.until(), w.now())
			part, until := global.Part(w.now())
			require.Positive(t, part)
			require.Greater(t, until, w.now())
			asleep = ahead
			assert.Less(t, a.until(), w.now())
			part, until = global.Part(w.now())
			assert.True(t, part == 0 || until <= w.now())
		})
	}
}

func TestPermitIsVoidAfterASuspension(t *testing.T) {
	inWorld(t, func(w *world) {
		asleep := time.Duration(0)
		a, b := w.sleepy(&asleep).use(someKey), w.process().use(someKey)
		a.join(1)
		pass(10 * ms)
		b.join(1)
		pass(10 * ms)
		a.giveBack(w.five())
		pass(50 * ms)
		a.asleep = true
		a.join(1)
		pass(10 * ms)
		require.True(t, a.may())
		asleep = time.Minute
		assert.False(t, a.may())
		pass(10 * ms)
		assert.True(t, a.may(), "the process must ask for another permit")
	})
}

// If a loan is returned after a suspension, its requests must stay charged, but for one period at most.
func TestLoanThatIsReturnedAfterASuspensionKeepsItsCharges(t *testing.T) {
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
		pass(4 * time.Second)
		assert.True(t, b.served(1))
	})
}

// After a suspension, a process reads a response before it knows the server's clock again. The window must not end
// early because of that.
func TestLoanThatASuspensionEndsReportsNoTimes(t *testing.T) {
	inWorld(t, func(w *world) {
		asleep := time.Duration(0)
		a := w.sleepy(&asleep).use(someKey)
		a.join(1)
		pass(100 * ms)
		require.True(t, a.lent)
		permit, ok := a.bucket.Take(w.now())
		require.True(t, ok)
		pass(100 * ms)
		asleep = 4 * time.Second
		w.step(asleep) // for the suspended process, the server's clock has jumped ahead
		a.bucket.Report(w.now(), permit, headers(1, 0, 8*time.Second, 1000))
		a.lent = false
		a.tell()
		pass(100 * ms)
		late := w.process().use(someKey)
		late.join(1)
		pass(10 * ms)
		assert.Greater(t, late.forecast(0).Wait, 7*time.Second)
	})
}
