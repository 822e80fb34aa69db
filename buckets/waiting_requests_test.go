package buckets_test

import (
	"encoding/json"
	"slices"
	"strconv"
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

// waitingRequests returns the waiting requests of a route in the order in which WaitingRequests yields them.
func waitingRequests(m *buckets.RESTBucketManager, route routes.Route) []buckets.WaitingRequest {
	all := slices.Collect(m.WaitingRequests())
	return slices.DeleteFunc(all, func(w buckets.WaitingRequest) bool { return w.Route != route.String() })
}

// The WaitUntil of each waiting request must be within one period of the time at which the request leaves, whatever
// limit the request waits for.
func TestWaitingRequestsLeaveWithinOneWindowOfTheTimeTheyAreTold(t *testing.T) {
	t.Parallel()
	const n = 40
	declared := buckets.WithLimit(buckets.ForAll(), 3, 20*time.Second, buckets.Named("d"))
	one := func(int) int { return 1 }
	inTurn := func(i int) int { return 1 + i%4 }
	oneAfterTheOther := func(i int) int { return 1 + i/25 }
	for name, test := range map[string]struct {
		options  []buckets.Option
		response ratelimits.Response
		period   time.Duration
		reason   buckets.WaitsFor
		channel  func(i int) int
	}{
		"window": {nil, limited("messages", 3, 0, 2*time.Second), 2 * time.Second, buckets.WaitsForWindow, one},
		"global": {[]buckets.Option{buckets.WithGlobalLimit(4)}, plain(200), time.Second, buckets.WaitsForGlobal, one},
		"global, of several buckets": {[]buckets.Option{buckets.WithGlobalLimit(4)},
			plain(200), time.Second, buckets.WaitsForGlobal, inTurn},
		"declared": {[]buckets.Option{declared},
			plain(200), 20 * time.Second, buckets.WaitsForDeclared, one},
		"declared, of several buckets": {[]buckets.Option{declared},
			plain(200), 20 * time.Second, buckets.WaitsForDeclared, inTurn},
		"declared, one bucket after the other": {[]buckets.Option{declared},
			plain(200), 20 * time.Second, buckets.WaitsForDeclared, oneAfterTheOther},
		"global, one bucket after the other": {[]buckets.Option{buckets.WithGlobalLimit(4)},
			plain(200), time.Second, buckets.WaitsForGlobal, oneAfterTheOther},
	} {
		for _, groups := range []int{1, 3, 20} {
			subtest(t, name+", "+strconv.Itoa(groups)+" groups", func(t *testing.T) {
				m := started(t, append(test.options, buckets.WithMaxRateLimit(24*time.Hour))...)
				discover(t, m, message(1), test.response)
				wait(time.Minute)
				var mu sync.Mutex
				left := map[string][]time.Time{} // by channel and group
				for i := range n {
					channel, group := test.channel(i), "group "+strconv.Itoa(i%groups)
					r := &buckets.Request{Route: message(channel), Authorization: bot, Group: group}
					buckets.AcquireFunc(background, m, r, func(lease buckets.Lease, err error) {
						assert.NoError(t, err)
						mu.Lock()
						key := strconv.Itoa(channel) + group
						left[key] = append(left[key], time.Now())
						mu.Unlock()
						lease.Update(test.response)
					})
					wait(time.Millisecond) // so that arrivals have the same order in all buckets
				}
				sent := map[string]int{}
				mu.Lock()
				for key, all := range left {
					sent[key] = len(all)
				}
				mu.Unlock()
				all := waitingRequests(m, routes.CreateMessage)
				require.Equal(t, m.Stats().Waiting, len(all))
				require.GreaterOrEqual(t, len(all), n-5)
				wait(time.Hour)
				drained(t, m)
				for _, w := range all {
					key := w.Major + w.Group
					assert.Equal(t, test.reason, w.WaitsFor)
					assert.WithinDuration(t, left[key][sent[key]], w.WaitUntil,
						test.period+100*time.Millisecond, "%+v", w)
					sent[key]++
				}
			})
		}
	}
}

func TestWaitingRequestSaysWhoseItIsAndWhatForWithoutASecret(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		const token = "webhook-secret-of-some-length"
		hook := compile(routes.ExecuteWebhook, "7", token)
		m := started(t, buckets.WithMaxRateLimit(time.Hour),
			buckets.WithLimit(buckets.ForRoute(routes.ExecuteWebhook), 1, time.Minute, buckets.Named("one")))
		request := buckets.Request{Route: hook, Authorization: "Bot " + token, Server: "other.example"}
		inGroup := buckets.ContextWithGroup(background, "guild 3")
		call(inGroup, m, request).update(plain(200))
		call(inGroup, m, request)
		wait(10 * time.Second)
		all := slices.Collect(m.WaitingRequests())
		require.Len(t, all, 1)
		w := all[0]
		assert.Equal(t, routes.ExecuteWebhook.String(), w.Route)
		assert.Equal(t, hook.Major().String(), w.Major)
		assert.Equal(t, "other.example", w.Server)
		assert.Equal(t, "guild 3", w.Group)
		assert.Equal(t, buckets.WaitsForDeclared, w.WaitsFor)
		assert.Equal(t, "one", w.Declared)
		assert.Equal(t, 10*time.Second, w.Waited)
		assert.InDelta(t, 50, w.WaitAfter.Seconds(), .1)
		assert.WithinDuration(t, time.Now().Add(w.WaitAfter), w.WaitUntil, 0)
		for b := range m.Buckets() {
			assert.Equal(t, b.Authentication, w.Authentication)
		}
		text, err := json.Marshal(w)
		require.NoError(t, err)
		assert.NotContains(t, string(text), "secret")
		assert.Contains(t, string(text), `"waits_for":"declared","declared":"one","wait_seconds":50`)
	})
}

