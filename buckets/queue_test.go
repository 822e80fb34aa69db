package buckets_test

import (
	"context"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/ratelimits"
)

// Acquire makes a new Request for each call. So after a 429, the next call of Acquire must wait at the end of the
// queue.
func TestAcquireKeepsNoPlace(t *testing.T) {
	withManager(t, func(t *testing.T, m *buckets.RESTBucketManager) {
		discover(t, m, message(1), limited("messages", 1, 0, time.Second))
		first, second := ask(m, message(1)), ask(m, message(1))
		wait(1100 * time.Millisecond)
		answer(t, first, usedUp("messages", 1, time.Second))
		third := ask(m, message(1))
		wait(3 * time.Second)
		assert.True(t, second.granted())
		assert.False(t, third.granted())
	})
}

func TestOrderedModeSendsOneAtATime(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		options []buckets.Option
		ctx     context.Context
		at      int // how many leave at once
	}{
		"by option":  {[]buckets.Option{buckets.WithOrdered()}, background, 1},
		"by context": {nil, buckets.ContextWithOrdered(background), 1},
		"by context with a wait of its own": {
			nil, buckets.ContextWithMaxWait(buckets.ContextWithOrdered(background), time.Minute), 1,
		},
		"not at all": {nil, background, 5},
	} {
		subtest(t, name, func(t *testing.T) {
			m := started(t, c.options...)
			discover(t, m, message(1), roomy)
			var all []*caller
			for range 5 {
				all = append(all, call(c.ctx, m, *request(message(1))))
			}
			for i := range all {
				assert.Equal(t, min(i+c.at, 5), granted(t, all))
				all[i].update(roomy)
			}
		})
	}
}

func TestOrderedRequestsPassOneThatIsNot(t *testing.T) {
	withManager(t, func(t *testing.T, m *buckets.RESTBucketManager) {
		discover(t, m, message(1), roomy)
		ordered := buckets.ContextWithOrdered(background)
		request := *request(message(1))
		free := ask(m, message(1))
		first, second := call(ordered, m, request), call(ordered, m, request)
		assert.True(t, free.granted() && first.granted(), "ordered requests wait only for each other")
		assert.False(t, second.granted())
		first.lease.Release() // any end of the lease counts
		synctest.Wait()
		assert.True(t, second.granted())
		assert.True(t, ask(m, message(2)).granted(), "each bucket has its own order")
	})
}

func TestBoundedQueues(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := started(t, buckets.WithMaxWaiting(2))
		probe, other := ask(m, message(1)), ask(m, list(1))
		waiting := asks(m, message(1), 2)
		for _, full := range []*caller{ask(m, message(1)), ask(m, list(1))} { // in no bucket may another request wait
			var queueFull *ratelimits.QueueFullError
			require.ErrorAs(t, full.failed(), &queueFull)
			assert.Equal(t, 2, queueFull.Waiting)
			assert.Equal(t, 2, queueFull.Max)
		}

		waiting[0].cancel()
		synctest.Wait()
		again := ask(m, message(1))
		assert.False(t, again.done(), "the queue has room again")

		// A request that got a 429 comes back to its place, even if the queue is full.
		probe.update(usedUp("messages", 100, time.Second))
		probe.again(m)
		assert.False(t, probe.done())
		assert.Equal(t, 3, m.Stats().Waiting)

		other.update(roomy)
		drive(t, []*caller{probe, waiting[1], again})
		drained(t, m)
		assert.Equal(t, 2, int(m.Stats().QueueFull))
	})
}

