package buckets_test

import (
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/buckets/shared"
)

// waitingForAPart returns a manager that gets no part of a global limit of 50 yet. Another manager has the whole limit,
// and the route is known.
func waitingForAPart(t *testing.T, options ...buckets.Option) (h *hub, m *buckets.RESTBucketManager) {
	t.Helper()
	h = newHub(t)
	other, m := pair(t, h, append(options, buckets.WithGlobalLimit(50))...)
	discover(t, other, message(1), limited("messages", 5, 4, time.Second))
	h.quietly(func(h *hub) { h.mean = true })
	return h, m
}

// lentWithAPart returns a manager that has a part of the global limit, and to which the bucket "messages" is lent.
func lentWithAPart(t *testing.T, global int) (h *hub, m *buckets.RESTBucketManager) {
	t.Helper()
	h = newHub(t)
	h.lends = true
	m, _ = pair(t, h, buckets.WithGlobalLimit(global))
	known(t, 5, m)
	discover(t, m, message(1), limited("messages", 5, 4, time.Second))
	require.Equal(t, 1, h.lent())
	return h, m
}

// A manager waits for its first part of the global limit. Its requests must not be rejected as if that part were the
// smallest possible one.
func TestBurstBeforeThePartIsKnown(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		_, m := waitingForAPart(t, buckets.WithMaxRateLimit(10*time.Second))
		for channel := range 100 {
			ask(m, message(channel+2))
		}
		wait(100 * time.Millisecond)
		assert.Equal(t, 100, m.Stats().Waiting)
	})
}

func TestWaitForAPartIsPredicted(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		h, m := waitingForAPart(t)
		short, long := patient(m, time.Second), patient(m, 3*time.Second)
		h.set(func(h *hub) { h.comes = h.now() + 1250*time.Millisecond })
		require.False(t, long.done())
		for _, c := range []*caller{short, patient(m, time.Second)} {
			require.Equal(t, 1250*time.Millisecond, tooLong(t, c).Wait)
		}
		wait(1250 * time.Millisecond)
		h.set(func(h *hub) { h.mean = false })
		require.True(t, long.granted())

		h.set(func(h *hub) { h.lapsed = true }) // the part is lost
		short, long = patient(m, time.Second), patient(m, 3*time.Second)
		require.False(t, short.done())
		h.quietly(func(h *hub) {
			h.comes = h.now() + 2*time.Second
			for _, all := range h.globals { // nothing but the global limit has news
				for _, g := range all {
					g.session.notify(g.changed)
				}
			}
		})
		synctest.Wait()
		tooLong(t, short)
		h.set(func(h *hub) { h.lapsed = false })
		require.True(t, long.granted())
	})
}

func TestTryAcquireWaitsForTheFirstPart(t *testing.T) {
	t.Parallel()
	for _, comes := range []bool{true, false} {
		subtest(t, strconv.FormatBool(comes), func(t *testing.T) {
			h, m := lentWithAPart(t, 50)
			require.NoError(t, m.Close())
			require.NoError(t, m.Start())
			h.quietly(func(h *hub) { h.mean = true })
			wait(2 * time.Second)
			c := rightNow(m, message(1))
			require.False(t, c.done(), "the part is not known yet")
			require.Zero(t, m.Status(1).Globals[0].Part)
			h.set(func(h *hub) { h.mean = !comes })
			if comes {
				require.True(t, c.granted())
				return
			}
			tooLong(t, c)
			tooLong(t, rightNow(m, message(1))) // now it is known that there is no part
		})
	}
}

