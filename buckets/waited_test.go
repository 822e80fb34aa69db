package buckets_test

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/internal/discordsim"
	"github.com/ratelight/ratelight/internal/lateclock"
	"github.com/ratelight/ratelight/ratelimits"
)

// ends records the calls of the Waited hook.
type ends struct {
	mu   sync.Mutex
	list []buckets.Waited
}

func (e *ends) hooks() buckets.Hooks {
	return buckets.Hooks{Waited: func(_ context.Context, w buckets.Waited) {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.list = append(e.list, w)
	}}
}

// all waits until all goroutines of the bubble are blocked and returns the calls so far.
func (e *ends) all() []buckets.Waited {
	synctest.Wait()
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.list)
}

func TestTheEndOfEachWaitIsTold(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var told ends
		m := started(t, buckets.WithHooks(told.hooks()))
		const route = "POST /channels/{channel_id}/messages"
		discover(t, m, message(1), limited("messages", 1, 0, 10*time.Second))
		assert.Empty(t, told.all(), "the request did not wait")

		granted, cancelled := ask(m, message(1)), ask(m, message(1))
		wait(4 * time.Second)
		cancelled.cancel()
		require.Len(t, told.all(), 1)
		assert.Equal(t, buckets.Waited{
			Route: route, Major: "1", For: buckets.WaitsForWindow, Wait: 4 * time.Second, Err: context.Canceled,
		}, told.all()[0])
		wait(7 * time.Second)
		require.True(t, granted.granted())
		require.Len(t, told.all(), 2)
		assert.Equal(t, buckets.Waited{
			Route: route, Major: "1", For: buckets.WaitsForWindow, Wait: 10*time.Second + time.Millisecond,
		}, told.all()[1])

		// A 429 makes the wait of another request too long.
		late := call(buckets.ContextWithMaxWait(background, 20*time.Second), m, *request(message(1)))
		granted.update(refused(ratelimits.ClassUser, time.Minute))
		var tooLong *ratelimits.TooLongError
		require.ErrorAs(t, late.failed(), &tooLong)
		require.Len(t, told.all(), 3)
		assert.Equal(t, tooLong, told.all()[2].Err)

		// A request that is rejected at once has not waited.
		_, err := m.TryAcquire(message(1), bot)
		require.Error(t, err)
		assert.Len(t, told.all(), 3)
		assert.Equal(t, uint64(1), m.Stats().Waited, "only requests that were granted after a wait count")
	})
}

// Requests wait for the outcome of the request that goes first, on a new route or after a hold. If they still wait
// after that outcome, the reason must be the window.
func TestWhoWaitsOnAfterAProbeWaitsForTheWindow(t *testing.T) {
	t.Parallel()
	for name, held := range map[string]bool{"first of its route": false, "first after a hold": true} {
		subtest(t, name, func(t *testing.T) {
			var told ends
			m := started(t, buckets.WithHooks(told.hooks()))
			if held {
				discover(t, m, message(1), usedUp("h", 5, time.Second))
				wait(2 * time.Second)
			}
			first, waiting := ask(m, message(1)), asks(m, message(1), 2)
			answer(t, first, limited("h", 2, 1, 10*time.Second))
			wait(time.Minute)
			require.Equal(t, 2, granted(t, waiting))
			assert.Equal(t, buckets.WaitsForProbe, told.all()[0].For, "the request left when the first one succeeded")
			assert.Equal(t, buckets.WaitsForWindow, told.all()[1].For)
		})
	}
}

// A request tries whether a hidden limit allows one more. For requests that wait for the outcome of this try, the
// reason must be the probe. If the try gets a 429, the reason must be the hidden limit.
func TestWhoWaitsForATrialOfAHiddenLimitWaitsForAProbe(t *testing.T) {
	t.Parallel()
	for _, refuses := range []bool{false, true} {
		bubble(t, func(t *testing.T) {
			var told ends
			m := started(t, buckets.WithHooks(told.hooks()))
			ok := limited("h", 50, 49, time.Hour)
			full := inBucket(refused(ratelimits.ClassShared, 10*time.Second), "h", 50, 48, time.Hour)
			for _, r := range []ratelimits.Response{ok, ok, full} {
				discover(t, m, message(1), r)
			}
			wait(11 * time.Second)
			discover(t, m, message(1), ok)
			discover(t, m, message(1), ok)
			trial := ask(m, message(1))
			require.True(t, trial.granted())
			waiting := ask(m, message(1))
			require.False(t, waiting.done())
			require.Len(t, m.Status(1).Buckets, 1)
			b := m.Status(1).Buckets[0]
			require.Zero(t, b.HoldAfter)
			assert.Equal(t, buckets.WaitsForProbe, b.WaitsFor)
			assert.Zero(t, b.WaitAfter, "the wait depends on an outcome")
			want := buckets.WaitsForProbe
			if refuses {
				trial.update(full)
				want = buckets.WaitsForShared
			} else {
				trial.update(ok)
				require.True(t, waiting.granted())
			}
			wait(time.Minute)
			require.True(t, waiting.granted())
			require.Len(t, told.all(), 1)
			assert.Equal(t, want, told.all()[0].For)
		})
	}
}

