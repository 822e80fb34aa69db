package spectacles_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets/shared"
	"github.com/ratelight/ratelight/buckets/shared/spectacles"
	"github.com/ratelight/ratelight/ratelimits"
)

// The tests in this file show that the script of the Spectacles specification (seed) has flaws, and that this package
// does not have them. The comments say what the flaws are.

// eachSeed runs eachWorld with a client that follows the specification.
func eachSeed(t *testing.T, name string, test func(t *testing.T, w *world, s *seed)) {
	t.Helper()
	eachWorld(t, name, func(t *testing.T, w *world) { test(t, w, w.seed(false)) })
}

// neverClaims requires that no claim succeeds in a thousand seconds.
func (s *seed) neverClaims() {
	for range 1000 {
		time.Sleep(time.Second)
		require.Equal(s.world.t, time.Second, s.tryClaim())
	}
}

// Flaw 1: if a client claims a permit of an unknown bucket and dies, the counter is used up and never expires.
func TestDeadClientsStopNoOtherClient(t *testing.T) {
	eachSeed(t, "seed", func(t *testing.T, w *world, s *seed) {
		require.Zero(t, s.tryClaim())
		s.neverClaims()
		assert.Zero(t, w.engine.Redis.TTL(route+":remaining"))
	})
	lease := spectacles.WithLease(3 * time.Second)
	for name, die := range map[string]func(w *world){
		"ours":        func(w *world) { w.process(lease).burst(1) },
		"beside seed": func(w *world) { require.Zero(w.t, w.seed(false).tryClaim()) },
		"five": func(w *world) { // all responses are lost in a window of five requests
			w.set("limit", "5")
			require.Len(w.t, w.process(lease).burst(9), 5)
		},
	} {
		eachWorld(t, name, func(_ *testing.T, w *world) {
			die(w)
			w.process(lease).opens(2900*time.Millisecond, 1500*time.Millisecond, "the end of the lease")
		})
	}
}

func TestLongestLeaseIsWaitedFor(t *testing.T) {
	inWorld(t, func(w *world) {
		p, other := w.process(), w.process(spectacles.WithLease(2*time.Second))
		w.set("limit", "5")
		require.Len(t, p.burst(3), 3)
		require.Equal(t, 2, w.seed(false).burst(9))
		other.opens(20*time.Second, 11*time.Second, "the earlier client has a longer lease")
	})
}

// Flaw 2: a response without headers sets no expiry, so the next request waits for ever.
func TestResponsesWithoutHeadersStopNoClient(t *testing.T) {
	eachSeed(t, "seed", func(t *testing.T, w *world, s *seed) {
		require.Zero(t, s.tryClaim())
		s.report(ratelimits.Response{Status: 204})
		s.neverClaims()
	})
	for name, response := range map[string]ratelimits.Response{
		"no content": {Status: 204}, "server error": {Status: 502}, "no answer": {},
	} {
		eachWorld(t, name, func(t *testing.T, w *world) {
			p := w.process()
			start := time.Now()
			for range 10 {
				p.report(p.mustAcquire(), response)
			}
			assert.Less(t, time.Since(start), time.Second)
			// In a window with a known limit, the next request must get a permit at the latest when the window ends.
			p.learned()
			for _, permit := range p.burst(5) {
				p.report(permit, response)
			}
			_, ok := p.within(1100 * time.Millisecond)
			assert.True(t, ok)
		})
	}
}

// Flaw 3: if the counter is lost during a window, it starts again with the whole limit.
func TestLostCountersDoNotRestart(t *testing.T) {
	eachSeed(t, "seed", func(t *testing.T, w *world, s *seed) {
		w.set("limit", "5")
		require.Equal(t, 5, s.burst(9))
		s.expire(time.Second)
		w.engine.Redis.Del(route + ":remaining")
		assert.Equal(t, 5, s.burst(9))
		// If there is no counter, the expiry that a later response sets has no effect.
		w.engine.Redis.Del(route + ":remaining")
		s.expire(time.Second)
		assert.Equal(t, 5, s.burst(9))
	})
	eachWorld(t, "used up", func(_ *testing.T, w *world) {
		p := w.process()
		p.learned()
		p.answer(p.burst(5), time.Second, stamp(time.Second))
		w.engine.Redis.Del(route + ":remaining")
		w.process().opens(990*time.Millisecond, 20*time.Millisecond, "another process, which does not know the window")
	})
	eachWorld(t, "in flight", func(t *testing.T, w *world) {
		p := w.process()
		w.set("limit", "5")
		permits := p.burst(4)
		w.engine.Redis.Del(route + ":remaining")
		p.answer(permits, time.Second, stamp(time.Second))
		assert.Len(t, p.burst(9), 1)
	})
}

