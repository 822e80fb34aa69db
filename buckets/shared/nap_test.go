package shared_test

import (
	"testing"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets/shared"
	"github.com/ratelight/ratelight/ratelimits"
)

// sleeper is the clock of a process that was suspended together with its machine: the monotonic clock has stood still
// for some time, the wall clock has not.
type sleeper struct {
	clockwork.Clock
	asleep *time.Duration
}

func (s sleeper) Now() time.Time {
	look()
	return s.Clock.Now().Add(*s.asleep)
}

// sleepy returns a process that was suspended for the given time.
func (w *world) sleepy(asleep *time.Duration) *process {
	w.t.Helper()
	l := &link{server: w.server}
	store, err := shared.New(l)
	require.NoError(w.t, err)
	p := &process{world: w, session: store.Join(sleeper{clockwork.NewRealClock(), asleep}, w.start), link: l}
	w.processes = append(w.processes, p)
	return p
}

func TestWhatAProcessHadIsVoidWhenItWasSuspended(t *testing.T) {
	for name, ahead := range map[string]time.Duration{
		"the wall clock went on":           time.Minute,
		"the wall clock was set meanwhile": -time.Minute,
	} {
		t.Run(name, func(t *testing.T) { whatAProcessHadIsVoid(t, ahead) })
	}
}

func whatAProcessHadIsVoid(t *testing.T, ahead time.Duration) {
	inWorld(t, func(w *world) {
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

func TestAPermitIsVoidWhenItsProcessWasSuspended(t *testing.T) {
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
		assert.True(t, a.may(), "it asks again")
	})
}

// five is the state of an unused bucket of five in a second.
func (w *world) five() ratelimits.State { return ratelimits.State{Limit: 5, Period: time.Second} }

// TestALoanThatASuspensionEndsTellsNoTimes tests a response that is read after a suspension, before the process knows
// the server's clock again. It must not make a window end too early.
func TestALoanThatASuspensionEndsTellsNoTimes(t *testing.T) {
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
		w.step(asleep) // as the process sees it
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

// The server and a process run on one machine, whose clock is set back. The process takes this for its own suspension,
// but it is also a step of the server's clock.
func TestClockOfTheMachineIsSetBack(t *testing.T) {
	for _, d := range []time.Duration{-5 * time.Second, -time.Minute, -time.Hour} {
		inWorld(t, func(w *world) {
			ahead := time.Duration(0)
			a := w.sleepy(&ahead).use(someKey)
			a.join(1)
			pass(2600 * ms)
			require.True(t, a.lent)
			ahead = d
			w.server.StepClock(d)
			pass(100 * ms)
			a.giveBack(ratelimits.State{Limit: 5, Used: 5, Reset: time.Second, Period: time.Second})
			a.join(1)
			pass(100 * ms)
			assert.Less(t, a.forecast(0).Wait, 5*time.Second, "%v", d)
			pass(4 * time.Second)
			assert.True(t, a.mayOrOwns() || a.leaves() > 0, "%v: it waits still", d)
		})
	}
}
