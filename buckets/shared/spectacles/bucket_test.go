package spectacles_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets/shared"
	"github.com/ratelight/ratelight/buckets/shared/spectacles"
	"github.com/ratelight/ratelight/internal/discordsim"
	"github.com/ratelight/ratelight/ratelimits"
)

func TestWhoLeavesGivesItsPermitBack(t *testing.T) {
	inWorld(t, func(w *world) {
		p, other := w.process(), w.process()
		defer p.session.Close()
		defer other.session.Close()
		// Nothing is known: the counter goes, as if nothing had happened.
		for range 3 {
			permit, ok := p.within(time.Microsecond)
			require.True(t, ok)
			p.giveBack(permit)
			synctest.Wait()
			assert.False(t, w.engine.Redis.Exists(route+":remaining"))
		}
		w.engine.Redis.Set(route+":limit", "5")
		for _, permit := range p.burst(2) {
			p.giveBack(permit)
		}
		synctest.Wait()
		assert.False(t, w.engine.Redis.Exists(route+":remaining"), "nobody has used that window")
		p.learn()
		time.Sleep(1100 * time.Millisecond)
		permits := p.burst(9)
		require.Len(t, permits, 5)
		p.giveBack(permits[0])
		p.giveBack(permits[1])
		synctest.Wait()
		assert.Len(t, other.burst(9), 2)
	})
}

