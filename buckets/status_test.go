package buckets_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/ratelimits"
	"github.com/ratelight/ratelight/routes"
)

// allOfThem is a limit for Status that is never reached.
const allOfThem = 1 << 20

func TestStatusShowsTheLongestWaitFirst(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := started(t, buckets.WithMaxRateLimit(time.Hour))
		for channel, reset := range map[int]time.Duration{
			1: 10 * time.Second, 2: 30 * time.Second, 3: 20 * time.Second,
		} {
			discover(t, m, message(channel), limited("h", 1, 0, reset))
			require.False(t, ask(m, message(channel)).done())
		}
		discover(t, m, message(4), limited("h", 1, 0, time.Minute)) // a bucket without waiting requests
		s := m.Status(2)
		assert.Equal(t, 3, s.BucketsTotal)
		assert.Equal(t, 3, s.BucketsSeen)
		require.Len(t, s.Buckets, 2)
		assert.Equal(t, []string{"2", "3"}, []string{s.Buckets[0].Major, s.Buckets[1].Major})
		assert.Equal(t, []string{"POST /channels/{channel_id}/messages"}, s.Buckets[0].Routes)
		assert.Equal(t, 3, s.Stats.Waiting)
		assert.Empty(t, m.Status(0).Buckets)
		assert.Empty(t, m.Status(-1).Buckets)
	})
}

// PredictedWait is the wait of the next request, so it must count the whole queue.
func TestPredictedWaitCountsTheQueue(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := started(t, buckets.WithMaxRateLimit(time.Hour))
		discover(t, m, message(1), limited("h", 1, 0, 10*time.Second))
		asks(m, message(1), 4)
		wait(3 * time.Second)
		s := snapshot(t, m, "h")
		assert.InDelta(t, 7, s.WaitAfter.Seconds(), .1)
		assert.InDelta(t, 47, s.PredictedWait.Seconds(), .1)
		assert.InDelta(t, 3, s.Waited.Seconds(), .1)
		assert.WithinDuration(t, time.Now().Add(7*time.Second), s.WaitUntil, 100*time.Millisecond)
	})
}

// Requests that wait for an outcome have no predicted wait, but their bucket may be stuck. The first bucket that Status
// shows must be the one whose requests have waited longest.
func TestStatusShowsWhoHasWaitedLongThoughNobodyKnowsUntilWhen(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := started(t, buckets.WithMaxRateLimit(time.Hour))
		require.True(t, ask(m, list(1)).granted())
		ask(m, list(1))
		wait(patience * 3 / 4)
		discover(t, m, message(1), limited("h", 1, 0, 3*time.Second))
		ask(m, message(1))
		s := m.Status(1)
		require.Len(t, s.Buckets, 1)
		assert.Equal(t, buckets.WaitsForProbe, s.Buckets[0].WaitsFor)
		assert.Equal(t, patience*3/4, s.Buckets[0].Waited)
	})
}

func TestStatusShowsABucketThatIsHeldUntilTheHoldIsOver(t *testing.T) {
	t.Parallel()
	for class, want := range map[ratelimits.Class]int{
		ratelimits.ClassUser: 1, ratelimits.ClassShared: 1, ratelimits.ClassGlobal: 0, ratelimits.ClassOK: 0,
	} {
		subtest(t, class.String(), func(t *testing.T) {
			m := started(t)
			r := inBucket(refused(class, 20*time.Second), "h", 5, 0, 10*time.Second)
			discover(t, m, message(1), r)
			s := m.Status(allOfThem)
			require.Len(t, s.Buckets, want)
			require.Equal(t, want, s.BucketsTotal)
			for _, b := range s.Buckets {
				assert.Equal(t, class, b.HoldClass)
				assert.InDelta(t, 20, b.HoldAfter.Seconds(), .1)
				assert.Zero(t, b.Waiting)
			}
			wait(21 * time.Second)
			s = m.Status(allOfThem)
			assert.Empty(t, s.Buckets)
			assert.Zero(t, s.BucketsTotal)
			assert.Zero(t, s.BucketsSeen)
		})
	}
}

