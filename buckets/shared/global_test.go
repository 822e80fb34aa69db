package shared_test

import (
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets/shared"
)

// most returns the largest number of requests that were sent within d.
func most(d time.Duration, senders ...*sender) (n int) {
	var all []time.Duration
	for _, s := range senders {
		s.mu.Lock()
		all = append(all, s.sent...)
		s.mu.Unlock()
	}
	slices.Sort(all)
	for first, last := 0, 0; last < len(all); last++ {
		for all[last]-all[first] >= d {
			first++
		}
		n = max(n, last-first+1)
	}
	return n
}

// until waits until so returns true, and returns how long that took.
func (f *stage) until(longest time.Duration, so func() bool) time.Duration {
	f.t.Helper()
	start := f.now()
	for !so() {
		require.Less(f.t, f.now()-start, longest, "it should have come to pass")
		time.Sleep(time.Millisecond)
	}
	return f.now() - start
}

func TestOneAloneGetsEverythingAtOnce(t *testing.T) {
	onStage(t, func(f *stage) {
		s := f.sender(50)
		defer s.end()
		s.send(50)
		time.Sleep(time.Millisecond)
		assert.Zero(t, s.waiting())
		assert.Equal(t, 50, s.part())
	})
}

func TestFourThatStartTogetherUseAllOfTheLimit(t *testing.T) {
	onStage(t, func(f *stage) {
		var senders []*sender
		for range 4 {
			s := f.sender(50)
			defer s.end()
			senders = append(senders, s)
		}
		for _, s := range senders {
			s.send(300)
		}
		took := f.until(time.Minute, func() bool {
			return !slices.ContainsFunc(senders, func(s *sender) bool { return s.waiting() > 0 })
		})
		require.LessOrEqual(t, took, 26*time.Second, "it takes 23 s at least")
		require.LessOrEqual(t, most(time.Second, senders...), 50)
	})
}

func TestNewcomerGetsItsFairPart(t *testing.T) {
	for _, test := range []struct {
		name           string
		quiet          bool
		lowers, longer time.Duration
	}{
		{"told by a message", false, 10 * time.Millisecond, 1300 * time.Millisecond},
		{"without messages", true, 1010 * time.Millisecond, 1600 * time.Millisecond},
	} {
		t.Run(test.name, func(t *testing.T) {
			onStage(t, func(f *stage) {
				f.memory.SetQuiet(test.quiet)
				old, young := f.sender(50), f.sender(50)
				defer old.end()
				defer young.end()
				old.send(2000)
				time.Sleep(10 * time.Second)
				require.Equal(t, 50, old.part())
				young.send(2000)
				assert.LessOrEqual(t, f.until(time.Minute, func() bool { return old.part() == 25 }), test.lowers)
				assert.LessOrEqual(t, f.until(time.Minute, func() bool { return young.part() == 25 }), test.longer)
				time.Sleep(5 * time.Second)
				assert.LessOrEqual(t, most(time.Second, old, young), 50)
			})
		})
	}
}

func TestPartsFollowWhatIsNeeded(t *testing.T) {
	onStage(t, func(f *stage) {
		a, b := f.sender(50), f.sender(50)
		defer a.end()
		defer b.end()
		a.send(100)
		b.send(2000)
		time.Sleep(10 * time.Second)
		require.Zero(t, a.waiting())
		require.GreaterOrEqual(t, b.part(), 45, "the other one needs nothing any more")
		a.send(5)
		took := f.until(10*time.Second, func() bool { return a.waiting() == 0 })
		assert.LessOrEqual(t, took, 2*time.Second)
		assert.GreaterOrEqual(t, b.part(), 40, "it needs no more than that")
		assert.LessOrEqual(t, most(time.Second, a, b), 50)
	})
}

func TestSomethingIsFreeForABurst(t *testing.T) {
	onStage(t, func(f *stage) {
		a, b := f.sender(50), f.sender(50)
		defer a.end()
		defer b.end()
		for range 100 {
			a.send(1)
			b.send(1)
			time.Sleep(100 * time.Millisecond)
		}
		a.send(15)
		time.Sleep(10 * time.Millisecond)
		assert.Zero(t, a.waiting(), "it needs nothing of what the other one has")
	})
}

