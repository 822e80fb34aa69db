package buckets_test

import (
	"errors"
	"testing"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/buckets/shared"
	"github.com/ratelight/ratelight/ratelimits"
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