// After RestoreState, Status must show the holds of the previous process, even before the first request.
func TestStatusShowsWhatTheProcessBeforeHasHeld(t *testing.T) {
	withManager(t, func(t *testing.T, m *buckets.RESTBucketManager) {
		for n := range 3 {
			as(m, fmt.Sprint("Bot ", n), list(1)).update(plain(200))
		}
		discover(t, m, message(1), inBucket(refused(ratelimits.ClassUser, 20*time.Second), "h", 5, 0, 10*time.Second))
		as(m, "Bot two", message(2)).update(refused(ratelimits.ClassGlobal, 20*time.Second))
		m = successor(t, stateOf(t, m, true))
		s := m.Status(1)
		require.Len(t, s.Buckets, 1)
		assert.Equal(t, 1, s.BucketsTotal)
		assert.Equal(t, "h", s.Buckets[0].Hash)
		require.Len(t, s.Globals, 1)
		assert.InDelta(t, 20, s.Globals[0].HoldAfter.Seconds(), .1, "the global limit that is held comes first")
	})
}

// Status must show the hold of a sub-limit as SubLimitAfter and not as a hold of the whole bucket, because requests
// without the fields of the sub-limit do not wait for it.
func TestStatusShowsTheHoldOfASubLimit(t *testing.T) {
	withManager(t, func(t *testing.T, m *buckets.RESTBucketManager) {
		call(background, m, change("1", "name")).update(inBucket(refused(ratelimits.ClassSubLimit, 20*time.Second),
			"h", 5, 4, time.Second))
		s := m.Status(allOfThem)
		require.Len(t, s.Buckets, 1)
		assert.InDelta(t, 20, s.Buckets[0].SubLimitAfter.Seconds(), .1)
		assert.Zero(t, s.Buckets[0].HoldAfter)
		assert.Zero(t, s.Buckets[0].PredictedWait)
		wait(21 * time.Second)
		assert.Empty(t, m.Status(allOfThem).Buckets)
	})
}

// A shared 429 holds a resource for all credentials. Status must show the hold for each credential that has the bucket.
func TestStatusShowsTheHoldOfAResourceForOtherCredentials(t *testing.T) {
	withManager(t, func(t *testing.T, m *buckets.RESTBucketManager) {
		as(m, "Bot two", message(1)).update(limited("h", 5, 4, time.Second))
		discover(t, m, message(1), inBucket(refused(ratelimits.ClassShared, 20*time.Second), "h", 5, 4, time.Second))
		assert.Len(t, m.Status(allOfThem).Buckets, 2)
	})
}

func TestStatusShowsTheGlobalLimitOfEachCredential(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := started(t, buckets.WithGlobalLimit(10))
		discover(t, m, message(1), limited("h", 100, 99, time.Minute))
		as(m, "Bot two", message(1)).update(limited("h", 100, 99, time.Minute))
		wait(5 * time.Second)
		all := asks(m, message(1), 13)
		require.False(t, all[10].done())
		wait(500 * time.Millisecond)
		s := m.Status(allOfThem)
		assert.Equal(t, 2, s.GlobalsTotal)
		require.Len(t, s.Globals, 2)
		busy, idle := s.Globals[0], s.Globals[1]
		assert.Equal(t, buckets.LimitSnapshot{
			Class: ratelimits.ClassGlobal, Authentication: s.Buckets[0].Authentication, Limit: 10, Part: 10,
			Period: time.Second, InUse: 10, Waiting: 3, Buckets: 1, WaitAfter: busy.WaitAfter,
		}, busy)
		assert.InDelta(t, 1.5, busy.WaitAfter.Seconds(), .01,
			"the requests are in flight, so the limit opens after two seconds")
		assert.NotEqual(t, busy.Authentication, idle.Authentication)
		assert.Equal(t, 10, idle.Limit)
		assert.Zero(t, idle.InUse+idle.Waiting)
		assert.Equal(t, busy, m.Status(1).Globals[0])
		m.Throttle(time.Minute)
		assert.Equal(t, time.Minute, m.Status(1).Globals[0].HoldAfter)
	})
}

