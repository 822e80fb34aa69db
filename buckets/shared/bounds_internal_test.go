package shared

import (
	"slices"
	"testing"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/ratelimits"
)

func TestAStateCanBeReadHoweverManyWait(t *testing.T) {
	s := state{version: version{1, 1}}
	s.touch(time.Hour, newSessionID(), 1, 2*most)
	read, err := decode(s.encode())
	require.NoError(t, err)
	assert.Equal(t, most, read.members[0].waiting)
}

// TestAClockThatIsHardlyKnownWasNotSetBack tests a session that knows the server's clock only roughly, because its
// first reply took long. It must not conclude from times of other sessions that the clock was set back.
func TestAClockThatIsHardlyKnownWasNotSetBack(t *testing.T) {
	store, err := New(nowhere{})
	require.NoError(t, err)
	s := newSession(store, clockwork.NewFakeClock(), clockwork.NewFakeClock().Now())
	defer s.Close()
	now := time.Hour
	s.engine.tell(now-3*time.Second, now, now-3*time.Second) // it ran at once, and the reply took long
	b := s.Bucket(Key{Hash: "h"}, &ratelimits.Window{}, func() {}).(*bucket)
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

func TestAClockThatWasNotHeardOfForLongIsNotKnown(t *testing.T) {
	store, err := New(nowhere{})
	require.NoError(t, err)
	clock := clockwork.NewFakeClock()
	s := newSession(store, clock, clock.Now())
	defer s.Close()
	s.engine.tell(0, 0, time.Hour)
	require.True(t, s.knowsEngine())
	clock.Advance(time.Hour)
	require.False(t, s.knowsEngine(), "clocks drift apart")
}
