package buckets_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/buckets/shared"
)

// unlimitedChannels makes the first n channels known to a manager as buckets without a limit. So their requests need an
// answer of the engine only for the global limit.
func unlimitedChannels(m *buckets.RESTBucketManager, n int) {
	for channel := range n {
		m.UpdateRateLimits(message(channel+1), bot, plain(200))
	}
}

// besideABusyOne returns a manager that has no part of a global limit of 50. Another manager uses the whole limit, for
// about one more minute.
func besideABusyOne(t *testing.T, options ...shared.Option) (s *store, m *buckets.RESTBucketManager) {
	t.Helper()
	s = newStore(t, options...)
	busy, m := pair(t, s, buckets.WithGlobalLimit(50))
	unlimitedChannels(busy, 1)
	unlimitedChannels(m, 1)
	for range 4000 {
		buckets.AcquireFunc(background, busy, request(message(1)), func(lease buckets.Lease, err error) {
			if err == nil {
				lease.Update(plain(200))
			}
		})
	}
	wait(10 * time.Second)
	return s, m
}

// A manager waits for its first part of the global limit. The manager's requests must not be rejected as if that part
// were the smallest possible one.
func TestBurstBeforeThePartIsKnown(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := patientStore(t)
		m := started(t, buckets.WithShared(s), buckets.WithGlobalLimit(50), buckets.WithMaxRateLimit(10*time.Second))
		unlimitedChannels(m, 100)
		s.freeze(true)
		for channel := range 100 {
			ask(m, message(channel+1))
		}
		wait(100 * time.Millisecond)
		assert.Equal(t, 100, m.Stats().Waiting)
	})
}

func TestWaitForAPartIsPredicted(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		_, m := besideABusyOne(t)
		for range 2 {
			short, long := patient(m, time.Second), patient(m, 3*time.Second)
			exchanged()
			require.False(t, long.done())
			for _, c := range []*caller{short, patient(m, time.Second)} {
				assert.InDelta(t, 1.25, tooLong(t, c).Wait.Seconds(), 0.1)
			}
			wait(1350 * time.Millisecond)
			answer(t, long, plain(200))
			wait(20 * time.Second) // the part is returned
		}
	})
}

// A request is rejected because its process would get a part of the global limit too late. Nevertheless, the request
// must ask for a part, which later requests can use.
func TestRequestThatIsRejectedHasAskedForAPart(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		_, m := besideABusyOne(t)
		short := patient(m, time.Second)
		exchanged()
		tooLong(t, short)
		wait(1350 * time.Millisecond)
		assert.True(t, patient(m, time.Second).granted())
	})
}

func TestTryAcquireWaitsForTheFirstPart(t *testing.T) {
	t.Parallel()
	for name, n := range map[string]int{"known route": 1, "route to discover": 0} {
		subtest(t, name, func(t *testing.T) {
			s := patientStore(t)
			m := started(t, buckets.WithShared(s), buckets.WithGlobalLimit(50))
			unlimitedChannels(m, n)
			s.freeze(true)
			c := rightNow(m, message(1))
			require.False(t, c.done(), "the engine has not answered yet")
			require.Zero(t, m.Status(1).Globals[0].Part)
			s.freeze(false)
			require.True(t, c.granted())
		})
	}
}

func TestTryAcquireFailsIfNoPartIsFree(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		_, m := besideABusyOne(t)
		tooLong(t, rightNow(m, message(1)))
		tooLong(t, rightNow(m, message(1))) // now it is known that there is no part
	})
}

// When the first part of the global limit is too small for all requests, those that must not wait are rejected at once.
func TestTryAcquireFailsWhenTheFirstPartIsTooSmall(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := patientStore(t)
		m := started(t, buckets.WithShared(s), buckets.WithGlobalLimit(2))
		unlimitedChannels(m, 3)
		s.freeze(true)
		var all []*caller
		for channel := range 3 {
			all = append(all, rightNow(m, message(channel+1)))
			require.False(t, all[channel].done())
		}
		s.freeze(false)
		require.Equal(t, 2, granted(t, all))
		tooLong(t, all[2])
	})
}

// An outage must not take away the manager's part of the global limit before the part ends. After that, all requests
// must fail.
func TestOutageOfTheGlobalLimitReachesAll(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newStore(t, shared.WithOutage(shared.OutageFail))
		m := started(t, buckets.WithShared(s), buckets.WithGlobalLimit(2))
		unlimitedChannels(m, 1)
		first := asks(m, message(1), 2)
		exchanged()
		require.Equal(t, 2, granted(t, first))
		updateAll(first, plain(200))
		s.outage(true)
		all := asks(m, message(1), 4)
		require.Equal(t, 2, granted(t, all))
		wait(2 * time.Second)
		for _, c := range append(all[2:], ask(m, message(1))) {
			require.ErrorIs(t, c.failed(), shared.ErrOutage, "the part has ended")
		}
		s.outage(false)
		require.True(t, ask(m, message(1)).granted())
	})
}

func TestOutageReachesARequestWithoutAPart(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s, m := besideABusyOne(t, shared.WithOutage(shared.OutageFail))
		waits := patient(m, time.Hour)
		exchanged()
		s.SetDown(true)
		wait(4 * time.Second) // the next calls fail
		require.ErrorIs(t, waits.failed(), shared.ErrOutage)
	})
}

// A request that waits for its bucket is rejected when a global hold of another manager makes its wait too long.
func TestHoldOfAnotherManagerRejectsRequests(t *testing.T) {
	t.Parallel()
	for _, limit := range []int{0, 50} {
		subtest(t, strconv.Itoa(limit), func(t *testing.T) {
			a, b := pair(t, newStore(t), buckets.WithGlobalLimit(limit), buckets.WithMaxRateLimit(time.Minute))
			discoverShared(t, b, list(1), roomy) // b uses the global limit
			discoverShared(t, a, message(1), limited("messages", 1, 0, 30*time.Second))
			waiting := ask(b, message(1))
			wait(time.Second)
			require.False(t, waiting.done())
			a.Throttle(time.Hour)
			exchanged()
			tooLong(t, waiting)
		})
	}
}

// For the race detector: the changed function of a new credential is called while a hold of Throttle is in force.
func TestChangedOfANewCredentialDuringAThrottle(t *testing.T) {
	t.Parallel()
	for range 20 {
		bubble(t, func(t *testing.T) {
			m := started(t, buckets.WithShared(&noisy{store: newStore(t)}), buckets.WithGlobalLimit(50))
			m.Throttle(time.Second)
			ask(m, message(1)).cancel()
			wait(0)
		})
	}
}
