package buckets_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/buckets/shared"
	"github.com/ratelight/ratelight/ratelimits"
	"github.com/ratelight/ratelight/routes"
)

var errAway = errors.New("away")

// outageHub is a hub that reports an outage while it is silent, as buckets/shared does.
type outageHub struct{ *hub }

type outageSession struct {
	shared.Session
	hub *hub
}

func (h outageHub) Join(clock clockwork.Clock, origin time.Time) shared.Session {
	return outageSession{h.hub.Join(clock, origin), h.hub}
}

func (s outageSession) Outage() error {
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	if s.hub.silent {
		return errAway
	}
	return nil
}

func (s outageSession) Stats() shared.Stats { return shared.Stats{} }

// In an outage no request waits longer than its max wait, also if its route moves to another bucket meanwhile.
func TestMaxWaitHoldsInAnOutageWhenARouteMoves(t *testing.T) {
	t.Parallel()
	for name, moves := range map[string]bool{"stays": false, "moves": true} {
		subtest(t, name, func(t *testing.T) {
			h := newHub(t)
			m := started(t, buckets.WithShared(outageHub{h}))
			discover(t, m, message(1), limited("messages", 1, 0, time.Second))
			wait(2 * time.Second)
			probe := ask(m, list(1))
			require.True(t, probe.granted())
			impatient := call(buckets.ContextWithMaxWait(background, 5*time.Second), m, buckets.Request{Route: list(1), Authorization: bot})
			require.False(t, impatient.done())
			wait(time.Second)
			h.set(func(h *hub) { h.silent = true })
			wait(time.Second)
			if moves {
				probe.update(limited("messages", 1, 0, time.Second))
			}
			wait(10 * time.Second)
			var tooLong *ratelimits.TooLongError
			assert.ErrorAs(t, impatient.failed(), &tooLong, "its max wait is 5 s, and it has waited for 12 s")
			h.set(func(h *hub) { h.silent = false })
			impatient.cancel()
			if !moves {
				probe.update(limited("messages", 1, 0, time.Second))
			}
			wait(10 * time.Second)
			if impatient.granted() {
				impatient.lease.Release()
			}
		})
	}
}

// A later request may have a shorter max wait.
func TestEachRequestWaitsForItsMaxWaitInAnOutage(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		h := newHub(t)
		m := started(t, buckets.WithShared(outageHub{h}))
		h.set(func(h *hub) { h.silent = true })
		within := func(d time.Duration) *caller {
			return patient(m, d)
		}
		start := time.Now()
		patient, impatient := within(time.Minute), within(5*time.Second)
		wait(4 * time.Second)
		require.False(t, impatient.done())
		wait(2 * time.Second)
		var tooLong *ratelimits.TooLongError
		require.ErrorAs(t, impatient.failed(), &tooLong)
		assert.Equal(t, 5*time.Second, impatient.at.Sub(start).Truncate(time.Millisecond))
		require.False(t, patient.done())
		wait(time.Minute)
		require.ErrorAs(t, patient.failed(), &tooLong)
		drained(t, m)
	})
}

// The error of a request whose deadline passes in an outage names the outage.
func TestDeadlineThatPassesInAnOutageNamesTheOutage(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		h := newHub(t)
		m := started(t, buckets.WithShared(outageHub{h}))
		h.set(func(h *hub) { h.silent = true })
		ctx, cancel := context.WithTimeout(background, 5*time.Second)
		defer cancel()
		_, err := m.Acquire(ctx, message(1), bot)
		var tooLong *ratelimits.TooLongError
		require.ErrorAs(t, err, &tooLong)
		assert.ErrorIs(t, err, errAway)
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		drained(t, m)
	})
}

func TestTryAcquireFailsAtOnceInAnOutage(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		h := newHub(t)
		m := started(t, buckets.WithShared(outageHub{h}))
		discover(t, m, message(1), limited("messages", 5, 4, time.Minute))
		h.set(func(h *hub) { h.silent = true })
		start := time.Now()
		for _, route := range []routes.CompiledRoute{message(1), list(1)} {
			_, err := m.TryAcquire(route, bot)
			var tooLong *ratelimits.TooLongError
			require.ErrorAs(t, err, &tooLong)
			assert.ErrorIs(t, err, errAway)
		}
		assert.Zero(t, time.Since(start))
		drained(t, m)
	})
}
