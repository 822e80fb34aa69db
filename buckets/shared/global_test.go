package shared_test

import (
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/internal/memoryengine"
)

func TestOneProcessAloneHasTheWholeLimitAtOnce(t *testing.T) {
	atOnce(t, func(w *world) {
		s := w.sender(50)
		s.sendAll(t, 50)
		assert.Equal(t, 50, s.part())
	})
}

func TestOneProcessAloneSendsAtTheIdealRate(t *testing.T) {
	atOnce(t, func(w *world) {
		s := w.sender(50)
		trickle(5, s)
		s.send(1200)
		took := w.until(time.Minute, func() bool { return s.waiting() == 0 })
		ideal := 23 * (time.Second + s.trip)
		assert.LessOrEqual(t, took, ideal*102/100)
	})
}

func TestNewProcessGetsItsFairPart(t *testing.T) {
	for _, test := range []struct {
		name           string
		quiet          bool
		lowers, longer time.Duration
	}{
		{"told by a message", false, 10 * ms, 1300 * ms},
		{"without messages", true, 1010 * ms, 1600 * ms},
	} {
		eachAtOnce(t, test.name, func(t *testing.T, w *world) {
			w.server.SetQuiet(test.quiet)
			old, young := w.twoSenders(50)
			old.send(2000)
			time.Sleep(10 * time.Second)
			require.Equal(t, 50, old.part())
			young.send(2000)
			assert.LessOrEqual(t, w.until(time.Minute, func() bool { return old.part() == 25 }), test.lowers)
			assert.LessOrEqual(t, w.until(time.Minute, func() bool { return young.part() == 25 }), test.longer)
			time.Sleep(5 * time.Second)
			assert.LessOrEqual(t, most(time.Second, old, young), 50)
		})
	}
}

// The first request of a burst causes a call to the server at once. The requests that follow immediately must get their
// part within milliseconds, but must not cause one call each.
func TestNewProcessGetsItsFairPartForABurstThatBeginsWithOneRequest(t *testing.T) {
	atOnce(t, func(w *world) {
		old, young := w.twoSenders(50)
		old.send(2000)
		time.Sleep(10 * time.Second)
		young.send(1)
		time.Sleep(ms)
		require.Equal(t, 49, old.part())
		calls := w.server.Calls()["part"]
		young.send(1999)
		w.until(10*ms, func() bool { return old.part() == 25 })
		assert.LessOrEqual(t, w.server.Calls()["part"]-calls, 20, "the requests must not cause one call each")
	})
}

// Waiting requests are cancelled, and their process sends nothing more. Another process that needs the limit must get
// nearly the whole limit.
func TestRequestsThatHaveLeftDoNotKeepTheirPart(t *testing.T) {
	atOnce(t, func(w *world) {
		old, young := w.twoSenders(50)
		old.send(2000)
		time.Sleep(10 * time.Second)
		require.Equal(t, 50, old.part())
		old.mu.Lock()
		old.queue = 0
		old.mu.Unlock()
		young.send(2000)
		time.Sleep(6 * time.Second)
		assert.Greater(t, young.part(), 40)
	})
}

func TestNewProcessKnowsWhenItsPartComes(t *testing.T) {
	atOnce(t, func(w *world) {
		old, young := w.twoSenders(50)
		old.send(2000)
		time.Sleep(10 * time.Second)
		start := w.now()
		young.send(2000)
		time.Sleep(ms)
		require.Zero(t, young.part())
		var until time.Duration
		for young.part() == 0 {
			_, until = young.global.Part(w.now())
			require.InDelta(t, 1.25, (until - start).Seconds(), 0.06)
			time.Sleep(ms)
		}
		assert.InDelta(t, 0, (w.now() - until).Seconds(), 0.06)
	})
}

// A process that starts, or that sends again after a pause, must be able to send its first requests at once, because
// some of the limit is always free.
func TestFirstRequestsOfAProcessDoNotWait(t *testing.T) {
	for name, start := range map[string]func(w *world) (s *sender, requests int){
		"beside a process that needs little": func(w *world) (*sender, int) {
			trickle(8, w.sender(50))
			w.server.SetQuiet(true)
			return w.sender(50), 25
		},
		"beside a process that needs little of a small limit": func(w *world) (*sender, int) {
			trickle(8, w.sender(10))
			w.server.SetQuiet(true)
			return w.sender(10), 5
		},
		"beside a process that sends 40 of 50 a second": func(w *world) (*sender, int) {
			old := w.sender(50)
			for range 100 { // with 101 ms no request waits when a beat is sent, so the result does not depend on chance
				old.send(4)
				time.Sleep(101 * ms)
			}
			return w.sender(50), 2
		},
		"beside five other new processes": func(w *world) (*sender, int) {
			w.server.SetQuiet(true)
			for range 5 {
				w.sender(50).sendAll(w.t, 2)
			}
			return w.sender(50), 2
		},
		"beside twelve processes that need little": func(w *world) (*sender, int) {
			const way = 50 * time.Microsecond // so that a message and a reply never arrive at the same instant
			w.server.Decide(func(string) memoryengine.Fate { return memoryengine.Fate{Before: way, After: way} })
			var all []*sender
			for range 12 {
				s := w.sender(50)
				all = append(all, s)
				trickle(3, all...)
				s.sendAll(w.t, 0)
			}
			trickle(3, all...)
			return w.sender(50), 2
		},
		"after the death of its predecessor": func(w *world) (*sender, int) {
			before := w.sender(50)
			trickle(5, before)
			before.link.block(true)
			return w.sender(50), 10
		},
		"after a pause": func(w *world) (*sender, int) {
			a, b := w.twoSenders(50)
			a.send(100)
			for range 4 {
				trickle(15, b)
				a.sendAll(w.t, 10)
			}
			trickle(15, b)
			return a, 10
		},
		"beside a busy process that has what it needs": func(w *world) (*sender, int) {
			a, b := w.twoSenders(50)
			for range 100 {
				a.send(1)
				b.send(1)
				time.Sleep(100 * ms)
			}
			return a, 15
		},
	} {
		eachAtOnce(t, name, func(t *testing.T, w *world) {
			s, requests := start(w)
			s.sendAll(t, requests)
		})
	}
}

