package shared_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets/shared"
	"github.com/ratelight/ratelight/internal/memoryengine"
	"github.com/ratelight/ratelight/ratelimits"
)

func TestNothingRunsAfterClose(t *testing.T) {
	inWorld(t, func(w *world) {
		w.server.SetFrozen(true)
		a := w.process().use(someKey)
		a.join(10)
		pass(100 * ms)
		start := w.now()
		a.session.Close()
		assert.LessOrEqual(t, w.now()-start, time.Second)
		a.join(1)
		a.bucket.Close()
		w.server.SetFrozen(false)
		pass(time.Minute)
		assert.Zero(t, a.leaves())
		calls := w.server.Total()
		pass(time.Minute)
		assert.Equal(t, calls, w.server.Total())
	})
}

func TestClosedSessionHasNoPlacesAndLoans(t *testing.T) {
	inWorld(t, func(w *world) {
		p := w.process()
		a, lent := p.use(someKey), p.use(elsewhere)
		b := w.process()
		other, otherLent := b.use(someKey), b.use(elsewhere)
		lent.join(1)
		other.join(1)
		pass(10 * ms)
		require.True(t, other.lent)
		a.asleep = true
		a.join(10)
		pass(10 * ms)
		other.giveBack(ratelimits.State{Limit: 1, Period: time.Second})
		pass(10 * ms)
		p.session.Close()
		other.join(1)
		otherLent.join(1)
		pass(1200 * ms)
		assert.Equal(t, 1, other.leaves())
		pass(10 * time.Second) // the longest period, because the closed session has not reported its window
		assert.True(t, otherLent.served(1))
	})
}

// Close must return within a second, even with many loans and whatever the server does.
func TestCloseTakesASecondAtMost(t *testing.T) {
	for name, breaks := range map[string]func(w *world){
		"frozen": func(w *world) { w.server.SetFrozen(true) },
		"frozen while the session renews its loans": func(w *world) {
			w.server.SetFrozen(true)
			pass(1100 * ms)
		},
		"down": func(w *world) { w.server.SetDown(true) },
		"slow": func(w *world) {
			w.server.Decide(func(string) memoryengine.Fate { return memoryengine.Fate{Before: 400 * ms, After: 400 * ms} })
		},
	} {
		eachWorld(t, name, func(t *testing.T, w *world) {
			p := w.process(shared.WithCallTimeout(5 * time.Second))
			for i := range 2000 {
				p.use(shared.Key{Hash: strconv.Itoa(i)}).join(1)
			}
			pass(100 * ms)
			breaks(w)
			start := w.now()
			p.session.Close()
			assert.LessOrEqual(t, w.now()-start, time.Second)
			w.server.SetFrozen(false)
		})
	}
}
