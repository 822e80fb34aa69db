package shared

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/ratelimits"
)

// nowhere is an engine that fails all calls.
type nowhere struct{}

func (nowhere) Exchange(context.Context, *Call) (*Reply, error) {
	return nil, errors.New("there is no server")
}

// newTestSession returns a session all of whose calls fail.
func newTestSession(t *testing.T, clock clockwork.Clock) *session {
	t.Helper()
	store, err := New(nowhere{})
	require.NoError(t, err)
	s := newSession(store, clock, clock.Now())
	t.Cleanup(s.Close)
	return s
}

func (s *session) testBucket() *bucket {
	return s.Bucket(Key{Hash: "h"}, &ratelimits.Window{}, func() {}).(*bucket)
}

// A process has asked for an earlier loan of a bucket. This want is still on the server when the bucket is lent again.
// The new loan must not count as wanted.
func TestWantOfAnEarlierLoanDoesNotEndTheNextOne(t *testing.T) {
	for lent, wanted := range map[string]bool{"1.1": false, "1.2": true} {
		s := newTestSession(t, clockwork.NewFakeClock())
		b := s.testBucket()
		b.loan = &loan{state: &state{version: version{1, 2}}}
		b.want(&want{session: newSessionID(), lent: lent})
		assert.Equal(t, wanted, b.loan.wanted, lent)
	}
}

// A reply has shown that a session is dead, but the session has made a call since. The session's requests in flight
// must stay in flight.
func TestSessionThatComesBackKeepsItsRequests(t *testing.T) {
	for name, back := range map[string]bool{"dead": false, "back": true} {
		t.Run(name, func(t *testing.T) {
			s := newTestSession(t, clockwork.NewFakeClock())
			now, other := time.Hour, newSessionID()
			s.engine.tell(now, now, now)
			b := s.testBucket()
			b.mu.Lock()
			defer b.mu.Unlock()
			window := ratelimits.NewWindow(now, ratelimits.State{Limit: 1, Period: time.Second})
			known := state{version: version{1, 1}, window: window}
			known.enqueue(other, []place{{session: other, number: 1, arrived: now}})
			require.Len(t, known.serve(now), 1)
			known.touch(now-sessionTime-time.Second, other, 1, 0)
			b.learn(&known, known.encode(), now)
			b.dead = []string{other}
			if back {
				known.touch(now-time.Second, other, 2, 0)
				b.learn(&known, known.encode(), now)
			}
			b.seat(1, slices.Values([]time.Duration{now}))
			q := b.compose(now)
			require.NotNil(t, q)
			if back {
				require.Len(t, q.next.flights, 1)
			} else {
				require.Empty(t, q.next.flights)
			}
		})
	}
}

// A dead session may have used a permit just before it died, because a request with a permit may have waited for the
// global limit until then. So the permit must be charged from that time on.
func TestPermitOfADeadSessionIsChargedAtTheEndOfItsLife(t *testing.T) {
	granted, period := time.Hour, 10*time.Second
	s := state{window: ratelimits.NewWindow(granted, ratelimits.State{Limit: 1, Period: period})}
	s.touch(granted, "dead", 1, 0)
	s.enqueue("dead", []place{{session: "dead", number: 1, arrived: granted}})
	require.Len(t, s.serve(granted), 1)
	now := granted + 8*time.Second // the session was alive for five seconds, and used other buckets
	s.bury(now, "dead")
	at, ok := s.window.Next(now)
	require.True(t, ok)
	assert.GreaterOrEqual(t, at, now+period)
}

func TestStateWithTheLargestCountsCanBeRead(t *testing.T) {
	s := state{version: version{1, 1}}
	s.touch(time.Hour, newSessionID(), 1, 2*most)
	read, err := decode(s.encode())
	require.NoError(t, err)
	assert.Equal(t, most, read.members[0].waiting)
}

