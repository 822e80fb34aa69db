package shared_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets/shared"
	"github.com/ratelight/ratelight/internal/memoryengine"
	"github.com/ratelight/ratelight/ratelimits"
)

// TestNewsOfAnOutageThatComesWhenItIsOver makes a manager handle the start of an outage so slowly that the outage is
// over before its next bucket learns of the start.
func TestNewsOfAnOutageThatComesWhenItIsOver(t *testing.T) {
	for _, policy := range []shared.Outage{shared.OutageWait, shared.OutageFull} {
		t.Run(policy.String(), func(t *testing.T) {
			inWorld(t, func(w *world) {
				p, q := w.process(shared.WithOutage(policy)), w.process()
				var mine []*user
				for i := range 4 {
					key := shared.Key{Hash: strconv.Itoa(i)}
					u, other := slow(p, key), q.use(key)
					other.join(1)
					pass(10 * ms)
					u.join(1)
					pass(10 * ms)
					other.giveBack(ratelimits.State{Limit: 1, Used: 1, Reset: 10 * time.Second, Period: 10 * time.Second})
					mine = append(mine, u)
				}
				pass(100 * ms)
				p.link.kill(true)
				mine[0].join(1)
				pass(50 * ms)
				p.link.kill(false)
				pass(5 * time.Second)
				for _, u := range mine {
					u.mu.Lock()
					if u.lent {
						assert.True(t, u.wanted(), "it was taken alone, and is to be returned")
					}
					u.mu.Unlock()
				}
				pass(20 * time.Second)
				for _, u := range mine {
					assert.True(t, u.served(1), "nobody looked at it again")
				}
			})
		})
	}
}

// slow is like use, for a manager that handles changes slowly during an outage.
func slow(p *process, key shared.Key) *user {
	return p.useWith(key, func(u *user) {
		u.changed()
		p.link.mu.Lock()
		cut := p.link.cut
		p.link.mu.Unlock()
		if cut {
			time.Sleep(300 * ms)
		}
	})
}

// TestAnOutageThatBeginsWhileALoanIsReturned tests that waiting requests leave by the outage policy, although a beat
// was reporting the state of their bucket's loan when the outage began.
func TestAnOutageThatBeginsWhileALoanIsReturned(t *testing.T) {
	inWorld(t, func(w *world) {
		p := w.process(shared.WithOutage(shared.OutageFull))
		a, b := p.use(someKey), p.use(shared.Key{Hash: "other"})
		a.join(1)
		pass(100 * ms)
		require.True(t, a.lent)
		a.giveBack(ratelimits.State{Limit: 5, Period: time.Second})
		w.server.SetFrozen(true)
		b.join(1)
		pass(930 * ms) // the beat is under way, and the call that shows that the server is away
		a.join(1)
		pass(5 * time.Second)
		require.True(t, b.lent, "alone")
		assert.True(t, a.lent, "alone")
		w.server.SetFrozen(false)
	})
}

// TestALoanThatComesWhenTheBucketIsClosed tests that such a loan is returned, because nothing would use it.
func TestALoanThatComesWhenTheBucketIsClosed(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.process().use(someKey), w.process().use(someKey)
		w.fates("swap", memoryengine.Fate{After: 200 * ms})
		a.join(1)
		pass(100 * ms)
		a.leave(1)
		a.bucket.Close()
		pass(200 * ms)
		b.join(1)
		pass(1500 * ms)
		assert.True(t, b.served(1), "nobody has it")
	})
}
