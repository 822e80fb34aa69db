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

// accepted returns the numbers of the requests that the server accepted, in its order.
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

func TestManagersThatShareSendInTheOrderOfArrival(t *testing.T) {
	t.Parallel()
	for _, quota := range []discordsim.Quota{discordsim.Fixed(5, time.Second), discordsim.Fixed(1, time.Second), discordsim.Aligned(3, 2*time.Second, 0)} {
		for _, managers := range []int{2, 3} {
			for _, term := range []time.Duration{0, 3 * time.Second} {
				subtest(t, quota.Kind.String()+strconv.Itoa(quota.Limit)+" "+strconv.Itoa(managers)+" "+term.String(), func(t *testing.T) {
					h := newHub(t)
					h.term = term
					all := fleet(t, h, managers, one(discordsim.Rule{Quota: quota}))
					all[0].post(1, 1)
					all[0].finish()
					var want []int
					for i := range 40 {
						w := all[i%managers]
						w.post(1, 1)
						want = append(want, w.sent)
						wait(10 * time.Microsecond) // so that they do not come together
					}
					for _, w := range all {
						w.finish()
					}
					assert.Zero(t, refusals(all[0].Server))
					got := accepted(all[0].Server)[1:]
					if len(got) == len(want) && term == 0 {
						inOrder(t, want, got, quota.Limit)
					}
					assert.Len(t, got, len(want))
					h.ends(t, all)
				})
			}
		}
	}
}

// inOrder requires that requests arrived in the order in which they were made, but for those that were on their way
// together.
func inOrder(t *testing.T, want, got []int, together int) {
	t.Helper()
	for i, number := range want {
		assert.InDelta(t, i, slices.Index(got, number), float64(together-1)+0.5, "request %d: %v", number, got)
	}
}

// pair is two managers that share, without a simulated server, and a bucket "messages" that both know.
func pair(t *testing.T, h *hub, options ...buckets.Option) (a, b *buckets.RESTBucketManager) {
	t.Helper()
	options = append([]buckets.Option{buckets.WithShared(h), buckets.WithMaxRateLimit(time.Hour)}, options...)
	a = started(t, options...)
	wait(3 * time.Millisecond)
	return a, started(t, options...)
}

// known lets both managers know the bucket of a route, and waits until it is full again.
func known(t *testing.T, limit int, managers ...*buckets.RESTBucketManager) {
	t.Helper()
	for _, m := range managers {
		discover(t, m, message(1), limited("messages", limit, limit-1, time.Second))
		wait(1100 * time.Millisecond)
	}
}

func TestCancelledWaitersGiveTheirPlaceBack(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		h := newHub(t)
		a, b := pair(t, h)
		known(t, 1, a, b)
		first, second, third := ask(a, message(1)), ask(a, message(1)), ask(b, message(1))
		require.True(t, first.granted())
		second.cancel()
		synctest.Wait()
		require.ErrorIs(t, second.failed(), context.Canceled)
		first.update(limited("messages", 1, 0, time.Second))
		wait(1100 * time.Millisecond)
		require.True(t, third.granted())
		third.lease.Return() // it was not sent
		fourth := ask(a, message(1))
		assert.True(t, fourth.granted())
		fourth.lease.Release()
		drained(t, a)
		drained(t, b)
	})
}

func TestLeasesThatWereNotSentAreGivenBackToAll(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		h := newHub(t)
		a, b := pair(t, h)
		known(t, 2, a, b)
		first, second, third := ask(a, message(1)), ask(a, message(1)), ask(b, message(1))
		require.True(t, first.granted() && second.granted())
		require.False(t, third.done())
		second.lease.Return()
		synctest.Wait()
		assert.True(t, third.granted())
		first.lease.Release()
		third.lease.Release()
	})
}

func TestTryAcquireWaitsOnlyForTheFirstAnswer(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		h := newHub(t)
		a, b := pair(t, h)
		known(t, 2, a, b)
		lease, err := a.TryAcquire(message(1), bot)
		require.NoError(t, err)
		theirs, err := b.TryAcquire(message(1), bot)
		require.NoError(t, err)
		defer theirs.Release()
		_, err = b.TryAcquire(message(1), bot)
		var tooLong *ratelimits.TooLongError
		require.ErrorAs(t, err, &tooLong)
		lease.Update(limited("messages", 2, 0, time.Second))

		h.set(func(h *hub) { h.silent = true })
		c := patient(a, 0)
		wait(400 * time.Millisecond)
		h.set(func(*hub) {}) // there is news, but not for this one
		require.False(t, c.done(), "nobody has answered yet")
		h.set(func(h *hub) { h.silent = false })
		require.ErrorAs(t, c.failed(), &tooLong)
		assert.InDelta(t, 0.6, (tooLong.Wait - tooLong.Waited).Seconds(), 0.01)
		assert.InDelta(t, 0.4, tooLong.Waited.Seconds(), 0.01)
		wait(time.Second)
		h.set(func(h *hub) { h.silent = true })
		c = patient(a, 0)
		require.False(t, c.done())
		h.set(func(h *hub) { h.silent = false })
		require.True(t, c.granted())
		c.lease.Return()
	})
}