// While other credentials are served, a credential must not use more places in the queues than it leaves free. All
// unproven credentials count as one.
func TestNoCredentialTakesAllPlacesToWait(t *testing.T) {
	t.Parallel()
	for _, others := range []bool{false, true} {
		subtest(t, strconv.FormatBool(others), func(t *testing.T) {
			m := started(t, buckets.WithMaxWaiting(100), buckets.WithInvalidBudget(0, 0, 0))
			if others {
				as(m, bot, message(1)).update(roomy)
			}
			for i := range 300 {
				r := buckets.Request{Route: message(2), Authorization: "Bot " + strconv.Itoa(i%3), Unproven: i%3 < 2}
				call(background, m, r)
			}
			want := 100
			if others {
				want = 70 // 40 requests of the two unproven credentials, and 30 of the third
			}
			assert.Equal(t, want, m.Stats().Waiting)
			ask(m, message(3))
			own := ask(m, message(3)) // has to wait for the previous request
			assert.Equal(t, others, own.failed() == nil)
		})
	}
}

// When a Request is used again after a final outcome, it counts as new and must wait behind earlier requests. After any
// other outcome, it must keep its place.
func TestRequestThatIsUsedAgainAfterItsEndStandsAtTheEnd(t *testing.T) {
	t.Parallel()
	used := limited("messages", 1, 0, time.Second)
	notFound := used
	notFound.Status = 404
	for _, c := range []struct {
		name  string
		end   func(buckets.Lease)
		keeps bool // whether the request keeps its place
	}{
		{"success", update(used), false},
		{"not found", update(notFound), false},
		{"refused", update(usedUp("messages", 1, time.Second)), true},
		{"server error", update(plain(500)), true},
		{"lost", buckets.Lease.Release, true},
		{"not sent", buckets.Lease.Return, true},
	} {
		subtest(t, c.name, func(t *testing.T) {
			m := started(t)
			discover(t, m, message(1), used)
			wait(1100 * time.Millisecond)
			again := ask(m, message(1))
			require.True(t, again.granted())
			others := asks(m, message(1), 2)
			c.end(again.lease)
			wait(0)
			again.again(m)
			for !again.granted() || !others[1].granted() {
				wait(200 * time.Millisecond)
				for _, c := range append(others, again) {
					if c.granted() && !c.ended {
						c.ended = true
						c.update(used)
					}
				}
			}
			assert.Equal(t, c.keeps, again.at.Before(others[1].at))
		})
	}
}

// A Request is used again after its wait was cancelled. The Request must wait behind earlier requests, and Fields must
// be called again.
func TestRequestThatIsUsedAgainAfterAnErrorStandsAtTheEnd(t *testing.T) {
	withManager(t, func(t *testing.T, m *buckets.RESTBucketManager) {
		discover(t, m, message(1), limited("messages", 1, 0, 10*time.Second))
		waiting := call(background, m,
			buckets.Request{Route: message(1), Authorization: bot, Fields: func() []string { return []string{"name"} }})
		waiting.cancel()
		wait(0)
		require.ErrorIs(t, waiting.failed(), context.Canceled)
		other := ask(m, message(1))
		asked := 0
		waiting.request.Fields = func() []string { asked++; return nil }
		waiting.context = background
		waiting.again(m)
		assert.Equal(t, 1, asked)
		wait(11 * time.Second)
		assert.True(t, other.granted())
		assert.False(t, waiting.granted())
		other.update(limited("messages", 1, 0, time.Second))
		wait(2 * time.Second)
		assert.True(t, waiting.granted())
	})
}

// A slot of the global limit is returned while requests wait for it. A new request must not take the slot, even before
// the goroutines of the waiting requests run.
func TestNewcomerDoesNotTakeWhatOthersAreInLineFor(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := started(t, buckets.WithGlobalLimit(1))
		for channel := 1; channel <= 3; channel++ {
			discover(t, m, message(channel), roomy)
			wait(time.Second)
		}
		first, second := ask(m, message(1)), ask(m, message(2))
		require.True(t, first.granted() && !second.done())
		first.lease.Return()
		_, err := m.TryAcquire(message(3), bot) // before another goroutine runs
		require.ErrorAs(t, err, new(*ratelimits.TooLongError))
		wait(0)
		require.True(t, second.granted())
		third := ask(m, message(3))
		second.lease.Release() // the server may count this request later, so it keeps its slot
		wait(ratelimits.GlobalPatience - time.Millisecond)
		require.False(t, third.done())
		wait(time.Millisecond)
		assert.True(t, third.granted())
	})
}

