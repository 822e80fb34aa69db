package buckets_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/internal/discordsim"
	"github.com/ratelight/ratelight/internal/lateclock"
	"github.com/ratelight/ratelight/ratelimits"
)

// reasons counts what waits were for.
func (e *ends) reasons() map[buckets.WaitsFor]int {
	count := map[buckets.WaitsFor]int{}
	for _, w := range e.all() {
		count[w.For]++
	}
	return count
}

// Requests behind the probe of a new route wait for the probe, and then for the window, however many requests the
// global limit would let through in a second.
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
		assert.Equal(t, map[buckets.WaitsFor]int{buckets.WaitsForGlobal: 50, buckets.WaitsForWindow: 50}, told.reasons())
	})
}

// What a request waits for may change: the reason is what opened last, or of a request that gives up what has not
// opened.
func TestTheReasonOfAWaitIsTheLimitThatOpenedLast(t *testing.T) {
	t.Parallel()
	window := limited("messages", 1, 0, 5*time.Second)
	held := func(class ratelimits.Class, d time.Duration) func(*testing.T, *buckets.RESTBucketManager) {
		return func(t *testing.T, m *buckets.RESTBucketManager) { discover(t, m, list(2), refused(class, d)) }
	}
	global, shortGlobal := held(ratelimits.ClassGlobal, 20*time.Second), held(ratelimits.ClassGlobal, 2*time.Second)
	throttle := func(_ *testing.T, m *buckets.RESTBucketManager) { m.Throttle(20 * time.Second) }
	for name, c := range map[string]struct {
		then   func(*testing.T, *buckets.RESTBucketManager) // a second after the request has come
		cancel time.Duration                                // 0: never
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

// Where a late timer finds the window and the global limit open at once, who stood before the global limit waited for
// that.
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
