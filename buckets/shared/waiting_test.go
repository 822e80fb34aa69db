package shared_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/ratelimits"
)

// holder returns the users of n buckets that are lent to one process.
func (w *world) holder(n int) (all []*user) {
	p := w.process()
	for i := range n {
		key := someKey
		key.Major = strconv.Itoa(i)
		u := p.use(key)
		u.join(1)
		all = append(all, u)
	}
	pass(20 * ms)
	for _, u := range all {
		require.True(w.t, u.lent)
	}
	return all
}

func TestBucketsThatWaitForADeadHolderMakeFewCalls(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long with the race detector")
	}
	inWorld(t, func(w *world) {
		const n = 200
		for _, u := range w.holder(n) {
			u.link.kill(true)
		}
		p, before := w.process(), w.server.Total()
		var waiting []*user
		for i := range n {
			key := someKey
			key.Major = strconv.Itoa(i)
			u := p.use(key)
			u.join(1)
			waiting = append(waiting, u)
		}
		start := w.now()
		pass(2900 * ms)
		calls := w.server.Total() - before
		t.Logf("%d calls in %v", calls, w.now()-start)
		assert.LessOrEqual(t, calls, 17*n+3, "after 0, 25, 75, 175, 375 ms and so on")
		pass(10200 * ms) // nobody knows how long its window is
		for _, u := range waiting {
			require.True(t, u.served(1), "the loan has ended")
		}
	})
}

func TestTheReturnOfABucketThatIsUsedUpWakesWhoWaits(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.process().use(someKey), w.process().use(someKey)
		a.join(1)
		pass(10 * ms)
		require.True(t, a.lent)
		b.join(1)
		pass(2 * time.Second) // it looks seldom now
		a.giveBack(ratelimits.State{Limit: 5, Used: 5, Reset: 80 * ms, Period: time.Second})
		pass(79 * ms)
		assert.Zero(t, b.leaves())
		pass(10 * ms)
		assert.True(t, b.served(1), "it knows when the window is over")
	})
}

func TestAReturnThatWaitsForTheNextBeatIsMadeAtOnceIfItIsWanted(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.process().use(someKey), w.process().use(someKey)
		a.join(1)
		pass(10 * ms)
		a.giveBack(ratelimits.State{Limit: 5, Used: 1, Reset: time.Second, Period: time.Second})
		b.join(1)
		pass(10 * ms)
		assert.True(t, b.served(1))
	})
}
