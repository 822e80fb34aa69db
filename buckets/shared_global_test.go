package buckets_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/buckets/shared"
	"github.com/ratelight/ratelight/ratelimits"
)

// Requests that wait for a manager's first part are not rejected as if the smallest part were the whole one.
func TestBurstBeforeThePartIsKnown(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		h := newHub(t)
		a, b := pair(t, h, buckets.WithGlobalLimit(50), buckets.WithMaxRateLimit(10*time.Second))
		discover(t, a, message(1), limited("messages", 5, 4, time.Second))
		h.mean = true
		var burst []*caller
		for channel := range 100 {
			burst = append(burst, ask(b, message(channel+2)))
		}
		wait(100 * time.Millisecond)
		for i, c := range burst {
			require.NoError(t, c.failed(), "number %d", i)
		}
		require.NoError(t, b.Close())
	})
}

func TestWaitForAPartIsPredicted(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		h := newHub(t)
		a, b := pair(t, h, buckets.WithGlobalLimit(50))
		discover(t, a, message(1), limited("messages", 5, 4, time.Second))
		h.mu.Lock()
		h.mean = true
		h.mu.Unlock()
		atMost := func(d time.Duration) *caller {
			ctx := buckets.ContextWithMaxWait(background, d)
			return call(ctx, b, buckets.Request{Route: message(2), Authorization: bot})
		}
		short, long := atMost(time.Second), atMost(3*time.Second)
		h.set(func(h *hub) { h.comes = h.now() + 1250*time.Millisecond })
		require.False(t, long.done())
		for _, c := range []*caller{short, atMost(time.Second)} {
			var tooLong *ratelimits.TooLongError
			require.ErrorAs(t, c.failed(), &tooLong)
			require.Equal(t, 1250*time.Millisecond, tooLong.Wait)
		}
		wait(1250 * time.Millisecond)
		h.set(func(h *hub) { h.mean = false })
		require.True(t, long.granted())
		long.lease.Return()

		h.set(func(h *hub) { h.lapsed = true }) // the part is lost
		short, long = atMost(time.Second), atMost(3*time.Second)
		require.False(t, short.done())
		h.mu.Lock()
		h.comes = h.now() + 2*time.Second
		for _, all := range h.globals {
			for _, g := range all {
				g.session.notify(g.changed)
			}
		}
		h.mu.Unlock()
		synctest.Wait()
		require.Error(t, short.failed())
		h.set(func(h *hub) { h.lapsed = false })
		require.True(t, long.granted())
		long.lease.Return()
		require.NoError(t, b.Close())
	})
}

func TestTryAcquireWaitsForTheFirstPart(t *testing.T) {
	t.Parallel()
	for _, comes := range []bool{true, false} {
		bubble(t, func(t *testing.T) {
			h := newHub(t)
			h.term = time.Minute
			a, b := pair(t, h, buckets.WithGlobalLimit(50))
			discover(t, b, message(1), limited("messages", 5, 4, time.Second))
			c := ask(a, message(1))
			c.update(limited("messages", 5, 4, time.Second))
			require.NoError(t, b.Close())
			discover(t, a, message(1), limited("messages", 5, 3, time.Second)) // lent from now on
			require.Equal(t, 1, h.lent())
			require.NoError(t, a.Close())

			require.NoError(t, a.Start())
			h.mu.Lock()
			h.mean = true
			h.mu.Unlock()
			wait(2 * time.Second)
			rightNow := buckets.ContextWithMaxWait(background, 0)
			c = call(rightNow, a, buckets.Request{Route: message(1), Authorization: bot})
			require.False(t, c.done(), "the part is not known yet")
			require.Zero(t, a.Status(1).Globals[0].Part)
			h.set(func(h *hub) { h.mean = !comes })
			require.True(t, c.done())
			assert.Equal(t, comes, c.err == nil, "%v", c.err)
			c.lease.Return()
			if !comes { // now it is known that there is no part
				_, err := a.TryAcquire(message(1), bot)
				var tooLong *ratelimits.TooLongError
				require.ErrorAs(t, err, &tooLong)
			}
			drained(t, a)
		})
	}
}

