package shared_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets/shared"
	"github.com/ratelight/ratelight/ratelimits"
)

// A bucket is lent to one process after another. Once a loan has been returned, it must no longer be listed as needed:
// calls must not become longer and longer.
func TestLoansThatWereReturnedAreNeededNoMore(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.process().use(someKey), w.process().use(someKey)
		a.join(1)
		pass(100 * ms)
		for range 20 {
			require.True(t, a.lent)
			b.join(1)
			pass(100 * ms)
			require.True(t, a.wanted())
			a.giveBack(ratelimits.State{Limit: 5, Used: 5, Reset: 1200 * ms, Period: 2 * time.Second})
			pass(1500 * ms)
			a, b = b, a
		}
		assert.Less(t, max(a.link.most, b.link.most), 500, "bytes of the values of a call")
		b.process.use(elsewhere).join(1) // the process goes on
		swaps := w.server.Calls()["swap"]
		pass(10 * time.Second)
		assert.LessOrEqual(t, w.server.Calls()["swap"]-swaps, 1)
	})
}

// lends returns the users of n buckets that are lent to a process, and the users of these buckets in the processes that
// will need them.
func lends(p *process, n int, to func() *process) (lent, needs []*user) {
	for i := range n {
		key := shared.Key{Credential: someKey.Credential, Hash: strconv.Itoa(i)}
		u := p.use(key)
		u.join(1)
		lent, needs = append(lent, u), append(needs, to().use(key))
	}
	return lent, needs
}

// One process needs many buckets of another process, which gets no messages. The other process must learn of all these
// needs with its next beat.
func TestAllLoansThatAreNeededAreKnownAtOnce(t *testing.T) {
	inWorld(t, func(w *world) {
		w.server.SetQuiet(true)
		p, q := w.process(), w.process()
		lent, needs := lends(p, 40, func() *process { return q })
		pass(5 * time.Second)
		for _, u := range needs {
			u.join(1)
		}
		pass(1500 * ms)
		for i, u := range lent {
			require.True(t, u.lent)
			assert.True(t, u.wanted(), "bucket %d", i)
		}
	})
}

// Several processes each need a different bucket of one process that gets no messages.
func TestNeedsOfManyProcessesAreAllHeard(t *testing.T) {
	inWorld(t, func(w *world) {
		w.server.SetQuiet(true)
		p := w.process()
		lent, needs := lends(p, 30, func() *process { return w.process() })
		pass(5 * time.Second)
		for i, u := range needs {
			u.join(1)
			pass(time.Duration(i*7%60) * ms)
		}
		heard := 0
		for range 25 {
			pass(100 * ms)
			for _, u := range lent {
				if u.lent && u.wanted() {
					heard++
					u.giveBack(ratelimits.State{Limit: 5, Used: 5, Reset: 1200 * ms, Period: 2 * time.Second})
				}
			}
		}
		assert.Equal(t, 30, heard)
	})
}

// One process needs new loans of another process all the time. A third process needs one loan of that other process.
func TestProcessThatNeedsMuchDoesNotDrownOutAnother(t *testing.T) {
	inWorld(t, func(w *world) {
		w.server.SetQuiet(true)
		p, q, r := w.process(), w.process(), w.process()
		lent, needs := lends(p, 40, func() *process { return q })
		some, other := p.use(elsewhere), r.use(elsewhere)
		some.join(1)
		pass(5 * time.Second)
		for i, u := range needs {
			u.join(1)
			if i == 10 {
				other.join(1)
			}
			pass(100 * ms)
			for _, u := range lent {
				if u.lent && u.wanted() {
					u.giveBack(ratelimits.State{Limit: 5, Period: 2 * time.Second})
				}
			}
		}
		assert.True(t, some.wanted(), "not heard in 3 s")
	})
}

func TestNeedsAreForgottenAfterTheClockIsSetBack(t *testing.T) {
	inWorld(t, func(w *world) {
		p, q := w.process(), w.process()
		lent, needs := lends(p, 40, func() *process { return q })
		pass(5 * time.Second)
		for _, u := range needs {
			u.join(1)
		}
		pass(300 * ms)
		for _, u := range lent {
			u.giveBack(ratelimits.State{})
		}
		pass(200 * ms)
		w.server.StepClock(-time.Hour)
		pass(20 * time.Second)
		a, b := p.use(someKey), q.use(someKey)
		a.join(1)
		pass(1500 * ms)
		require.True(t, a.lent)
		q.link.mu.Lock()
		q.link.most = 0
		q.link.mu.Unlock()
		b.join(1)
		pass(100 * ms)
		q.link.mu.Lock()
		defer q.link.mu.Unlock()
		assert.Less(t, q.link.most, 500, "bytes of the values of a call")
	})
}

func TestLoanOfALimitWhoseNameHasTwoLinesIsAskedFor(t *testing.T) {
	inWorld(t, func(w *world) {
		key := shared.Key{Credential: someKey.Credential, Hash: "declared:two\nlines 5/1s"}
		a, b := w.process().use(key), w.process().use(key)
		a.join(1)
		pass(100 * ms)
		require.True(t, a.lent)
		b.join(1)
		pass(time.Second)
		assert.True(t, a.wanted())
	})
}
