package shared_test

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets/shared"
	"github.com/ratelight/ratelight/internal/memoryengine"
)

// halved returns two senders, each of which has half of the limit.
func (w *world) halved() (a, b *sender) {
	w.t.Helper()
	a, b = w.twoSenders(50)
	a.send(5000)
	b.send(5000)
	w.until(5*time.Second, func() bool { return a.part() == 25 && b.part() == 25 })
	time.Sleep(2 * time.Second)
	return a, b
}

func TestDeadProcessLosesItsPart(t *testing.T) {
	atOnce(t, func(w *world) {
		lives, dead := w.halved()
		dead.link.block(true)
		w.until(3*time.Second, func() bool { return dead.part() == 0 })
		assert.Less(t, w.until(10*time.Second, func() bool { return lives.part() == 50 }), 2*time.Second)
		assert.LessOrEqual(t, most(time.Second, lives, dead), 50)
	})
}

// A process whose part suffices looks every ten seconds whether the others are alive. So a later burst gets the part of
// a dead process at once.
func TestPartOfADeadProcessIsFreeBeforeItIsNeeded(t *testing.T) {
	atOnce(t, func(w *world) {
		lives, dead := w.twoSenders(50)
		dead.send(20)
		lives.send(20)
		trickle(5, lives, dead)
		dead.link.block(true)
		trickle(14, lives)
		lives.sendAll(t, 49)
	})
}

func TestLossOfStateInterruptsNoProcess(t *testing.T) {
	atOnce(t, func(w *world) {
		a, b := w.halved()
		for range 5 {
			w.server.Flush()
			time.Sleep(1300 * ms)
			assert.Equal(t, 25, a.part())
			assert.Equal(t, 25, b.part())
		}
		c := w.sender(50)
		c.send(2000)
		took := w.until(10*time.Second, func() bool { return c.part() >= 16 })
		assert.Less(t, took, 2*time.Second, "the old processes must give back some of the parts that they have claimed")
		time.Sleep(3 * time.Second)
		assert.LessOrEqual(t, most(time.Second, a, b, c), 50)
	})
}

// The first call after a loss comes from a new session. That session has no limit, so it only needs to learn of holds,
// and it knows of no parts. It must not divide the limit, because the other sessions have their parts.
func TestListenerThatCallsFirstAfterALossDividesNothing(t *testing.T) {
	atOnce(t, func(w *world) {
		w.server.Decide(near)
		a, b := w.halved()
		w.server.Flush()
		w.sender(0)
		time.Sleep(5 * ms)
		total := 0
		for range 5000 {
			total = max(total, a.part()+b.part())
			time.Sleep(ms)
		}
		assert.LessOrEqual(t, total, 50)
		assert.LessOrEqual(t, most(time.Second, a, b), 50)
	})
}

func TestServerThatComesBackEmptyIsUsedSoon(t *testing.T) {
	atOnce(t, func(w *world) {
		a, b := w.halved()
		w.server.SetDown(true)
		time.Sleep(5 * time.Second)
		require.Zero(t, a.part()+b.part())
		w.server.Flush()
		w.server.SetDown(false)
		// Each process may use its part after the loss, and must claim the part within 1.5 s.
		w.until(3*time.Second, func() bool { return a.part() == 25 && b.part() == 25 })
		assert.LessOrEqual(t, most(time.Second, a, b), 50)
	})
}

func TestGlobalLimitDuringAnOutage(t *testing.T) {
	for policy, part := range map[shared.Outage]int{
		shared.OutageWait: 0, shared.OutageFail: 0, shared.OutageShare: 25, shared.OutageFull: 50,
	} {
		eachAtOnce(t, policy.String(), func(t *testing.T, w *world) {
			a, b := w.halved()
			w.server.SetDown(true)
			time.Sleep(1500 * ms)
			assert.Equal(t, 25, a.part(), "a part must be valid until its end")
			assert.NoError(t, a.global.Err())
			time.Sleep(2 * time.Second)
			assert.Equal(t, part, a.part())
			if policy == shared.OutageFail {
				assert.ErrorIs(t, a.global.Err(), shared.ErrOutage)
			} else {
				assert.NoError(t, a.global.Err())
			}
			time.Sleep(5 * time.Second)
			w.server.SetDown(false)
			w.until(3*time.Second, func() bool { return a.part() == 25 && b.part() == 25 })
			assert.NoError(t, a.global.Err())
			if policy != shared.OutageFull {
				assert.LessOrEqual(t, most(time.Second, a, b), 50)
			}
			time.Sleep(2 * time.Second)
			before := a.waiting()
			time.Sleep(4 * time.Second)
			assert.InDelta(t, 100, before-a.waiting(), 5, "requests sent in 4 s")
		}, shared.WithOutage(policy))
	}
}

// During an outage changed is called once a second, because some requests may have waited too long. The manager calls
// Need in each call of changed, and the call to the server that Need starts fails at once. These calls must not cause
// further calls of changed.
func TestChangedIsCalledOnceASecondDuringAnOutage(t *testing.T) {
	atOnce(t, func(w *world) {
		var changed atomic.Int64
		var g shared.Global
		var waiting atomic.Bool
		g = w.process().session.Global("bot", 50, func() {
			if waiting.Load() && changed.Add(1) < 1000 {
				g.Need(w.now(), 1, 0)
			}
		})
		g.Need(w.now(), 30, 0)
		time.Sleep(time.Second)
		g.Need(w.now(), 0, 30)
		time.Sleep(8 * time.Second) // the session has a part, and has reported that it needs nothing
		w.server.SetDown(true)
		time.Sleep(4 * time.Second)
		waiting.Store(true)
		g.Need(w.now(), 1, 0)
		time.Sleep(10 * time.Second)
		assert.GreaterOrEqual(t, changed.Load(), int64(9))
		assert.LessOrEqual(t, changed.Load(), int64(14))
	})
}

