package spectacles_test

import (
	"slices"
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

func TestUnusedPermitIsReturned(t *testing.T) {
	inWorld(t, func(w *world) {
		p, other := w.two()
		// While no limit is known, the return of a permit must delete the counter.
		for range 3 {
			p.giveBack(p.mustAcquire())
			synctest.Wait()
			assert.False(t, w.engine.Redis.Exists(route+":remaining"))
		}
		w.set("limit", "5")
		for _, permit := range p.burst(2) {
			p.giveBack(permit)
		}
		synctest.Wait()
		assert.False(t, w.engine.Redis.Exists(route+":remaining"), "the counter must be deleted, because no request was sent")
		p.learned()
		permits := p.burst(9)
		require.Len(t, permits, 5)
		p.giveBack(permits[0])
		p.giveBack(permits[1])
		synctest.Wait()
		assert.Len(t, other.burst(9), 2)
	})
}

func TestCloseReturnsUnusedPermits(t *testing.T) {
	inWorld(t, func(w *world) {
		p, other := w.two()
		p.learned()
		p.mu.Lock()
		p.bucket.Demand(p.now(), 2, slices.Values([]time.Duration{p.now(), p.now()}))
		go p.session.Close()
		p.mu.Unlock()
		synctest.Wait()
		assert.Len(t, other.burst(9), 5)
		remaining, _ := w.engine.Redis.Get(route + ":f")
		assert.Empty(t, remaining)
	})
}

func TestPermitReturnsAfterHalfItsLease(t *testing.T) {
	inWorld(t, func(w *world) {
		p := w.process(spectacles.WithLease(2 * time.Second))
		bucket := p.session.Bucket(key, &ratelimits.Window{}, func() {}) // the test does not take the permits of this bucket
		granted := func() bool {
			_, ok := bucket.Next(p.now())
			return ok
		}
		for range 2 { // the second time, the process must ask for another permit
			bucket.Demand(p.now(), 1, slices.Values([]time.Duration{p.now()}))
			synctest.Wait()
			require.True(t, granted())
			time.Sleep(1100 * time.Millisecond)
			assert.False(t, granted())
		}
	})
}

func TestRequestsWithoutPermitsAreCharged(t *testing.T) {
	inWorld(t, func(w *world) {
		p, other := w.two()
		adopt := func() shared.Permit { return p.bucket.Adopt(p.now(), p.now()) }
		// The response to the first request names the limit.
		p.answer([]shared.Permit{adopt()}, time.Second, stamp(time.Second))
		assert.Len(t, other.burst(2), 2)
		adopt()
		synctest.Wait()
		assert.Len(t, other.burst(9), 1)
		// A request in flight must also be charged to the next window.
		time.Sleep(1100 * time.Millisecond)
		assert.Len(t, p.burst(9), 1)
	})
}

func TestFirstResponseOpensAnUnknownWindow(t *testing.T) {
	inWorld(t, func(w *world) {
		p := w.process()
		permits := p.burst(9)
		require.Len(t, permits, 1, "while the limit is not known, only one request may be sent at a time")
		p.answer(permits, time.Second, 0)
		assert.Len(t, p.burst(9), 4)
		assert.InDelta(t, time.Second, p.bucket.Predict(p.now(), 4).Wait, float64(10*time.Millisecond))
		assert.InDelta(t, 2*time.Second, p.bucket.Predict(p.now(), 5).Wait, float64(20*time.Millisecond))
	})
}

func TestLowerRemainingCounts(t *testing.T) {
	inWorld(t, func(w *world) {
		p := w.process()
		w.set("limit", "5")
		permits := p.burst(2)
		require.Len(t, permits, 2)
		p.report(permits[0], headers(1, time.Second, 0)) // another client has sent requests without the counter
		p.report(permits[1], headers(4, time.Second, 0)) // Discord counted this request earlier
		synctest.Wait()
		assert.Len(t, p.burst(9), 1)
	})
}

func TestHoldsAreOnlyExtended(t *testing.T) {
	inWorld(t, func(w *world) {
		p, other := w.two()
		w.set("limit", "5")
		permits := p.burst(2)
		p.report(permits[0], headers(4, time.Second, 0))
		p.bucket.Hold(p.now(), 3*time.Second, ratelimits.ClassShared)
		p.bucket.Hold(p.now(), time.Second, ratelimits.ClassUser)
		synctest.Wait()
		other.bucket.Hold(other.now(), time.Second, ratelimits.ClassUser)
		synctest.Wait()
		p.report(permits[1], headers(3, time.Second/2, 0))
		synctest.Wait()
		time.Sleep(1500 * time.Millisecond)
		assert.Zero(t, w.seed(true).burst(9), "other clients must see the hold")
		assert.Equal(t, ratelimits.ClassShared, p.bucket.Predict(p.now(), 0).Class)
		other.opens(1490*time.Millisecond, 20*time.Millisecond, "the longest hold")
	})
}

func TestGlobal429HoldsAllProcesses(t *testing.T) {
	inWorld(t, func(w *world) {
		p, other := w.two(spectacles.WithProcesses(4))
		told := make(chan struct{}, 1)
		mine, others := p.session.Global("", 50, nil), other.session.Global("", 50, func() { told <- struct{}{} })
		defer mine.Close()
		defer others.Close()
		part, until := mine.Part(p.now())
		assert.Equal(t, 12, part)
		assert.Greater(t, until, p.now())
		p.report(p.mustAcquire(), hold(ratelimits.ClassGlobal, 2*time.Second))
		assert.InDelta(t, 2*time.Second, mine.HoldWait(p.now()), float64(10*time.Millisecond))
		synctest.Wait()
		assert.NotZero(t, w.seed(false).tryClaim())
		_, ok := other.within(1990 * time.Millisecond)
		assert.False(t, ok)
		<-told
		assert.Positive(t, others.HoldWait(other.now()))
		_, ok = other.within(30 * time.Millisecond)
		assert.True(t, ok)
		others.Hold(other.now(), time.Second)
		synctest.Wait()
		assert.Equal(t, time.Second, w.engine.Redis.TTL("global"))
	})
}

func TestEachProcessMayDiscover(t *testing.T) {
	inWorld(t, func(w *world) {
		p := w.process()
		told := make(chan struct{})
		d := p.session.Discovery("", "route", func() { close(told) })
		assert.False(t, d.May(p.now()))
		d.Ask(p.now())
		assert.True(t, d.May(p.now()))
		d.Sent(p.now())
		assert.False(t, d.May(p.now()), "the permission must be for one request only")
		<-told
		d.Found(p.now(), "hash")
		assert.Empty(t, d.Hash())
		d.Close()
	})
}

func TestErrorNamesAForeignKey(t *testing.T) {
	for name, c := range map[string]struct {
		key   string
		spoil func(w *world)
	}{
		"type":    {"remaining", func(w *world) { w.engine.Redis.HSet(route+":remaining", "a", "b") }},
		"value":   {"remaining", func(w *world) { w.set("remaining", "many") }},
		"limit":   {"limit", func(w *world) { w.set("limit", "0") }},
		"state":   {"x", func(w *world) { w.engine.Redis.HSet(route+":x", "fin", "soon") }},
		"flights": {"f", func(w *world) { w.set("f", "1") }},
	} {
		eachWorld(t, name, func(t *testing.T, w *world) {
			c.spoil(w)
			p, spoilt := w.process(), route+":"+c.key
			_, ok := p.within(time.Second / 2)
			require.False(t, ok)
			var problem *shared.KeyError
			require.ErrorAs(t, p.bucket.Err(), &problem)
			assert.Equal(t, spoilt, problem.Key)
			w.engine.Redis.Del(spoilt)
			_, ok = p.within(1100 * time.Millisecond)
			assert.True(t, ok, "requests must get permits again when the value is gone")
			assert.NoError(t, p.bucket.Err())
		})
	}
}

func TestOtherKindsOfBucketsCauseNo429s(t *testing.T) {
	t.Parallel()
	for name, quota := range map[string]discordsim.Quota{
		"sliding": discordsim.Sliding(5, 2*time.Second), "leaky": discordsim.Leaky(5, 2*time.Second),
		"aligned": discordsim.Aligned(10, 4*time.Second, 0),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			config := discordsim.Config{Default: &discordsim.Rule{Path: "**", Quota: quota}, Latency: usual, Seed: 3}
			inWorldOf(t, config, func(w *world) {
				w.processes(3, 5)
				time.Sleep(40 * time.Second)
				report := w.end()
				t.Log(report.Accepted, "accepted")
				assert.Zero(t, report.Refused.Total())
				assert.GreaterOrEqual(t, report.Accepted, 92)
			})
		})
	}
}
