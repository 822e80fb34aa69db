package ratelimits_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/ratelimits"
)

// punctual is a fixed window of one request that opens exactly when it says. Each way takes half a trip.
type punctual struct {
	ratelimits.Window
	t            *testing.T
	period, trip time.Duration
	now, opens   time.Duration
	refused      int
}

// one sends one request as early as possible, and waits for its answer.
func (s *punctual) one() {
	s.t.Helper()
	at, ok := s.Next(s.now)
	require.True(s.t, ok)
	s.now = max(s.now, at)
	p, ok := s.Take(s.now)
	require.True(s.t, ok)
	arrives := s.now + s.trip/2
	s.now += s.trip
	if arrives < s.opens {
		s.refused++
		wait := s.opens - arrives
		s.Report(s.now, p, ratelimits.Response{
			Status: 429, Class: ratelimits.ClassUser, Limited: true, Limit: 1, ResetAfter: wait, HasRetryAfter: true, RetryAfter: wait,
		})
		return
	}
	s.opens = arrives + s.period
	s.Report(s.now, p, ratelimits.Response{Status: 200, Limited: true, Limit: 1, ResetAfter: s.period})
}

// A single request of another client, that arrives less than a round trip before ours, is taken for lateness of a whole
// period.
func TestOneRequestOfAnotherClientIsNotLateness(t *testing.T) {
	t.Parallel()
	s := &punctual{t: t, period: time.Hour, trip: 100 * ms, now: second}
	for range 20 {
		s.one()
	}
	require.Zero(t, s.refused)
	s.opens += 10*ms + s.period // another client was there 10 ms after the opening
	s.one()
	require.Equal(t, 1, s.refused)
	by, _ := s.Late()
	t.Log("late by", by)
	start := s.now
	for range 60 {
		s.one()
	}
	assert.Less(t, s.now-start, 62*s.period, "60 requests of a bucket of one an hour")
	assert.Less(t, by, second)
}

// A 429 without a scope that says that the bucket has room is about something else.
func TestRefusalWithRoomIsNotLateness(t *testing.T) {
	t.Parallel()
	var w ratelimits.Window
	now := second
	send := func(r ratelimits.Response) {
		t.Helper()
		at, ok := w.Next(now)
		require.True(t, ok)
		now = max(now, at)
		p, ok := w.Take(now)
		require.True(t, ok)
		now += 100 * ms
		w.Report(now, p, r)
	}
	ok := func(remaining int, after time.Duration) ratelimits.Response {
		return ratelimits.Response{Status: 200, Limited: true, Limit: 2, Remaining: remaining, ResetAfter: after}
	}
	for range 20 {
		send(ok(1, 60*second))
		send(ok(0, 60*second-100*ms))
	}
	send(ratelimits.Response{ // no scope, so it is not of the class of sub-limits
		Status: 429, Class: ratelimits.ClassUser, Limited: true, Limit: 2, Remaining: 1, ResetAfter: 55 * second, HasRetryAfter: true, RetryAfter: 50 * second,
	})
	by, _ := w.Late()
	assert.Zero(t, by, "the bucket has room: it is open")
}

// globally runs a Global against a server whose seconds are punctual, for a while, and returns how many it lets go.
func globally(g *ratelimits.Global, now *time.Duration, d, trip time.Duration) (n int) {
	type out struct {
		slot ratelimits.Slot
		at   time.Duration
	}
	var flying []out
	for end := *now + d; *now < end; *now += 5 * ms {
		for len(flying) > 0 && flying[0].at <= *now {
			g.Accepted(flying[0].slot)
			g.Report(*now, flying[0].slot)
			flying = flying[1:]
		}
		for {
			if g.Tries(*now) && len(flying) > 0 {
				break
			}
			slot, wait := g.Take(*now)
			if wait > 0 {
				break
			}
			n++
			flying = append(flying, out{slot, *now + trip})
		}
	}
	for _, f := range flying {
		g.Report(max(*now, f.at), f.slot)
	}
	return n
}

// A 429 to a large upload makes the global limit late by the upload's time, twice.
func TestSlowRefusalDoesNotMakeSecondsOpenSecondsLate(t *testing.T) {
	t.Parallel()
	g := ratelimits.NewGlobal(50)
	now := second
	before := globally(g, &now, 60*second, 50*ms)
	for g.Wait(now) > 0 {
		now += 5 * ms
	}
	slot, wait := g.Take(now)
	require.Zero(t, wait)
	now += 1900 * ms
	g.Refused(now, slot, 50*ms)
	g.Report(now, slot)
	t.Log("late by", g.Late())
	after := globally(g, &now, 60*second, 50*ms)
	assert.Greater(t, after, before/2, "before %d", before)
	assert.LessOrEqual(t, g.Late(), second/2)
}

func TestSecondsOpenHalfASecondLateAtMost(t *testing.T) {
	t.Parallel()
	for expected, want := range map[time.Duration]time.Duration{400 * ms: 400 * ms, second: 500 * ms} {
		g := ratelimits.NewGlobal(50)
		g.ExpectLate(second, expected)
		assert.Equal(t, want, g.Late())
	}
}
