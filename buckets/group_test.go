package buckets_test

import (
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/ratelimits"
	"github.com/ratelight/ratelight/routes"
)

// sentLog records the groups of the requests that were sent, in order.
type sentLog struct {
	mu     sync.Mutex
	groups []string
}

func (l *sentLog) add(group string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.groups = append(l.groups, group)
}

// take returns the groups that were added since the last call.
func (l *sentLog) take() (groups []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	groups, l.groups = l.groups, nil
	return groups
}

// queueUp lets n requests of a group wait. When a request leaves, its group is added to sent and its lease is ended
// with r at once.
func queueUp(
	m *buckets.RESTBucketManager, route func(i int) routes.CompiledRoute, group string, n int, r ratelimits.Response,
	sent *sentLog,
) {
	for i := range n {
		request := &buckets.Request{Route: route(i), Authorization: bot, Group: group}
		buckets.AcquireFunc(background, m, request, func(lease buckets.Lease, err error) {
			if err == nil {
				sent.add(group)
				lease.Update(r)
			}
		})
	}
	synctest.Wait()
}

func always(route routes.CompiledRoute) func(int) routes.CompiledRoute {
	return func(int) routes.CompiledRoute { return route }
}

// Ten thousand requests of one group wait in a bucket. A later request of another group must leave second.
func TestGroupsTakeTurnsInABucket(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := started(t, buckets.WithMaxRateLimit(24*time.Hour), buckets.WithGlobalLimit(0))
		discoverPunctual(t, m, message(1), limited("messages", 5, 0, time.Second))
		used := limited("messages", 5, 0, time.Second)
		var sent sentLog
		queueUp(m, always(message(1)), "a", 10_000, used, &sent)
		queueUp(m, always(message(1)), "b", 1, used, &sent)
		wait(1100 * time.Millisecond)
		assert.Equal(t, []string{"a", "b", "a", "a", "a"}, sent.take(), "the requests of one window")
	})
}

// Requests of group a wait in a thousand buckets for the global limit. Nevertheless, groups b and c must each get one
// of three turns.
func TestGroupsTakeTurnsInLineForTheGlobalLimit(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := started(t, buckets.WithMaxRateLimit(24*time.Hour), buckets.WithGlobalLimit(5))
		discover(t, m, message(1), plain(200)) // no limit but the global one
		wait(5 * time.Second)
		var sent sentLog
		queueUp(m, message, "a", 1000, plain(200), &sent)
		require.Len(t, sent.take(), 5)
		queueUp(m, always(message(5000)), "b", 2, plain(200), &sent)
		queueUp(m, always(message(1)), "c", 2, plain(200), &sent) // a request of group a also waits in this bucket
		sent.take()
		wait(4 * time.Second)
		all := sent.take()
		require.GreaterOrEqual(t, len(all), 8)
		assert.Equal(t, "abcabcaa", strings.Join(all[:8], ""))
	})
}

// Requests of several groups move to another bucket when their route's hash is discovered. In the new bucket, the
// groups must take turns in the order of their first arrivals.
func TestTurnsOfGroupsBeginInOrderOfArrivalAfterAMove(t *testing.T) {
	t.Parallel()
	for range 20 { // sometimes even a random order would be right
		bubble(t, func(t *testing.T) {
			m := started(t)
			probe := ask(m, message(1))
			var sent sentLog
			for _, group := range []string{"a", "b", "c", "d"} {
				queueUp(m, always(message(1)), group, 2, limited("messages", 1, 0, time.Second), &sent)
			}
			probe.update(limited("messages", 1, 0, time.Second))
			wait(9 * time.Second)
			require.Equal(t, "abcdabcd", strings.Join(sent.take(), ""))
		})
	}
}

// A request that gets a 429 must be first in its group again, but the next turn must go to another group.
func TestRefusedRequestReturnsToTheFrontOfItsGroup(t *testing.T) {
	withManager(t, func(t *testing.T, m *buckets.RESTBucketManager) {
		discover(t, m, message(1), limited("messages", 1, 0, time.Second))
		of := func(group string) *caller {
			return call(background, m, buckets.Request{Route: message(1), Authorization: bot, Group: group})
		}
		first, second, other := of("a"), of("a"), of("b")
		wait(1100 * time.Millisecond)
		answer(t, first, usedUp("messages", 1, time.Second))
		first.again(m)
		wait(1100 * time.Millisecond)
		require.True(t, other.granted(), "it is the turn of group b")
		other.update(limited("messages", 1, 0, time.Second))
		wait(1100 * time.Millisecond)
		require.True(t, first.granted())
		require.False(t, second.granted())
	})
}

// A predicted wait must follow from the turns of the groups, not from the length of the whole queue.
func TestPredictedWaitCountsTheTurnsOfGroups(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := started(t, buckets.WithMaxRateLimit(time.Hour))
		discover(t, m, message(1), limited("messages", 5, 0, time.Second))
		var sent sentLog
		queueUp(m, always(message(1)), "a", 1000, limited("messages", 5, 0, time.Second), &sent)
		predicted, _ := predict(t, m, &buckets.Request{Route: message(1), Authorization: bot, Group: "b"})
		assert.InDelta(t, time.Second, predicted, float64(100*time.Millisecond), "the first request of group b")
		predicted, _ = predict(t, m, &buckets.Request{Route: message(1), Authorization: bot, Group: "a"})
		assert.InDelta(t, 201*time.Second, predicted, float64(2*time.Second), "behind all requests of group a")
	})
}