func TestClosingGivesBackWhatWasNotTaken(t *testing.T) {
	inWorld(t, func(w *world) {
		p, other := w.process(), w.process()
		defer other.session.Close()
		p.learn()
		time.Sleep(1100 * time.Millisecond)
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

func TestPermitsThatNobodyTakesAreGivenBack(t *testing.T) {
	inWorld(t, func(w *world) {
		store := spectacles.New(w.engine, spectacles.WithLease(2*time.Second))
		p := w.process()
		defer p.session.Close()
		session := store.Join(clockwork.NewRealClock(), p.origin)
		defer session.Close()
		bucket := session.Bucket(key, &ratelimits.Window{}, func() {})
		demand := func() { bucket.Demand(p.now(), 1, slices.Values([]time.Duration{p.now()})) }
		demand()
		synctest.Wait()
		_, ok := bucket.Next(p.now())
		require.True(t, ok)
		time.Sleep(1100 * time.Millisecond)
		_, ok = bucket.Next(p.now())
		assert.False(t, ok)
		demand()
		synctest.Wait()
		_, ok = bucket.Next(p.now())
		assert.True(t, ok, "it has asked again")
	})
}

func TestRequestsWithoutPermitsAreCharged(t *testing.T) {
	inWorld(t, func(w *world) {
		p, other := w.process(), w.process()
		defer p.session.Close()
		defer other.session.Close()
		adopt := func() shared.Permit { return p.bucket.Adopt(p.now(), p.now()) }
		// The first of all brings the limits with it.
		p.report(adopt(), headers(4, time.Second, time.Now().Add(time.Second).UnixMilli()))
		synctest.Wait()
		assert.Len(t, other.burst(2), 2)
		adopt()
		synctest.Wait()
		assert.Len(t, other.burst(9), 1)
		// It is in flight, so it is charged to the next window too.
		time.Sleep(1100 * time.Millisecond)
		assert.Len(t, p.burst(9), 1)
	})
}

func TestTheFirstResponseOpensAnUnknownWindow(t *testing.T) {
	inWorld(t, func(w *world) {
		p := w.process()
		defer p.session.Close()
		permits := p.burst(9)
		require.Len(t, permits, 1, "one at a time while nothing is known")
		p.report(permits[0], headers(4, time.Second, 0))
		synctest.Wait()
		assert.Len(t, p.burst(9), 4)
		assert.InDelta(t, time.Second, p.bucket.Predict(p.now(), 4).Wait, float64(10*time.Millisecond))
		assert.InDelta(t, 2*time.Second, p.bucket.Predict(p.now(), 5).Wait, float64(20*time.Millisecond))
	})
}

func TestLowerRemainingIsBelieved(t *testing.T) {
	inWorld(t, func(w *world) {
		p := w.process()
		defer p.session.Close()
		w.engine.Redis.Set(route+":limit", "5")
		permits := p.burst(2)
		require.Len(t, permits, 2)
		p.report(permits[0], headers(1, time.Second, 0)) // another client, which charges no requests, uses the bucket too
		p.report(permits[1], headers(4, time.Second, 0)) // an earlier one
		synctest.Wait()
		assert.Len(t, p.burst(9), 1)
	})
}

func TestHoldsAreOnlyExtended(t *testing.T) {
	inWorld(t, func(w *world) {
		p, other := w.process(), w.process()
		defer p.session.Close()
		defer other.session.Close()
		w.engine.Redis.Set(route+":limit", "5")
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
		assert.Zero(t, w.seed(true).burst(9), "others see it, too")
		assert.Equal(t, ratelimits.ClassShared, p.bucket.Predict(p.now(), 0).Class)
		_, ok := other.within(1490 * time.Millisecond)
		assert.False(t, ok)
		_, ok = other.within(20 * time.Millisecond)
		assert.True(t, ok)
	})
}

func TestAGlobalRefusalStopsAll(t *testing.T) {
	inWorld(t, func(w *world) {
		p, other := w.process(spectacles.WithProcesses(4)), w.process()
		defer p.session.Close()
		defer other.session.Close()
		told := make(chan struct{}, 1)
		mine, others := p.session.Global("", 50, nil), other.session.Global("", 50, func() { told <- struct{}{} })
		defer mine.Close()
		defer others.Close()
		part, until := mine.Part(p.now())
		assert.Equal(t, 12, part)
		assert.Greater(t, until, p.now())
		permit, ok := p.within(time.Microsecond)
		require.True(t, ok)
		p.report(permit, ratelimits.Response{
			Status: 429, Class: ratelimits.ClassGlobal, RetryAfter: 2 * time.Second, HasRetryAfter: true,
		})
		assert.InDelta(t, 2*time.Second, mine.HoldWait(p.now()), float64(10*time.Millisecond))
		synctest.Wait()
		assert.NotZero(t, w.seed(false).tryClaim())
		_, ok = other.within(1990 * time.Millisecond)
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

func TestEveryoneMayDiscover(t *testing.T) {
	inWorld(t, func(w *world) {
		p := w.process()
		defer p.session.Close()
		told := make(chan struct{})
		d := p.session.Discovery("", "route", func() { close(told) })
		assert.False(t, d.May(p.now()))
		d.Ask(p.now())
		assert.True(t, d.May(p.now()))
		d.Sent(p.now())
		assert.False(t, d.May(p.now()), "once")
		<-told
		d.Found(p.now(), "hash")
		assert.Empty(t, d.Hash())
		d.Close()
	})
}

func TestKeysOfOthersAreNamed(t *testing.T) {
	for name, spoil := range map[string]func(w *world) string{
		"type": func(w *world) string { w.engine.Redis.HSet(route+":remaining", "a", "b"); return route + ":remaining" },
		"value": func(w *world) string {
			require.NoError(w.t, w.engine.Redis.Set(route+":remaining", "many"))
			return route + ":remaining"
		},
		"limit": func(w *world) string {
			require.NoError(w.t, w.engine.Redis.Set(route+":limit", "0"))
			return route + ":limit"
		},
		"state": func(w *world) string { w.engine.Redis.HSet(route+":x", "fin", "soon"); return route + ":x" },
		"flights": func(w *world) string {
			require.NoError(w.t, w.engine.Redis.Set(route+":f", "1"))
			return route + ":f"
		},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				spoilt := spoil(w)
				p := w.process()
				defer p.session.Close()
				_, ok := p.within(time.Second / 2)
				require.False(t, ok)
				var problem *shared.KeyError
				require.ErrorAs(t, p.bucket.Err(), &problem)
				assert.Equal(t, spoilt, problem.Key)
				w.engine.Redis.Del(spoilt)
				_, ok = p.within(1100 * time.Millisecond)
				assert.True(t, ok, "it is noticed when somebody has put it right")
				assert.NoError(t, p.bucket.Err())
			})
		})
	}
}

func TestSlidingBucketsAreWaitedFor(t *testing.T) {
	t.Parallel()
	for name, quota := range map[string]discordsim.Quota{
		"sliding": discordsim.Sliding(5, 2*time.Second), "leaky": discordsim.Leaky(5, 2*time.Second),
		"aligned": discordsim.Aligned(10, 4*time.Second, 0),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, discordsim.Config{Default: &discordsim.Rule{Path: "**", Quota: quota}, Latency: usual, Seed: 3})
				defer w.close()
				for range 3 {
					p := w.process()
					defer p.session.Close()
					p.callers(5)
				}
				time.Sleep(40 * time.Second)
				report := w.discord.Report()
				w.cancel()
				w.work.Wait()
				t.Log(report.Accepted, "accepted")
				assert.Zero(t, report.Refused.Total())
				assert.GreaterOrEqual(t, report.Accepted, 92)
			})
		})
	}
}