func TestStepOfTheServersClockChangesNoPart(t *testing.T) {
	for name, step := range map[string]time.Duration{
		"back": -time.Hour, "forward": 5 * time.Minute, "two seconds forward": 2 * time.Second,
		"beyond the expiry of all keys": time.Hour,
	} {
		eachAtOnce(t, name, func(t *testing.T, w *world) {
			a, b := w.halved()
			b.link.block(true)
			w.server.StepClock(step)
			start := w.now()
			for w.now() < start+3*time.Second {
				time.Sleep(10 * ms)
				require.LessOrEqual(t, a.part()+b.part(), 50)
				require.Equal(t, 25, a.part())
			}
			time.Sleep(6 * time.Second)
			assert.Equal(t, 50, a.part(), "the dead process's part must be free after seconds")
		})
	}
}

func TestDivisionOfAnEarlierTimeIsNotUsed(t *testing.T) {
	atOnce(t, func(w *world) {
		const key = "rl2:{default}:g:bot"
		first := w.sender(50)
		first.send(5000)
		time.Sleep(1500 * ms)
		earlier := w.server.Value(key)
		require.NotEmpty(t, earlier)
		second := w.sender(50)
		second.send(5000)
		w.until(2*time.Second, func() bool { return first.part() == 25 && second.part() == 25 })
		w.server.Set(key, earlier)
		for range 500 {
			time.Sleep(10 * ms)
			require.Equal(t, 25, first.part())
			require.Equal(t, 25, second.part())
		}
	})
}

// A reply says that a session is dead. The reply arrives after a message which shows that the session is alive again.
// No other process may use the session's part.
func TestSessionThatComesBackKeepsItsPart(t *testing.T) {
	for late := 50 * ms; late < 450*ms; late += 50 * ms {
		atOnce(t, func(w *world) {
			a := w.sender(50)
			a.send(1)
			time.Sleep(10 * ms)
			_, session, _ := strings.Cut(w.key(":p:"), ":p:")
			b := w.sender(50)
			b.link.late = late
			a.send(1000)
			b.send(1000)
			time.Sleep(10 * time.Second)
			require.Equal(t, 25, a.part())
			a.link.block(true)
			w.until(4*time.Second, func() bool { return w.key(":p:"+session) == "" })
			time.Sleep(late / 2)
			a.link.block(false)
			w.until(time.Second, func() bool { return a.part() > 0 })
			a.link.block(true)
			for range 3000 {
				time.Sleep(ms)
				require.LessOrEqual(t, a.part()+b.part(), 50, "replies %v late", late)
			}
		})
	}
}

func TestSessionThatClosesBeforeItsFirstCallDelaysNoProcess(t *testing.T) {
	atOnce(t, func(w *world) {
		a := w.sender(50)
		w.server.Decide(func(string) memoryengine.Fate { return memoryengine.Fate{Before: ms} })
		a.send(1)
		a.session.Close()
		b := w.sender(50)
		b.send(10)
		time.Sleep(100 * ms)
		assert.Zero(t, b.waiting())
	})
}

// The reply to a call that returns a part is lost. New requests arrive before the call is repeated. The new requests
// must not use the part, because another process may have it.
func TestReturnedPartIsNotUsed(t *testing.T) {
	atOnce(t, func(w *world) {
		a := w.sender(50)
		a.sendEvenly(5*time.Second, 50*ms)
		returned := w.now()
		w.server.Decide(func(string) memoryengine.Fate {
			return memoryengine.Fate{LostReply: w.now()-returned > 9500*ms}
		})
		for w.now()-returned < 11*time.Second && a.part() > 0 {
			time.Sleep(ms)
		}
		a.link.block(true)
		w.server.Decide(nil)
		time.Sleep(10 * ms)
		b := w.sender(50)
		b.send(300)
		a.send(300)
		for range 3000 {
			time.Sleep(ms)
			require.LessOrEqual(t, a.part()+b.part(), 50)
		}
		require.LessOrEqual(t, most(time.Second, a, b), 50)
	})
}

// A session has noticed that the server's clock was set. Before it can end the era, the server loses its state. These
// two events must not cause endless calls, and waiting requests must be sent.
func TestLossAfterAStepOfTheClockMakesNoLoop(t *testing.T) {
	atOnce(t, func(w *world) {
		w.server.Decide(func(string) memoryengine.Fate { return memoryengine.Fate{Before: 10 * ms, After: 10 * ms} })
		a := w.sender(50)
		a.send(1)
		time.Sleep(1660 * ms)
		w.server.StepClock(7400 * ms)
		time.Sleep(20 * ms)
		w.server.Flush()
		before := w.server.Total()
		time.Sleep(10 * time.Second)
		assert.Less(t, w.server.Total()-before, 20)
		a.send(100)
		time.Sleep(5 * time.Second)
		assert.Zero(t, a.waiting())
	})
}