func TestDeadProcessLosesItsPart(t *testing.T) {
	onStage(t, func(f *stage) {
		heir := f.sender(50)
		defer heir.end()
		dead, l := f.linked(50)
		defer dead.end()
		heir.send(2000)
		dead.send(2000)
		time.Sleep(5 * time.Second)
		require.Equal(t, 25, heir.part())
		l.cut.Store(true)
		f.until(3*time.Second, func() bool { return dead.part() == 0 })
		assert.Less(t, f.until(10*time.Second, func() bool { return heir.part() == 50 }), 2*time.Second)
		assert.LessOrEqual(t, most(time.Second, heir, dead), 50)
	})
}

func TestClosedGlobalGivesItsPartBack(t *testing.T) {
	onStage(t, func(f *stage) {
		a, b := f.sender(50), f.sender(50)
		defer a.end()
		a.send(2000)
		b.send(2000)
		time.Sleep(5 * time.Second)
		b.end()
		assert.Less(t, f.until(10*time.Second, func() bool { return a.part() == 50 }), 1500*time.Millisecond)
		assert.LessOrEqual(t, most(time.Second, a, b), 50)
	})
}

func TestWhatIsNotNeededIsGivenBackAndCostsNoCalls(t *testing.T) {
	onStage(t, func(f *stage) {
		s := f.sender(50)
		defer s.end()
		s.send(10)
		time.Sleep(20 * time.Second)
		assert.Zero(t, s.part())
		calls := f.memory.Calls()["part"]
		assert.Less(t, calls, 20)
		time.Sleep(time.Hour)
		assert.Equal(t, calls, f.memory.Calls()["part"])
		s.send(50)
		time.Sleep(time.Millisecond)
		assert.Zero(t, s.waiting(), "alone it has everything at once, again")
	})
}

func TestMoreProcessesThanTheLimitTakeTurns(t *testing.T) {
	onStage(t, func(f *stage) {
		var senders []*sender
		for range 5 {
			s := f.sender(2)
			defer s.end()
			s.send(100)
			senders = append(senders, s)
		}
		time.Sleep(time.Minute)
		for _, s := range senders {
			assert.Less(t, s.waiting(), 95)
		}
		assert.LessOrEqual(t, most(time.Second, senders...), 2)
	})
}

func TestHoldIsToldToAll(t *testing.T) {
	onStage(t, func(f *stage) {
		for _, limit := range []int{50, 0} {
			a, b := f.sender(limit), f.sender(limit)
			if limit > 0 {
				a.send(1)
				b.send(1)
			}
			time.Sleep(2 * time.Second)
			a.global.Hold(f.now(), 5*time.Second)
			time.Sleep(10 * time.Millisecond)
			assert.InDelta(t, 5, b.global.HoldWait(f.now()).Seconds(), 0.1)
			b.global.Hold(f.now(), time.Second)
			a.global.Hold(f.now(), time.Second)
			time.Sleep(10 * time.Millisecond)
			assert.InDelta(t, 5, a.global.HoldWait(f.now()).Seconds(), 0.1, "a shorter one changes nothing")
			f.memory.Flush()
			time.Sleep(1100 * time.Millisecond)
			c := f.sender(limit)
			c.send(1)
			time.Sleep(10 * time.Millisecond)
			assert.InDelta(t, 3.9, c.global.HoldWait(f.now()).Seconds(), 0.1, "what the server forgot it is told again")
			time.Sleep(4 * time.Second)
			assert.Zero(t, c.global.HoldWait(f.now()))
			a.end()
			b.end()
			c.end()
		}
	})
}