func TestOutageOfTheGlobalLimitReachesAll(t *testing.T) {
	t.Parallel()
	away := errors.New("away")
	bubble(t, func(t *testing.T) {
		h := newHub(t)
		h.term = time.Hour
		a, _ := pair(t, h, buckets.WithGlobalLimit(50))
		known(t, 5, a)
		discover(t, a, message(1), limited("messages", 5, 4, time.Second))
		require.Equal(t, 1, h.lent())
		h.set(func(h *hub) { h.err = away })
		lease, err := a.TryAcquire(message(1), bot)
		require.NoError(t, err, "bucket and part are certain for some time")
		lease.Return()
		h.set(func(h *hub) { h.lapsed = true })
		require.ErrorIs(t, ask(a, message(1)).failed(), away)
		h.set(func(h *hub) { h.err = nil })
		waits := ask(a, message(1))
		require.False(t, waits.done(), "there is no part")
		h.set(func(h *hub) { h.err = away })
		require.ErrorIs(t, waits.failed(), away)
		h.set(func(h *hub) { h.err = nil })
		waits = ask(a, message(1))
		require.False(t, waits.done())
		h.mu.Lock()
		h.err = away // without a call of changed
		h.mu.Unlock()
		require.ErrorIs(t, ask(a, message(1)).failed(), away)
		waits.cancel()
		h.set(func(h *hub) { h.err, h.lapsed = nil, false })
		discover(t, a, message(1), limited("messages", 5, 0, time.Second))
		waits = ask(a, message(1))
		h.set(func(h *hub) { h.err, h.lapsed = away, true })
		require.False(t, waits.done(), "it waits for the bucket, which is lent")
		wait(1100 * time.Millisecond)
		require.ErrorIs(t, waits.failed(), away, "now it waits for the part")
		h.set(func(h *hub) { h.err, h.lapsed = nil, false })
		c := ask(a, message(1))
		require.True(t, c.granted())
		c.lease.Return()
		drained(t, a)
	})
}

func TestThrottleHoldsAll(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		h := newHub(t)
		a, b := pair(t, h)
		known(t, 5, a, b)
		a.Throttle(5 * time.Second)
		synctest.Wait()
		c := ask(b, message(1))
		assert.False(t, tried(b, message(1)))
		wait(4900 * time.Millisecond)
		require.False(t, c.done())
		wait(200 * time.Millisecond)
		require.True(t, c.granted())
		c.lease.Return()
	})
}

func TestInvalidRequestsOfOthersCount(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		h := newHub(t)
		a, b := pair(t, h, buckets.WithInvalidBudget(1000, 10*time.Minute, 100))
		known(t, 5, b)
		discover(t, a, message(1), limited("messages", 5, 4, time.Second))
		h.mu.Lock()
		h.sessions[0].invalid = 5000
		h.mu.Unlock()
		var over *ratelimits.BudgetError
		require.ErrorAs(t, ask(b, message(1)).failed(), &over)
		h.mu.Lock()
		h.sessions[0].invalid = 0
		h.mu.Unlock()
		c := ask(b, message(1))
		require.True(t, c.granted())
		c.lease.Return()
	})
}

func TestOutageDoesNotEndAPartThatIsCertain(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		h := newHub(t)
		h.term = time.Hour
		a, _ := pair(t, h, buckets.WithGlobalLimit(2))
		known(t, 5, a)
		discover(t, a, message(1), limited("messages", 5, 4, time.Second))
		wait(2 * time.Second)
		h.set(func(h *hub) { h.err = errors.New("away") })
		all := asks(a, message(1), 2)
		require.Equal(t, 1, granted(t, all))
		all[0].update(limited("messages", 5, 4, time.Second))
		wait(1100 * time.Millisecond)
		require.Equal(t, 2, granted(t, all))
		all[1].lease.Release()
	})
}