// Stats must count a granted request as Waited at once, even if the caller's goroutine runs later.
func TestWhoIsGrantedAfterAWaitHasWaitedFromThenOn(t *testing.T) {
	withManager(t, func(t *testing.T, m *buckets.RESTBucketManager) {
		discoverPunctual(t, m, message(1), limited("messages", 5, 0, time.Second))
		hang := make(chan struct{})
		for range 5 {
			buckets.AcquireFunc(background, m, request(message(1)), func(l buckets.Lease, err error) {
				<-hang
				l.Return()
			})
		}
		wait(2 * time.Second)
		s := m.Stats()
		assert.Equal(t, uint64(2+5), s.Granted)
		assert.Equal(t, uint64(5), s.Waited)
		assert.InDelta(t, 5, s.WaitTime.Seconds(), .1)
		close(hang)
	})
}

// A test's clock, or that of a machine that was suspended, may step back. No wait may be negative.
func TestNoWaitIsNegative(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var told ends
		clock := &steppingClock{Clock: clockwork.NewRealClock()}
		m := started(t, buckets.WithHooks(told.hooks()), buckets.WithClock(clock))
		discover(t, m, message(1), limited("messages", 1, 0, time.Second))
		c := ask(m, message(1))
		clock.step.Store(int64(-time.Minute))
		c.cancel()
		wait(0)
		require.ErrorIs(t, c.failed(), context.Canceled)
		require.Len(t, told.all(), 1)
		assert.Zero(t, told.all()[0].Wait)
		clock.step.Store(0)
	})
}

func TestTheEndOfAWaitIsToldBeforeItsCallerKnows(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var order []string
		m := started(t, buckets.WithHooks(buckets.Hooks{
			Waited: func(context.Context, buckets.Waited) { order = append(order, "hook") },
		}))
		discover(t, m, message(1), limited("messages", 1, 0, time.Second))
		for _, ctx := range []context.Context{background, t.Context()} {
			request := *request(message(1))
			buckets.AcquireFunc(ctx, m, &request, func(l buckets.Lease, err error) {
				order = append(order, "caller")
				assert.NoError(t, err)
				assert.Positive(t, request.Waited())
				l.Update(limited("messages", 1, 0, time.Second))
			})
		}
		wait(5 * time.Second)
		assert.Equal(t, []string{"hook", "caller", "hook", "caller"}, order)
	})
}

func TestAPanicAtTheEndOfAWaitGivesTheLeaseBack(t *testing.T) {
	withManager(t, func(t *testing.T, m *buckets.RESTBucketManager) {
		discover(t, m, message(1), limited("messages", 1, 0, time.Second))
		m.AddHooks(buckets.Hooks{Waited: func(context.Context, buckets.Waited) { panic("boom") }})
		assert.PanicsWithValue(t, "boom", func() { _, _ = m.Acquire(background, message(1), bot) })
		assert.True(t, ask(m, message(1)).granted(), "the lease has been given back")
	})
}

func TestARequestKnowsHowLongItHasWaited(t *testing.T) {
	withManager(t, func(t *testing.T, m *buckets.RESTBucketManager) {
		r := *request(message(1))
		acquire := func(answer ratelimits.Response) {
			lease, err := m.AcquireRequest(background, &r)
			require.NoError(t, err)
			lease.Update(answer)
		}
		acquire(limited("messages", 1, 0, 5*time.Second))
		assert.Zero(t, r.Waited())
		acquire(limited("messages", 1, 0, 5*time.Second))
		assert.Equal(t, 5*time.Second+time.Millisecond, r.Waited())
		wait(6 * time.Second)
		acquire(limited("messages", 1, 0, 5*time.Second))
		assert.Zero(t, r.Waited(), "the request was granted at once")
		_, err := m.AcquireRequest(buckets.ContextWithMaxWait(background, time.Second), &r)
		require.Error(t, err)
		assert.Zero(t, r.Waited(), "the request was rejected at once")
		acquire(limited("messages", 1, 0, 5*time.Second))
		assert.Positive(t, r.Waited())
		ended, end := context.WithCancel(background)
		end()
		_, err = m.AcquireRequest(ended, &r)
		require.ErrorIs(t, err, context.Canceled)
		assert.Zero(t, r.Waited(), "the context had ended before")
	})
}

// reasons returns how many waits ended with each reason.
func (e *ends) reasons() map[buckets.WaitsFor]int {
	count := map[buckets.WaitsFor]int{}
	for _, w := range e.all() {
		count[w.For]++
	}
	return count
}