func TestHoldsReachThoseWithoutALimit(t *testing.T) {
	for name, deaf := range map[string]bool{"by message": false, "without messages": true} {
		t.Run(name, func(t *testing.T) {
			onStage(t, func(f *stage) {
				var engine shared.Engine = f.memory
				if deaf {
					engine = struct{ shared.Engine }{engine}
				}
				store, err := shared.New(engine)
				require.NoError(t, err)
				var all []*sender
				for range 2 {
					s := f.senderOf(store.Join(realClock, f.origin), 0)
					defer s.end()
					all = append(all, s)
					time.Sleep(7 * time.Millisecond) // they do not call at the same moment, when either may be first
				}
				before := f.memory.Calls()["part"]
				time.Sleep(time.Hour - 3*time.Second)
				if calls := f.memory.Calls()["part"] - before; deaf {
					assert.GreaterOrEqual(t, calls, 7100)
				} else {
					assert.LessOrEqual(t, calls, 730)
				}
				all[0].global.Hold(f.now(), 5*time.Second)
				late := 10 * time.Millisecond
				if deaf {
					late = 1010 * time.Millisecond
				}
				f.until(late, func() bool { return all[1].global.HoldWait(f.now()) > 0 })
			})
		})
	}
}

func TestHoldOfNobodyWhoNeedsSomethingIsTold(t *testing.T) {
	onStage(t, func(f *stage) {
		a, b := f.sender(50), f.sender(50)
		defer a.end()
		defer b.end()
		a.global.Hold(f.now(), 30*time.Second)
		time.Sleep(20 * time.Second)
		b.send(1)
		time.Sleep(time.Second)
		assert.Equal(t, 1, b.waiting())
		time.Sleep(10 * time.Second)
		assert.Zero(t, b.waiting())
	})
}

func TestServerThatForgetsInterruptsNobody(t *testing.T) {
	onStage(t, func(f *stage) {
		a, b := f.sender(50), f.sender(50)
		defer a.end()
		defer b.end()
		a.send(2000)
		b.send(2000)
		time.Sleep(5 * time.Second)
		for range 5 {
			f.memory.Flush()
			time.Sleep(1300 * time.Millisecond)
			assert.Equal(t, 25, a.part())
			assert.Equal(t, 25, b.part())
		}
		c := f.sender(50)
		defer c.end()
		c.send(2000)
		assert.Less(t, f.until(10*time.Second, func() bool { return c.part() >= 16 }), 2*time.Second, "what was claimed can be shared")
		time.Sleep(3 * time.Second)
		assert.LessOrEqual(t, most(time.Second, a, b, c), 50)
	})
}

func TestServerThatComesBackEmptyIsUsedSoon(t *testing.T) {
	onStage(t, func(f *stage) {
		a, b := f.sender(50), f.sender(50)
		defer a.end()
		defer b.end()
		a.send(2000)
		b.send(2000)
		time.Sleep(5 * time.Second)
		f.memory.SetDown(true)
		time.Sleep(5 * time.Second)
		require.Zero(t, a.part()+b.part())
		f.memory.Flush()
		f.memory.SetDown(false)
		// It does not know the parts of the other sessions, which they report within one and a half seconds.
		f.until(3*time.Second, func() bool { return a.part() == 25 && b.part() == 25 })
		assert.LessOrEqual(t, most(time.Second, a, b), 50)
	})
}

func TestGlobalDuringAnOutage(t *testing.T) {
	for _, test := range []struct {
		policy shared.Outage
		part   int
	}{
		{shared.OutageWait, 0}, {shared.OutageFail, 0}, {shared.OutageShare, 25}, {shared.OutageFull, 50},
	} {
		t.Run(test.policy.String(), func(t *testing.T) {
			onStage(t, func(f *stage) {
				a, b := f.sender(50), f.sender(50)
				defer a.end()
				defer b.end()
				a.send(5000)
				b.send(5000)
				time.Sleep(5 * time.Second)
				f.memory.SetDown(true)
				time.Sleep(1500 * time.Millisecond)
				assert.Equal(t, 25, a.part(), "what it has it has until its end")
				assert.NoError(t, a.global.Err())
				time.Sleep(2 * time.Second)
				assert.Equal(t, test.part, a.part())
				if test.policy == shared.OutageFail {
					assert.ErrorIs(t, a.global.Err(), shared.ErrOutage)
				} else {
					assert.NoError(t, a.global.Err())
				}
				time.Sleep(5 * time.Second)
				f.memory.SetDown(false)
				f.until(3*time.Second, func() bool { return a.part() == 25 && b.part() == 25 })
				assert.NoError(t, a.global.Err())
				if test.policy != shared.OutageFull {
					assert.LessOrEqual(t, most(time.Second, a, b), 50)
				}
				time.Sleep(2 * time.Second)
				a.mu.Lock()
				sent := len(a.sent)
				a.mu.Unlock()
				time.Sleep(4 * time.Second)
				a.mu.Lock()
				assert.InDelta(t, 100, len(a.sent)-sent, 5, "it goes on at its rate")
				a.mu.Unlock()
			}, shared.WithOutage(test.policy))
		})
	}
}

