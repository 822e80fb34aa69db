package ratelimits_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/internal/discordsim"
	"github.com/ratelight/ratelight/ratelimits"
)

// A log whose reset-after names the next place to come back looks like a fixed window until one of them has.
func TestLogThatNamesItsNextPlaceDrawsOneBatchOfRefusalsAtMost(t *testing.T) {
	t.Parallel()
	rhythms := map[string]func(s *served){
		"burst":           func(s *served) { s.Send(40) },
		"one each 50 ms":  func(s *served) { s.SendEvery(50*ms, 40) },
		"one each 150 ms": func(s *served) { s.SendEvery(150*ms, 40) },
		"one by one": func(s *served) {
			s.SendOneByOne(40)
		},
	}
	for _, limit := range []int{2, 5, 10} {
		for rhythm, play := range rhythms {
			for i, latency := range []func() travel{
				func() travel { return steady(0) },
				func() travel { return steady(40 * ms) },
				func() travel { return steady(200 * ms) },
				func() travel { return between(3, 10*ms, 120*ms) },
				func() travel { return between(4, 50*ms, 800*ms) },
			} {
				t.Run(fmt.Sprintf("%d, %s, latency %d", limit, rhythm, i), func(t *testing.T) {
					t.Parallel()
					s := serve(t, always(discordsim.SlidingNext(limit, second)), latency())
					play(s)
					s.Finish()
					assert.LessOrEqual(t, len(s.Refusals), limit, "one batch, where nothing could tell")
					assert.Zero(t, s.Avoidable())
					if rhythm != "one by one" {
						assert.Less(t, s.Now, time.Duration(40/limit+2)*(second+1700*ms)+8*second)
					}
				})
			}
		}
	}
}

// Every request of such a log is charged for a period: that somebody else fills it refutes nothing.
func TestLogThatNamesItsNextPlaceIsStillKnownAfterAStrangersRefusal(t *testing.T) {
	t.Parallel()
	s := serve(t, always(discordsim.SlidingNext(5, second)), steady(40*ms))
	s.SendEvery(150*ms, 40)
	s.Finish()
	require.Equal(t, ratelimits.KindNext, s.Kind())
	before := len(s.Refusals)
	s.Until(s.Now + 5*second)
	s.World.Consume(s.Start.Add(s.Now), message, 5)
	s.Send(1)
	s.Finish()
	require.Len(t, s.Refusals, before+1)
	assert.Equal(t, ratelimits.KindNext, s.Kind())
}

// What may never have reached the server need not be what comes back next.
func TestLogThatNamesItsNextPlaceIsStillKnownAfterALostRequest(t *testing.T) {
	t.Parallel()
	s := serve(t, always(discordsim.SlidingNext(5, second)), steady(40*ms))
	s.SendEvery(150*ms, 40)
	s.Finish()
	s.Until(s.Now + 5*second)
	require.Equal(t, ratelimits.KindNext, s.Kind())
	p, granted := s.Take(s.Now)
	require.True(t, granted)
	s.Lost(s.Now, p)
	s.Until(s.Now + 500*ms)
	s.Send(1)
	s.Finish()
	assert.Equal(t, ratelimits.KindNext, s.Kind())
}

// A request that is told of less than a period although it is the first shows that there are windows.
func TestFirstRequestInTheMiddleOfAWindowEndsTheSuspicion(t *testing.T) {
	t.Parallel()
	b := fixed(t, 5, 10*second)
	b.Report(2*second, b.send(2*second), refused(5, 8*second))
	b.exchange(30*second, ok(5, 4, 10*second))
	b.exchange(43*second, ok(5, 4, 7*second))
	for i, p := range b.burst(46*second, 4) {
		b.Report(46*second, p, ok(5, 3-i, 4*second))
	}
	b.burst(50*second+5*ms, 5)
}

// What was answered without limits before any limit was known is no reason to wait.
func TestErrorsBeforeTheFirstLimitsCostNothing(t *testing.T) {
	t.Parallel()
	b := newBucket(t)
	for i := range 100 {
		b.exchange(time.Duration(i)*10*ms, broken)
	}
	for i := range 3 {
		b.exchange(second, ok(5, 4-i, time.Duration(i+1)*200*ms))
	}
	assert.LessOrEqual(t, b.Reset(), second+600*ms+5*ms)
	b.left(second, 2)
}

// A request that is charged twice for a while, here as adopted and as one that may belong here, counts once in the end.
func TestRequestThatWasChargedTwiceCountsOnce(t *testing.T) {
	t.Parallel()
	for _, limit := range []int{3, 4, 5} {
		b := newBucket(t)
		b.exchange(0, ok(limit, limit-1, 10*second))
		provisional := b.Adopt(100*ms, 90*ms) // on a route whose bucket is not known
		other := b.send(100 * ms)
		moved := b.Adopt(150*ms, 90*ms) // this is its bucket
		b.Report(150*ms, moved, ok(limit, limit-3, 9900*ms))
		b.Return(150*ms, provisional)
		b.Report(160*ms, other, ok(limit, limit-2, 9900*ms))
		require.Zero(t, b.InFlight())
		b.left(160*ms, limit-3)
	}
}
