package buckets

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/ratelight/ratelight/ratelimits"
	"github.com/ratelight/ratelight/routes"
)

// checkQueues requires that what is counted of a bucket's queues is what there is, and that each queue in which somebody waits is ready, in
// line, or held by a sub-limit. A sub-limit whose hold is over may be noticed only when the bucket itself has room.
func checkQueues(b *bucket) {
	t := atOnce{}
	b.mu.Lock()
	defer b.mu.Unlock()
	qs := b.queues
	if qs == nil {
		return
	}
	waiting, free, kept, ready := 0, 0, 0, 0
	weights := map[string]int{}
	for q := range qs.all {
		n := q.waiting.Len()
		waiting += n
		kept += len(q.kept)
		if !q.subLimit && (q.line == nil || !q.line.above.declared()) && n > 0 {
			free, weights[q.key.group] = free+n, q.weight
		}
		if q.turn.Queued() {
			ready++
			require.Nil(t, q.line, "ready and in line")
			require.Equal(t, q.waiting.Head().Arrived, q.turn.Arrived)
		}
		if n == 0 {
			require.Empty(t, q.kept)
		} else if !q.turn.Queued() && q.line == nil {
			at, ok := b.nextPermit(b.now())
			require.True(t, q.subLimit && (!q.open(b.now()) || !ok || at > b.now()), "it waits for nothing")
		}
		if q.line != nil {
			q.line.mu.Lock()
			require.Equal(t, n, max(n, q.place.waiting))
			q.line.mu.Unlock()
		}
	}
	sum := 0
	for _, weight := range weights {
		sum += weight
	}
	require.Equal(t, []int{qs.waiting, qs.free, qs.weights, qs.kept, qs.ready.Len()}, []int{waiting, free, sum, kept, ready})
}

// atOnce makes a failed assertion end the play where it is.
type atOnce struct{}

func (atOnce) Errorf(format string, arguments ...any) { panic(fmt.Sprintf(format, arguments...)) }
func (atOnce) FailNow()                               {}

// playInBubble plays in virtual time. Its failures reach rapid, which makes the play shorter.
func playInBubble(t *testing.T, rt *rapid.T, play func(*rapid.T)) {
	var problem any
	synctest.Test(t, func(*testing.T) {
		defer func() { problem = recover() }()
		play(rt)
	})
	if problem != nil {
		panic(problem)
	}
}

