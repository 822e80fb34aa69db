package buckets_test

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/ratelimits"
	"github.com/ratelight/ratelight/routes"
)

// Many requests of one tenant, in some cases with priority, are cancelled. Each must give back its turn, so that the
// tenant's next request leaves as early as without the cancelled ones.
func TestCancelledRequestsGiveTheirTurnsBack(t *testing.T) {
	t.Parallel()
	for name, place := range crowds {
		for _, priority := range []bool{false, true} {
			subtest(t, name+map[bool]string{true: ", priority"}[priority], func(t *testing.T) {
				m := started(t, append([]buckets.Option{buckets.WithMaxRateLimit(time.Hour)}, place.options...)...)
				discover(t, m, message(1), place.answer)
				wait(2 * time.Second)
				discover(t, m, message(1), place.answer)
				queueUp(m, place.route, "b", 500, place.answer, &sentLog{})
				ctx, request := background, buckets.Request{Route: place.route(1000), Authorization: bot, Group: "a"}
				if priority {
					ctx = buckets.ContextWithPriority(ctx)
				}
				for range 300 {
					c := call(ctx, m, request)
					c.cancel()
					wait(time.Microsecond)
					require.Error(t, c.failed())
				}
				c := call(ctx, m, request)
				wait(5 * time.Second)
				assert.Equal(t, priority || name != "declared limit", c.granted(),
					"at a declared limit, queues take turns, not tenants")
			})
		}
	}
}

// The garbage collector runs while requests wait. It must not remove the turns of these requests.
func TestTurnsOfThoseWhoWaitAreNotForgotten(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := started(t, buckets.WithGlobalLimit(1), buckets.WithMaxRateLimit(time.Hour))
		discover(t, m, message(1), plain(200))
		m.Throttle(time.Minute)
		var all []*caller
		for channel := range 10 {
			if channel == 9 {
				wait(2 * buckets.DefaultPollPeriod)
			}
			urgent := *request(message(1 + channel))
			all = append(all, call(buckets.ContextWithPriority(background), m, urgent))
		}
		wait(25 * time.Second)
		assert.Greater(t, granted(t, all), 1, "requests leave in order")
	})
}

// orderOf sends requests to one channel, one millisecond apart. The declared limit of a request's key applies to the
// request. orderOf returns the numbers of the requests in the order in which they left.
func orderOf(
	t *testing.T, keys []string, used func() (hash string, limit, remaining int, after time.Duration),
	options ...buckets.Option,
) (order []int) {
	t.Helper()
	key := func(r *buckets.Request) string {
		if r.Fields == nil {
			return ""
		}
		return strings.Join(r.Fields(), "")
	}
	m := started(t, append(options, buckets.WithMaxRateLimit(time.Hour),
		buckets.WithLimit(buckets.ForAll(), 100, time.Second, buckets.PerKey(key)))...)
	discover(t, m, message(1), limited(used()))
	wait(2 * time.Second)
	for i, key := range keys {
		r := &buckets.Request{Route: message(1), Authorization: bot, Fields: func() []string { return []string{key} }}
		buckets.AcquireFunc(background, m, r, func(lease buckets.Lease, err error) {
			order = append(order, i)
			lease.Update(limited(used()))
		})
		wait(time.Millisecond)
	}
	wait(time.Duration(2*len(keys)) * time.Second)
	drained(t, m)
	return order
}

func roomyMessages() (string, int, int, time.Duration)  { return "messages", 1000, 999, time.Minute }
func singleMessages() (string, int, int, time.Duration) { return "messages", 1, 0, time.Second }

// Requests of a bucket must leave in the order of their arrival, even if different declared limits apply to them, and
// even while they wait for the global limit.
func TestOrderOfABucketHoldsWhateverDeclaredLimitsApply(t *testing.T) {
	keys := []string{"a", "a", "a", "b", "a", "b"}
	inBubble(t, func(t *testing.T) {
		assert.Equal(t, []int{0, 1, 2, 3, 4, 5}, orderOf(t, keys, roomyMessages, buckets.WithGlobalLimit(1)))
		assert.Equal(t, []int{0, 1, 2, 3, 4, 5}, orderOf(t, keys, singleMessages))
	})
}

// A hundred different declared limits apply to the requests of a bucket. The requests must still leave in the order of
// their arrival.
func TestOrderOfABucketHoldsWithManyDeclaredLimits(t *testing.T) {
	t.Skip("known bug: line.earliest looks at mostLookedAt queues only; number 1 leaves after number 50")
	inBubble(t, func(t *testing.T) {
		keys, want := []string{"0"}, []int{0}
		for i := range 100 {
			keys, want = append(keys, strconv.Itoa(i)), append(want, i+1)
		}
		assert.Equal(t, want, orderOf(t, keys, singleMessages))
	})
}

