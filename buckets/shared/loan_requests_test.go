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

// lends returns users of n buckets that are lent to process p (lent), and users of the same buckets in the processes
// that to returns (needs).
func lends(p *process, n int, to func() *process) (lent, needs []*user) {
	for i := range n {
		key := shared.Key{Credential: someKey.Credential, Hash: strconv.Itoa(i)}
		u := p.use(key)
		u.join(1)
		lent, needs = append(lent, u), append(needs, to().use(key))
	}
	return lent, needs
}

// A bucket is lent to two processes in turn, many times. The wants (requests for the loan) of returned loans must be
// forgotten: calls must not become longer, and no further calls must be made because of these loans.
func TestRequestsForReturnedLoansAreForgotten(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.lent()
		for range 20 {
			require.True(t, a.lent)
			b.join(1)
			pass(100 * ms)
			require.True(t, a.wanted())
			a.giveBack(ratelimits.State{Limit: 5, Used: 5, Reset: 1200 * ms, Period: 2 * time.Second})
			pass(1500 * ms)
			a, b = b, a
		}
		assert.Less(t, max(a.link.largest(), b.link.largest()), 500, "bytes of the values of a call")
		b.process.use(elsewhere).join(1) // keeps the session alive
		swaps := w.server.Calls()["swap"]
		pass(10 * time.Second)
		assert.LessOrEqual(t, w.server.Calls()["swap"]-swaps, 1)
	})
}

func TestRequestsForLoansAreForgottenAfterTheClockIsSetBack(t *testing.T) {
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
		q.link.largest()
		b.join(1)
		pass(100 * ms)
		assert.Less(t, q.link.largest(), 500, "bytes of the values of a call")
	})
}

// Many buckets are lent to one process, which receives no messages. Other processes need all of these buckets. The
// replies to beats (calls that show that the process is alive) must name all of them.
func TestBeatsNameAllLoansThatAreNeeded(t *testing.T) {
	for name, several := range map[string]bool{"one process": false, "one process each": true} {
		eachWorld(t, name, func(t *testing.T, w *world) {
			w.server.SetQuiet(true)
			p, q := w.process(), w.process()
			lent, needs := lends(p, 40, func() *process {
				if several {
					return w.process()
				}
				return q
			})
			pass(5 * time.Second)
			for i, u := range needs {
				u.join(1)
				pass(time.Duration(i*7%60) * ms)
			}
			named := 0
			for range 25 {
				pass(100 * ms)
				for _, u := range lent {
					if u.lent && u.wanted() {
						named++
						u.giveBack(ratelimits.State{Limit: 5, Used: 5, Reset: 1200 * ms, Period: 2 * time.Second})
					}
				}
			}
			assert.Equal(t, 40, named)
		})
	}
}

// Process q needs other loans of process p all the time. Process r needs one loan of p. Process p must learn of r's
// need within three seconds.
func TestProcessThatNeedsManyLoansDoesNotDelayAnother(t *testing.T) {
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
		assert.True(t, some.wanted(), "process p must learn of the need within 3 s")
	})
}

func TestLoanOfALimitWhoseNameHasTwoLinesIsRequested(t *testing.T) {
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
