package shared_test

import (
	"context"
	"testing"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets/shared"
	"github.com/ratelight/ratelight/internal/redistest"
)

// half is a cluster of which the node is down that keeps the key of the address: that is in another slot than those of
// the application.
type half struct{ *redistest.Memory }

func (h half) Run(ctx context.Context, script *shared.Script, keys []string, arguments ...string) ([]int64, error) {
	if script.Name == "invalid" {
		return nil, redistest.ErrDown
	}
	return h.Memory.Run(ctx, script, keys, arguments...)
}

// TestTheSlotOfTheAddressIsNoneOfTheBuckets tests that no bucket stops because invalid responses cannot be counted.
func TestTheSlotOfTheAddressIsNoneOfTheBuckets(t *testing.T) {
	inWorld(t, func(w *world) {
		store, err := shared.New(shared.OnScripts(half{w.server}), shared.WithOutage(shared.OutageFail), shared.WithAddress("203.0.113.7"))
		require.NoError(t, err)
		p := &process{world: w, session: store.Join(clockwork.NewRealClock(), w.start), link: &link{Memory: w.server}}
		w.processes = append(w.processes, p)
		p.session.Invalid()
		pass(10 * time.Second)
		u := p.use(someKey)
		u.join(1)
		pass(10 * ms)
		assert.Empty(t, u.errs)
		assert.True(t, u.lent)
	})
}

// skewed is a cluster of which the node that keeps the key of the address has another clock.
type skewed struct {
	*redistest.Memory
	late *int
}

func (s skewed) Run(ctx context.Context, script *shared.Script, keys []string, arguments ...string) ([]int64, error) {
	if script.Name == "invalid" {
		if arguments[0] != "0" {
			*s.late++
		}
		return []int64{0, time.Now().Add(-time.Minute).UnixMilli(), 0}, nil
	}
	reply, err := s.Memory.Run(ctx, script, keys, arguments...)
	if err == nil && reply[0] < 0 {
		*s.late++
	}
	return reply, err
}

// TestTheClockOfTheAddressIsNoneOfTheBuckets tests that calls are not taken for late by the clock of another node.
func TestTheClockOfTheAddressIsNoneOfTheBuckets(t *testing.T) {
	inWorld(t, func(w *world) {
		late := 0
		store, err := shared.New(shared.OnScripts(skewed{w.server, &late}), shared.WithAddress("203.0.113.7"))
		require.NoError(t, err)
		p := &process{world: w, session: store.Join(clockwork.NewRealClock(), w.start), link: &link{Memory: w.server}}
		w.processes = append(w.processes, p)
		for range 5 {
			u := p.use(someKey)
			u.join(1)
			p.session.Invalid()
			pass(1500 * ms)
		}
		assert.Zero(t, late)
	})
}