// WaitingRequests must yield the requests of a bucket in the order in which they leave. The field Ahead of a request
// must be the number of requests before it.
func TestWaitingRequestsAreInTheOrderInWhichTheyLeave(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := started(t, buckets.WithMaxRateLimit(time.Hour))
		discover(t, m, message(1), limited("messages", 1, 0, time.Minute))
		of := func(group string) *caller {
			return call(background, m, buckets.Request{Route: message(1), Authorization: bot, Group: group})
		}
		for range 3 {
			of("a")
		}
		gone := of("a")
		of("b")
		gone.cancel()
		synctest.Wait()
		var order string
		for i, w := range slices.Collect(m.WaitingRequests()) {
			order += w.Group
			assert.Equal(t, i, w.Ahead)
		}
		assert.Len(t, order, 4)
		assert.Equal(t, 'b', rune(order[1]), "group b has the second turn: %s", order)
		for range m.WaitingRequests() {
			break // the iteration can be stopped
		}
	})
}

// Requests wait for the outcome of a probe, so no time is known for them, even if a limit is known.
func TestWaitingRequestsBehindAProbeHaveNoTime(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := started(t, buckets.WithMaxRateLimit(time.Hour))
		behind := func(probe *caller) {
			t.Helper()
			require.True(t, probe.granted())
			all := asks(m, message(1), 30)
			n := 0
			for w := range m.WaitingRequests() {
				assert.Equal(t, buckets.WaitsForProbe, w.WaitsFor)
				assert.Zero(t, w.WaitAfter)
				assert.True(t, w.WaitUntil.IsZero())
				assert.Equal(t, n, w.Ahead)
				n++
			}
			assert.Equal(t, len(all), n)
			wait, because := predict(t, m, request(message(1)))
			assert.Zero(t, wait)
			assert.Equal(t, buckets.WaitsForProbe, because)
			for _, c := range all {
				c.cancel()
			}
			synctest.Wait()
		}
		probe := ask(m, message(1))
		behind(probe)
		probe.update(limited("messages", 5, 4, time.Second))
		wait(2 * time.Second)
		discover(t, m, message(1), usedUp("messages", 5, 10*time.Second))
		wait(11 * time.Second)
		behind(ask(m, message(1)))
		assert.Empty(t, slices.Collect(m.WaitingRequests()))
	})
}
