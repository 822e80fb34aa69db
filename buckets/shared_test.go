package buckets_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/buckets/shared"
	"github.com/ratelight/ratelight/internal/discordsim"
	"github.com/ratelight/ratelight/ratelimits"
	"github.com/ratelight/ratelight/routes"
)

// accepted returns the numbers of the requests that the server accepted, in the order in which it accepted them.
func accepted(s *discordsim.Server) (numbers []int) {
	events := slices.Clone(s.Events())
	slices.SortFunc(events, func(a, b discordsim.Event) int { return a.Accepted - b.Accepted })
	for _, e := range events {
		if e.Accepted > 0 {
			numbers = append(numbers, int(e.Sequence))
		}
	}
	return numbers
}

func refusals(s *discordsim.Server) (n int) {
	for _, e := range s.Events() {
		if e.Status == http.StatusTooManyRequests {
			n++
		}
	}
	return n
}

// ends ends all managers and requires that nothing is left of them in the hub.
func (h *hub) ends(t *testing.T, all []*world) {
	t.Helper()
	for _, w := range all {
		drained(t, w.manager)
		require.NoError(t, w.manager.Close())
	}
	h.empty()
}

// pair returns two managers that share limits on a hub, without a simulated server.
func pair(t *testing.T, h *hub, options ...buckets.Option) (a, b *buckets.RESTBucketManager) {
	t.Helper()
	options = append([]buckets.Option{buckets.WithShared(h), buckets.WithMaxRateLimit(time.Hour)}, options...)
	a = started(t, options...)
	wait(3 * time.Millisecond)
	return a, started(t, options...)
}

// known lets each manager discover the bucket of message(1), and waits until the bucket's window has ended.
func known(t *testing.T, limit int, managers ...*buckets.RESTBucketManager) {
	t.Helper()
	for _, m := range managers {
		discover(t, m, message(1), limited("messages", limit, limit-1, time.Second))
		wait(1100 * time.Millisecond)
	}
}

// sharers returns two managers that share a hub and know the bucket "messages", which has this limit.
func sharers(t *testing.T, limit int, options ...buckets.Option) (h *hub, a, b *buckets.RESTBucketManager) {
	t.Helper()
	h = newHub(t)
	a, b = pair(t, h, options...)
	known(t, limit, a, b)
	return h, a, b
}

// rightNow sends a request that must not wait.
func rightNow(m *buckets.RESTBucketManager, route routes.CompiledRoute) *caller {
	return call(buckets.ContextWithMaxWait(background, 0), m, *request(route))
}

func TestCancelledWaitersGiveTheirPlaceBack(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		_, a, b := sharers(t, 1)
		first, second, third := ask(a, message(1)), ask(a, message(1)), ask(b, message(1))
		require.True(t, first.granted())
		second.cancel()
		synctest.Wait()
		require.ErrorIs(t, second.failed(), context.Canceled)
		first.update(limited("messages", 1, 0, time.Second))
		wait(1100 * time.Millisecond)
		require.True(t, third.granted())
		third.lease.Return() // it was not sent
		assert.True(t, ask(a, message(1)).granted())
	})
}

func TestLeasesThatWereNotSentAreGivenBackToAll(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		_, a, b := sharers(t, 2)
		first, second, third := ask(a, message(1)), ask(a, message(1)), ask(b, message(1))
		require.True(t, first.granted() && second.granted())
		require.False(t, third.done())
		second.lease.Return()
		synctest.Wait()
		assert.True(t, third.granted())
	})
}

func TestTryAcquireWaitsOnlyForTheFirstAnswer(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		h, a, b := sharers(t, 2)
		lease, err := a.TryAcquire(message(1), bot)
		require.NoError(t, err)
		require.True(t, rightNow(b, message(1)).granted())
		tooLong(t, rightNow(b, message(1)))
		lease.Update(limited("messages", 2, 0, time.Second))

		h.set(func(h *hub) { h.silent = true })
		c := rightNow(a, message(1))
		wait(400 * time.Millisecond)
		h.set(func(*hub) {}) // all managers are notified, but nothing has changed for this request
		require.False(t, c.done(), "nobody has answered yet")
		h.set(func(h *hub) { h.silent = false })
		late := tooLong(t, c)
		assert.InDelta(t, 0.6, (late.Wait - late.Waited).Seconds(), 0.01)
		assert.InDelta(t, 0.4, late.Waited.Seconds(), 0.01)
		wait(time.Second)
		h.set(func(h *hub) { h.silent = true })
		c = rightNow(a, message(1))
		require.False(t, c.done())
		h.set(func(h *hub) { h.silent = false })
		require.True(t, c.granted())
	})
}

// Even a request with a max wait of 0 waits for the answer of other processes, but for a second at most. Then it is
// rejected.
func TestAcquireAtOnceGetsNoAnswer(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		h, a, _ := sharers(t, 2)
		h.set(func(h *hub) { h.silent = true })
		c := rightNow(a, message(1))
		wait(999 * time.Millisecond)
		h.set(func(*hub) {}) // all managers are notified, but nothing has changed for this request
		require.False(t, c.done())
		wait(2 * time.Millisecond)
		h.set(func(*hub) {})
		tooLong(t, c)
	})
}

