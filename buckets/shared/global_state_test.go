package shared_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// saturate lets two senders have half of the limit each.
func (f *stage) saturate(a, b *sender) {
	a.send(5000)
	b.send(5000)
	f.until(5*time.Second, func() bool { return a.part() == 25 && b.part() == 25 })
}

func TestClockOfTheServerIsStepped(t *testing.T) {
	for name, step := range map[string]time.Duration{
		"back": -time.Hour, "forward": 5 * time.Minute, "two seconds forward": 2 * time.Second, "so far that all expires": time.Hour,
	} {
		t.Run(name, func(t *testing.T) {
			onStage(t, func(f *stage) {
				a := f.sender(50)
				defer a.end()
				b, way := f.linked(50)
				defer b.end()
				f.saturate(a, b)
				way.cut.Store(true)
				f.memory.StepClock(step)
				start := f.now()
				for f.now() < start+3*time.Second {
					time.Sleep(10 * time.Millisecond)
					require.LessOrEqual(t, a.part()+b.part(), 50)
					require.Equal(t, 25, a.part(), "it goes on as if nothing had happened")
				}
				time.Sleep(6 * time.Second) // what the other one had is not kept for an hour
				assert.Equal(t, 50, a.part())
			})
		})
	}
}

func TestNewcomerDoesNotProfitFromAStepOfTheClock(t *testing.T) {
	onStage(t, func(f *stage) {
		f.memory.SetQuiet(true)
		old, young := f.sender(50), f.sender(50)
		defer old.end()
		defer young.end()
		old.send(5000)
		time.Sleep(5*time.Second + 10*time.Millisecond)
		young.send(5000)
		time.Sleep(10 * time.Millisecond)
		f.memory.StepClock(5 * time.Minute)
		for range 700 {
			time.Sleep(10 * time.Millisecond)
			require.LessOrEqual(t, old.part()+young.part(), 50)
		}
		assert.Equal(t, 25, young.part())
	})
}

func TestStateOfAnEarlierTimeIsNotBelieved(t *testing.T) {
	onStage(t, func(f *stage) {
		const key = "rl2:{default}:g:bot"
		first := f.sender(50)
		defer first.end()
		first.send(5000)
		time.Sleep(1500 * time.Millisecond)
		earlier := f.memory.Value(key)
		require.NotEmpty(t, earlier)
		second := f.sender(50)
		defer second.end()
		second.send(5000)
		f.until(2*time.Second, func() bool { return first.part() == 25 && second.part() == 25 })
		f.memory.Set(key, earlier)
		for range 500 {
			time.Sleep(10 * time.Millisecond)
			require.Equal(t, 25, first.part())
			require.Equal(t, 25, second.part())
		}
	})
}
