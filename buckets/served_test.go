package buckets_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/internal/discordsim"
	"github.com/ratelight/ratelight/ratelimits"
)

// All kinds of buckets, under round trips from nothing to several windows: no refusal, and not much slower than one can
// be who never risks one.
func TestEveryKindOfBucketIsUsedUpWithoutARefusal(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		limit        int
		period       time.Duration
		trip, jitter time.Duration
		requests     int
		within       float64 // of the ideal time; with much jitter, nobody can know when a window opened
	}{
		{5, time.Second, 20 * time.Millisecond, 10 * time.Millisecond, 200, 1.05},
		{50, time.Second, 100 * time.Millisecond, 10 * time.Millisecond, 1000, 1.05},
		{1, time.Second, 20 * time.Millisecond, 10 * time.Millisecond, 30, 1.05},
		{5, 100 * time.Millisecond, 300 * time.Millisecond, 100 * time.Millisecond, 200, 1.75},
		{2, 2 * time.Second, 20 * time.Millisecond, 10 * time.Millisecond, 60, 1.05},
		{5, time.Second, 2 * time.Millisecond, time.Millisecond, 200, 1.05},
	} {
		for name, quota := range map[string]discordsim.Quota{
			"fixed": discordsim.Fixed(c.limit, c.period), "sliding": discordsim.Sliding(c.limit, c.period), "leaky": discordsim.Leaky(c.limit, c.period),
		} {
			subtest(t, fmt.Sprintf("%s %d per %v, round trip %v", name, c.limit, c.period, c.trip), func(t *testing.T) {
				config := one(discordsim.Rule{Quota: quota, Hash: "messages"})
				config.Latency = discordsim.Latency{RoundTrip: c.trip, Jitter: c.jitter}
				w := newWorld(t, config)
				w.post(1, c.requests)
				elapsed := w.finish()
				assert.Equal(t, c.requests, w.Report().Accepted)
				assert.Zero(t, w.Report().Refused.Total())
				drained(t, w.manager)

				ideal, err := discordsim.Certain(
					discordsim.Conditions{RoundTrip: config.Latency.Smallest(), Global: discordsim.Unlimited()},
					discordsim.Work{Quota: quota, Count: c.requests, Route: "messages"},
				)
				require.NoError(t, err)
				assert.LessOrEqual(t, float64(elapsed)/float64(ideal.Makespan), c.within)
			})
		}
	}
}

func TestRequestsOneByOneAndTogetherNeverExceedTheServersCount(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name     string
		together bool
		foreign  int // somebody else's, before
		refused  int // at most
	}{
		{"one by one", false, 0, 0}, {"together", true, 0, 0},
		{"one by one, starting from a 429", false, 5, 1}, {"together, starting from a 429", true, 5, 1},
	} {
		subtest(t, c.name, func(t *testing.T) {
			w := newWorld(t, one(discordsim.Rule{Quota: discordsim.Fixed(5, time.Second), Hash: "messages"}))
			w.Consume(discordsim.Request{Method: "POST", Path: "/channels/1/messages", Authorization: bot}, c.foreign)
			for range 17 {
				w.post(1, 1)
				if !c.together {
					w.all.Wait()
				}
			}
			w.finish()
			assert.Equal(t, 17, w.Report().Accepted)
			assert.Equal(t, c.refused, w.Report().Refused.Total())
			assert.Zero(t, w.Report().Avoidable.Total())
		})
	}
}

func TestBucketOfOneIsAskedOncePerWindow(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		w := newWorld(t, one(discordsim.Rule{Quota: discordsim.Fixed(1, time.Second), Hash: "messages"}))
		w.post(1, 3)
		elapsed := w.finish()
		assert.Equal(t, 3, w.Report().Accepted)
		assert.GreaterOrEqual(t, elapsed, 2*time.Second)
		assert.Less(t, elapsed, 2200*time.Millisecond)
		assert.Zero(t, w.Report().Refused.Total())
	})
}

func TestRefusalDelaysTheNextRequestByTheGivenTimeAndNoLonger(t *testing.T) {
	t.Parallel()
	for _, class := range []ratelimits.Class{ratelimits.ClassUser, ratelimits.ClassGlobal, ratelimits.ClassShared} {
		subtest(t, class.String(), func(t *testing.T) {
			m := started(t)
			discover(t, m, message(1), limited("messages", 10, 5, time.Second))
			r := refused(class, 1234*time.Millisecond)
			if class != ratelimits.ClassGlobal {
				r = inBucket(r, "messages", 10, 0, 1234*time.Millisecond)
			}
			ask(m, message(1)).update(r)
			refusedAt := time.Now()
			next := ask(m, message(1))
			wait(3 * time.Second)
			require.True(t, next.granted())
			assert.InDelta(t, 1234, next.at.Sub(refusedAt).Milliseconds(), 2)
		})
	}
}