// A tenant has requests in many buckets. The tenant's request in one more bucket must nevertheless leave when its turn
// comes.
func TestTenantThatWaitsInManyBucketsLeavesInItsTurn(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := started(t, buckets.WithMaxRateLimit(24*time.Hour))
		used := limited("messages", 1, 0, time.Second)
		discoverPunctual(t, m, message(1), used)
		var sent sentLog
		for i := range 100 {
			discover(t, m, message(100+i), limited("messages", 1, 0, time.Hour))
			queueUp(m, always(message(100+i)), "many", 1, used, &sentLog{})
		}
		queueUp(m, always(message(1)), "one", 1000, used, &sent)
		c := call(background, m, buckets.Request{Route: message(1), Authorization: bot, Group: "many"})
		wait(5 * time.Second) // before a bug was fixed, the request waited 99 s
		assert.True(t, c.granted())
	})
}

// A tenant has requests in many buckets. A new tenant must take turns with this tenant, whatever other requests wait.
func TestNewTenantTakesTurnsWithOneOfManyBuckets(t *testing.T) {
	t.Parallel()
	for name, elsewhere := range map[string]func(t *testing.T, m *buckets.RESTBucketManager){
		"nothing": func(*testing.T, *buckets.RESTBucketManager) {},
		"requests with another credential": func(t *testing.T, m *buckets.RESTBucketManager) {
			for range 300 {
				r := &buckets.Request{Route: list(1), Authorization: "Bot two"}
				buckets.AcquireFunc(background, m, r, func(l buckets.Lease, _ error) {
					l.Update(limited("lists", 10, 0, time.Second))
				})
			}
		},
		"requests with priority": func(_ *testing.T, m *buckets.RESTBucketManager) {
			for range 100 {
				r := request(message(1))
				buckets.AcquireFunc(buckets.ContextWithPriority(background), m, r, func(l buckets.Lease, _ error) {
					l.Update(plain(200))
				})
			}
			wait(80 * time.Second)
		},
		"one request that is exempt from the global limit": func(t *testing.T, m *buckets.RESTBucketManager) {
			used := limited("hook", 1, 0, time.Second)
			discover(t, m, followUp(1), used)
			queueUp(m, always(followUp(1)), "many", 1, used, &sentLog{})
		},
	} {
		subtest(t, name, func(t *testing.T) {
			global := func(authorization string) int { return map[string]int{bot: 1}[authorization] }
			m := started(t, buckets.WithMaxRateLimit(24*time.Hour), buckets.WithGlobalLimitOf(global))
			discover(t, m, message(1), plain(200))
			as(m, "Bot two", list(1)).update(limited("lists", 10, 0, time.Second))
			wait(5 * time.Second)
			queueUp(m, message, "many", 200, plain(200), &sentLog{})
			elsewhere(t, m)
			wait(30 * time.Second)
			c := call(background, m, buckets.Request{Route: message(5000), Authorization: bot, Group: "new"})
			wait(5 * time.Second) // before a bug was fixed, the request waited 70 s
			assert.True(t, c.granted())
		})
	}
}

// Another tenant sends requests with priority without end. A request must wait only for the requests with priority that
// arrive at most HeadStart after it.
func TestPriorityOfOtherTenantsCountsForHeadStartOnly(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := started(t, buckets.WithMaxRateLimit(24*time.Hour))
		used := limited("messages", 1, 0, time.Second)
		discoverPunctual(t, m, message(1), used)
		c := call(background, m, buckets.Request{Route: message(1), Authorization: bot, Group: "b"})
		start := time.Now()
		for time.Since(start) < 3*time.Minute && !c.done() {
			r := &buckets.Request{Route: message(1), Authorization: bot, Group: "a"}
			buckets.AcquireFunc(buckets.ContextWithPriority(background), m, r,
				func(l buckets.Lease, _ error) { l.Update(used) })
			wait(500 * time.Millisecond)
		}
		require.True(t, c.granted())
		assert.LessOrEqual(t, time.Since(start), 10*time.Second, "six requests with priority arrive within HeadStart")
	})
}

// At the global limit, a request with priority goes ahead by 150 turns, which take 3 s with the default limit.
func TestPriorityIsWorthTheTurnsOfThreeSeconds(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := started(t, buckets.WithMaxRateLimit(24*time.Hour), buckets.WithGlobalLimit(1))
		discover(t, m, message(1), plain(200))
		wait(5 * time.Second)
		discover(t, m, message(1), plain(200))
		c := call(background, m, buckets.Request{Route: message(2), Authorization: bot, Group: "patient"})
		ahead := 0
		for range 400 {
			r := &buckets.Request{Route: message(1), Authorization: bot, Group: "urgent"}
			buckets.AcquireFunc(buckets.ContextWithPriority(background), m, r, func(l buckets.Lease, _ error) {
				if !c.done() {
					ahead++
				}
				l.Update(plain(200))
			})
		}
		wait(500 * time.Second)
		require.True(t, c.granted())
		assert.InDelta(t, 3*buckets.DefaultGlobalLimit, ahead, 2)
	})
}

// crowds lists places where many requests can wait and one leaves each second. If tenants is true, each request has a
// tenant of its own.
var crowds = map[string]struct {
	options []buckets.Option
	answer  ratelimits.Response
	route   func(i int) routes.CompiledRoute
	tenants bool
}{
	"bucket": {nil, limited("messages", 1, 0, time.Second), always(message(1)), true},
	"line for the global limit": {
		[]buckets.Option{buckets.WithGlobalLimit(1)}, plain(200), message, true,
	},
	"line for the global limit, no tenants": {
		[]buckets.Option{buckets.WithGlobalLimit(1)}, plain(200), message, false,
	},
	"declared limit": {
		[]buckets.Option{buckets.WithLimit(buckets.ForAll(), 1, time.Second)}, plain(200), message, true,
	},
}

