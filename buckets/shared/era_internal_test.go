package shared

import (
	"testing"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/ratelimits"
)

// inEras returns a session that was in era 1. At ten seconds it learnt that the clock was set back by an hour and that
// era 2 has begun.
func inEras(t *testing.T) *session {
	t.Helper()
	store, err := New(nowhere{})
	require.NoError(t, err)
	s := newSession(store, clockwork.NewFakeClock(), clockwork.NewFakeClock().Now())
	t.Cleanup(s.Close)
	s.entered(1, &reply{engine: 2 * time.Hour})
	heard := 10 * time.Second
	require.True(t, s.entered(2, &reply{engine: time.Hour + heard, sent: heard, received: heard}))
	return s
}

// A late reply of the previous era is not another change of eras, even if its call was sent when the session learnt of
// the new era.
func TestLateReplyDoesNotBringTheEraBack(t *testing.T) {
	for name, sent := range map[string]time.Duration{"before": 9 * time.Second, "at the same time": 10 * time.Second} {
		t.Run(name, func(t *testing.T) {
			s := inEras(t)
			require.False(t, s.entered(1, &reply{engine: 2*time.Hour + sent, sent: sent, received: 11 * time.Second}))
			require.EqualValues(t, 2, s.eraNumber())
		})
	}
	s := inEras(t) // but a server that was rolled back is
	require.True(t, s.entered(1, &reply{sent: 11 * time.Second, received: 11 * time.Second}))
	require.EqualValues(t, 1, s.eraNumber())
}

// If an era ended while a state was read, the times of the state are not by the clock of the new era. The bucket is
// held as after every era that has ended.
func TestStateOfTheEraBeforeIsNotReadByTheNewClock(t *testing.T) {
	s := inEras(t)
	b := s.Bucket(Key{Hash: "h"}, &ratelimits.Window{}, func() {}).(*bucket)
	b.mu.Lock()
	defer b.mu.Unlock()
	now, engine := 11*time.Second, 2*time.Hour+11*time.Second
	known := state{version: version{1, 1}, era: 1, window: ratelimits.NewWindow(engine, ratelimits.State{Limit: 1, Period: 5 * time.Second})}
	known.window.HoldFor(engine, time.Second, ratelimits.ClassUser)
	b.learn(&known, known.encode(), now)
	require.LessOrEqual(t, b.knownUntil, now+5*time.Second)
	b.outdate()
	require.Nil(t, b.known)
	require.LessOrEqual(t, b.recalls.until, now+5*time.Second)
}