// No request waits, but a global limit is held. Status must show that limit first, so that an operator sees why nothing
// is sent.
func TestStatusShowsAGlobalHoldFirst(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := started(t, buckets.WithEviction(5*time.Second, buckets.DefaultExpireAfter))
		for n := range 50 {
			as(m, fmt.Sprint("Bot ", n), message(1)).update(limited("h", 5, 4, time.Second))
		}
		discover(t, m, message(1), limited("h", 5, 4, time.Second))
		wait(time.Minute)
		discover(t, m, message(1), refused(ratelimits.ClassGlobal, 30*time.Second))
		s := m.Status(3)
		require.Len(t, s.Globals, 3)
		assert.InDelta(t, 30, s.Globals[0].HoldAfter.Seconds(), .1)
		assert.True(t, s.Globals[0].Probing)
		assert.Equal(t, 51, s.GlobalsTotal)

		wait(20 * time.Second) // the garbage collector runs meanwhile
		assert.InDelta(t, 10, m.Status(1).Globals[0].HoldAfter.Seconds(), .1)
	})
}

// After a global 429, one request goes first, and the others wait for its outcome. Status must show the longest time
// that the others may have to wait.
func TestStatusShowsHowLongTheFirstAfterARefusalIsAwaited(t *testing.T) {
	withManager(t, func(t *testing.T, m *buckets.RESTBucketManager) {
		discover(t, m, message(1), roomy)
		discover(t, m, message(1), refused(ratelimits.ClassGlobal, time.Second))
		wait(2 * time.Second)
		first := ask(m, message(1))
		require.True(t, first.granted())
		awaited := m.Status(1).Globals[0].WaitAfter
		next := ask(m, message(1))
		wait(awaited - time.Millisecond)
		assert.False(t, next.done())
		wait(2 * time.Millisecond)
		assert.True(t, next.granted())
		first.lease.Release()
		next.update(roomy)
		assert.Zero(t, m.Status(1).Globals[0].WaitAfter)
	})
}

func TestStatusShowsTheEdgeOfEachServer(t *testing.T) {
	withManager(t, func(t *testing.T, m *buckets.RESTBucketManager) {
		discover(t, m, message(1), limited("h", 5, 4, time.Second))
		elsewhere := call(background, m, buckets.Request{Route: message(1), Server: "a.example"})
		elsewhere.update(refused(ratelimits.ClassEdge, 20*time.Second))
		require.False(t, call(background, m, buckets.Request{Route: message(1), Server: "a.example"}).done())
		edges := m.Status(allOfThem).Edges
		require.Len(t, edges, 2)
		assert.Equal(t, buckets.LimitSnapshot{
			Class: ratelimits.ClassEdge, Authentication: "-", Period: time.Second,
		}, edges[1], "Discord")
		assert.Equal(t, "a.example", edges[0].Server)
		assert.Equal(t, m.EdgeWait("a.example"), edges[0].HoldAfter)
		assert.Equal(t, 1, edges[0].Waiting)
		assert.Len(t, m.Status(1).Edges, 1)
	})
}

