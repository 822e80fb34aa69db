package shared_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/ratelight/ratelight/ratelimits"
)

// refusal is a 429 of a class.
func refusal(class ratelimits.Class, wait time.Duration) ratelimits.Response {
	return ratelimits.Response{Status: 429, Class: class, HasRetryAfter: true, RetryAfter: wait}
}

func TestAfterARefusalOneGoesFirst(t *testing.T) {
	for _, class := range []ratelimits.Class{ratelimits.ClassUser, ratelimits.ClassShared} {
		t.Run(class.String(), func(t *testing.T) {
			inWorld(t, func(w *world) {
				a, b := w.limited()
				a.join(1)
				pass(10 * ms)
				a.answer(refusal(class, 3*time.Second))
				pass(10 * ms)
				b.join(5)
				pass(10 * ms)
				a.join(1) // so that the bucket is not lent
				pass(10 * ms)
				f := b.forecast(0)
				assert.Equal(t, class, f.Class)
				assert.InDelta(t, 3*time.Second, f.Wait, float64(50*ms))
				pass(2930 * ms)
				assert.Zero(t, b.leaves())
				pass(100 * ms)
				assert.Equal(t, 1, b.leaves())
				pass(500 * ms)
				assert.Equal(t, 1, b.leaves())
				b.answer(headers(5, 4, time.Second, 5000))
				pass(50 * ms)
				want := 5
				if class == ratelimits.ClassShared {
					want = 2 // as many as were let through before
				}
				assert.Equal(t, want, b.leaves())
			})
		})
	}
}

func TestRefusalsByOtherLimitsGiveThePermitBack(t *testing.T) {
	for _, class := range []ratelimits.Class{ratelimits.ClassGlobal, ratelimits.ClassEdge} {
		t.Run(class.String(), func(t *testing.T) {
			inWorld(t, func(w *world) {
				a, b := w.limited()
				a.join(1)
				pass(10 * ms)
				a.answer(refusal(class, 3*time.Second))
				b.join(5)
				pass(10 * ms)
				assert.Equal(t, 4, b.leaves())
			})
		})
	}
}

func TestAHoldHoldsAllProcessesAndIsOnlyExtended(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.limited()
		a.bucket.Hold(w.now(), 2*time.Second, ratelimits.ClassSubLimit)
		b.bucket.Hold(w.now(), 500*ms, ratelimits.ClassUser)
		pass(10 * ms)
		b.join(3)
		pass(10 * ms)
		a.join(1)
		pass(10 * ms)
		assert.Equal(t, ratelimits.ClassSubLimit, b.forecast(0).Class)
		pass(1940 * ms)
		assert.Zero(t, b.leaves())
		pass(100 * ms)
		assert.Equal(t, 1, b.leaves())
	})
}

func TestAHoldComesWithALoanAndReturnsWithIt(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.process().use(someKey), w.process().use(someKey)
		a.join(1)
		pass(10 * ms)
		b.join(1)
		pass(10 * ms)
		a.giveBack(ratelimits.State{Limit: 5, Period: time.Second, Hold: 2 * time.Second, HoldClass: ratelimits.ClassShared})
		pass(30 * ms)
		f := b.forecast(0)
		assert.Equal(t, ratelimits.ClassShared, f.Class)
		assert.InDelta(t, 2*time.Second, f.Wait, float64(50*ms))
		pass(1900 * ms)
		assert.Zero(t, b.leaves())
		pass(200 * ms)
		assert.True(t, b.leaves() == 1 || b.lent && b.window.Probing())
	})
}
