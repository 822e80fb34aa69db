package spectacles_test

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets/shared"
	"github.com/ratelight/ratelight/buckets/shared/spectacles"
	"github.com/ratelight/ratelight/internal/discordsim"
	"github.com/ratelight/ratelight/ratelimits"
)

// The tests of this file show the faults of the script in the Spectacles specification, and that our scripts do not
// have them.

// inWorld runs a test in a world in which nothing goes wrong by itself.
func inWorld(t *testing.T, test func(w *world)) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, discordsim.Config{Default: &discordsim.Rule{Path: "**", Quota: discordsim.Fixed(5, time.Second)}})
		defer w.close()
		test(w)
	})
}

// headers is a response of a bucket of 5.
func headers(remaining int, after time.Duration, stamp int64) ratelimits.Response {
	return ratelimits.Response{Status: 200, Limited: true, Limit: 5, Remaining: remaining, ResetAfter: after, Stamp: stamp}
}

// burst acquires up to n permits, as long as they are granted at once, and returns them.
func (p *process) burst(n int) (granted []shared.Permit) {
	for range n {
		permit, ok := p.within(time.Microsecond)
		if !ok {
			break
		}
		granted = append(granted, permit)
	}
	return granted
}

// burst claims until there is to be a wait, n times at most, and returns how often there was none.
func (s *seed) burst(n int) (granted int) {
	for granted < n && s.tryClaim() == 0 {
		granted++
	}
	return granted
}

// learn makes a window of 5 known to which one request is charged.
func (p *process) learn() {
	permit, ok := p.within(time.Minute)
	require.True(p.world.t, ok)
	p.report(permit, headers(4, time.Second, time.Now().Add(time.Second).UnixMilli()))
	synctest.Wait()
}

// 1: a client that claims an unknown bucket and dies leaves a counter that is used up and never expires.
func TestDeadClientsHangNobody(t *testing.T) {
	t.Run("seed", func(t *testing.T) {
		inWorld(t, func(w *world) {
			s := w.seed(false)
			require.Zero(t, s.tryClaim())
			for range 1000 {
				time.Sleep(time.Second)
				require.Equal(t, time.Second, s.tryClaim())
			}
			assert.Zero(t, w.engine.Redis.TTL(route+":remaining"))
		})
	})
	for name, die := range map[string]func(w *world){
		"ours":        func(w *world) { w.process(spectacles.WithLease(3 * time.Second)).burst(1) },
		"beside seed": func(w *world) { require.Zero(w.t, w.seed(false).tryClaim()) },
		"five": func(w *world) { // lost answers, in a window of five
			w.engine.Redis.Set(route+":limit", "5")
			require.Len(w.t, w.process(spectacles.WithLease(3*time.Second)).burst(9), 5)
		},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				die(w)
				p := w.process(spectacles.WithLease(3 * time.Second))
				defer p.session.Close()
				_, ok := p.within(2900 * time.Millisecond)
				assert.False(t, ok, "nobody can know yet that it is dead")
				_, ok = p.within(1500 * time.Millisecond)
				assert.True(t, ok)
			})
		})
	}
}

func TestWhoMayStillBeAliveIsWaitedFor(t *testing.T) {
	inWorld(t, func(w *world) {
		p, other := w.process(), w.process(spectacles.WithLease(2*time.Second))
		defer p.session.Close()
		defer other.session.Close()
		w.engine.Redis.Set(route+":limit", "5")
		require.Len(t, p.burst(3), 3)
		require.Equal(t, 2, w.seed(false).burst(9))
		_, ok := other.within(20 * time.Second)
		assert.False(t, ok, "a longer lease is an older one's")
		_, ok = other.within(11 * time.Second)
		assert.True(t, ok)
	})
}

// 2: a response without headers sets no expiry, and the next request hangs.
func TestResponsesWithoutHeadersHangNobody(t *testing.T) {
	t.Run("seed", func(t *testing.T) {
		inWorld(t, func(w *world) {
			s := w.seed(false)
			require.Zero(t, s.tryClaim())
			s.report(ratelimits.Response{Status: 204}, http.Header{})
			for range 1000 {
				time.Sleep(time.Second)
				require.NotZero(t, s.tryClaim())
			}
		})
	})
	for name, response := range map[string]ratelimits.Response{
		"no content": {Status: 204}, "server error": {Status: 502}, "no answer": {},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				p := w.process()
				defer p.session.Close()
				start := time.Now()
				for range 10 {
					permit, ok := p.within(time.Second)
					require.True(t, ok)
					p.report(permit, response)
				}
				assert.Less(t, time.Since(start), time.Second)
				// Also in a window whose limit is known, at the latest when it would have ended.
				p.learn()
				time.Sleep(1100 * time.Millisecond)
				for _, permit := range p.burst(5) {
					p.report(permit, response)
				}
				_, ok := p.within(1100 * time.Millisecond)
				assert.True(t, ok)
			})
		})
	}
}