// Status must examine a bounded number of buckets, however many have waiting requests.
func TestStatusLooksAtABoundedNumberOfBuckets(t *testing.T) {
	withManager(t, func(t *testing.T, m *buckets.RESTBucketManager) {
		m.Throttle(time.Minute)
		const waiting = 5000
		for channel := range waiting {
			buckets.AcquireFunc(background, m,
				&buckets.Request{Route: message(channel + 1), Authorization: fmt.Sprint("Bot ", channel%3)},
				func(buckets.Lease, error) {})
		}
		require.Equal(t, waiting, m.Stats().Waiting)
		s := m.Status(10)
		assert.Equal(t, 3, s.BucketsTotal, "each credential has one UNKNOWN bucket for all channels")
		for channel := range waiting {
			m.UpdateRateLimits(message(channel+1), fmt.Sprint("Bot ", channel%3), limited("h", 5, 4, time.Second))
		}
		s = m.Status(10)
		assert.Equal(t, waiting, s.BucketsTotal)
		assert.LessOrEqual(t, s.BucketsSeen, 2048)
		assert.Greater(t, s.BucketsSeen, 2000)
		assert.Len(t, s.Buckets, 10)
		require.NoError(t, m.Close())
		assert.Zero(t, m.Status(10).BucketsTotal)
		assert.Equal(t, "closed", m.Status(10).State)
	})
}

func TestStatusIsEncodedWithNamesAndSeconds(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := started(t, buckets.WithGlobalLimit(10))
		discover(t, m, message(1),
			inBucket(refused(ratelimits.ClassUser, 1500*time.Millisecond), "<script>", 5, 0, 1500*time.Millisecond))
		require.False(t, ask(m, message(1)).done())
		encoded, err := json.Marshal(m.Status(10))
		require.NoError(t, err)
		assert.NotContains(t, string(encoded), "<script>", "JSON must be safe inside an HTML page")
		assert.NotContains(t, string(encoded), bot)
		var s struct {
			Time         time.Time
			State        string
			BucketsTotal int `json:"buckets_total"`
			Stats        map[string]any
			Edges        []map[string]any
			Globals      []map[string]any
			Buckets      []map[string]any
		}
		require.NoError(t, json.Unmarshal(encoded, &s))
		assert.WithinDuration(t, time.Now(), s.Time, 0)
		assert.Equal(t, "running", s.State)
		assert.Equal(t, 1, s.BucketsTotal)
		assert.EqualValues(t, 1, s.Stats["waiting"])
		assert.Equal(t, "edge", s.Edges[0]["class"])
		assert.Equal(t, "global", s.Globals[0]["class"])
		b := s.Buckets[0]
		until, err := time.Parse(time.RFC3339, b["wait_until"].(string))
		require.NoError(t, err)
		assert.WithinDuration(t, time.Now().Add(1501*time.Millisecond), until, time.Millisecond)
		delete(b, "wait_until")
		assert.Equal(t, map[string]any{
			"class": "user", "name": "", "key": "", "part": 0., "in_use": 0., "probing": false, "buckets": 0.,
			"server": "", "hash": "<script>", "routes": []any{"POST /channels/{channel_id}/messages"}, "route": "", "major": "1",
			"authentication": s.Globals[0]["authentication"], "kind": b["kind"], "unlimited": false,
			"limit": 5., "period_seconds": b["period_seconds"], "remaining": 0., "reset_seconds": b["reset_seconds"],
			"hold_seconds": 1.501, "hold_class": "user", "sub_limit_hold_seconds": 0., "in_flight": 0., "waiting": 1.,
			"waits_for": "window", "declared": "", "wait_seconds": 1.501, "waited_seconds": 0.,
			"predicted_wait_seconds": b["predicted_wait_seconds"],
		}, b)
		empty, err := json.Marshal(buckets.NewRESTBucketManager().Status(1))
		require.NoError(t, err)
		assert.NotContains(t, strings.ReplaceAll(string(empty), `"calls":null`, ""), "null", "empty lists are not null")
		assert.Contains(t, string(empty), `"state":"new"`)
	})
}

