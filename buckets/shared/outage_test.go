package shared_test

import (
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets/shared"
	"github.com/ratelight/ratelight/internal/memoryengine"
	"github.com/ratelight/ratelight/ratelimits"
)

func TestBucketDuringAnOutage(t *testing.T) {
	eachWorld(t, "wait", func(t *testing.T, w *world) {
		a, b := w.limited()
		w.server.SetDown(true)
		a.join(1)
		b.join(1)
		pass(20 * time.Second)
		assert.Equal(t, 1, a.leaves()+b.leaves())
		assert.Empty(t, a.errs)
		assert.Zero(t, a.forecast(0).Wait, "a forecast must not include the unknown rest of the outage")
		w.server.SetDown(false)
		pass(1100 * ms)
		assert.True(t, a.served(2) || b.served(1))
	})
	eachWorld(t, "fail", func(t *testing.T, w *world) {
		a, _ := w.limited(shared.WithOutage(shared.OutageFail))
		w.server.SetDown(true)
		a.join(1)
		pass(100 * ms)
		require.NotEmpty(t, a.errs)
		require.ErrorIs(t, a.errs[0], shared.ErrOutage)
		require.ErrorIs(t, a.errs[0], memoryengine.ErrDown)
		var outage *shared.OutageError
		require.True(t, errors.As(a.errs[0], &outage))
		assert.Equal(t, shared.OutageFail, outage.Policy)
		w.server.SetDown(false)
		pass(1100 * ms)
		assert.NoError(t, a.bucket.Err())
		assert.Equal(t, 2, a.leaves())
	})
	for policy, share := range map[shared.Outage]int{shared.OutageShare: 2, shared.OutageFull: 1} {
		eachWorld(t, policy.String(), func(t *testing.T, w *world) {
			a, b := w.limited(shared.WithOutage(policy))
			w.server.SetDown(true)
			a.join(3)
			pass(100 * ms)
			require.True(t, a.lent)
			assert.Equal(t, 5/share, a.window.Limit())
			pass(time.Minute)
			assert.Greater(t, a.until(), w.now())
			assert.False(t, a.wanted())
			w.server.SetDown(false)
			pass(1100 * ms)
			require.True(t, a.wanted())
			a.giveBack(ratelimits.State{Limit: 5, Used: 3, Reset: 2 * time.Second, Period: 2 * time.Second}, w.now())
			pass(10 * ms)
			b.join(5)
			pass(1900 * ms)
			assert.Zero(t, b.leaves(), "requests that were sent during the outage must count")
			pass(200 * ms)
			assert.Equal(t, 1, b.leaves(), "then one request must be sent first")
		})
	}
}

func TestCallsThatFailAtTheSameTimeAreNoOutage(t *testing.T) {
	inWorld(t, func(w *world) {
		p := w.process(shared.WithOutage(shared.OutageFail))
		a, b := p.use(someKey), p.use(elsewhere)
		p.link.block(true)
		a.join(1)
		pass(ms)
		b.join(1)
		w.server.SetDown(true)
		p.link.block(false)
		pass(ms)
		w.server.SetDown(false)
		pass(100 * ms)
		assert.Empty(t, a.errs)
		assert.Empty(t, b.errs)
		assert.True(t, a.lent)
		assert.True(t, b.lent)
	})
}

func TestLoanLastsToItsEndDuringAnOutage(t *testing.T) {
	inWorld(t, func(w *world) {
		a := w.process().use(someKey)
		a.join(1)
		pass(1500 * ms)
		w.server.SetDown(true)
		until := a.until()
		pass(2 * time.Second)
		assert.Equal(t, until, a.until())
		assert.False(t, a.wanted())
		pass(2 * time.Second)
		assert.Less(t, a.until(), w.now())
		a.giveBack(ratelimits.State{Limit: 5, Used: 1, Reset: time.Second, Period: time.Second})
		a.join(1)
		pass(time.Second)
		assert.False(t, a.lent)
		w.server.SetDown(false)
		pass(2 * time.Second)
		require.True(t, a.lent)
		assert.Equal(t, 5, a.window.Limit())
		assert.False(t, a.window.Probing(), "no other process has used the bucket during the outage")
	})
}

func TestReturnedLoanIsKnownDuringAnOutage(t *testing.T) {
	inWorld(t, func(w *world) {
		a := w.process(shared.WithOutage(shared.OutageFull)).use(someKey)
		a.join(1)
		pass(1500 * ms)
		w.server.SetDown(true)
		pass(4 * time.Second)
		a.giveBack(ratelimits.State{Limit: 5, Used: 4, Reset: 10 * time.Second, Period: 20 * time.Second})
		a.join(1)
		pass(time.Second)
		require.True(t, a.lent)
		assert.Equal(t, 5, a.window.Limit())
		assert.Equal(t, 4, a.window.State(w.now()).Used)
		assert.InDelta(t, 9*time.Second, a.window.State(w.now()).Reset, float64(100*ms))
	})
}

// When an outage begins, the function changed of one bucket takes so long that the outage ends before changed of the
// next bucket is called. Buckets that the process took during the outage must be returned, and all requests must be
// sent.
func TestOutageThatIsOverBeforeAllBucketsNoticeIt(t *testing.T) {
	for _, policy := range []shared.Outage{shared.OutageWait, shared.OutageFull} {
		eachWorld(t, policy.String(), func(t *testing.T, w *world) {
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
					assert.True(t, u.wanted(), "a bucket taken in the outage must be returned")
				}
				u.mu.Unlock()
			}
			pass(20 * time.Second)
			for _, u := range mine {
				assert.True(t, u.served(1))
			}
		})
	}
}

// slow returns a user whose function changed takes 300 ms during an outage.
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

// A process returns the loan of a bucket with its next tick. An outage begins while the call is in progress. Under
// OutageFull the process must nevertheless take the bucket, to use it alone.
func TestOutageThatBeginsWhileALoanIsReturned(t *testing.T) {
	inWorld(t, func(w *world) {
		p := w.process(shared.WithOutage(shared.OutageFull))
		a, b := p.use(someKey), p.use(elsewhere)
		a.join(1)
		pass(100 * ms)
		require.True(t, a.lent)
		a.giveBack(ratelimits.State{Limit: 5, Period: time.Second})
		w.server.SetFrozen(true)
		b.join(1)
		pass(930 * ms) // now the call that returns the loan and the call that notices the outage are in progress
		a.join(1)
		pass(5 * time.Second)
		require.True(t, b.lent)
		assert.True(t, a.lent)
		w.server.SetFrozen(false)
	})
}
