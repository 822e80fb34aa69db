package shared

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/ratelimits"
)

type nowhere struct{}

func (nowhere) Exchange(context.Context, *Call) (*Reply, error) {
	return nil, errors.New("there is no server")
}

// TestWhoComesBackIsNotBuried tests that a session's requests stay in flight if the session has come back since the
// server reported it dead.
func TestWhoComesBackIsNotBuried(t *testing.T) {
	for name, back := range map[string]bool{"dead": false, "back": true} {
		t.Run(name, func(t *testing.T) {
			store, err := New(nowhere{})
			require.NoError(t, err)
			s := newSession(store, clockwork.NewFakeClock(), clockwork.NewFakeClock().Now())
			defer s.Close()
			now, other := time.Hour, newSessionID()
			s.engine.tell(now, now, now)
			b := s.Bucket(Key{Hash: "h"}, &ratelimits.Window{}, func() {}).(*bucket)
			b.mu.Lock()
			defer b.mu.Unlock()
			known := state{version: version{1, 1}, window: ratelimits.NewWindow(now, ratelimits.State{Limit: 1, Period: time.Second})}
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
