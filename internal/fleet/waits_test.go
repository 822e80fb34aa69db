package fleet_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/internal/discordsim"
	"github.com/ratelight/ratelight/internal/fleet"
	"github.com/ratelight/ratelight/ratelimits"
)

// queued makes requests of three processes wait for a bucket with a limit of one request per second. last is a fourth
// process, without requests. leave cancels the waiting requests.
func queued(t *testing.T, each int, test func(t *testing.T, f *fleet.Fleet, last *fleet.Process, leave func())) {
	t.Helper()
	rule := discordsim.Rule{Quota: discordsim.Fixed(1, time.Second), Hash: "messages"}
	inBubble(t, fleet.Config{Processes: 4, Discord: bucket(rule), Buckets: unlimited}, func(t *testing.T, f *fleet.Fleet) {
		last := f.Processes[3]
		require.NoError(t, f.Processes[0].Do(t.Context(), fleet.Message(1)).Err)
		ctx, leave := context.WithCancel(t.Context())
		defer leave()
		for range each {
			for _, p := range f.Processes[:3] {
				f.Go(func() { p.Do(ctx, fleet.Message(1)) })
			}
		}
		time.Sleep(1500 * time.Millisecond)
		test(t, f, last, leave)
		leave()
		finish(t, f, time.Hour)
		assert.Zero(t, f.Discord.Report().Refused.Total())
	})
}

// A process must count the waiting requests of other processes, even if it has none itself. The process must reject at
// once a request that would wait too long.
func TestMaxWaitCountsRequestsOfOtherProcesses(t *testing.T) {
	t.Parallel()
	queued(t, 10, func(t *testing.T, f *fleet.Fleet, last *fleet.Process, _ func()) {
		for _, ctx := range []context.Context{
			buckets.ContextWithMaxWait(t.Context(), 10*time.Second), buckets.ContextWithMaxWait(t.Context(), 0),
		} {
			o := last.Do(ctx, fleet.Message(1))
			var tooLong *ratelimits.TooLongError
			require.ErrorAs(t, o.Err, &tooLong)
			assert.Less(t, o.Wait, 100*time.Millisecond, "at once, after a call")
			t.Logf("%v, refused after %v", o.Err, o.Wait)
		}
		deadline, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		o := last.Do(deadline, fleet.Message(1))
		require.ErrorAs(t, o.Err, new(*ratelimits.TooLongError))
		assert.Less(t, o.Wait, 100*time.Millisecond)

		o = last.Do(buckets.ContextWithMaxWait(t.Context(), time.Minute), fleet.Message(1))
		require.NoError(t, o.Err)
		assert.InDelta(t, 29.5, o.Wait.Seconds(), 4, "after the requests of other processes")
	})
}

// A request must move up in the queue when requests of other processes leave the queue.
func TestRequestsOfOtherProcessesLeaveTheQueue(t *testing.T) {
	t.Parallel()
	queued(t, 30, func(t *testing.T, f *fleet.Fleet, last *fleet.Process, leave func()) {
		time.AfterFunc(2*time.Second, leave)
		o := last.Do(t.Context(), fleet.Message(1))
		require.NoError(t, o.Err)
		assert.Less(t, o.Wait, 5*time.Second)
	})
}

// When one process learns of a hold, requests of another process may have to wait too long. The other process must
// reject these requests when the hold begins.
func TestHoldOfAnotherProcessMakesWaitsTooLong(t *testing.T) {
	t.Parallel()
	inBubble(t, fleet.Config{
		Processes: 2, Buckets: unlimited, Discord: bucket(discordsim.Rule{
			Quota: discordsim.Fixed(1, time.Second), Hash: "messages",
			Shared: &discordsim.SharedLimit{Quota: discordsim.Fixed(3, time.Minute)},
		}),
	}, func(t *testing.T, f *fleet.Fleet) {
		short := buckets.ContextWithMaxWait(t.Context(), 20*time.Second)
		outcomes := make(chan fleet.Outcome, 12)
		for range 6 {
			for _, p := range f.Processes {
				f.Go(func() { outcomes <- p.Do(short, fleet.Message(1)) })
				synctest.Wait()
			}
		}
		took := finish(t, f, time.Hour)
		assert.Less(t, took, 10*time.Second, "requests must be rejected when the hold begins")
		close(outcomes)
		served := 0
		for o := range outcomes {
			if o.Err == nil {
				served++
				continue
			}
			require.ErrorAs(t, o.Err, new(*ratelimits.TooLongError))
		}
		assert.Equal(t, 3, served)
		assert.LessOrEqual(t, f.Discord.Report().Refused.Shared, 1)
	})
}