// A request that must not wait waits for the answer of other processes for a second at most.
func TestAcquireAtOnceGetsNoAnswer(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		h := newHub(t)
		a, b := pair(t, h)
		known(t, 2, a, b)
		h.set(func(h *hub) { h.silent = true })
		c := patient(a, 0)
		wait(999 * time.Millisecond)
		h.set(func(*hub) {}) // there is news, but not for this one
		require.False(t, c.done())
		wait(2 * time.Millisecond)
		h.set(func(*hub) {})
		var tooLong *ratelimits.TooLongError
		require.ErrorAs(t, c.failed(), &tooLong)
	})
}

// What must not wait is answered, wherever it is in the way of other things.
func TestTryAcquireAlwaysComesBack(t *testing.T) {
	t.Parallel()
	rightNow := buckets.ContextWithMaxWait(background, 0)
	for name, prepare := range map[string]func(t *testing.T, h *hub, a, b *buckets.RESTBucketManager) routes.CompiledRoute{
		"sub-limit": func(t *testing.T, _ *hub, a, b *buckets.RESTBucketManager) routes.CompiledRoute {
			known(t, 5, a, b)
			discover(t, a, message(1), inBucket(refused(ratelimits.ClassSubLimit, time.Minute), "messages", 5, 4, time.Second))
			return message(1)
		},
		"hold of a route that is not known": func(t *testing.T, _ *hub, a, _ *buckets.RESTBucketManager) routes.CompiledRoute {
			discover(t, a, followUp(1), refused(ratelimits.ClassGlobal, time.Minute))
			return followUp(1)
		},
		"probe of another": func(t *testing.T, _ *hub, _, b *buckets.RESTBucketManager) routes.CompiledRoute {
			require.True(t, ask(b, message(1)).granted())
			return message(1)
		},
		"probe of its own": func(t *testing.T, _ *hub, a, _ *buckets.RESTBucketManager) routes.CompiledRoute {
			require.True(t, ask(a, message(1)).granted())
			return message(1)
		},
		"hold": func(t *testing.T, _ *hub, a, b *buckets.RESTBucketManager) routes.CompiledRoute {
			known(t, 5, a, b)
			discover(t, b, message(1), inBucket(refused(ratelimits.ClassUser, time.Minute), "messages", 5, 0, time.Minute))
			return message(1)
		},
		"global hold": func(t *testing.T, _ *hub, a, b *buckets.RESTBucketManager) routes.CompiledRoute {
			known(t, 5, a, b)
			discover(t, b, message(1), refused(ratelimits.ClassGlobal, time.Minute))
			return message(1)
		},
		"edge": func(t *testing.T, _ *hub, a, b *buckets.RESTBucketManager) routes.CompiledRoute {
			known(t, 5, a, b)
			discover(t, a, message(1), refused(ratelimits.ClassEdge, time.Minute))
			return message(1)
		},
		"lent": func(t *testing.T, h *hub, a, _ *buckets.RESTBucketManager) routes.CompiledRoute {
			h.set(func(h *hub) { h.term = time.Second })
			known(t, 1, a)
			require.True(t, ask(a, message(1)).granted())
			return message(1)
		},
	} {
		subtest(t, name, func(t *testing.T) {
			h := newHub(t)
			a, b := pair(t, h)
			route := prepare(t, h, a, b)
			for range 2 {
				c := call(rightNow, a, buckets.Request{Route: route, Authorization: bot})
				var tooLong *ratelimits.TooLongError
				require.ErrorAs(t, c.failed(), &tooLong)
			}
		})
	}
}

func TestMaxRateLimitIsForTheRankAmongAll(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		h := newHub(t)
		a, b := pair(t, h, buckets.WithMaxRateLimit(3500*time.Millisecond))
		known(t, 1, a, b)
		var tooLong *ratelimits.TooLongError
		first := ask(a, message(1))
		first.update(limited("messages", 1, 0, time.Second))
		queued := append(asks(b, message(1), 2), ask(a, message(1)))
		for _, c := range queued {
			require.False(t, c.done())
		}
		require.ErrorAs(t, ask(b, message(1)).failed(), &tooLong)
		assert.InDelta(t, 4, tooLong.Wait.Seconds(), 0.05)
		require.NoError(t, a.Close())
		require.NoError(t, b.Close())
	})
}

