package buckets

import (
	"time"

	"github.com/jonboulle/clockwork"
)

// alarm is a timer that can be brought forward. It fires at the earliest time asked for since it last fired, or a little
// earlier than what is wanted by then: whoever it wakes looks again. Its owner's mutex guards it.
type alarm struct {
	timer clockwork.Timer
	due   time.Duration // 0: not set
}

// set makes the alarm ring at the given time, unless it rings earlier anyway. It does not block.
func (a *alarm) set(clock clockwork.Clock, now, at time.Duration, ring func()) {
	at = max(at, 1) // 0 is "not set"
	if a.due != 0 && a.due <= at {
		return
	}
	a.due = at
	if a.timer == nil {
		a.timer = clock.AfterFunc(at-now, ring)
		return
	}
	a.timer.Stop()
	a.timer.Reset(at - now)
}

// rang has to be called first by what the alarm calls.
func (a *alarm) rang() { a.due = 0 }

// stop makes the alarm forget its time.
func (a *alarm) stop() {
	if a.timer != nil {
		a.timer.Stop()
	}
	a.due = 0
}
