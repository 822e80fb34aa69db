package spectacles_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/internal/discordsim"
	"github.com/ratelight/ratelight/internal/memoryengine"
)

// troubles makes calls and replies get lost or late.
func troubles(chance *rand.Rand) func(string) memoryengine.Fate {
	return func(string) memoryengine.Fate {
		f := memoryengine.Fate{Before: time.Duration(chance.Int64N(int64(2 * time.Millisecond)))}
		switch chance.IntN(40) {
		case 0:
			f.Lost = true
		case 1:
			f.LostReply = true
		case 2:
			f.Before += 3 * time.Second // the process has given up by then
		}
		return f
	}
}

func TestLostAndLateCallsLetNobodyOverTheLimit(t *testing.T) {
	t.Parallel()
	for n := range uint64(4) {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, discordsim.Config{
					Default: &discordsim.Rule{Path: "**", Quota: discordsim.Fixed(5, time.Second)}, Latency: usual, Seed: n,
				})
				w.engine.Decide(troubles(rand.New(rand.NewPCG(n, n))))
				var processes []*process
				for range 4 {
					p := w.process()
					p.callers(5)
					processes = append(processes, p)
				}
				// These callers always give up, while they wait or after the grant.
				chance := rand.New(rand.NewPCG(n, 1))
				for time.Since(processes[0].origin) < time.Minute {
					ctx, cancel := context.WithTimeout(w.context, time.Duration(chance.Int64N(int64(300*time.Millisecond))))
					p := processes[chance.IntN(4)]
					if permit, ok := p.acquire(ctx); ok {
						p.giveBack(permit)
					}
					cancel()
				}
				report := w.discord.Report()
				w.cancel()
				w.work.Wait()
				for _, p := range processes {
					p.session.Close()
				}
				w.close()
				assert.Zero(t, report.Refused.Total())
				assert.Greater(t, report.Accepted, 150)
				t.Log(report.Accepted, "accepted")
			})
		})
	}
}

func TestLateCallsDoNothing(t *testing.T) {
	inWorld(t, func(w *world) {
		p, other := w.process(), w.process()
		defer p.session.Close()
		defer other.session.Close()
		p.learn()
		time.Sleep(2 * time.Second)
		w.engine.Decide(func(string) memoryengine.Fate { return memoryengine.Fate{Before: 900 * time.Millisecond} })
		_, ok := p.within(10 * time.Millisecond)
		require.False(t, ok)
		time.Sleep(50 * time.Millisecond)
		w.engine.Decide(nil)
		time.Sleep(time.Second) // it has got there
		assert.Len(t, other.burst(9), 5)
	})
}

func TestAWindowThatOthersOpenCountsWhatIsInFlight(t *testing.T) {
	for name, known := range map[string]bool{"after an end that was known": true, "after one that was not": false} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				p, s := w.process(), w.seed(true)
				defer p.session.Close()
				w.engine.Redis.Set(route+":limit", "5")
				permits := p.burst(3)
				require.Len(t, permits, 3)
				if known {
					p.report(permits[0], headers(4, time.Second, 0))
				} else {
					p.giveBack(permits[0])
					synctest.Wait()
					require.Zero(t, s.tryClaim())
					s.run(seedExpire, route+":remaining", 1000)
				}
				time.Sleep(1010 * time.Millisecond)
				claims := 1
				if known { // then no less may remain than when we looked last
					claims = 3
				}
				require.Equal(t, claims, s.burst(claims), "it opens a window of its own")
				assert.Len(t, p.burst(9), 3-claims)
			})
		})
	}
}

func TestExpiriesThatOthersSetTooLateAreCorrected(t *testing.T) {
	inWorld(t, func(w *world) {
		p, other := w.process(), w.process()
		defer p.session.Close()
		defer other.session.Close()
		p.learn()
		w.seed(true).run(seedExpire, route+":remaining", 1999) // Date may be almost a second off
		require.NotEmpty(t, other.burst(1))
		assert.LessOrEqual(t, w.engine.Redis.TTL(route+":remaining"), time.Second+time.Millisecond)
	})
}

func TestResponsesOfAWindowThatHasEndedOpenNone(t *testing.T) {
	inWorld(t, func(w *world) {
		p := w.process()
		defer p.session.Close()
		w.engine.Redis.Set(route+":limit", "5")
		permits, stamp := p.burst(9), time.Now().Add(time.Second).UnixMilli()
		require.Len(t, permits, 5)
		for i, permit := range permits[:4] {
			p.report(permit, headers(4-i, time.Second, stamp))
		}
		time.Sleep(1100 * time.Millisecond)
		p.report(permits[4], headers(0, time.Second, stamp)) // it was on its way for long
		synctest.Wait()
		assert.Len(t, p.burst(9), 5)
	})
}

func TestWhatCountsInTheNextWindowIsChargedThere(t *testing.T) {
	inWorld(t, func(w *world) {
		p := w.process()
		defer p.session.Close()
		w.engine.Redis.Set(route+":limit", "5")
		permits, stamp := p.burst(9), time.Now().Add(900*time.Millisecond).UnixMilli()
		require.Len(t, permits, 5)
		time.Sleep(100 * time.Millisecond) // so long it took to come back, so that the window ends earlier than we can know
		for i, permit := range permits[:4] {
			p.report(permit, headers(4-i, 900*time.Millisecond, stamp))
		}
		time.Sleep(870 * time.Millisecond)
		p.report(permits[4], headers(4, 980*time.Millisecond, stamp+1000))
		time.Sleep(50 * time.Millisecond)
		assert.Len(t, p.burst(9), 4)
	})
}