func TestPartsFollowTheNeed(t *testing.T) {
	atOnce(t, func(w *world) {
		a, b := w.twoSenders(50)
		a.send(100)
		b.send(2000)
		time.Sleep(10 * time.Second)
		require.Zero(t, a.waiting())
		require.GreaterOrEqual(t, b.part(), 45, "process a no longer needs anything")
		a.send(5)
		took := w.until(10*time.Second, func() bool { return a.waiting() == 0 })
		assert.LessOrEqual(t, took, 2*time.Second)
		assert.GreaterOrEqual(t, b.part(), 40, "process a needs only five")
		assert.LessOrEqual(t, most(time.Second, a, b), 50)
	})
}

func TestPartThatIsNotNeededShrinks(t *testing.T) {
	atOnce(t, func(w *world) {
		s := w.sender(50)
		s.sendAll(t, 50)
		require.Equal(t, 50, s.part())
		trickle(6, s)
		assert.LessOrEqual(t, s.part(), 20)
		s.sendAll(t, 45)
	})
}

func TestProcessWithoutRequestsReturnsItsPartAndMakesNoCalls(t *testing.T) {
	atOnce(t, func(w *world) {
		s := w.sender(50)
		s.send(10)
		time.Sleep(20 * time.Second)
		assert.Zero(t, s.part())
		calls := w.server.Calls()["part"]
		assert.Less(t, calls, 20)
		time.Sleep(time.Hour)
		assert.Equal(t, calls, w.server.Calls()["part"])
		s.sendAll(t, 50)
	})
}

func TestClosedProcessReturnsItsPart(t *testing.T) {
	atOnce(t, func(w *world) {
		a, b := w.twoSenders(50)
		a.send(2000)
		b.send(2000)
		time.Sleep(5 * time.Second)
		b.stop()
		b.session.Close()
		assert.Less(t, w.until(10*time.Second, func() bool { return a.part() == 50 }), 2500*ms)
		assert.LessOrEqual(t, most(time.Second, a, b), 50)
	})
}

func TestGlobalLimitThatIsClosedAndUsedAgain(t *testing.T) {
	atOnce(t, func(w *world) {
		s := w.sender(50)
		s.send(10)
		time.Sleep(time.Second)
		for range 10 {
			s.global.Close()
			s.mu.Lock()
			s.global = s.session.Global("bot", 50, s.changed)
			s.mu.Unlock()
			s.send(20)
			w.until(2*time.Second, func() bool { return s.waiting() == 0 })
		}
		assert.LessOrEqual(t, most(time.Second, s), 50)
	})
}