// Buckets open one after the other. When a request is cancelled, the manager must still wake up in time for the other
// buckets.
func TestACancelledRequestDelaysNoOtherBucket(t *testing.T) {
	withManager(t, func(t *testing.T, m *buckets.RESTBucketManager) {
		var all []*caller
		opens := []time.Duration{10, 100, 20, 110, 120, 30, 25} // a heap: when 110 is removed, the last one replaces it
		for i, after := range opens {
			discover(t, m, message(i), limited("messages", 1, 0, after*time.Second))
			all = append(all, ask(m, message(i)))
		}
		all[3].cancel()
		start := time.Now()
		wait(2*time.Minute + roundings)
		for i, c := range all {
			if i != 3 {
				assert.InDelta(t, opens[i]*time.Second, c.at.Sub(start), float64(roundings))
			}
		}
	})
}

// A request fails and is granted again at once, because there is room. If it then gets a 429, it must still have its
// old place in the queue.
func TestRequestKeepsItsPlaceThroughAGrantWithoutAWait(t *testing.T) {
	withManager(t, func(t *testing.T, m *buckets.RESTBucketManager) {
		discover(t, m, message(1), limited("messages", 5, 4, 10*time.Second))
		older, younger := ask(m, message(1)), ask(m, message(1))
		require.True(t, older.granted() && younger.granted())
		older.update(plain(502))
		older.again(m)
		require.True(t, older.granted())
		usedUp := usedUp("messages", 5, 10*time.Second)
		younger.update(usedUp)
		older.update(usedUp)
		younger.again(m)
		older.again(m)
		wait(10*time.Second + 10*time.Millisecond)
		assert.True(t, older.granted())
		assert.False(t, younger.done(), "the younger request goes after the older one")
	})
}

// interrupted is a context that calls a function in the middle of Acquire, when Acquire asks for a value.
type interrupted struct {
	context.Context
	meanwhile func()
}

func (c interrupted) Value(key any) any {
	c.meanwhile()
	return c.Context.Value(key)
}

// The edge refuses a request while another request is being acquired. That other request must not be granted.
func TestTheEdgeMayCloseWhileARequestIsAsked(t *testing.T) {
	withManager(t, func(t *testing.T, m *buckets.RESTBucketManager) {
		discover(t, m, message(1), limited("h", 5, 4, time.Minute))
		first, err := m.TryAcquire(message(1), bot)
		require.NoError(t, err)
		var once sync.Once
		ctx := interrupted{buckets.ContextWithMaxWait(background, 0), func() {
			once.Do(func() { first.Update(refused(ratelimits.ClassEdge, 10*time.Second)) })
		}}
		_, err = m.Acquire(ctx, message(1), bot)
		var tooLong *ratelimits.TooLongError
		require.ErrorAs(t, err, &tooLong)
		require.Equal(t, ratelimits.ClassEdge, tooLong.Class)
	})
}

func TestTryAcquireNeverWaits(t *testing.T) {
	withManager(t, func(t *testing.T, m *buckets.RESTBucketManager) {
		probe, err := m.TryAcquire(message(1), bot)
		require.NoError(t, err, "the first request discovers the bucket")
		_, err = m.TryAcquire(message(1), bot)
		var tooLong *ratelimits.TooLongError
		require.ErrorAs(t, err, &tooLong)
		assert.Zero(t, tooLong.Wait, "the wait is not known")
		probe.Update(limited("h", 3, 2, time.Minute))
		start := time.Now()
		for range 2 {
			lease, err := m.TryAcquire(message(1), bot)
			require.NoError(t, err)
			lease.Release()
		}
		_, err = m.TryAcquire(message(1), bot)
		require.ErrorAs(t, err, &tooLong)
		assert.InDelta(t, time.Minute, tooLong.Wait, float64(10*time.Millisecond))
		assert.Zero(t, time.Since(start))
		assert.Equal(t, uint64(2), m.Stats().TooLong)
	})
}
