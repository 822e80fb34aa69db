package shared_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets/shared"
	"github.com/ratelight/ratelight/internal/memoryengine"
)

// sendEvenly sends one request after each pause until the time d is over.
func (s *sender) sendEvenly(d, pause time.Duration) {
	for end := s.stage.now() + d; s.stage.now() < end; {
		s.send(1)
		time.Sleep(pause)
	}
}

func TestDivisionInUseDoesNotExpire(t *testing.T) {
	onStage(t, func(f *stage) {
		s := f.sender(50)
		defer s.end()
		s.sendEvenly(15*time.Minute, 100*time.Millisecond)
		assert.Zero(t, s.waiting())
		assert.Zero(t, s.session.(shared.Monitor).Stats().Losses)
		require.Positive(t, s.part())
	})
}

// A new session that only listens for holds calls first after the server has lost its state. It knows of no parts.
func TestListenerThatComesAfterALossDividesNothing(t *testing.T) {
	onStage(t, func(f *stage) {
		f.memory.Decide(func(string) memoryengine.Fate { return memoryengine.Fate{Before: ms / 2, After: ms / 2} })
		a, b := f.sender(50), f.sender(50)
		defer a.end()
		defer b.end()
		a.send(2000)
		b.send(2000)
		time.Sleep(10 * time.Second)
		require.Equal(t, 25, a.part())
		require.Equal(t, 25, b.part())
		f.memory.Flush()
		listener := f.sender(0)
		defer listener.end()
		time.Sleep(5 * time.Millisecond)
		total := 0
		for range 5000 {
			total = max(total, a.part()+b.part())
			time.Sleep(time.Millisecond)
		}
		assert.LessOrEqual(t, total, 50)
		assert.LessOrEqual(t, most(time.Second, a, b), 50)
	})
}

// gated is the connection of one process to the server. Its calls wait at a gate, and its replies come late.
type gated struct {
	server
	shut atomic.Bool
	late time.Duration
}

func (l *gated) Exchange(ctx context.Context, call *shared.Call) (*shared.Reply, error) {
	for l.shut.Load() {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(time.Millisecond):
		}
	}
	reply, err := l.server.Exchange(ctx, call)
	time.Sleep(l.late)
	return reply, err
}

// key returns the key on the server that contains a text, "" for none.
func (f *stage) key(text string) string {
	for _, key := range f.memory.Keys() {
		if strings.Contains(key, text) {
			return key
		}
	}
	return ""
}

func (f *stage) gated(limit int, late time.Duration) (*sender, *gated) {
	l := &gated{server: f.memory, late: late}
	store, err := shared.New(l)
	require.NoError(f.t, err)
	return f.senderOf(store.Join(realClock, f.origin), limit), l
}

// The reply that reports a session dead arrives after the message which shows that the session has come back.
func TestSessionThatComesBackKeepsItsPart(t *testing.T) {
	for late := 50 * ms; late < 450*ms; late += 50 * ms {
		onStage(t, func(f *stage) {
			a, gate := f.gated(50, 0)
			a.send(1)
			time.Sleep(10 * ms)
			_, gone, _ := strings.Cut(f.key(":p:"), ":p:")
			b, _ := f.gated(50, late)
			defer b.end()
			defer a.end()
			a.send(1000)
			b.send(1000)
			time.Sleep(10 * time.Second)
			require.Equal(t, 25, a.part())
			gate.shut.Store(true)
			f.until(4*time.Second, func() bool {
				return f.key(":p:"+gone) == ""
			})
			time.Sleep(late / 2)
			gate.shut.Store(false)
			f.until(time.Second, func() bool { return a.part() > 0 })
			gate.shut.Store(true)
			for range 3000 {
				time.Sleep(ms)
				require.LessOrEqual(t, a.part()+b.part(), 50, late)
			}
			gate.shut.Store(false)
		})
	}
}

func TestHoldSurvivesALoss(t *testing.T) {
	onStage(t, func(f *stage) {
		a, b := f.sender(50), f.sender(50)
		defer a.end()
		defer b.end()
		a.send(2000)
		b.send(2000)
		time.Sleep(3 * time.Second)
		a.global.Hold(f.now(), 20*time.Second)
		time.Sleep(10 * time.Millisecond)
		f.memory.Flush()
		c := f.sender(50) // calls first
		defer c.end()
		c.send(1)
		time.Sleep(5 * time.Second)
		c.send(10)
		time.Sleep(100 * time.Millisecond)
		assert.Equal(t, 10, c.waiting())
		assert.InDelta(t, (15 * time.Second).Seconds(), c.global.HoldWait(f.now()).Seconds(), 1)
	})
}

func TestNullIsAForeignValue(t *testing.T) {
	for _, value := range []string{"1.1 null", `1.1 {"users":null}`} {
		onStage(t, func(f *stage) {
			a := f.sender(50)
			defer a.end()
			a.send(1)
			a.session.Invalid()
			time.Sleep(2 * time.Second)
			f.memory.Set(f.key(":g:bot"), value)
			f.memory.Set(f.key(":i"), value)
			a.session.Invalid()
			a.send(100)
			time.Sleep(2 * time.Second)
			f.memory.Flush()
			time.Sleep(10 * time.Second)
			assert.Zero(t, a.waiting())
		})
	}
}

func TestSessionThatClosesBeforeItsFirstCallDelaysNobody(t *testing.T) {
	onStage(t, func(f *stage) {
		a := f.sender(50)
		f.memory.Decide(func(string) memoryengine.Fate { return memoryengine.Fate{Before: ms} })
		a.send(1)
		a.session.Close()
		b := f.sender(50)
		defer b.end()
		b.send(10)
		time.Sleep(100 * time.Millisecond)
		assert.Zero(t, b.waiting())
	})
}

// The reply to the call that returns a part is lost, and new requests arrive before it is repeated.
func TestReturnedPartIsNotUsed(t *testing.T) {
	onStage(t, func(f *stage) {
		a, gate := f.gated(50, 0)
		defer a.end()
		a.sendEvenly(5*time.Second, 50*ms)
		returned := f.now()
		f.memory.Decide(func(purpose string) memoryengine.Fate {
			return memoryengine.Fate{LostReply: f.now()-returned > 9500*ms}
		})
		for f.now()-returned < 11*time.Second && a.part() > 0 {
			time.Sleep(ms)
		}
		gate.shut.Store(true)
		f.memory.Decide(nil)
		time.Sleep(10 * ms)
		b := f.sender(50)
		defer b.end()
		b.send(300)
		a.send(300)
		for range 3000 {
			time.Sleep(ms)
			require.LessOrEqual(t, a.part()+b.part(), 50)
		}
		require.LessOrEqual(t, most(time.Second, a, b), 50)
		gate.shut.Store(false)
	})
}

// The server's clock is set and its state is lost before a session has ended the era because of the clock.
func TestLossAfterAStepOfTheClockIsNoLoop(t *testing.T) {
	onStage(t, func(f *stage) {
		f.memory.Decide(func(string) memoryengine.Fate { return memoryengine.Fate{Before: 10 * ms, After: 10 * ms} })
		a := f.sender(50)
		defer a.end()
		a.send(1)
		time.Sleep(1660 * ms)
		f.memory.StepClock(7400 * ms)
		time.Sleep(20 * ms)
		f.memory.Flush()
		before := f.memory.Total()
		time.Sleep(10 * time.Second)
		assert.Less(t, f.memory.Total()-before, 20)
		a.send(100)
		time.Sleep(5 * time.Second)
		assert.Zero(t, a.waiting())
	})
}