func TestOutageOfTheGlobalLimitReachesAll(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		h, m := lentWithAPart(t, 50)
		outage := func(outage, lapsed bool) {
			h.set(func(h *hub) { h.err, h.lapsed = map[bool]error{true: errAway}[outage], lapsed })
		}
		outage(true, false)
		c := rightNow(m, message(1))
		require.True(t, c.granted(), "bucket and part are certain for some time")
		c.lease.Return()
		outage(true, true)
		require.ErrorIs(t, ask(m, message(1)).failed(), errAway)
		outage(false, true)
		waits := ask(m, message(1))
		require.False(t, waits.done(), "there is no part")
		outage(true, true)
		require.ErrorIs(t, waits.failed(), errAway)
		outage(false, true)
		require.False(t, ask(m, message(1)).done())
		h.quietly(func(h *hub) { h.err = errAway })
		require.ErrorIs(t, ask(m, message(1)).failed(), errAway, "also if the hub has notified nobody")
		outage(false, false)
		discover(t, m, message(1), limited("messages", 5, 0, time.Second))
		waits = ask(m, message(1))
		outage(true, true)
		require.False(t, waits.done(), "it waits for the bucket, which is lent")
		wait(1100 * time.Millisecond)
		require.ErrorIs(t, waits.failed(), errAway, "now it waits for the part")
		outage(false, false)
		require.True(t, ask(m, message(1)).granted())
	})
}

func TestInvalidRequestsOfOthersCount(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		h, other, m := sharers(t, 5, buckets.WithInvalidBudget(1000, 10*time.Minute, 100))
		h.quietly(func(h *hub) { h.sessions[0].invalid = 5000 })
		overBudget(t, ask(m, message(1)))
		h.quietly(func(h *hub) { h.sessions[0].invalid = 0 })
		require.True(t, ask(m, message(1)).granted())
		discover(t, other, callback(1), plain(403))
		assert.Equal(t, 1, m.Stats().Invalid)
	})
}

func TestOutageDoesNotEndAPartThatIsCertain(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		h, m := lentWithAPart(t, 2)
		wait(2 * time.Second)
		h.set(func(h *hub) { h.err = errAway })
		all := asks(m, message(1), 2)
		require.Equal(t, 1, granted(t, all))
		all[0].update(limited("messages", 5, 4, time.Second))
		wait(1100 * time.Millisecond)
		require.Equal(t, 2, granted(t, all))
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

// A request is rejected because the part of the global limit would come too late. Even so it must ask for a part, for
// later requests.
func TestRequestThatIsRejectedHasAskedForAPart(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		h := newHub(t)
		m := started(t, buckets.WithShared(h), buckets.WithGlobalLimit(2), buckets.WithMaxRateLimit(time.Minute))
		m.UpdateRateLimits(message(1), bot, plain(200)) // only the global limit needs an answer
		h.set(func(h *hub) { h.mean, h.comes = true, h.now()+time.Hour })
		tooLong(t, ask(m, message(1)))
		h.set(func(h *hub) { h.mean = false })
		require.True(t, ask(m, message(1)).granted())
	})
}

// When the first part of the global limit is too small for all requests, those that must not wait are rejected at once.
func TestTryAcquireFailsWhenTheFirstPartIsTooSmall(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		h := newHub(t)
		m := started(t, buckets.WithShared(h), buckets.WithGlobalLimit(2))
		h.quietly(func(h *hub) { h.mean = true })
		var all []*caller
		for channel := range 3 {
			m.UpdateRateLimits(message(channel+1), bot, limited("messages", 5, 4, time.Second))
			all = append(all, rightNow(m, message(channel+1)))
			require.False(t, all[channel].done())
		}
		h.quietly(func(h *hub) {
			h.mean = false
			for credential := range h.globals { // changed is called once for each
				h.share(credential, func(*hubGlobal) bool { return false })
			}
		})
		synctest.Wait()
		require.Equal(t, 2, granted(t, all))
		tooLong(t, all[2])
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

// For the race detector: the changed function of a new credential is called while Throttle holds the manager.
func TestChangedOfANewCredentialDuringAThrottle(t *testing.T) {
	t.Parallel()
	for range 20 {
		bubble(t, func(t *testing.T) {
			m := started(t, buckets.WithShared(eagerHub{newHub(t)}), buckets.WithGlobalLimit(50))
			m.Throttle(time.Second)
			ask(m, message(1)).cancel()
			wait(0)
		})
	}
}