// Whatever comes, goes, is refused, cancelled and held: the books of the queues are right, and in the end nobody waits.
func TestSchedulesOfQueues(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		playInBubble(t, rt, func(t *rapid.T) {
			m := NewRESTBucketManager(WithMaxRateLimit(time.Hour), WithGlobalLimit(rapid.IntRange(1, 5).Draw(t, "global")),
				WithGroupWeights(func(group string) int { return len(group) }), WithPollPeriod(time.Second), WithExpireAfter(0),
				WithLimit(ForRoute(routes.UpdateChannel), 2, 3*time.Second, PerGroup(), Named("group")),
				WithLimit(ForPattern("PATCH", "/*"), 3, 4*time.Second, PerMajor(), Named("major")))
			require.NoError(t, m.Start())
			defer m.Close()
			var mu sync.Mutex
			var granted, leases []Lease
			collect := func() { // what was granted, of which the callbacks were told
				mu.Lock()
				defer mu.Unlock()
				leases, granted = append(leases, granted...), nil
			}
			var cancels []context.CancelFunc
			names := [][]string{{"name"}, {"topic"}, {"nsfw"}}
			answer := func(r ratelimits.Response) {
				if collect(); len(leases) > 0 {
					i := rapid.IntRange(0, len(leases)-1).Draw(t, "lease")
					lease := leases[i]
					leases = append(leases[:i], leases[i+1:]...)
					lease.Update(r)
				}
				synctest.Wait()
			}
			bucketOf := func() string { return rapid.SampledFrom([]string{"a", "b"}).Draw(t, "bucket") }
			t.Repeat(map[string]func(*rapid.T){
				"arrive": func(t *rapid.T) {
					route, err := rapid.SampledFrom([]routes.Route{routes.UpdateChannel, routes.CreateMessage}).Draw(t, "route").
						Compile(rapid.SampledFrom([]string{"1", "2"}).Draw(t, "channel"))
					require.NoError(t, err)
					fields := rapid.SampledFrom(names).Draw(t, "fields")
					request := &Request{Route: route, Authorization: "Bot x", Group: rapid.SampledFrom([]string{"", "g", "hh"}).Draw(t, "group"),
						Fields: func() []string { return fields }}
					ctx, cancel := context.WithCancel(context.Background())
					if rapid.IntRange(0, 5).Draw(t, "priority") == 0 {
						ctx = ContextWithPriority(ctx)
					}
					cancels = append(cancels, cancel)
					m.AcquireFunc(ctx, request, func(lease Lease, err error) {
						if err == nil {
							mu.Lock()
							defer mu.Unlock()
							granted = append(granted, lease)
						}
					})
					synctest.Wait()
				},
				"answer": func(t *rapid.T) {
					answer(ratelimits.Response{Status: 200, Limited: true, Bucket: bucketOf(), Limit: 3, Remaining: 2, ResetAfter: 2 * time.Second})
				},
				"fail": func(t *rapid.T) { answer(ratelimits.Response{Status: 502}) },
				"refuse": func(t *rapid.T) {
					class := rapid.SampledFrom([]ratelimits.Class{ratelimits.ClassUser, ratelimits.ClassShared, ratelimits.ClassSubLimit,
						ratelimits.ClassGlobal, ratelimits.ClassEdge}).Draw(t, "class")
					answer(ratelimits.Response{Status: 429, Class: class, HasRetryAfter: true, RetryAfter: 3 * time.Second, Bucket: bucketOf(),
						Limited: true, Limit: 3, Remaining: 1, ResetAfter: time.Second})
				},
				"cancel": func(t *rapid.T) {
					if len(cancels) > 0 {
						i := rapid.IntRange(0, len(cancels)-1).Draw(t, "whose")
						cancels[i]()
						cancels = append(cancels[:i], cancels[i+1:]...)
					}
					synctest.Wait()
				},
				"pass": func(t *rapid.T) {
					time.Sleep(time.Duration(rapid.IntRange(1, 4000).Draw(t, "ms")) * time.Millisecond)
					synctest.Wait()
				},
				"": func(t *rapid.T) {
					for b := range m.buckets.all() {
						checkQueues(b)
					}
				},
			})
			for range 1000 {
				if collect(); m.Stats().Waiting == 0 && len(leases) == 0 {
					break
				}
				all := leases
				leases = nil
				for _, lease := range all {
					lease.Update(ratelimits.Response{Status: 200, Limited: true, Bucket: "a", Limit: 3, Remaining: 2, ResetAfter: 2 * time.Second})
				}
				time.Sleep(time.Second)
				synctest.Wait()
			}
			require.Zero(atOnce{}, m.Stats().Waiting, "somebody waits for ever")
			time.Sleep(time.Minute)
			require.Zero(atOnce{}, m.limits.Size(), "declared limits that nobody uses are forgotten")
			for _, cancel := range cancels {
				cancel()
			}
		})
	})
}

// Predict for keys that nobody has used makes no windows.
func TestPredictMakesNoWindows(t *testing.T) {
	t.Parallel()
	m := NewRESTBucketManager(WithLimit(ForAll(), 1, time.Hour, PerGroup()))
	require.NoError(t, m.Start())
	defer m.Close()
	route, err := routes.CreateMessage.Compile("1")
	require.NoError(t, err)
	m.UpdateRateLimits(route, "", ratelimits.Response{Status: 200, Limited: true, Bucket: "h", Limit: 5, Remaining: 4, ResetAfter: time.Second})
	_, _, err = m.Predict(&Request{Route: route, Group: "a"})
	require.NoError(t, err)
	require.Zero(t, m.limits.Size())
}
