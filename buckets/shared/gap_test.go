package shared_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets/shared"
	"github.com/ratelight/ratelight/internal/memoryengine"
	"github.com/ratelight/ratelight/ratelimits"
)

// TestALoanDoesNotOutliveAGap tests that a holder stops using its loan if the other sessions counted it as dead for a
// moment, between two of its ticks.
func TestALoanDoesNotOutliveAGap(t *testing.T) {
	inWorld(t, func(w *world) {
		p := w.process()
		a, other, b := p.use(someKey), p.use(shared.Key{Hash: "other"}), w.process().use(someKey)
		a.join(1)
		pass(500 * ms)
		require.True(t, a.lent)
		other.join(1) // half way between two ticks: until 3.5 s the others believe in the session
		pass(10 * ms)
		p.link.kill(true)
		pass(3050 * ms)
		b.join(1) // takes over
		pass(100 * ms)
		p.link.kill(false)
		pass(300 * ms)
		assert.LessOrEqual(t, a.until(), w.now())
		pass(2 * time.Second)
		assert.LessOrEqual(t, a.until(), w.now())
	})
}

// TestLoansThatComeInAnotherOrderAreBelieved tests that loans are valid if the first calls after a pause overtake each
// other.
func TestLoansThatComeInAnotherOrderAreBelieved(t *testing.T) {
	inWorld(t, func(w *world) {
		p := w.process()
		a, b := p.use(someKey), p.use(shared.Key{Hash: "other"})
		pass(10 * time.Second)
		p.session.Bucket(shared.Key{Hash: "third"}, &ratelimits.Window{}, func() {}).Hold(w.now(), ms, 0) // so that the clock is known
		pass(9 * time.Second)
		slow := true
		w.server.Decide(func(script string) memoryengine.Fate {
			fate := memoryengine.Fate{Before: ms / 2, After: ms / 2}
			if script == "swap" && slow {
				fate.After, slow = 200*ms, false
			}
			if script == "beat" {
				fate.Lost = true
			}
			return fate
		})
		a.join(1)
		pass(20 * ms)
		b.join(1)
		pass(300 * ms)
		for _, u := range []*user{a, b} {
			require.True(t, u.lent)
			assert.Greater(t, u.until(), w.now())
		}
	})
}