// Requests on a new route wait for the probe and then for the window. The reason must never be the global limit,
// although the burst is larger than that limit.
func TestBurstOnANewRouteWaitsForItsWindowAndNotForTheGlobalLimit(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var told ends
		hooks, announced := told.hooks(), 0
		hooks.Waiting = func(_ context.Context, w buckets.Waiting) {
			announced++
			assert.False(t, w.Global, "%+v", w)
		}
		w := newWorld(t, one(discordsim.Rule{Quota: discordsim.Fixed(5, 5*time.Second)}),
			buckets.WithHooks(hooks), buckets.WithGlobalLimit(50))
		w.post(1, 100)
		for r := range w.manager.WaitingRequests() {
			assert.Equal(t, buckets.WaitsForProbe, r.WaitsFor, "%+v", r)
			assert.Zero(t, r.WaitAfter)
		}
		w.finish()
		assert.Equal(t, 99, announced)
		assert.Equal(t, map[buckets.WaitsFor]int{buckets.WaitsForProbe: 4, buckets.WaitsForWindow: 95}, told.reasons())
	})
}

func TestBurstIntoAWideWindowWaitsForTheGlobalLimitUntilTheWindowIsFull(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var told ends
		w := newWorld(t, one(discordsim.Rule{Quota: discordsim.Fixed(100, 10*time.Second)}),
			buckets.WithHooks(told.hooks()), buckets.WithGlobalLimit(50))
		w.post(1, 1)
		wait(20 * time.Second)
		w.post(1, 150)
		w.finish()
		want := map[buckets.WaitsFor]int{buckets.WaitsForGlobal: 50, buckets.WaitsForWindow: 50}
		assert.Equal(t, want, told.reasons())
	})
}

// The reason of a wait may change. For a granted request, it must be the limit that opened last. For a cancelled
// request, it must be a limit that has not opened.
func TestTheReasonOfAWaitIsTheLimitThatOpenedLast(t *testing.T) {
	t.Parallel()
	window := limited("messages", 1, 0, 5*time.Second)
	held := func(class ratelimits.Class, d time.Duration) func(*testing.T, *buckets.RESTBucketManager) {
		return func(t *testing.T, m *buckets.RESTBucketManager) { discover(t, m, list(2), refused(class, d)) }
	}
	global, shortGlobal := held(ratelimits.ClassGlobal, 20*time.Second), held(ratelimits.ClassGlobal, 2*time.Second)
	throttle := func(_ *testing.T, m *buckets.RESTBucketManager) { m.Throttle(20 * time.Second) }
	for name, c := range map[string]struct {
		then   func(*testing.T, *buckets.RESTBucketManager) // called a second after the request's arrival
		cancel time.Duration                                // 0 for never
		want   buckets.WaitsFor
	}{
		"nothing else":                   {want: buckets.WaitsForWindow},
		"a longer hold of everything":    {then: global, want: buckets.WaitsForGlobal},
		"a shorter hold of everything":   {then: shortGlobal, want: buckets.WaitsForWindow},
		"a longer hold of the edge":      {then: held(ratelimits.ClassEdge, 20*time.Second), want: buckets.WaitsForEdge},
		"a throttle":                     {then: throttle, want: buckets.WaitsForGlobal},
		"gives up before the window":     {then: global, cancel: 2 * time.Second, want: buckets.WaitsForWindow},
		"gives up after the window":      {then: global, cancel: 10 * time.Second, want: buckets.WaitsForGlobal},
		"gives up, and nothing happened": {cancel: 2 * time.Second, want: buckets.WaitsForWindow},
	} {
		subtest(t, name, func(t *testing.T) {
			var told ends
			m := started(t, buckets.WithHooks(told.hooks()))
			discover(t, m, list(2), plain(http.StatusOK))
			discover(t, m, message(1), window)
			waiting := ask(m, message(1))
			wait(time.Second)
			if c.then != nil {
				c.then(t, m)
			}
			if c.cancel > 0 {
				wait(c.cancel)
				waiting.cancel()
			}
			wait(time.Minute)
			require.True(t, waiting.done())
			require.Len(t, told.all(), 1)
			assert.Equal(t, c.want, told.all()[0].For)
		})
	}
}

// One request waits only for the global limit; another request of the same bucket waits for the window. A late timer
// finds both limits open. The reason of the first wait must be the global limit.
func TestTheReasonOfAWaitIsNotAWindowThatOthersWaitFor(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var told ends
		m := started(t, buckets.WithHooks(told.hooks()), buckets.WithClock(lateclock.New(1, time.Second)))
		discover(t, m, message(1), limited("messages", 2, 1, time.Second))
		wait(3 * time.Second)
		in := func(group string) *caller {
			return call(background, m, buckets.Request{Route: message(1), Authorization: bot, Group: group})
		}
		inFlight := in("")
		require.True(t, inFlight.granted())
		m.Throttle(10*time.Second + 2*time.Millisecond)
		first := in("one")
		inFlight.update(limited("messages", 2, 0, 10*time.Second-time.Millisecond))
		second := in("two")
		require.True(t, !first.done() && !second.done())
		wait(20 * time.Second)
		require.True(t, first.granted())
		assert.Equal(t, buckets.WaitsForGlobal, told.all()[0].For)
	})
}