// Flaw 4: a late response sets the expiry of a later window.
func TestLateResponsesChangeNoOtherWindow(t *testing.T) {
	eachSeed(t, "seed", func(t *testing.T, w *world, s *seed) {
		w.set("limit", "5")
		require.Equal(t, 5, s.burst(9))
		s.expire(time.Second)
		time.Sleep(1010 * time.Millisecond)
		require.Equal(t, 5, s.burst(9))
		s.expire(10 * time.Millisecond) // the request was counted 10 ms before the end of the first window
		time.Sleep(20 * time.Millisecond)
		assert.Equal(t, 5, s.burst(9), "the flaw: ten requests in one window")
	})
	for name, named := range map[string]int64{"with Reset": 1, "without Reset": 0} {
		eachWorld(t, name, func(t *testing.T, w *world) {
			p := w.process()
			w.set("limit", "5")
			permits := p.burst(9)
			require.Len(t, permits, 5)
			first := stamp(time.Second) * named
			p.answer(permits[:4], time.Second, first)
			time.Sleep(1010 * time.Millisecond)
			assert.Len(t, p.burst(9), 4, "the request in flight may count in the second window")
			p.report(permits[4], headers(0, 10*time.Millisecond, first))
			time.Sleep(20 * time.Millisecond)
			assert.Empty(t, p.burst(9))
			_, ok := p.within(20 * time.Second)
			assert.False(t, ok, "four requests are in flight, and the end of the window is not known")
		})
	}
}

// Flaw 5: in the last millisecond of a window, the script behaves as if the counter had no expiry.
func TestTheLastMillisecondGrantsNothing(t *testing.T) {
	almost := time.Second - time.Millisecond/2
	eachSeed(t, "seed", func(t *testing.T, w *world, s *seed) {
		w.set("remaining", "0")
		s.expire(time.Second)
		time.Sleep(almost)
		assert.Equal(t, 100, s.burst(100))
		assert.Zero(t, w.seed(true).burst(100), "the corrected script must claim nothing")
	})
	eachSeed(t, "seed with permits left", func(t *testing.T, w *world, s *seed) {
		w.set("remaining", "3")
		s.expire(time.Second)
		time.Sleep(almost)
		require.Zero(t, s.tryClaim())
		time.Sleep(time.Hour)
		assert.Equal(t, 2, s.burst(9), "the script removes the expiry")
	})
	for name, remaining := range map[string]string{"ours": "0", "with permits left": "3"} {
		eachWorld(t, name, func(t *testing.T, w *world) {
			p := w.process()
			w.set("limit", "5")
			w.set("remaining", remaining)
			w.seed(false).expire(time.Second)
			time.Sleep(almost)
			assert.Empty(t, p.burst(9))
			time.Sleep(10 * time.Millisecond)
			assert.False(t, w.engine.Redis.Exists(route+":remaining"), "the expiry must remain")
			assert.Len(t, p.burst(9), 5)
		})
	}
}

// Flaw 6: a 429 does not lower the counter.
func TestRefusalsEndAWindow(t *testing.T) {
	const wait = 3 * time.Second
	eachSeed(t, "seed", func(t *testing.T, w *world, s *seed) {
		w.set("limit", "5")
		require.Zero(t, s.tryClaim())
		s.report(ratelimits.Response{Status: 429, Limited: true, Limit: 5, RetryAfter: wait})
		assert.Equal(t, 4, s.burst(9))
	})
	for _, class := range []ratelimits.Class{ratelimits.ClassUser, ratelimits.ClassShared} {
		eachWorld(t, class.String(), func(t *testing.T, w *world) {
			w.set("limit", "5")
			p, other := w.two()
			permits := p.burst(2)
			p.report(permits[0], hold(class, wait))
			p.report(permits[1], headers(3, time.Second, 0)) // an earlier response must not shorten the wait
			synctest.Wait()
			forecast := p.bucket.Predict(p.now(), 0)
			assert.InDelta(t, wait, forecast.Wait, float64(10*time.Millisecond))
			assert.Equal(t, class, forecast.Class)
			assert.Equal(t, 0, w.seed(false).burst(9))
			other.opens(2990*time.Millisecond, 20*time.Millisecond, "the wait of the 429")
		})
	}
}