// Server errors and lost connections say nothing, so they stop nobody.
func TestTroublesStopNeitherLaterRequestsNorThoseUnderWay(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]discordsim.Fault{
		"server error":                {Every: 4, Status: 502, Uncounted: true},
		"server error, counted":       {Every: 4, Status: 500},
		"lost before":                 {Every: 4, Connection: discordsim.ConnectionLostBefore},
		"lost after":                  {Every: 4, Connection: discordsim.ConnectionLostAfter},
		"the first three, lost":       {Nth: []int{1, 2, 3}, Connection: discordsim.ConnectionLostBefore},
		"the first three, errors":     {Nth: []int{1, 2, 3}, Status: 503, Uncounted: true},
		"all of one second, lost":     {From: time.Second, Until: 2 * time.Second, Connection: discordsim.ConnectionLostAfter},
		"no headers now and then":     {Every: 4, Drop: discordsim.NoHeaders().Drop},
		"slower than several windows": {Every: 4, Delay: 3 * time.Second},
	} {
		subtest(t, name, func(t *testing.T) {
			w := newWorld(t, one(discordsim.Rule{Quota: discordsim.Fixed(5, time.Second), Hash: "messages", Faults: []discordsim.Fault{fault}}))
			w.post(1, 40)
			assert.Less(t, w.finish(), 40*time.Second)
			report := w.Report()
			assert.Equal(t, 40, report.Accepted+report.Failed+report.Lost)
			assert.Zero(t, report.Refused.Total())
		})
	}
}

func TestFiftyTwoRequestsOfAFiftyPerSecondBudget(t *testing.T) {
	t.Parallel()
	for _, phase := range []time.Duration{0, 300 * time.Millisecond, 999 * time.Millisecond} {
		subtest(t, phase.String(), func(t *testing.T) {
			w := newWorld(t, discordsim.Config{
				Default: &discordsim.Rule{Path: "**", Quota: discordsim.Unlimited()}, Global: discordsim.Aligned(50, time.Second, phase),
			}, buckets.WithGlobalLimit(buckets.DefaultGlobalLimit))
			w.post(1, 52)
			elapsed := w.finish()
			assert.Equal(t, 52, w.Report().Accepted)
			assert.Zero(t, w.Report().Refused.Total())
			assert.Less(t, elapsed, 1200*time.Millisecond)
		})
	}
}

// Another process uses up the bucket all the time: that costs a refusal now and then, and stops nobody for long.
func TestForeignUseCostsFewRefusals(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		config := one(discordsim.Rule{Quota: discordsim.Fixed(5, time.Second), Hash: "messages"})
		config.Foreign = []discordsim.ForeignUse{{
			Request: discordsim.Request{Method: "POST", Path: "/channels/1/messages", Authorization: bot}, Every: 600 * time.Millisecond,
		}}
		w := newWorld(t, config)
		w.post(1, 60)
		assert.Less(t, w.finish(), time.Minute)
		assert.Equal(t, 60, w.Report().Accepted)
		assert.Zero(t, w.Report().Avoidable.Total())
		assert.LessOrEqual(t, w.Report().Refused.Total(), 10)
	})
}

// Many waiters, some of whom give up at any moment, in flight or not: all others are served, and everything is given
// back.
func TestCancelledAtAnyMoment(t *testing.T) {
	t.Parallel()
	for name, options := range map[string][]buckets.Option{
		"unordered": nil, "ordered": {buckets.WithOrdered()}, "global limit": {buckets.WithGlobalLimit(4)},
	} {
		subtest(t, name, func(t *testing.T) {
			w := newWorld(t, one(discordsim.Rule{Quota: discordsim.Fixed(5, time.Second), Hash: "messages"}), options...)
			served, gone := 0, 0
			outcomes := make(chan error, 200)
			for n := range 200 {
				ctx, cancel := context.WithCancel(t.Context())
				if n%3 != 0 {
					stop := time.AfterFunc(time.Duration(n*37%5000)*time.Millisecond, cancel)
					defer stop.Stop()
				}
				defer cancel()
				w.send(ctx, "POST", "/channels/1/messages", func(_ int, err error) { outcomes <- err })
			}
			w.finish()
			close(outcomes)
			for err := range outcomes {
				switch {
				case err == nil:
					served++
				case errors.Is(err, context.Canceled):
					gone++
				default:
					t.Error(err)
				}
			}
			assert.Equal(t, 200, served+gone)
			assert.GreaterOrEqual(t, served, 67, "all those that did not give up")
			assert.Zero(t, w.Report().Avoidable.Total())
		})
	}
}