func TestMoreProcessesThanTheLimitTakeTurns(t *testing.T) {
	atOnce(t, func(w *world) {
		var senders []*sender
		for range 5 {
			s := w.sender(2)
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

func TestManyProcessesThatStartTogetherGetTheirPartsSoon(t *testing.T) {
	for _, test := range []struct {
		sessions int
		trip     time.Duration
		longest  time.Duration
		calls    int
	}{
		{8, 400 * ms, 7 * time.Second, 110},
		{20, 5 * ms, 1600 * ms, 400},
	} {
		atOnce(t, func(w *world) {
			w.distant(test.trip)
			var all []*sender
			for range test.sessions {
				all = append(all, w.sender(50))
			}
			for _, s := range all {
				s.send(200)
			}
			w.until(test.longest, func() bool {
				return !slices.ContainsFunc(all, func(s *sender) bool { return s.part() == 0 && s.waiting() == 200 })
			})
			assert.LessOrEqual(t, w.server.Calls()["part"], test.calls)
			time.Sleep(5 * time.Second)
			assert.LessOrEqual(t, most(time.Second, all...), 50)
		})
	}
}

func TestDivisionInUseDoesNotExpire(t *testing.T) {
	atOnce(t, func(w *world) {
		s := w.sender(50)
		s.sendEvenly(15*time.Minute, 100*ms)
		assert.Zero(t, s.waiting())
		assert.Zero(t, s.stats().Losses)
		require.Positive(t, s.part())
	})
}

// A hold must apply to all processes, even to processes without a limit. Another hold that ends earlier must change
// nothing. After the server has lost its state, the processes must report the hold again.
func TestHoldAppliesToAllProcesses(t *testing.T) {
	for _, limit := range []int{50, 0} {
		atOnce(t, func(w *world) {
			a, b := w.twoSenders(limit)
			if limit > 0 {
				a.send(1)
				b.send(1)
			}
			time.Sleep(2 * time.Second)
			a.global.Hold(w.now(), 5*time.Second)
			time.Sleep(10 * ms)
			assert.InDelta(t, 5, b.global.HoldWait(w.now()).Seconds(), 0.1)
			b.global.Hold(w.now(), time.Second)
			a.global.Hold(w.now(), time.Second)
			time.Sleep(10 * ms)
			assert.InDelta(t, 5, a.global.HoldWait(w.now()).Seconds(), 0.1)
			w.server.Flush()
			time.Sleep(1100 * ms)
			c := w.sender(limit)
			c.send(1)
			time.Sleep(10 * ms)
			assert.InDelta(t, 3.9, c.global.HoldWait(w.now()).Seconds(), 0.1)
			time.Sleep(4 * time.Second)
			assert.Zero(t, c.global.HoldWait(w.now()))
		})
	}
}

func TestHoldReachesProcessesWithoutALimit(t *testing.T) {
	for name, deaf := range map[string]bool{"by message": false, "without messages": true} {
		eachAtOnce(t, name, func(t *testing.T, w *world) {
			join := (*world).deaf
			if !deaf {
				join = func(w *world) *process { return w.process() }
			}
			var all []*sender
			for range 2 {
				all = append(all, join(w).sender(0))
				time.Sleep(7 * ms) // otherwise two calls would be made at the same moment, in a random order
			}
			before := w.server.Calls()["part"]
			time.Sleep(time.Hour - 3*time.Second)
			if calls := w.server.Calls()["part"] - before; deaf {
				assert.GreaterOrEqual(t, calls, 7100)
			} else {
				assert.LessOrEqual(t, calls, 730)
			}
			all[0].global.Hold(w.now(), 5*time.Second)
			late := 10 * ms
			if deaf {
				late = 1010 * ms
			}
			w.until(late, func() bool { return all[1].global.HoldWait(w.now()) > 0 })
		})
	}
}

func TestHoldOfAProcessThatNeedsNothingIsReported(t *testing.T) {
	atOnce(t, func(w *world) {
		a, b := w.twoSenders(50)
		a.global.Hold(w.now(), 30*time.Second)
		time.Sleep(20 * time.Second)
		b.send(1)
		time.Sleep(time.Second)
		assert.Equal(t, 1, b.waiting())
		time.Sleep(10 * time.Second)
		assert.Zero(t, b.waiting())
	})
}

// A call is sent at the moment at which another process replaces the division. The message with the newer division
// arrives before the reply to the call. This order must not count as a loss.
func TestMessageThatOvertakesTheReplyToAGlobalCallIsNoLoss(t *testing.T) {
	atOnce(t, func(w *world) {
		late := lateReplies(w)
		a, b := w.twoSenders(50)
		for range 2 { // after this both processes know a division that contains both of them
			a.global.Need(w.now(), 1, 1)
			b.global.Need(w.now(), 1, 1)
			pass(2 * time.Second)
		}
		w.server.SetQuiet(true)
		b.global.Hold(w.now(), 10*time.Second)
		pass(0)
		w.server.SetQuiet(false)
		late.Store(true)
		a.global.Hold(w.now(), 20*time.Second)
		pass(0)
		late.Store(false)
		b.global.Hold(w.now(), 30*time.Second)
		pass(10 * time.Second)
		assert.Zero(t, a.stats().Losses)
	})
}

// After a suspension, requests must be sent as soon as the server has confirmed the part.
func TestPartIsUsedSoonAfterASuspension(t *testing.T) {
	inWorld(t, func(w *world) {
		asleep := time.Duration(0)
		s := w.sleepy(&asleep).sender(50)
		s.sendEvenly(5*time.Second, 100*ms)
		asleep = time.Minute
		s.send(5)
		assert.Less(t, w.until(5*time.Second, func() bool { return s.waiting() == 0 }), 100*ms)
	})
}

// A process without a global limit learns of a hold by the call with which it measures the server's clock again,
// because the message about the hold was lost. The manager must be told at once.
func TestHoldLearntWhileTheClockIsMeasured(t *testing.T) {
	inWorld(t, func(w *world) {
		var told atomic.Int64
		g := w.process().session.Global("bot", 0, func() { told.Store(int64(w.now())) })
		other := w.process().session.Global("bot", 0, func() {})
		time.Sleep(25 * time.Second)
		w.server.SetQuiet(true)
		other.Hold(w.now(), 5*time.Minute)
		w.until(20*time.Second, func() bool { return g.HoldWait(w.now()) > 0 })
		pass(10 * ms)
		assert.InDelta(t, w.now(), told.Load(), float64(20*ms))
	})
}
