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

// elsewhere is the key of another bucket.
var elsewhere = shared.Key{Hash: "elsewhere"}

func TestProcessesReportALostStateAgain(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.limited()
		a.join(4)
		pass(10 * ms)
		require.Equal(t, 5, a.leaves())
		b.join(5)
		pass(10 * ms)
		w.server.Flush()
		pass(800 * ms)
		assert.Zero(t, b.leaves(), "the window is used up")
		for range 4 {
			a.answer(headers(5, 0, 100*ms, 1000))
		}
		pass(400 * ms)
		require.Equal(t, 1, b.leaves(), "one request must be sent first after a loss")
		b.answer(headers(5, 4, 900*ms, 2200))
		pass(100 * ms)
		assert.Equal(t, 5, b.leaves())
	})
}

func TestLoanOfALostStateIsReturned(t *testing.T) {
	inWorld(t, func(w *world) {
		a, _ := w.lent()
		w.server.Flush()
		pass(1100 * ms)
		require.True(t, a.wanted())
		require.Zero(t, a.until())
		a.giveBack(ratelimits.State{Limit: 5, Used: 5, Reset: 2 * time.Second, Period: 3 * time.Second})
		a.join(1)
		pass(1900 * ms)
		require.False(t, a.lent)
		pass(200 * ms)
		require.True(t, a.lent)
		assert.True(t, a.window.Probing())
		assert.Equal(t, 5, a.window.Limit())
	})
}

// The server loses its state while a process has a loan but no connection. A process whose requests wait for the bucket
// must still know of the loan.
func TestProcessThatWaitsRemembersALoanAfterALoss(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.lent()
		a.link.kill(true)
		b.join(1)
		pass(100 * ms)
		w.server.Flush()
		for a.until() > w.now() {
			require.Zero(t, b.leaves())
			require.False(t, b.lent)
			pass(100 * ms)
		}
		pass(time.Second)
		assert.True(t, b.served(1))
	})
}

// The server goes back to a state in which a bucket was lent to a session. That session has returned the bucket since.
// Because the session is alive, no other session can end the loan, so it must end the loan itself.
func TestLoanThatTheServerHasGoneBackToEnds(t *testing.T) {
	for name, closes := range map[string]bool{"returned": false, "closed": true} {
		eachWorld(t, name, func(t *testing.T, w *world) {
			a := w.process().use(someKey)
			a.process.use(elsewhere).join(1) // keeps the session alive
			a.join(1)
			pass(10 * ms)
			require.True(t, a.lent)
			before := w.server.Value(bucketKey)
			a.giveBack(ratelimits.State{Limit: 5, Period: time.Second})
			pass(5 * time.Second)
			if closes {
				a.bucket.Close()
			}
			pass(5 * time.Second)
			w.server.Set(bucketKey, before)
			b := w.process().use(someKey)
			b.join(1)
			pass(15 * time.Second)
			assert.True(t, b.lent || b.leaves() == 1)
		})
	}
}

// The server goes back as in TestLoanThatTheServerHasGoneBackToEnds. The session must end the loan even if it receives
// no messages and makes calls for another bucket all the time.
func TestLoanThatTheServerHasGoneBackToEndsWithoutMessages(t *testing.T) {
	inWorld(t, func(w *world) {
		p, q := w.deaf(), w.deaf()
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
		before := w.server.Value(bucketKey)
		a.giveBack(ratelimits.State{Limit: 5, Period: time.Second})
		pass(5 * time.Second)
		w.server.Set(bucketKey, before)
		b.join(1)
		pass(10 * time.Second)
		assert.True(t, b.mayOrOwns() || b.leaves() > 0)
	})
}

func TestShareCountsOtherProcessesAfterALoss(t *testing.T) {
	inWorld(t, func(w *world) {
		a, _ := w.limited(shared.WithOutage(shared.OutageShare))
		w.server.Flush()
		a.join(1)
		pass(5 * ms)
		w.server.SetDown(true)
		a.join(1)
		pass(200 * ms)
		require.True(t, a.lent)
		pass(2 * time.Second)
		permit, ok := a.bucket.Take(w.now())
		require.True(t, ok)
		a.bucket.Report(w.now(), permit, headers(5, 4, time.Second, 2000))
		assert.Equal(t, 5/2, a.window.Limit())
	})
}

// The server goes back to states of an earlier era. The process that wrote these states makes no calls. The states must
// only say how long to hold their buckets.
func TestEarlierEraDoesNotComeBack(t *testing.T) {
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
		for range 3 { // until process a has learnt of the new era
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

// When an era ends, states are lost that two processes know. The two processes must not end another era each because of
// that.
func TestLossOfAnEarlierEraEndsOneEraOnly(t *testing.T) {
	inWorld(t, func(w *world) {
		const global = "rl2:{default}:g:bot"
		p, q := w.process(), w.process()
		p.session.Global("bot", 0, func() {})
		b := q.use(someKey)
		pass(10 * ms)
		b.join(1)
		pass(100 * ms)
		before := map[string]string{global: w.server.Value(global), bucketKey: w.server.Value(bucketKey)}
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

// A session that closes makes many calls at the same time. Other sessions must not conclude from these calls that the
// server has lost state.
func TestClosingSessionEndsNoEra(t *testing.T) {
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
