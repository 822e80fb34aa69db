package shared_test

import (
	"context"
	"testing"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets/shared"
	"github.com/ratelight/ratelight/internal/memoryengine"
)

// half is a cluster in which one node is down: the node with the key of the address, which is in another slot than the
// application's keys.
type half struct{ server }

func (h half) Exchange(ctx context.Context, call *shared.Call) (*shared.Reply, error) {
	if call.Purpose == "invalid" {
		return nil, memoryengine.ErrDown
	}
	return h.server.Exchange(ctx, call)
}

// TestTheSlotOfTheAddressIsNoneOfTheBuckets tests that no bucket stops because invalid responses cannot be counted.
func TestTheSlotOfTheAddressIsNoneOfTheBuckets(t *testing.T) {
	inWorld(t, func(w *world) {
		store, err := shared.New(half{w.server}, shared.WithOutage(shared.OutageFail), shared.WithAddress("203.0.113.7"))
		require.NoError(t, err)
		p := &process{world: w, session: store.Join(clockwork.NewRealClock(), w.start), link: &link{server: w.server}}
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

// skewed is a cluster in which the node with the key of the address has another clock.
type skewed struct {
	server
	late *int
}

func (s skewed) Exchange(ctx context.Context, call *shared.Call) (*shared.Reply, error) {
	invalid := call.Purpose == "invalid"
	if invalid && call.NotAfter != 0 {
		*s.late++
	}
	reply, err := s.server.Exchange(ctx, call)
	switch {
	case err == nil && reply.Late:
		*s.late++
	case err == nil && invalid:
		reply.Time -= time.Minute
	}
	return reply, err
}

// TestTheClockOfTheAddressIsNoneOfTheBuckets tests that no call counts as late by the clock of another node.
func TestTheClockOfTheAddressIsNoneOfTheBuckets(t *testing.T) {
	inWorld(t, func(w *world) {
		late := 0
		store, err := shared.New(skewed{w.server, &late}, shared.WithAddress("203.0.113.7"))
		require.NoError(t, err)
		p := &process{world: w, session: store.Join(clockwork.NewRealClock(), w.start), link: &link{server: w.server}}
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
