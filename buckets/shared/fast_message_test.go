package shared_test

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets/shared"
	"github.com/ratelight/ratelight/internal/memoryengine"
	"github.com/ratelight/ratelight/ratelimits"
)

// lateReplies makes the replies to calls late while it is set. Calls take no other time.
func lateReplies(w *world) *atomic.Bool {
	late := new(atomic.Bool)
	w.server.Decide(func(string) (f memoryengine.Fate) {
		if late.Load() {
			f.After = 10 * ms
		}
		return f
	})
	return late
}

// A process loads a state, and the message with the next state arrives before the reply: at the instant at which the
// process sends its call.
func TestMessageOfTheInstantOfACallIsNoLoss(t *testing.T) {
	inWorld(t, func(w *world) {
		late := lateReplies(w)
		p, q := w.process(), w.process()
		a, b := p.use(someKey), q.use(someKey)
		a.join(1)
		pass(100 * ms)
		b.join(1)
		pass(100 * ms)
		a.giveBack(ratelimits.State{Limit: 5, Used: 5, Reset: 10 * time.Second, Period: 10 * time.Second})
		pass(time.Second)
		a.join(1)
		pass(time.Second)

		w.server.SetQuiet(true)
		b.join(1)
		synctest.Wait()
		w.server.SetQuiet(false)
		late.Store(true)
		a.join(1) // the call finds that b was faster
		synctest.Wait()
		late.Store(false)
		b.join(1)
		pass(10 * time.Second)
		assert.Zero(t, p.session.(shared.Monitor).Stats().Losses)
	})
}

// The same for the division of the global limit.
func TestMessageOfTheInstantOfAGlobalCallIsNoLoss(t *testing.T) {
	inWorld(t, func(w *world) {
		late := lateReplies(w)
		var sessions []shared.Session
		var globals []shared.Global
		for range 2 {
			store, err := shared.New(w.server)
			require.NoError(t, err)
			session := store.Join(clockwork.NewRealClock(), w.start)
			defer session.Close()
			sessions = append(sessions, session)
			globals = append(globals, session.Global("bot", 50, func() {}))
		}
		for range 2 { // both know the division with both of them
			globals[0].Need(w.now(), 1, 1)
			globals[1].Need(w.now(), 1, 1)
			pass(2 * time.Second)
		}

		w.server.SetQuiet(true)
		globals[1].Hold(w.now(), 10*time.Second)
		synctest.Wait()
		w.server.SetQuiet(false)
		late.Store(true)
		globals[0].Hold(w.now(), 20*time.Second)
		synctest.Wait()
		late.Store(false)
		globals[1].Hold(w.now(), 30*time.Second)
		pass(10 * time.Second)
		assert.Zero(t, sessions[0].(shared.Monitor).Stats().Losses)
	})
}