// 3: a counter that is lost in the middle of a window counts as full again.
func TestLostCountersAreNotFullOnes(t *testing.T) {
	t.Run("seed", func(t *testing.T) {
		inWorld(t, func(w *world) {
			s := w.seed(false)
			w.engine.Redis.Set(route+":limit", "5")
			require.Equal(t, 5, s.burst(9))
			s.run(seedExpire, route+":remaining", 1000)
			w.engine.Redis.Del(route + ":remaining")
			assert.Equal(t, 5, s.burst(9))
			// And the expiry that a response brings has nothing to work on.
			w.engine.Redis.Del(route + ":remaining")
			s.run(seedExpire, route+":remaining", 1000)
			assert.Equal(t, 5, s.burst(9))
		})
	})
	t.Run("used up", func(t *testing.T) {
		inWorld(t, func(w *world) {
			p := w.process()
			defer p.session.Close()
			p.learn()
			time.Sleep(1100 * time.Millisecond)
			for i, permit := range p.burst(5) {
				p.report(permit, headers(4-i, time.Second, time.Now().Add(time.Second).UnixMilli()))
			}
			synctest.Wait()
			w.engine.Redis.Del(route + ":remaining")
			other := w.process() // which does not know that it need not ask
			defer other.session.Close()
			_, ok := other.within(990 * time.Millisecond)
			assert.False(t, ok)
			_, ok = other.within(20 * time.Millisecond)
			assert.True(t, ok)
		})
	})
	t.Run("in flight", func(t *testing.T) {
		inWorld(t, func(w *world) {
			p := w.process()
			defer p.session.Close()
			w.engine.Redis.Set(route+":limit", "5")
			permits := p.burst(4)
			w.engine.Redis.Del(route + ":remaining")
			for i, permit := range permits {
				p.report(permit, headers(4-i, time.Second, time.Now().Add(time.Second).UnixMilli()))
			}
			synctest.Wait()
			assert.Len(t, p.burst(9), 1)
		})
	})
}

// 4: a late response sets the expiry of a window that it knows nothing of.
func TestLateResponsesChangeNoOtherWindow(t *testing.T) {
	t.Run("seed", func(t *testing.T) {
		inWorld(t, func(w *world) {
			s := w.seed(false)
			w.engine.Redis.Set(route+":limit", "5")
			require.Equal(t, 5, s.burst(9))
			s.run(seedExpire, route+":remaining", 1000)
			time.Sleep(1010 * time.Millisecond)
			require.Equal(t, 5, s.burst(9))
			s.run(seedExpire, route+":remaining", 10) // counted 10 ms before the end of the first window
			time.Sleep(20 * time.Millisecond)
			assert.Equal(t, 5, s.burst(9), "ten in one window")
		})
	})
	for name, named := range map[string]int64{"with Reset": 1, "without Reset": 0} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				p := w.process()
				defer p.session.Close()
				w.engine.Redis.Set(route+":limit", "5")
				permits := p.burst(9)
				require.Len(t, permits, 5)
				first := time.Now().Add(time.Second).UnixMilli() * named
				for i, permit := range permits[:4] {
					p.report(permit, headers(4-i, time.Second, first))
				}
				time.Sleep(1010 * time.Millisecond)
				assert.Len(t, p.burst(9), 4, "the one in flight may count in the second window")
				p.report(permits[4], headers(0, 10*time.Millisecond, first))
				time.Sleep(20 * time.Millisecond)
				assert.Empty(t, p.burst(9))
				_, ok := p.within(20 * time.Second)
				assert.False(t, ok, "four are in flight, and nobody said when their window ends")
			})
		})
	}
}

// 5: in the last millisecond of a window its expiry is taken for none.
func TestTheLastMillisecondGrantsNothing(t *testing.T) {
	almost := time.Second - time.Millisecond/2
	t.Run("seed", func(t *testing.T) {
		inWorld(t, func(w *world) {
			s := w.seed(false)
			w.engine.Redis.Set(route+":remaining", "0")
			s.run(seedExpire, route+":remaining", 1000)
			time.Sleep(almost)
			assert.Equal(t, 100, s.burst(100))
			assert.Zero(t, w.seed(true).burst(100), "this is what the correction is for")
		})
	})
	t.Run("seed with permits left", func(t *testing.T) {
		inWorld(t, func(w *world) {
			s := w.seed(false)
			w.engine.Redis.Set(route+":remaining", "3")
			s.run(seedExpire, route+":remaining", 1000)
			time.Sleep(almost)
			require.Zero(t, s.tryClaim())
			time.Sleep(time.Hour)
			assert.Equal(t, 2, s.burst(9), "the expiry is gone")
		})
	})
	for name, remaining := range map[string]string{"ours": "0", "with permits left": "3"} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				p := w.process()
				defer p.session.Close()
				w.engine.Redis.Set(route+":limit", "5")
				w.engine.Redis.Set(route+":remaining", remaining)
				w.seed(false).run(seedExpire, route+":remaining", 1000)
				time.Sleep(almost)
				assert.Empty(t, p.burst(9))
				time.Sleep(10 * time.Millisecond)
				assert.False(t, w.engine.Redis.Exists(route+":remaining"), "it has expired, as nothing took that from it")
				assert.Len(t, p.burst(9), 5)
			})
		})
	}
}