// Status must show the windows of declared limits for which requests wait. The window with the longest line must come
// first.
func TestStatusShowsTheDeclaredLimitsThatRequestsWaitFor(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := started(t, buckets.WithMaxRateLimit(time.Hour),
			buckets.WithLimit(buckets.ForRoute(routes.CreateMessage), 2, 10*time.Minute,
				buckets.PerMajor(), buckets.Named("two")),
			buckets.WithLimit(buckets.ForRoute(routes.ListMessages), 1, time.Minute,
				buckets.PerKey(func(r *buckets.Request) string { return "secret " + r.Group }),
				buckets.AcrossCredentials(), buckets.Named("one")),
			buckets.WithLimit(buckets.ForRoute(routes.GetMyUser), 1, time.Minute, buckets.Named("idle")))
		discover(t, m, message(1), plain(200))
		discover(t, m, list(1), plain(200))
		wait(time.Hour)
		none := m.Status(allOfThem)
		assert.Empty(t, none.Declared)
		assert.Equal(t, map[string]int{"two": 0, "one": 0, "idle": 0}, none.Stats.Declared)

		for channel := range 3 { // then none, one and two requests wait
			for range 2 + channel {
				ask(m, message(channel+1)).update(plain(200))
			}
		}
		callers := asks(m, message(1), 4)
		of := buckets.Request{Route: list(1), Authorization: bot, Group: "a"}
		for range 2 {
			callers = append(callers, call(background, m, of))
		}
		callers[4].update(plain(200))
		wait(15 * time.Second)

		s := m.Status(3)
		assert.Equal(t, 4, s.DeclaredTotal)
		assert.Equal(t, map[string]int{"two": 7, "one": 1, "idle": 0}, s.Stats.Declared)
		require.Len(t, s.Declared, 3)
		credential := s.Globals[0].Authentication
		first := s.Declared[0]
		assert.InDelta(t, (10*time.Minute - 15*time.Second).Seconds(), first.WaitAfter.Seconds(), .1)
		first.WaitAfter = 0
		assert.Equal(t, buckets.LimitSnapshot{
			Name: "two", Limit: 2, Period: 10 * time.Minute, Authentication: credential, Major: "1", Key: "-",
			InUse: 2, Waiting: 4,
		}, first)
		assert.Equal(t, []int{4, 2, 1}, []int{first.Waiting, s.Declared[1].Waiting, s.Declared[2].Waiting})
		assert.Equal(t, "3", s.Declared[1].Major)
		assert.Empty(t, m.Status(0).Declared)
		assert.Empty(t, m.Status(-1).Declared)
		last := m.Status(allOfThem).Declared[3]
		assert.Equal(t, []string{"one", "-", "-"}, []string{last.Name, last.Authentication, last.Major})
		assert.Regexp(t, "^#[0-9a-f]+$", last.Key)
		for b := range m.Buckets() {
			if b.Waiting > 0 {
				assert.Equal(t, buckets.WaitsForDeclared, b.WaitsFor)
				isList := b.Routes[0] == routes.ListMessages.String()
				assert.Equal(t, map[bool]string{true: "one", false: "two"}[isList], b.Declared)
			}
		}

		text, err := json.Marshal(m.Status(1))
		require.NoError(t, err)
		var encoded struct{ Declared []map[string]any }
		require.NoError(t, json.Unmarshal(text, &encoded))
		for name, want := range map[string]any{
			"name": "two", "limit": 2., "period_seconds": 600., "server": "", "authentication": credential, "major": "1",
			"key": "-", "in_use": 2., "waiting": 4., "wait_seconds": 585.,
		} {
			assert.Equal(t, want, encoded.Declared[0][name], name)
		}
		assert.Contains(t, string(text), `"declared_total":4`)
		assert.Contains(t, string(text), `"declared_waiting":{"idle":0,"one":1,"two":7}`)
		assert.NotContains(t, string(text), "secret")

		for _, c := range callers {
			c.cancel()
		}
		synctest.Wait()
		s = m.Status(allOfThem)
		assert.Equal(t, 2, s.DeclaredTotal, "no request waits for the windows of channel 1 and of group a any more")
		assert.Len(t, s.Declared, 2)
		require.NoError(t, m.Close())
		assert.Zero(t, m.Status(allOfThem).DeclaredTotal)
		assert.Equal(t, map[string]int{"two": 0, "one": 0, "idle": 0}, m.Stats().Declared)
	})
}