func TestOutagesReachWhoWaitsAndWhoComes(t *testing.T) {
	t.Parallel()
	away := errors.New("away")
	bubble(t, func(t *testing.T) {
		h := newHub(t)
		a, b := pair(t, h)
		known(t, 1, a, b)
		first := ask(a, message(1))
		waits, probes := ask(a, message(1)), ask(a, list(1))
		probes2 := ask(b, list(1))
		require.True(t, first.granted() && probes.granted())
		h.set(func(h *hub) { h.err = away })
		require.ErrorIs(t, waits.failed(), away)
		require.ErrorIs(t, probes2.failed(), away)
		require.ErrorIs(t, ask(a, message(1)).failed(), away)
		require.ErrorIs(t, ask(b, list(1)).failed(), away)
		_, err := b.TryAcquire(message(1), bot)
		require.ErrorIs(t, err, away)
		_, because, err := b.Predict(request(message(1)))
		require.ErrorIs(t, err, away)
		require.Equal(t, buckets.WaitsForOutage, because)
		h.set(func(h *hub) { h.err = nil })
		first.update(limited("messages", 1, 0, time.Second))
		probes.update(limited("list", 1, 0, time.Second))
		later := ask(b, message(1))
		wait(1100 * time.Millisecond)
		assert.True(t, later.granted())
		later.lease.Release()
		drained(t, a)
		drained(t, b)
	})
}

func TestSilenceEndsWithTheDeadline(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		h := newHub(t)
		a, b := pair(t, h)
		known(t, 5, a, b)
		h.set(func(h *hub) { h.silent = true })
		ctx, cancel := context.WithTimeout(background, 2*time.Second)
		defer cancel()
		c, d := call(ctx, a, buckets.Request{Route: message(1), Authorization: bot}), call(ctx, a, buckets.Request{Route: list(1), Authorization: bot})
		e := patient(a, time.Second)
		wait(3 * time.Second)
		require.ErrorIs(t, c.failed(), context.DeadlineExceeded)
		require.ErrorIs(t, d.failed(), context.DeadlineExceeded)
		h.set(func(*hub) {}) // as a store does in an outage
		var tooLong *ratelimits.TooLongError
		require.ErrorAs(t, e.failed(), &tooLong)
		h.set(func(h *hub) { h.silent = false })
		f := ask(a, message(1))
		require.True(t, f.granted())
		f.lease.Return()
		drained(t, a)
	})
}

func TestNothingIsLeftAfterClose(t *testing.T) {
	t.Parallel()
	for _, term := range []time.Duration{0, 2 * time.Second} {
		for _, silent := range []bool{false, true} {
			subtest(t, term.String()+strconv.FormatBool(silent), func(t *testing.T) {
				h := newHub(t)
				h.term = term
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
					} else { // late ends of leases are no news for anybody
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

// What is found out while a session ends needs what Close must not keep until the session has ended.
func TestNewsThatComeWhileASessionEnds(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		h := newHub(t)
		h.late = true
		a, _ := pair(t, h)
		c := asks(a, message(1), 3)
		require.NoError(t, a.Close())
		synctest.Wait()
		require.ErrorIs(t, c[2].failed(), buckets.ErrClosed)
		c[0].lease.Release()
	})
}

// One with priority leaves by the permit of another one, whose place is then that of the first.
func TestPlacesOfOneManagerAreExchanged(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		h := newHub(t)
		a, b := pair(t, h)
		known(t, 1, a, b)
		first, usual := ask(a, message(1)), ask(a, message(1))
		hasty := call(buckets.ContextWithPriority(background), a, buckets.Request{Route: message(1), Authorization: bot})
		theirs := ask(b, message(1))
		first.update(limited("messages", 1, 0, time.Second))
		wait(1100 * time.Millisecond)
		require.True(t, hasty.granted())
		usual.cancel()
		synctest.Wait()
		hasty.update(limited("messages", 1, 0, time.Second))
		wait(1100 * time.Millisecond)
		require.True(t, theirs.granted())
		theirs.lease.Release()
		drained(t, a)
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

// countingHub is a hub each session of which has counted the same.
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

func TestEventsHaveNames(t *testing.T) {
	t.Parallel()
	var names []string
	for kind := range shared.ProcessSuspended + 2 {
		names = append(names, kind.String())
	}
	assert.Equal(t, []string{
		"event(0)", "outage began", "outage ended", "state lost", "clock set", "process suspended", "event(6)",
	}, names)
}
