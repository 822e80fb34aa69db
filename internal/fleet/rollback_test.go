package fleet_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/internal/discordsim"
	"github.com/ratelight/ratelight/internal/fleet"
)

// backward runs a fleet of two processes whose engine returns to the state before a bucket of 5 in 10 s was used up. If
// contended is true, both processes use the bucket; otherwise it is lent to the first process.
func backward(t *testing.T, contended bool) {
	t.Parallel()
	config := bucket(discordsim.Rule{Quota: discordsim.Fixed(5, 10*time.Second), Hash: "messages"})
	inBubble(t, fleet.Config{Processes: 2, Discord: config, Buckets: unlimited}, func(t *testing.T, f *fleet.Fleet) {
		first, other := f.Processes[0], f.Processes[1]
		if !contended {
			other = first
		}
		callers(t, f, first, 1, 1, fleet.Message(1))
		callers(t, f, other, 1, 1, fleet.Message(1))
		time.Sleep(500 * time.Millisecond)
		snapshot := f.Engine.Save()
		f.Note("the engine is copied")
		callers(t, f, first, 5, 1, fleet.Message(1)) // two more than the window has left
		time.Sleep(500 * time.Millisecond)
		f.Note("the engine goes back: %s", strings.Join(f.Engine.Restore(snapshot), ", "))
		if contended {
			callers(t, f, first, 1, 1, fleet.Message(2))
			time.Sleep(100 * time.Millisecond)
		}
		callers(t, f, other, 5, 1, fleet.Message(1))
		if !contended {
			callers(t, f, f.Processes[1], 5, 1, fleet.Message(1))
		}
		finish(t, f, 2*time.Minute)
		if n := f.Discord.Report().Refused.Total(); n > 1 {
			t.Errorf("%d refused\n%s", n, f.Story("/channels/1/messages", 0, f.Now()))
		}
	})
}

// A process without a reply since the snapshot cannot know that the engine returned to it. It learns this as soon as
// any process that has a later reply makes a call, whatever the call is for.
func TestEngineThatGoesBackGivesNoWindowAgainOnceAnybodyHasNoticed(t *testing.T) {
	backward(t, true)
}

func TestEngineThatGoesBackGivesNoLentWindowAgain(t *testing.T) {
	backward(t, false)
}

// The engine returns to a state from long ago, in which buckets are lent to a process that has died since. Other
// processes have used the buckets for a long time, so their limits are known.
func TestEngineThatGoesBackToTheLoansOfTheDeadCostsAPeriodAtMost(t *testing.T) {
	t.Parallel()
	quota := discordsim.Fixed(5, time.Second)
	config := bucket(discordsim.Rule{Quota: quota, Hash: "messages"})
	inBubble(t, fleet.Config{Processes: 2, Discord: config, Buckets: unlimited}, func(t *testing.T, f *fleet.Fleet) {
		dies, stays := f.Processes[0], f.Processes[1]
		callers(t, f, dies, 1, 3, fleet.Message(1)) // the first one finds out the limit
		time.Sleep(time.Second)
		snapshot := f.Engine.Save()
		dies.Kill()
		callers(t, f, stays, 10, 15, fleet.Message(1))
		time.Sleep(20 * time.Second)
		back := f.Now()
		f.Note("the engine goes back: %s", strings.Join(f.Engine.Restore(snapshot), ", "))
		finish(t, f, time.Hour)
		// A process notices the loss within a second, all processes report their requests in flight within 1.2 s, and
		// one request is sent first.
		again := back + 2200*time.Millisecond + quota.Period
		if at, found := f.TooSlow("/channels/1/messages", quota.Limit, quota.Period*5/4, again, f.Now()); found {
			t.Errorf("from %v on too slow\n%s", at, f.Story("/channels/1/messages", back, at+quota.Period*2))
		}
		require.Zero(t, f.Discord.Report().Refused.Total())
	})
}