// Requests that must not wait must be rejected at once, whatever they would have to wait for.
func TestTryAcquireAlwaysComesBack(t *testing.T) {
	t.Parallel()
	var inFlight ratelimits.Response
	for name, c := range map[string]struct {
		limit   int // of the bucket; 0: the bucket is not known
		byOther bool
		before  ratelimits.Response // to the request before, which the other manager sends if byOther is set
		route   routes.CompiledRoute
	}{
		"sub-limit": {5, false, inBucket(refused(ratelimits.ClassSubLimit, time.Minute), "messages", 5, 4, time.Second),
			message(1)},
		"hold of a route that is not known": {0, false, refused(ratelimits.ClassGlobal, time.Minute), followUp(1)},
		"probe of another":                  {0, true, inFlight, message(1)},
		"probe of its own":                  {0, false, inFlight, message(1)},
		"hold": {5, true, usedUp("messages", 5, time.Minute),
			message(1)},
		"global hold": {5, true, refused(ratelimits.ClassGlobal, time.Minute), message(1)},
		"edge":        {5, false, refused(ratelimits.ClassEdge, time.Minute), message(1)},
		"lent":        {1, false, inFlight, message(1)},
	} {
		subtest(t, name, func(t *testing.T) {
			h := newHub(t)
			a, b := pair(t, h)
			if c.limit > 0 {
				known(t, c.limit, a, b)
			}
			h.set(func(h *hub) { h.lends = name == "lent" })
			sender := map[bool]*buckets.RESTBucketManager{false: a, true: b}[c.byOther]
			before := ask(sender, c.route)
			require.True(t, before.granted())
			if c.before.Status != 0 {
				before.update(c.before)
			}
			for range 2 {
				tooLong(t, rightNow(a, c.route))
			}
		})
	}
}

func TestOutagesReachWhoWaitsAndWhoComes(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		h, a, b := sharers(t, 1)
		first := ask(a, message(1))
		waits, probes := ask(a, message(1)), ask(a, list(1))
		probes2 := ask(b, list(1))
		require.True(t, first.granted() && probes.granted())
		h.set(func(h *hub) { h.err = errAway })
		require.ErrorIs(t, waits.failed(), errAway)
		require.ErrorIs(t, probes2.failed(), errAway)
		require.ErrorIs(t, ask(a, message(1)).failed(), errAway)
		require.ErrorIs(t, ask(b, list(1)).failed(), errAway)
		_, err := b.TryAcquire(message(1), bot)
		require.ErrorIs(t, err, errAway)
		_, because, err := b.Predict(request(message(1)))
		require.ErrorIs(t, err, errAway)
		require.Equal(t, buckets.WaitsForOutage, because)
		h.set(func(h *hub) { h.err = nil })
		first.update(limited("messages", 1, 0, time.Second))
		probes.update(limited("list", 1, 0, time.Second))
		later := ask(b, message(1))
		wait(1100 * time.Millisecond)
		assert.True(t, later.granted())
	})
}

func TestNothingIsLeftAfterClose(t *testing.T) {
	t.Parallel()
	for _, lends := range []bool{false, true} {
		for _, silent := range []bool{false, true} {
			subtest(t, strconv.FormatBool(lends)+strconv.FormatBool(silent), func(t *testing.T) {
				h := newHub(t)
				h.lends = lends
				a, b := pair(t, h, buckets.WithGlobalLimit(50))
				known(t, 2, a)
				h.set(func(h *hub) { h.silent = silent })
				var callers []*caller
				for _, m := range []*buckets.RESTBucketManager{a, b} {
					callers = append(callers, asks(m, message(1), 4)...)
					callers = append(callers, asks(m, list(1), 3)...)
				}
				var all sync.WaitGroup
				for _, m := range []*buckets.RESTBucketManager{a, b} {
					all.Go(func() { assert.NoError(t, m.Close()) })
				}
				all.Wait()
				synctest.Wait()
				for _, c := range callers {
					require.True(t, c.done())
					if c.err != nil {
						require.ErrorIs(t, c.err, buckets.ErrClosed)
					} else { // leases that end after Close must change nothing
						c.lease.Update(limited("messages", 2, 1, time.Second))
					}
				}
				h.empty()

				h.set(func(h *hub) { h.silent = false })
				require.NoError(t, a.Start())
				require.NoError(t, b.Start())
				wait(2 * time.Second)
				known(t, 2, a, b)
				c := ask(b, message(1))
				require.True(t, c.granted())
				c.lease.Release()
				require.NoError(t, a.Close())
				require.NoError(t, b.Close())
				h.empty()
			})
		}
	}
}