// 6: a 429 cannot reduce the remaining permits.
func TestRefusalsEndAWindow(t *testing.T) {
	const wait = 3 * time.Second
	t.Run("seed", func(t *testing.T) {
		inWorld(t, func(w *world) {
			s := w.seed(false)
			w.engine.Redis.Set(route+":limit", "5")
			require.Zero(t, s.tryClaim())
			s.report(ratelimits.Response{Status: 429, Limited: true, Limit: 5, RetryAfter: wait}, http.Header{})
			assert.Equal(t, 4, s.burst(9))
		})
	})
	for _, class := range []ratelimits.Class{ratelimits.ClassUser, ratelimits.ClassShared} {
		t.Run(class.String(), func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.engine.Redis.Set(route+":limit", "5")
				p, other := w.process(), w.process()
				defer p.session.Close()
				defer other.session.Close()
				permits := p.burst(2)
				p.report(permits[0], ratelimits.Response{Status: 429, Class: class, RetryAfter: wait, HasRetryAfter: true})
				// The response to an earlier request does not shorten the hold.
				p.report(permits[1], headers(3, time.Second, 0))
				synctest.Wait()
				assert.InDelta(t, wait, p.bucket.Predict(p.now(), 0).Wait, float64(10*time.Millisecond))
				assert.Equal(t, class, p.bucket.Predict(p.now(), 0).Class)
				assert.Equal(t, 0, w.seed(false).burst(9))
				_, ok := other.within(2990 * time.Millisecond)
				assert.False(t, ok)
				_, ok = other.within(20 * time.Millisecond)
				assert.True(t, ok)
			})
		})
	}
}

// 7: Date has whole seconds, so that Reset - Date may be 0, which deletes the counter, or a fraction, which is refused.
func TestExpiriesAreNeverNothing(t *testing.T) {
	t.Run("seed", func(t *testing.T) {
		inWorld(t, func(w *world) {
			s := w.seed(false)
			w.engine.Redis.Set(route+":limit", "5")
			granted := 0
			for range 3 {
				granted += s.burst(9)
				s.run(seedExpire, route+":remaining", 0)
			}
			assert.Equal(t, 15, granted)
			_, err := w.engine.Run(context.Background(), seedExpire, []string{route + ":remaining"}, "1000.9999999999999")
			assert.Error(t, err)
		})
	})
	t.Run("ours", func(t *testing.T) {
		inWorld(t, func(w *world) {
			p := w.process()
			defer p.session.Close()
			w.engine.Redis.Set(route+":limit", "5")
			for i, permit := range p.burst(5) {
				p.report(permit, headers(4-i, 1000999999*time.Nanosecond, 0))
			}
			synctest.Wait()
			for range 3 { // whoever does it, the window is not over
				w.seed(false).run(seedExpire, route+":remaining", 0)
				other := w.process()
				assert.Empty(t, other.burst(9))
				other.session.Close()
			}
			time.Sleep(1010 * time.Millisecond)
			permits := p.burst(9)
			assert.Len(t, permits, 5)
			p.report(permits[0], headers(4, 0, 0))
			synctest.Wait()
			assert.Empty(t, p.burst(9))
		})
	})
}

// recorder notes the keys of all calls.
type recorder struct {
	shared.Runner
	mu   sync.Mutex
	keys []string
}

func (r *recorder) Run(ctx context.Context, script *shared.Script, keys []string, arguments ...string) ([]int64, error) {
	r.mu.Lock()
	r.keys = append(r.keys, keys...)
	r.mu.Unlock()
	return r.Runner.Run(ctx, script, keys, arguments...)
}

// 8: the keys of the document are in different slots of a cluster. There every key has to carry the same tag.
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

// 9: limits stay for ever.
func TestEveryKeyHasALife(t *testing.T) {
	t.Run("seed", func(t *testing.T) {
		inWorld(t, func(w *world) {
			s := w.seed(false)
			require.Zero(t, s.tryClaim())
			s.report(headers(4, time.Second, 0), http.Header{})
			w.engine.Redis.FastForward(1000 * time.Hour)
			assert.Equal(t, []string{route + ":limit"}, w.engine.Redis.Keys())
		})
	})
	t.Run("ours", func(t *testing.T) {
		inWorld(t, func(w *world) {
			s := w.seed(false)
			require.Zero(t, s.tryClaim())
			s.report(headers(4, time.Second, 0), http.Header{}) // which we find there
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
	})
}
