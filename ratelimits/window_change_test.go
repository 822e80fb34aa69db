package ratelimits_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/ratelight/ratelight/internal/discordsim"
)

func TestLoweredLimitCountsAtOnce(t *testing.T) {
	t.Parallel()
	b := known(t, 5, 10*second)
	b.exchange(second, ok(3, 1, 9*second))
	assert.Equal(t, 3, b.Limit())
	b.left(second, 1)
	b.exchange(second, ok(3, 0, 9*second))
	b.closedUntil(second, 10*second+rounding)
	b.exchange(11*second, ok(3, 2, 10*second))
	b.burst(11*second, 2)
}

func TestRaisedLimitIsBelievedAfterTwoAnswersAndGrowsByDoubling(t *testing.T) {
	t.Parallel()
	b := known(t, 5, second)
	for window, want := range []int{10, 20, 30, 30} {
		now, before := b.Reset()-second, b.Limit()
		b.exchange(now, ok(30, 28, second))
		b.exchange(now, ok(30, 27, second))
		reset := b.Reset()
		b.left(reset-second/2, before-3)
		assert.Equal(t, before, b.Limit(), "window %d: not before its end", window)
		assert.Equal(t, want, b.Remaining(reset), "window %d", window)
		assert.Equal(t, want, b.Limit(), "window %d", window)
		b.exchange(reset, ok(30, 29, second))
	}
}

func TestRaisedLimitThatIsNotConfirmedIsNotBelieved(t *testing.T) {
	t.Parallel()
	for name, limits := range map[string][]int{
		"named once":                         {30},
		"taken back":                         {30, 30, 5},
		"another limit each time":            {30, 40, 50},
		"not confirmed by the next response": {30, 5, 30},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := known(t, 5, second)
			for i, limit := range limits {
				b.exchange(100*ms, ok(limit, limit-2-i, 900*ms))
			}
			b.left(second+rounding, 5)
			assert.Equal(t, 5, b.Limit())
		})
	}
}

func TestUseByOthersIsAdopted(t *testing.T) {
	t.Parallel()
	for _, left := range []int{3, 0} {
		b := known(t, 10, 10*second)
		b.exchange(second, ok(10, left, 9*second))
		b.left(second, left)
		b.burst(second, left)
		b.closedUntil(second, 10*second+rounding)
	}
}

// The server may have processed the requests in flight before or after the answered one. In both cases, there must be
// room for the requests in flight.
func TestUseByOthersLeavesRoomForWhatIsInFlight(t *testing.T) {
	t.Parallel()
	b := known(t, 10, 10*second)
	permits := b.many(second, 3)
	b.Report(second+10*ms, permits[0], ok(10, 4, 9*second)) // counts at least two of our requests, four of other clients
	b.left(second+10*ms, 2)
}

// One answer says that the window is a day long. When the next two answers have contradicted this answer, the client
// must no longer believe it.
func TestResetThatTwoLaterAnswersDenyIsNotBelieved(t *testing.T) {
	t.Parallel()
	b := known(t, 5, second)
	b.exchange(100*ms, ok(5, 3, 24*time.Hour))
	b.exchange(200*ms, ok(5, 2, 800*ms))
	assert.Greater(t, b.Reset(), 24*time.Hour, "one contradicting answer may itself be wrong")
	b.exchange(300*ms, ok(5, 1, 700*ms))
	b.exchange(400*ms, ok(5, 0, 600*ms))
	assert.InDelta(t, second, b.opens(400*ms), float64(5*ms))
}

// A raised limit applies one period after two answers in a row have named it. The rule must also work with a limit of
// one, where no request is charged any more when the second answer comes, and in a bucket in constant use, where every
// answer names the new limit.
func TestRaisedLimitIsBelievedByABucketOfOneRequestAndByOneThatIsAlwaysInUse(t *testing.T) {
	t.Parallel()
	for name, quota := range map[string]func(int, time.Duration) discordsim.Quota{
		"fixed": discordsim.Fixed, "sliding log": discordsim.Sliding, "leaky": discordsim.Leaky,
	} {
		for _, limit := range []int{1, 5} {
			t.Run(fmt.Sprintf("%s, %d", name, limit), func(t *testing.T) {
				t.Parallel()
				rule := always(quota(limit, second))
				rule.Changes = []discordsim.Change{{At: 5 * second, Quota: quota(10*limit, second)}}
				s := serve(t, rule, steady(20*ms))
				for s.Now < 60*second {
					s.SendEvery(400*ms, 1)
				}
				assert.Equal(t, 10*limit, s.Limit(), "after 55 periods in which every answer named it")
			})
		}
	}
}

// If a request was sent before the limit was lowered, the answer to it names the old limit. Such an answer must not
// raise the limit again.
func TestAnswersFromBeforeALowerLimitDoNotRaiseIt(t *testing.T) {
	t.Parallel()
	b := known(t, 10, second)
	early := b.many(100*ms, 2)
	b.exchange(200*ms, ok(5, 1, 800*ms)) // the limit has been lowered
	b.Report(300*ms, early[0], ok(10, 8, 900*ms))
	b.Report(300*ms, early[1], ok(10, 7, 900*ms))
	b.left(2*second, 5)
	b.burst(2*second, 5)
}

// Sums of the largest allowed numbers must not overflow.
func TestLargestLimitDoesNotOverflow(t *testing.T) {
	t.Parallel()
	const limit, left = 1_000_000_000, 100_000_000
	b := newBucket(t)
	b.exchange(0, ok(limit, limit-1, second))
	early := b.send(0)
	for i := range 3 {
		now := time.Duration(2*i+2) * second
		b.exchange(now, ok(limit, left, second))
	}
	b.Report(6500*ms, early, ok(limit, limit-1, second))
	state := b.State(6500 * ms)
	assert.GreaterOrEqual(t, state.Used, left, "the count does not overflow")
	assert.LessOrEqual(t, b.Remaining(6500*ms), left)
	at, certain := b.Next(6500 * ms)
	assert.True(t, certain, "nothing is in flight")
	assert.Less(t, at, 10*second)
}