// One group has requests in a thousand buckets, which wait for the global limit. Predictions for that limit must count
// the turns of groups, so that no request of another group is rejected.
func TestPredictedWaitInLineCountsTheTurnsOfGroups(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := started(t, buckets.WithMaxRateLimit(time.Hour), buckets.WithGlobalLimit(5))
		discover(t, m, message(1), plain(200))
		wait(5 * time.Second)
		var sent sentLog
		queueUp(m, message, "a", 1000, plain(200), &sent)
		queueUp(m, always(message(1)), "b", 1, plain(200), &sent)
		sent.take()
		for group, want := range map[string]time.Duration{
			"b": 2 * time.Second, "c": 2 * time.Second, "a": 201 * time.Second,
		} {
			predicted, _ := predict(t, m, &buckets.Request{Route: message(1), Authorization: bot, Group: group})
			assert.InDelta(t, want, predicted, float64(time.Second), "%s", group)
		}
		soon := buckets.ContextWithMaxWait(background, 3*time.Second)
		c := call(soon, m, buckets.Request{Route: message(2), Authorization: bot, Group: "c"})
		wait(2 * time.Second)
		require.True(t, c.granted())
	})
}

// Requests that wait for a sub-limit count as a group of their own, whatever their groups are. Predictions at the
// global limit must respect that.
func TestPredictedWaitOfASubLimitInLine(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := started(t, buckets.WithMaxRateLimit(time.Hour), buckets.WithGlobalLimit(1))
		request := change("1", "name")
		request.Group = "a"
		first := call(background, m, request)
		first.update(inBucket(refused(ratelimits.ClassSubLimit, 10*time.Second), "channel", 5, 4, time.Second))
		second := call(background, m, request)
		var sent sentLog
		wait(9 * time.Second)
		queueUp(m, message, "b", 5, plain(200), &sent)
		wait(1500 * time.Millisecond)
		for w := range m.WaitingRequests() {
			assert.Less(t, w.WaitAfter, 10*time.Second, "%+v", w)
		}
		wait(20 * time.Second)
		require.True(t, second.granted())
	})
}

// A group with many waiting requests is among many groups with one request each. Each short group takes only one turn,
// so the prediction for the long group must count only one turn of each short group.
func TestPredictedWaitOfALongGroupAmongManyShortOnes(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := started(t, buckets.WithMaxRateLimit(time.Hour))
		used := limited("messages", 5, 0, time.Second)
		discover(t, m, message(1), used)
		var sent sentLog
		for i := range 1000 {
			queueUp(m, always(message(1)), strconv.Itoa(i), 1, used, &sent)
		}
		queueUp(m, always(message(1)), "long", 50, used, &sent)
		predicted, _ := predict(t, m, &buckets.Request{Route: message(1), Authorization: bot, Group: "long"})
		assert.InDelta(t, 210*time.Second, predicted, float64(5*time.Second))
	})
}

// Unproven requests of many invented groups wait. Together, they may delay a proven request by only one turn.
func TestUnprovenRequestsAreOneGroupWhileOthersAreServed(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := started(t, buckets.WithMaxRateLimit(24*time.Hour), buckets.WithGlobalLimit(50))
		discover(t, m, message(1), limited("messages", 100, 99, time.Second))
		wait(time.Minute)
		var sent sentLog
		queue := func(channel int, group string, unproven bool) {
			r := &buckets.Request{Route: message(channel), Authorization: bot, Group: group, Unproven: unproven}
			buckets.AcquireFunc(background, m, r, func(lease buckets.Lease, err error) {
				if err == nil {
					sent.add(group)
					lease.Update(limited("messages", 100, 98, time.Second))
				}
			})
		}
		for i := range 500 {
			queue(2+i%400, "invented "+strconv.Itoa(i%100), true)
		}
		queue(1, "proven", false)
		wait(1100 * time.Millisecond)
		all := sent.take()
		assert.Len(t, all, 100)
		assert.InDelta(t, 51, slices.Index(all, "proven"), 1)
	})
}

// A credential is proven while its first requests wait. All its requests must leave in the order of their arrival.
func TestACredentialThatIsProvenMeanwhileKeepsItsOrder(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := started(t, buckets.WithMaxRateLimit(24*time.Hour))
		serve(t, m, "Bot good")
		discoverPunctual(t, m, message(1), limited("messages", 1, 0, time.Second))
		var sent sentLog
		for i := range 6 {
			r := &buckets.Request{Route: message(1), Authorization: bot, Unproven: i%4 < 2}
			buckets.AcquireFunc(background, m, r, func(lease buckets.Lease, err error) {
				if err == nil {
					sent.add(strconv.Itoa(i))
					lease.Update(limited("messages", 1, 0, time.Second))
				}
			})
		}
		wait(time.Minute)
		assert.Equal(t, []string{"0", "1", "2", "3", "4", "5"}, sent.take())
	})
}