// Flaw 7: the header Date has whole seconds. So Reset minus Date may be 0, which deletes the counter, or a fraction,
// which is an error.
func TestExpiriesArePositiveIntegers(t *testing.T) {
	eachSeed(t, "seed", func(t *testing.T, w *world, s *seed) {
		w.set("limit", "5")
		for range 3 {
			assert.Equal(t, 5, s.burst(9))
			s.expire(0)
		}
		_, err := w.engine.Run(context.Background(), seedExpire, []string{route + ":remaining"}, "1000.9999999999999")
		assert.Error(t, err)
	})
	eachWorld(t, "ours", func(t *testing.T, w *world) {
		p := w.process()
		w.set("limit", "5")
		p.answer(p.burst(5), 1000999999*time.Nanosecond, 0)
		for range 3 { // each time, another client deletes the counter during the window
			w.seed(false).expire(0)
			other := w.process()
			assert.Empty(t, other.burst(9))
			other.session.Close()
		}
		time.Sleep(1010 * time.Millisecond)
		permits := p.burst(9)
		assert.Len(t, permits, 5)
		p.answer(permits[:1], 0, 0)
		assert.Empty(t, p.burst(9))
	})
}

// recorder records the keys of all calls.
type recorder struct {
	shared.Runner
	mu   sync.Mutex
	keys []string
}

func (r *recorder) Run(ctx context.Context, script *shared.Script, keys []string, args ...string) ([]int64, error) {
	r.mu.Lock()
	r.keys = append(r.keys, keys...)
	r.mu.Unlock()
	return r.Runner.Run(ctx, script, keys, args...)
}

// Flaw 8: in a cluster, the keys of the specification are in different slots. With a prefix that contains a hash tag,
// all keys must be in one slot.
func TestAPrefixKeepsAllKeysInOneSlot(t *testing.T) {
	inWorld(t, func(w *world) {
		r := &recorder{Runner: w.engine}
		p := w.processOn(r, spectacles.WithPrefix("{my-bot}:"))
		p.learn()
		p.bucket.Hold(p.now(), time.Second, ratelimits.ClassShared)
		g := p.session.Global("", 50, nil)
		g.Hold(p.now(), time.Second)
		g.Close()
		p.session.Close()
		require.NotEmpty(t, r.keys)
		for _, key := range append(r.keys, w.engine.Redis.Keys()...) {
			assert.True(t, strings.HasPrefix(key, "{my-bot}:"), key)
		}
		assert.True(t, w.engine.Redis.Exists("{my-bot}:"+route+":limit"))
	})
}

// Flaw 9: the keys of limits have no expiry.
func TestEveryKeyHasAnExpiry(t *testing.T) {
	eachSeed(t, "seed", func(t *testing.T, w *world, s *seed) {
		require.Zero(t, s.tryClaim())
		s.report(headers(4, time.Second, 0))
		w.engine.Redis.FastForward(1000 * time.Hour)
		assert.Equal(t, []string{route + ":limit"}, w.engine.Redis.Keys())
	})
	eachSeed(t, "ours", func(t *testing.T, w *world, s *seed) {
		require.Zero(t, s.tryClaim())
		s.report(headers(4, time.Second, 0))
		p := w.process()
		p.burst(1)
		assert.InDelta(t, 24*time.Hour, w.engine.Redis.TTL(route+":limit"), float64(time.Second))
		time.Sleep(1100 * time.Millisecond)
		p.learn()
		p.session.Global("", 50, nil).Hold(p.now(), time.Second)
		p.burst(2)
		p.session.Close()
		for _, key := range w.engine.Redis.Keys() {
			life := w.engine.Redis.TTL(key)
			assert.True(t, life > 0 && life <= 24*time.Hour, "%s: %v", key, life)
		}
	})
}
