package shared_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/ratelight/ratelight/buckets/shared"
	"github.com/ratelight/ratelight/ratelimits"
)

// TestACallSaysABoundedAmount tests that the size of a call is bounded, so that many requests which leave together do
// not block the server.
func TestACallSaysABoundedAmount(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.limited()
		a.asleep = true
		a.join(5000)
		b.join(4)
		pass(100 * ms)
		a.leave(5000)
		pass(100 * ms)
		assert.Less(t, a.link.most, 2000)
		assert.True(t, b.served(4), "their places are free")
	})
}

// TestClosingIsBounded tests that a session with very many loans ends in time, even if the server hangs.
func TestClosingIsBounded(t *testing.T) {
	for name, before := range map[string]time.Duration{"at once": 0, "while it renews them": 1100 * ms} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				p := w.process()
				for i := range 2000 {
					p.use(shared.Key{Hash: strconv.Itoa(i)}).join(1)
				}
				pass(100 * ms)
				w.server.SetFrozen(true)
				pass(before)
				start := w.now()
				p.session.Close()
				assert.LessOrEqual(t, w.now()-start, time.Second)
				w.server.SetFrozen(false)
			})
		})
	}
}

// TestNoResponseIsBelievedForLongerThanADay tests that processes that share a bucket bound the times in responses as a
// single process does.
func TestNoResponseIsBelievedForLongerThanADay(t *testing.T) {
	for name, response := range map[string]ratelimits.Response{
		"shared":     {Status: 429, Class: ratelimits.ClassShared, RetryAfter: 1000 * time.Hour, HasRetryAfter: true},
		"the window": headers(5, 0, 1000*time.Hour, 2000),
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				a, b := w.limited()
				a.join(4)
				pass(10 * ms)
				for range 4 {
					a.answer(response)
				}
				b.join(1)
				pass(100 * ms)
				assert.LessOrEqual(t, b.forecast(0).Wait, 25*time.Hour)
			})
		})
	}
}