// A waiting request must not be rejected at the moment when its window opens. At that moment, earlier requests have a
// permit of the engine but have not been sent. The prediction must not count them twice.
func TestWaitingRequestIsNotRejectedWhenItsWindowOpens(t *testing.T) {
	t.Parallel()
	for _, each := range []int{6, 7, 9, 15} {
		inBubble(t, fleet.Config{
			Processes: 2, Buckets: []buckets.Option{buckets.WithMaxRateLimit(10 * time.Second)},
			Discord: bucket(discordsim.Rule{Quota: discordsim.Fixed(5, 5*time.Second), Hash: "messages"}),
		}, func(t *testing.T, f *fleet.Fleet) {
			outcomes := make(chan fleet.Outcome, 2*each)
			for range each {
				for _, p := range f.Processes {
					f.Go(func() { outcomes <- p.Do(t.Context(), fleet.Message(1)) })
				}
			}
			finish(t, f, time.Hour)
			served := servedOrRejected(t, outcomes, time.Second)
			assert.Equal(t, 10, served, "the third window opens after more than 10 s; %d requests of each process", each)
			assert.Zero(t, f.Discord.Report().Refused.Total())
		})
	}
}

// servedOrRejected returns the number of successes, when all requests have ended. All other requests must have been
// rejected within the given time: a request that is rejected later has waited in vain.
func servedOrRejected(t *testing.T, outcomes chan fleet.Outcome, within time.Duration) (served int) {
	t.Helper()
	close(outcomes)
	for o := range outcomes {
		if o.Err == nil {
			served++
			continue
		}
		require.ErrorAs(t, o.Err, new(*ratelimits.TooLongError))
		assert.Less(t, o.Wait, within, "rejected late: %v", o.Err)
	}
	return served
}

// A request whose predicted wait is exactly its max wait must not be rejected later, although calls and responses make
// each window a little longer.
func TestRequestThatWaitsForExactlyItsMaxWaitIsServed(t *testing.T) {
	t.Parallel()
	inBubble(t, fleet.Config{
		Processes: 2, Buckets: unlimited,
		Discord: bucket(discordsim.Rule{Quota: discordsim.Fixed(5, 5*time.Second), Hash: "messages"}),
	}, func(t *testing.T, f *fleet.Fleet) {
		for round := range 6 {
			wait := buckets.ContextWithMaxWait(t.Context(), time.Duration(10000+20*round)*time.Millisecond)
			outcomes := make(chan fleet.Outcome, 20)
			for i := range 20 {
				f.Go(func() { outcomes <- f.Processes[i%2].Do(wait, fleet.Message(1)) })
				time.Sleep(10 * time.Millisecond)
			}
			finish(t, f, time.Hour)
			served := servedOrRejected(t, outcomes, 200*time.Millisecond)
			assert.GreaterOrEqual(t, served, 10, "round %d", round)
			time.Sleep(20 * time.Second)
		}
	})
}

// The first requests of a route wait for a declared limit. Their wait is longer than the time for which a process is
// permitted to discover the bucket. Even then, only one process may discover the bucket.
func TestOneProcessDiscoversABucketBelowADeclaredLimit(t *testing.T) {
	for _, period := range []time.Duration{8 * time.Second, 30 * time.Second} {
		t.Run(period.String(), func(t *testing.T) { oneDiscovers(t, period) })
	}
}

func oneDiscovers(t *testing.T, period time.Duration) {
	config := bucket(discordsim.Rule{Quota: discordsim.Fixed(1, 5*time.Second), Hash: "messages"})
	inBubble(t, fleet.Config{
		Processes: 3, Discord: config,
		Buckets: append([]buckets.Option{buckets.WithLimit(buckets.ForAll(), 3, period, buckets.Named("all"))}, unlimited...),
	}, func(t *testing.T, f *fleet.Fleet) {
		for n := range 3 {
			require.NoError(t, f.Processes[0].Do(t.Context(), fleet.History(50+n)).Err)
		}
		for _, p := range f.Processes {
			f.Go(func() { p.Do(t.Context(), fleet.Message(1)) })
		}
		finish(t, f, time.Hour)
		assert.Zero(t, f.Discord.Report().Refused.Total())
	})
}