// A request that waits for its bucket is rejected when a global hold of another manager makes its wait too long.
func TestHoldOfAnotherManagerRejectsRequests(t *testing.T) {
	t.Parallel()
	for name, limit := range map[string]int{"no limit": 0, "50": 50} {
		subtest(t, name, func(t *testing.T) {
			a, b := pair(t, newHub(t), buckets.WithGlobalLimit(limit), buckets.WithMaxRateLimit(time.Minute))
			discover(t, a, message(1), limited("messages", 1, 0, 30*time.Second))
			waiting := ask(b, message(1))
			wait(time.Second)
			require.False(t, waiting.done())
			a.Throttle(time.Hour)
			synctest.Wait()
			tooLong(t, waiting)
		})
	}
}

// A request that is rejected because the part comes too late still asks for a part, for later requests.
func TestRequestThatIsRejectedHasAskedForAPart(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		h := newHub(t)
		m := started(t, buckets.WithShared(h), buckets.WithGlobalLimit(2), buckets.WithMaxRateLimit(time.Minute))
		m.UpdateRateLimits(message(1), bot, plain(200)) // only the global limit needs an answer
		h.set(func(h *hub) { h.mean, h.comes = true, h.now()+time.Hour })
		tooLong(t, ask(m, message(1)))
		h.set(func(h *hub) { h.mean = false })
		c := ask(m, message(1))
		require.True(t, c.granted())
		c.lease.Return()
	})
}

// When the first part is too small for all requests, those that do not wait are rejected at once.
func TestTryAcquireFailsWhenTheFirstPartIsTooSmall(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		h := newHub(t)
		m := started(t, buckets.WithShared(h), buckets.WithGlobalLimit(2))
		h.mu.Lock()
		h.mean = true
		h.mu.Unlock()
		var all []*caller
		for channel := range 3 {
			m.UpdateRateLimits(message(channel+1), bot, limited("messages", 5, 4, time.Second))
			rightNow := buckets.ContextWithMaxWait(background, 0)
			all = append(all, call(rightNow, m, buckets.Request{Route: message(channel + 1), Authorization: bot}))
			require.False(t, all[channel].done())
		}
		h.mu.Lock()
		h.mean = false
		for credential := range h.globals { // changed is called once for each
			h.share(credential, func(*hubGlobal) bool { return false })
		}
		h.mu.Unlock()
		synctest.Wait()
		require.Equal(t, 2, granted(t, all))
		var tooLong *ratelimits.TooLongError
		require.ErrorAs(t, all[2].failed(), &tooLong)
		for _, c := range all[:2] {
			c.lease.Return()
		}
		drained(t, m)
	})
}

// eagerHub has a hold of each global limit from the start.
type eagerHub struct{ *hub }

func (h eagerHub) Join(clock clockwork.Clock, origin time.Time) shared.Session {
	return eagerSession{h.hub.Join(clock, origin).(*hubSession)}
}

type eagerSession struct{ *hubSession }

func (s eagerSession) Global(credential string, limit int, changed func()) shared.Global {
	g := s.hubSession.Global(credential, limit, changed)
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	g.(*hubGlobal).held = time.Minute
	s.notify(changed)
	return g
}

// For the race detector: changed of a new credential is called while Throttle holds the manager.
func TestChangedOfANewCredentialDuringAThrottle(t *testing.T) {
	t.Parallel()
	for range 20 {
		bubble(t, func(t *testing.T) {
			m := started(t, buckets.WithShared(eagerHub{newHub(t)}), buckets.WithGlobalLimit(50), buckets.WithMaxRateLimit(time.Hour))
			m.Throttle(time.Second)
			ctx, cancel := context.WithCancel(background)
			defer cancel()
			c := call(ctx, m, buckets.Request{Route: message(1), Authorization: bot})
			synctest.Wait()
			c.cancel()
			wait(0)
		})
	}
}