// A request with priority must leave before all requests that arrived shortly before it, whatever their tenants and
// buckets are.
func TestPriorityAmongTenants(t *testing.T) {
	t.Parallel()
	for name, crowd := range crowds {
		for where, number := range map[string]int{"alone in its queue": 99, "where another request waits": 29} {
			subtest(t, name+", "+where, func(t *testing.T) {
				m := started(t, append([]buckets.Option{buckets.WithMaxRateLimit(time.Hour)}, crowd.options...)...)
				discover(t, m, message(1), crowd.answer)
				request := func(i int) *buckets.Request {
					r := request(crowd.route(i + 1))
					if crowd.tenants {
						r.Group = strconv.Itoa(i)
					}
					return r
				}
				for i := range 60 {
					r := request(i)
					queueUp(m, always(r.Route), r.Group, 1, crowd.answer, &sentLog{})
				}
				wait(buckets.HeadStart / 2)
				start, waited := time.Now(), time.Duration(0)
				ctx := buckets.ContextWithPriority(background)
				buckets.AcquireFunc(ctx, m, request(number), func(lease buckets.Lease, err error) {
					if err == nil {
						waited = time.Since(start)
						lease.Update(crowd.answer)
					}
				})
				wait(2 * time.Minute)
				assert.NotZero(t, waited)
				assert.LessOrEqual(t, waited, 2*time.Second, "the request is the next one")
			})
		}
	}
}

func urgent(m *buckets.RESTBucketManager) *caller {
	return call(buckets.ContextWithPriority(background), m, *request(message(1)))
}

// full returns a manager with a used-up bucket of one request a minute.
func full(t *testing.T, options ...buckets.Option) *buckets.RESTBucketManager {
	m := started(t, append([]buckets.Option{buckets.WithMaxRateLimit(time.Hour)}, options...)...)
	discover(t, m, message(1), limited("messages", 1, 0, time.Minute))
	return m
}

// next lets a minute pass, requires that the given request was sent, and answers it.
func next(t *testing.T, want *caller) {
	t.Helper()
	wait(time.Minute + 2*time.Millisecond)
	require.True(t, want.granted(), "this request is the next one")
	want.update(limited("messages", 1, 0, time.Minute))
}

func TestPriorityGoesAheadOfWhatCameShortlyBefore(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := full(t)
		wait(10 * time.Second) // more than HeadStart after the first request
		background := asks(m, message(1), 2)
		wait(3*time.Second - time.Millisecond)
		first, second := urgent(m), urgent(m)
		last := ask(m, message(1))
		next(t, first)
		next(t, second)
		next(t, background[0])
		next(t, background[1])
		next(t, last)
	})
}

func TestPriorityDoesNotOvertakeWhatHasWaitedLong(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := full(t)
		background := ask(m, message(1))
		wait(3*time.Second + time.Millisecond)
		first := urgent(m)
		next(t, background)
		next(t, first)
	})
}

func TestPriorityCountsForThePredictedWait(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := full(t, buckets.WithMaxRateLimit(90*time.Second))
		wait(10 * time.Second)
		ask(m, message(1))
		tooLong(t, ask(m, message(1)))
		first := urgent(m)
		assert.NoError(t, first.failed(), "the request goes first, after 50 s")
		next(t, first)
	})
}

// Processes share a bucket, and the store has granted a permit to a waiting request. A request with priority overtakes
// this request and uses the permit. Then the overtaken request must get the place that the request with priority had.
func TestPriorityChangesPlacesWithTheOneItOvertakes(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		a, b := sharers(t, 1)
		a.Throttle(2 * time.Second)
		overtaken, first := ask(a, message(1)), urgent(a) // the store has granted a permit; the throttle holds both
		wait(2 * time.Second)
		exchanged()
		require.True(t, first.granted() && !overtaken.done())
		overtaken.cancel()
		theirs := askShared(b, message(1))
		require.False(t, theirs.done(), "the only permit is in flight")
		first.update(limited("messages", 1, 0, time.Second))
		wait(1100 * time.Millisecond)
		require.True(t, theirs.granted())
	})
}

// A request with priority was granted at once and then gets a 429. When it comes back, its priority must still count.
func TestPriorityCountsWhenARequestComesBack(t *testing.T) {
	withManager(t, func(t *testing.T, m *buckets.RESTBucketManager) {
		discover(t, m, message(1), limited("messages", 3, 2, time.Minute))
		wait(10 * time.Second)
		background := ask(m, message(1))
		wait(time.Second)
		first := urgent(m)
		require.True(t, background.granted() && first.granted())
		for _, c := range []*caller{background, first} {
			c.update(usedUp("messages", 1, time.Minute))
			c.again(m)
		}
		next(t, first)
		next(t, background)
	})
}
