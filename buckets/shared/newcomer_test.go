package shared_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/internal/memoryengine"
)

// trickle makes each sender send one request a second.
func (f *stage) trickle(seconds int, senders ...*sender) {
	for range seconds {
		for _, s := range senders {
			s.send(1)
		}
		time.Sleep(time.Second)
	}
}

// sentAll requires that a sender has sent all its requests within the time of one call.
func (s *sender) sentAll(t *testing.T) {
	t.Helper()
	time.Sleep(time.Millisecond)
	require.Zero(t, s.waiting())
}

func TestNewcomerWaitsForNobodyWhoNeedsLittle(t *testing.T) {
	for _, limit := range []int{10, 50} {
		onStage(t, func(f *stage) {
			old := f.sender(limit)
			defer old.end()
			f.trickle(8, old)
			f.memory.SetQuiet(true)
			young := f.sender(limit)
			defer young.end()
			young.send(limit / 2)
			young.sentAll(t)
		})
	}
}

func TestManyNewcomersAtATime(t *testing.T) {
	onStage(t, func(f *stage) {
		f.memory.SetQuiet(true)
		for range 6 {
			s := f.sender(50)
			defer s.end()
			s.send(2)
			s.sentAll(t)
		}
	})
}

func TestProcessThatDiedAndIsStartedAgainDoesNotWait(t *testing.T) {
	onStage(t, func(f *stage) {
		before, way := f.linked(50)
		defer before.end()
		f.trickle(5, before)
		way.cut.Store(true)
		after := f.sender(50)
		defer after.end()
		after.send(10)
		after.sentAll(t)
	})
}

func TestIdleProcessDoesNotWait(t *testing.T) {
	onStage(t, func(f *stage) {
		a, b := f.sender(50), f.sender(50)
		defer a.end()
		defer b.end()
		a.send(100)
		for range 5 {
			f.trickle(15, b)
			a.send(10)
			a.sentAll(t)
		}
	})
}

func TestPartThatIsNotNeededShrinks(t *testing.T) {
	onStage(t, func(f *stage) {
		s := f.sender(50)
		defer s.end()
		s.send(50)
		s.sentAll(t)
		require.Equal(t, 50, s.part())
		f.trickle(6, s)
		assert.LessOrEqual(t, s.part(), 20)
		s.send(45)
		s.sentAll(t)
	})
}

func TestOneAloneLosesNothing(t *testing.T) {
	onStage(t, func(f *stage) {
		s := f.sender(50)
		defer s.end()
		f.trickle(5, s)
		s.send(1200)
		took := f.until(time.Minute, func() bool { return s.waiting() == 0 })
		ideal := 23 * (time.Second + s.trip)
		assert.LessOrEqual(t, took, ideal*102/100)
	})
}

func TestNewcomerIsServedWhileAnotherIsBusy(t *testing.T) {
	onStage(t, func(f *stage) {
		old := f.sender(50)
		defer old.end()
		for range 100 { // 40 of 50 a second, and none at the moment of a call: else chance decides what that says
			old.send(4)
			time.Sleep(101 * time.Millisecond)
		}
		young := f.sender(50)
		defer young.end()
		young.send(2)
		young.sentAll(t)
	})
}

func TestSomethingIsFreeHoweverManyNeedLittle(t *testing.T) {
	onStage(t, func(f *stage) {
		const way = 50 * time.Microsecond // so that a message and a reply do not come at the same instant
		f.memory.Decide(func(string) memoryengine.Fate { return memoryengine.Fate{Before: way, After: way} })
		var all []*sender
		for range 12 {
			s := f.sender(50)
			defer s.end()
			all = append(all, s)
			f.trickle(3, all...)
			s.sentAll(t)
		}
		f.trickle(3, all...)
		young := f.sender(50)
		defer young.end()
		young.send(2)
		young.sentAll(t)
	})
}

// The first request of a burst causes a call at once. The requests right behind it must be reported as soon as that
// call has ended.
func TestNewcomerGetsItsFairPartForABurstThatBeginsWithOne(t *testing.T) {
	onStage(t, func(f *stage) {
		old, young := f.sender(50), f.sender(50)
		defer old.end()
		defer young.end()
		old.send(2000)
		time.Sleep(10 * time.Second)
		young.send(1)
		time.Sleep(time.Millisecond)
		require.Equal(t, 49, old.part())
		calls := f.memory.Calls()["part"]
		young.send(1999)
		f.until(10*time.Millisecond, func() bool { return old.part() == 25 })
		assert.LessOrEqual(t, f.memory.Calls()["part"]-calls, 20, "not one for each")
	})
}

func TestNewcomerIsToldWhenItsPartComes(t *testing.T) {
	onStage(t, func(f *stage) {
		old, young := f.sender(50), f.sender(50)
		defer old.end()
		defer young.end()
		old.send(2000)
		time.Sleep(10 * time.Second)
		start := f.now()
		young.send(2000)
		time.Sleep(time.Millisecond)
		require.Zero(t, young.part())
		var until time.Duration
		for young.part() == 0 {
			_, until = young.global.Part(f.now())
			require.InDelta(t, 1.25, (until - start).Seconds(), 0.06)
			time.Sleep(time.Millisecond)
		}
		assert.InDelta(t, 0, (f.now() - until).Seconds(), 0.06)
	})
}
