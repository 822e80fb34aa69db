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

// A bucket goes from process to process. What they have needed of each other is forgotten: it neither makes calls longer
// and longer, nor is it asked about.
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

// One process needs many buckets of another, which gets no messages. All that is needed is known with its next beat.
func TestAllLoansThatAreNeededAreKnownAtOnce(t *testing.T) {
	inWorld(t, func(w *world) {
		w.server.SetQuiet(true)
		p, q := w.process(), w.process()
		var lent, needs []*user
		for i := range 40 {
			key := shared.Key{Credential: someKey.Credential, Hash: strconv.Itoa(i)}
			u := p.use(key)
			u.join(1)
			lent, needs = append(lent, u), append(needs, q.use(key))
		}
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