func TestWaitersOfAGlobalLimitAreLookedAtDuringAnOutage(t *testing.T) {
	onStage(t, func(f *stage) {
		f.memory.SetDown(true)
		session := f.join()
		defer session.Close()
		looked := make(chan struct{}, 100)
		g := session.Global("bot", 50, func() { looked <- struct{}{} })
		g.Need(f.now(), 1, 0)
		time.Sleep(10 * time.Second)
		assert.GreaterOrEqual(t, len(looked), 9)
		assert.LessOrEqual(t, len(looked), 14)
	})
}

// A call during an outage fails at once. Calling again after each failure would be an endless loop.
func TestDemandDuringAnOutageMakesNoLoop(t *testing.T) {
	onStage(t, func(f *stage) {
		session := f.join()
		defer session.Close()
		var looked atomic.Int64
		var g shared.Global
		var waiting atomic.Bool
		g = session.Global("bot", 50, func() {
			if waiting.Load() && looked.Add(1) < 1000 {
				g.Need(f.now(), 1, 0)
			}
		})
		g.Need(f.now(), 30, 0)
		time.Sleep(time.Second)
		g.Need(f.now(), 0, 30)
		time.Sleep(8 * time.Second) // it keeps a part of which it has told no need
		f.memory.SetDown(true)
		time.Sleep(4 * time.Second)
		waiting.Store(true)
		g.Need(f.now(), 1, 0)
		time.Sleep(10 * time.Second)
		assert.LessOrEqual(t, looked.Load(), int64(14))
	})
}

func TestGlobalWhoseKeyIsNotOurs(t *testing.T) {
	for name, spoil := range map[string]func(f *stage){
		"type":  func(f *stage) { f.memory.Set("rl2:{default}:g:bot", "x") },
		"part":  func(f *stage) { f.memory.Set("rl2:{default}:g:bot", `1.1 {"users":{"x":{"part":-1}}}`) },
		"state": func(f *stage) { f.memory.Set("rl2:{default}:g:bot", "1.1 mine") },
		"hash":  func(f *stage) { f.memory.SetForeign("rl2:{default}:g:bot") },
	} {
		t.Run(name, func(t *testing.T) {
			onStage(t, func(f *stage) {
				spoil(f)
				s := f.sender(50)
				defer s.end()
				s.send(1)
				time.Sleep(10 * time.Millisecond)
				var wrong *shared.KeyError
				require.ErrorAs(t, s.global.Err(), &wrong)
				assert.Equal(t, "rl2:{default}:g:bot", wrong.Key)
				f.memory.Flush()
				time.Sleep(1100 * time.Millisecond)
				assert.NoError(t, s.global.Err())
				assert.Zero(t, s.waiting())
			})
		})
	}
}

func TestGlobalThatIsClosedAndMadeAgain(t *testing.T) {
	onStage(t, func(f *stage) {
		s := f.sender(50)
		defer s.end()
		s.send(10)
		time.Sleep(time.Second)
		for range 10 {
			s.global.Close()
			s.mu.Lock()
			s.global = s.session.Global("bot", 50, s.changed)
			s.mu.Unlock()
			s.send(20)
			f.until(2*time.Second, func() bool { return s.waiting() == 0 })
		}
		assert.LessOrEqual(t, most(time.Second, s), 50)
	})
}
