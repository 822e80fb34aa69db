package shared_test

import (
	"testing"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets/shared"
	"github.com/ratelight/ratelight/internal/memoryengine"
	"github.com/ratelight/ratelight/ratelimits"
)

// holderIsCutOff returns users of one bucket in two processes. It is lent to the first one, which has just lost its
// connection.
func (w *world) holderIsCutOff() (holder, other *user) {
	holder, other = w.process().use(someKey), w.process().use(someKey)
	holder.join(1)
	pass(100 * ms)
	require.True(w.t, holder.lent)
	holder.link.kill(true)
	return holder, other
}

// A waiting process finds the holder of a loan dead, but no longer needs the bucket. When it needs the bucket again,
// the holder has come back and has a new loan.
func TestLoanOfAProcessThatHasComeBackIsNotTaken(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.holderIsCutOff()
		pass(4 * time.Second)
		w.server.Decide(func(string) memoryengine.Fate { return memoryengine.Fate{After: 100 * ms} })
		b.join(1)
		for b.link.called() < 3 { // it finds out the time, then that the bucket is lent, then asks whether the holder lives
			pass(ms)
		}
		b.leave(1)
		pass(time.Second)
		a.link.kill(false)
		pass(5 * time.Second)
		a.lent = false
		a.join(1)
		pass(30 * time.Second)
		require.True(t, a.lent)
		b.join(1)
		pass(2 * time.Second)
		assert.True(t, a.wanted(), "the loan was taken, and was not asked for")
	})
}

// The server returns to a state in which a dead process has the bucket and the limit is not known. A process that knows
// the limit waits for its period, not for the longest possible period.
func TestTakenOverLoanIsWaitedOutForTheKnownPeriod(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.process().use(someKey), w.process().use(someKey)
		a.join(1)
		pass(100 * ms)
		key := "rl2:{default}:b:" + someKey.Credential + "/" + someKey.Hash + "/" + someKey.Major
		lent := w.server.Value(key)
		require.NotEmpty(t, lent)
		b.join(1)
		pass(100 * ms)
		a.giveBack(ratelimits.State{Limit: 5, Period: time.Second})
		pass(100 * ms)
		b.answer(headers(5, 4, time.Second, 0))
		a.link.kill(true)
		pass(10 * time.Second)
		w.server.Set(key, lent)
		b.lent = false
		b.join(1)
		pass(4 * time.Second)
		assert.True(t, b.mayOrOwns() || b.leaves() > 1)
	})
}

// After an outage, one process is back before the holder of the bucket, the only process that knows its limit.
func TestWhoComesBackLaterAfterAnOutageIsNotDead(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.holderIsCutOff()
		w.server.SetDown(true)
		b.join(1)
		pass(6 * time.Second)
		w.server.SetDown(false)
		pass(1100 * ms)
		require.Nil(t, b.process.session.(shared.Monitor).Outage())
		a.link.kill(false)
		a.giveBack(ratelimits.State{Limit: 5, Used: 4, Period: time.Second})
		pass(2 * time.Second)
		assert.Equal(t, 1, b.leaves(), "it waits for the longest period in place of the known one")
	})
}

// A process counts as dead when another process asks. It is back with a new loan before the other process has the
// reply.
func TestNewLoanOfAProcessThatWasFoundDeadIsNotTaken(t *testing.T) {
	near := memoryengine.Fate{Before: ms / 2, After: ms / 2}
	for offset := time.Duration(0); offset < 1200*ms; offset += 50 * ms {
		inWorld(t, func(w *world) {
			a, b := w.holderIsCutOff()
			pass(4 * time.Second)
			a.giveBack(ratelimits.State{Limit: 5, Period: time.Second})
			a.join(1)
			pass(100*ms + offset)
			w.server.Decide(func(string) memoryengine.Fate {
				if b.link.called() == 3 { // whether the holder lives
					return memoryengine.Fate{Before: ms / 2, After: 400 * ms}
				}
				return near
			})
			b.join(1)
			for b.link.called() < 3 {
				pass(ms / 4)
			}
			w.server.Decide(func(string) memoryengine.Fate { return near })
			a.link.kill(false)
			pass(5 * time.Second)
			used := b.leaves() > 0 || b.lent
			assert.False(t, used && a.lent && !a.wanted() && a.until() > w.now(), "both use it, after %v", offset)
		})
	}
}

func TestDeadHolderIsFoundWhileTheServerComesAndGoes(t *testing.T) {
	inWorld(t, func(w *world) {
		_, b := w.holderIsCutOff()
		b.join(1)
		for range 20 {
			pass(1200 * ms)
			w.server.SetDown(true)
			pass(300 * ms)
			w.server.SetDown(false)
		}
		assert.True(t, b.mayOrOwns() || b.leaves() > 0, "it waits for half a minute")
	})
}

// The server returns to a state in which a process has a bucket that it has returned since. The process makes calls for
// another bucket all the time, and gets no messages.
func TestLoanThatTheServerHasGoneBackToIsReadOf(t *testing.T) {
	inWorld(t, func(w *world) {
		deaf := func() *process {
			l := &link{server: w.server}
			store, err := shared.New(struct{ shared.Engine }{l})
			require.NoError(t, err)
			p := &process{world: w, session: store.Join(clockwork.NewRealClock(), w.start), link: l}
			w.processes = append(w.processes, p)
			return p
		}
		p, q := deaf(), deaf()
		busy, rival := p.use(elsewhere), q.use(elsewhere)
		busy.join(1)
		pass(100 * ms)
		rival.join(1)
		pass(100 * ms)
		busy.giveBack(ratelimits.State{Limit: 1, Used: 1, Reset: 10 * time.Minute, Period: 10 * time.Minute})
		busy.join(1)
		a, b := p.use(someKey), q.use(someKey)
		a.join(1)
		pass(100 * ms)
		key := "rl2:{default}:b:" + someKey.Credential + "/" + someKey.Hash + "/" + someKey.Major
		before := w.server.Value(key)
		a.giveBack(ratelimits.State{Limit: 5, Period: time.Second})
		pass(5 * time.Second)
		w.server.Set(key, before)
		b.join(1)
		pass(10 * time.Second)
		assert.True(t, b.mayOrOwns() || b.leaves() > 0)
	})
}