// A session knows the server's clock only roughly, because the first reply took long. If a state then contains times
// that seem to be in the future, the session must not conclude that the clock was set back.
func TestRoughlyKnownClockWasNotSetBack(t *testing.T) {
	s := newTestSession(t, clockwork.NewFakeClock())
	now := time.Hour
	s.engine.tell(now-3*time.Second, now, now-3*time.Second) // the call was carried out at once, but the reply took long
	b := s.testBucket()
	b.mu.Lock()
	defer b.mu.Unlock()
	w := ratelimits.NewWindow(now, ratelimits.State{Limit: 1, Used: 1, Reset: 10 * time.Second, Period: 10 * time.Second})
	known := state{version: version{1, 1}, window: w}
	known.touch(now, newSessionID(), 1, 0)
	b.learn(&known, known.encode(), now)
	b.seat(1, slices.Values([]time.Duration{now}))
	q := b.compose(now)
	require.NotNil(t, q)
	at, ok := q.next.window.Next(now)
	require.True(t, ok)
	assert.Equal(t, now+10*time.Second, at)
}

func TestServersClockIsNotKnownForLongWithoutReplies(t *testing.T) {
	clock := clockwork.NewFakeClock()
	s := newTestSession(t, clock)
	s.engine.tell(0, 0, time.Hour)
	require.True(t, s.knowsEngine())
	clock.Advance(time.Hour)
	require.False(t, s.knowsEngine(), "the clocks may have drifted apart")
}

// inEras returns a session that was in era 1. At ten seconds it received a reply from era 2, in which the server's
// clock is an hour behind.
func inEras(t *testing.T) *session {
	t.Helper()
	s := newTestSession(t, clockwork.NewFakeClock())
	s.entered(1, &reply{engine: 2 * time.Hour})
	heard := 10 * time.Second
	require.True(t, s.entered(2, &reply{engine: time.Hour + heard, sent: heard, received: heard}))
	return s
}

// A late reply from the earlier era must not change the era, even if its call was sent at the moment at which the reply
// from the new era arrived.
func TestLateReplyDoesNotBringTheEraBack(t *testing.T) {
	for name, sent := range map[string]time.Duration{"before": 9 * time.Second, "at the same time": 10 * time.Second} {
		t.Run(name, func(t *testing.T) {
			s := inEras(t)
			require.False(t, s.entered(1, &reply{engine: 2*time.Hour + sent, sent: sent, received: 11 * time.Second}))
			require.EqualValues(t, 2, s.eraNumber())
		})
	}
	s := inEras(t) // a later call shows that the server has gone back
	require.True(t, s.entered(1, &reply{sent: 11 * time.Second, received: 11 * time.Second}))
	require.EqualValues(t, 1, s.eraNumber())
}

// An era ends while a session reads a state of that era. The times in that state must not be taken as times by the
// clock of the new era. The state must only say how long to hold the bucket.
func TestStateOfTheEarlierEraIsNotReadByTheNewClock(t *testing.T) {
	s := inEras(t)
	b := s.testBucket()
	b.mu.Lock()
	defer b.mu.Unlock()
	now, engine := 11*time.Second, 2*time.Hour+11*time.Second
	window := ratelimits.NewWindow(engine, ratelimits.State{Limit: 1, Period: 5 * time.Second})
	known := state{version: version{1, 1}, era: 1, window: window}
	known.window.HoldFor(engine, time.Second, ratelimits.ClassUser)
	b.learn(&known, known.encode(), now)
	require.LessOrEqual(t, b.knownUntil, now+5*time.Second)
	b.outdate()
	require.Nil(t, b.known)
	require.LessOrEqual(t, b.recalls.until, now+5*time.Second)
}

// Any list of numbers that a script returns must be rejected, or be decoded into a reply with bounded values.
func TestAnyNumbersAreNoReplyOrABoundedReply(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	some := []int64{0, 1, 2, 5, -1, math.MaxInt64, math.MinInt64, math.MaxInt64 - 18, 1 << 40}
	replies := 0
	for range 100_000 {
		values := make([]int64, random.IntN(20))
		for i := range values {
			values[i] = some[random.IntN(len(some))]
		}
		reply, ok := newReply(values)
		if !ok {
			continue
		}
		replies++
		assert.GreaterOrEqual(t, reply.Time, time.Duration(0))
		assert.Positive(t, reply.Time+forever, "the sum must not overflow")
		for _, loaded := range reply.Values {
			assert.GreaterOrEqual(t, loaded.Life, time.Duration(0))
			assert.LessOrEqual(t, loaded.Life, forever)
			assert.LessOrEqual(t, len(loaded.Value), len(values))
		}
	}
	assert.Positive(t, replies)
}