// The hub names a hash while a session ends. The session's Close waits until the manager has taken in the hash, so the
// manager's Close must not hold a lock meanwhile that is needed for this.
func TestNewsThatComeWhileASessionEnds(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		h := newHub(t)
		h.late = true
		a, _ := pair(t, h)
		c := asks(a, message(1), 3)
		require.NoError(t, a.Close())
		synctest.Wait()
		require.ErrorIs(t, c[2].failed(), buckets.ErrClosed)
	})
}

// A request with priority leaves with the permit of another request, which gets its place in return. If the other
// request is cancelled then, requests of other managers must not wait for it.
func TestPlacesOfOneManagerAreExchanged(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		_, a, b := sharers(t, 1)
		first, usual := ask(a, message(1)), ask(a, message(1))
		hasty := urgent(a)
		theirs := ask(b, message(1))
		first.update(limited("messages", 1, 0, time.Second))
		wait(1100 * time.Millisecond)
		require.True(t, hasty.granted())
		usual.cancel()
		synctest.Wait()
		hasty.update(limited("messages", 1, 0, time.Second))
		wait(1100 * time.Millisecond)
		require.True(t, theirs.granted())
	})
}

func TestNilSharesNothing(t *testing.T) {
	t.Parallel()
	var none *hub
	for _, option := range []buckets.Option{buckets.WithShared(nil), buckets.WithShared(none)} {
		m := buckets.NewRESTBucketManager(option)
		assert.False(t, m.Shares())
		assert.NoError(t, m.Start())
		assert.NoError(t, m.Close())
	}
}

// countingHub is a hub whose sessions all have the same Stats.
type countingHub struct{ *hub }

type countingSession struct{ shared.Session }

var ofOneSession = shared.Stats{
	Calls: map[string]shared.Calls{"swap": {Calls: 1, Errors: 2, Time: 3}},
	Loans: 4, LoansTaken: 5, LoansReturned: 6, LoansExpired: 7, LoansRecalled: 8,
	Losses: 9, ClockSteps: 10, Suspensions: 11,
	Outage: 12, OutageClass: "class", Outages: 13, OutageTime: 14, Quota: 15, QuotaNeed: 16,
}

func (h countingHub) Join(clock clockwork.Clock, origin time.Time) shared.Session {
	return countingSession{h.hub.Join(clock, origin)}
}

func (countingSession) Outage() error       { return nil }
func (countingSession) Stats() shared.Stats { return ofOneSession }

func TestStatsOfEarlierSessionsCount(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := started(t, buckets.WithShared(countingHub{newHub(t)}))
		assert.Equal(t, ofOneSession, m.Stats().Shared)
		require.NoError(t, m.Close())
		require.NoError(t, m.Start())
		assert.Equal(t, shared.Stats{
			Calls: map[string]shared.Calls{"swap": {Calls: 2, Errors: 4, Time: 6}},
			Loans: 4, LoansTaken: 10, LoansReturned: 12, LoansExpired: 14, LoansRecalled: 16,
			Losses: 18, ClockSteps: 20, Suspensions: 22,
			Outage: 12, OutageClass: "class", Outages: 26, OutageTime: 28, Quota: 15, QuotaNeed: 16,
		}, m.Stats().Shared)
	})
}

var errAway = errors.New("away")

// outageHub is a hub that reports an outage while it is silent, as buckets/shared does.
type outageHub struct{ *hub }

type outageSession struct {
	shared.Session
	hub *hub
}

func (h outageHub) Join(clock clockwork.Clock, origin time.Time) shared.Session {
	return outageSession{h.hub.Join(clock, origin), h.hub}
}

func (s outageSession) Outage() error {
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	if s.hub.silent {
		return errAway
	}
	return nil
}

func (s outageSession) Stats() shared.Stats { return shared.Stats{} }

// In an outage no request waits longer than its max wait, also if its route moves to another bucket meanwhile.
func TestMaxWaitHoldsInAnOutageWhenARouteMoves(t *testing.T) {
	t.Parallel()
	for name, moves := range map[string]bool{"stays": false, "moves": true} {
		subtest(t, name, func(t *testing.T) {
			h := newHub(t)
			m := started(t, buckets.WithShared(outageHub{h}))
			discover(t, m, message(1), limited("messages", 1, 0, time.Second))
			wait(2 * time.Second)
			probe := ask(m, list(1))
			require.True(t, probe.granted())
			impatient := call(buckets.ContextWithMaxWait(background, 5*time.Second), m, *request(list(1)))
			require.False(t, impatient.done())
			wait(time.Second)
			h.set(func(h *hub) { h.silent = true })
			wait(time.Second)
			if moves {
				probe.update(limited("messages", 1, 0, time.Second))
			}
			wait(10 * time.Second)
			var tooLong *ratelimits.TooLongError
			assert.ErrorAs(t, impatient.failed(), &tooLong, "its max wait is 5 s, and it has waited for 12 s")
			h.set(func(h *hub) { h.silent = false })
			impatient.cancel()
			if !moves {
				probe.update(limited("messages", 1, 0, time.Second))
			}
			wait(10 * time.Second)
			if impatient.granted() {
				impatient.lease.Release()
			}
		})
	}
}
