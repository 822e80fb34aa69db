package spectacles_test

import (
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

// troubles returns a function that makes some calls late, and that loses some calls and some replies.
func troubles(chance *rand.Rand) func(string) memoryengine.Fate {
	return func(string) memoryengine.Fate {
		f := memoryengine.Fate{Before: time.Duration(chance.Int64N(int64(2 * time.Millisecond)))}
		switch chance.IntN(40) {
		case 0:
			f.Lost = true
		case 1:
			f.LostReply = true
		case 2:
			f.Before += 3 * time.Second // later than the timeout of the call
		}
		return f
	}
}

func TestLostAndLateCallsCauseNo429s(t *testing.T) {
	t.Parallel()
	for n := range uint64(4) {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			inWorldOf(t, discordsim.Config{Latency: usual, Seed: n}, func(w *world) {
				w.engine.Decide(troubles(rand.New(rand.NewPCG(n, n))))
				processes := w.processes(4, 5)
				// Again and again, callers give up, some of them with a permit.
				chance := rand.New(rand.NewPCG(n, 1))
				for time.Since(processes[0].origin) < time.Minute {
					p := processes[chance.IntN(4)]
					if permit, ok := p.within(time.Duration(chance.Int64N(int64(300 * time.Millisecond)))); ok {
						p.giveBack(permit)
					}
				}
				report := w.end()
				assert.Zero(t, report.Refused.Total())
				assert.Greater(t, report.Accepted, 150)
				t.Log(report.Accepted, "accepted")
			})
		})
	}
}

func TestLateCallsDoNothing(t *testing.T) {
	inWorld(t, func(w *world) {
		p, other := w.two()
		p.learn()
		time.Sleep(2 * time.Second)
		w.engine.Decide(func(string) memoryengine.Fate { return memoryengine.Fate{Before: 900 * time.Millisecond} })
		_, ok := p.within(10 * time.Millisecond)
		require.False(t, ok)
		time.Sleep(50 * time.Millisecond)
		w.engine.Decide(nil)
		time.Sleep(time.Second) // until the late call has reached the server
		assert.Len(t, other.burst(9), 5)
	})
}

func TestWindowOfAnotherClientCountsRequestsInFlight(t *testing.T) {
	for name, known := range map[string]bool{"after an end that was known": true, "after one that was not": false} {
		eachWorld(t, name, func(t *testing.T, w *world) {
			p, s := w.process(), w.seed(true)
			w.set("limit", "5")
			permits := p.burst(3)
			require.Len(t, permits, 3)
			if known {
				p.report(permits[0], headers(4, time.Second, 0))
			} else {
				p.giveBack(permits[0])
				synctest.Wait()
				require.Zero(t, s.tryClaim())
				s.expire(time.Second)
			}
			time.Sleep(1010 * time.Millisecond)
			claims := 1
			if known { // in this case the process knows the counter of the earlier window
				claims = 3
			}
			require.Equal(t, claims, s.burst(claims), "the other client must open a window")
			assert.Len(t, p.burst(9), 3-claims)
		})
	}
}

func TestLateExpiryOfAnotherClientIsCorrected(t *testing.T) {
	inWorld(t, func(w *world) {
		p, other := w.two()
		p.learn()
		w.seed(true).expire(1999 * time.Millisecond) // Date may be wrong by almost a second
		require.NotEmpty(t, other.burst(1))
		assert.LessOrEqual(t, w.engine.Redis.TTL(route+":remaining"), time.Second+time.Millisecond)
	})
}

func TestResponseOfAnEndedWindowOpensNoWindow(t *testing.T) {
	inWorld(t, func(w *world) {
		p := w.process()
		w.set("limit", "5")
		permits, stamp := p.burst(9), stamp(time.Second)
		require.Len(t, permits, 5)
		p.answer(permits[:4], time.Second, stamp)
		time.Sleep(1100 * time.Millisecond)
		p.report(permits[4], headers(0, time.Second, stamp)) // this response is late
		synctest.Wait()
		assert.Len(t, p.burst(9), 5)
	})
}

func TestRequestOfTheNextWindowIsChargedThere(t *testing.T) {
	inWorld(t, func(w *world) {
		p := w.process()
		w.set("limit", "5")
		permits, stamp := p.burst(9), stamp(900*time.Millisecond)
		require.Len(t, permits, 5)
		time.Sleep(100 * time.Millisecond) // a round trip; the window may end earlier by this time
		p.answer(permits[:4], 900*time.Millisecond, stamp)
		time.Sleep(870 * time.Millisecond)
		p.report(permits[4], headers(4, 980*time.Millisecond, stamp+1000))
		time.Sleep(50 * time.Millisecond)
		assert.Len(t, p.burst(9), 4)
	})
}
