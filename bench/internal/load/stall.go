package load

import (
	"context"
	"fmt"
	"time"
)

// Pause waits for d, or until the context ends, whose error it then returns. Zero or less does not wait.
func Pause(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

const (
	// stallEvery is how often a run looks whether the machine lets it go on.
	stallEvery = 10 * time.Millisecond
	// stallIgnored is how late a timer is on an idle machine.
	stallIgnored = 2 * time.Millisecond
	// A machine that was late for so long at once, or for such a part of the time, has changed what was measured. The first is also what
	// the simulator's judge allows an answer to be seen late.
	stallTolerated     = 20 * time.Millisecond
	stallTolerableTime = 0.01
)

// Stalls is what the machine took away from a run: the time by which timers rang late, and the simulated Discord answered late.
type Stalls struct {
	Longest time.Duration
	Total   time.Duration // of the timers
	over    time.Duration // the time in which they were watched
}

// Disturbed reports that times which were measured meanwhile mean little.
func (s Stalls) Disturbed() bool {
	return s.Longest > stallTolerated || s.Total.Seconds() > stallTolerableTime*s.over.Seconds()
}

func (s Stalls) String() string {
	return fmt.Sprintf("this machine stalled for %v at once and %v in all; run it again when it has less to do",
		s.Longest.Round(time.Millisecond), s.Total.Round(time.Millisecond))
}

// WatchStalls watches the machine until the result is asked for, which is to be done once.
func WatchStalls() (result func() Stalls) {
	var stalls Stalls
	done, watched := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(watched)
		start := time.Now()
		timer := time.NewTimer(stallEvery)
		defer timer.Stop()
		for due := start.Add(stallEvery); ; due = time.Now().Add(stallEvery) {
			select {
			case <-done:
				stalls.over = time.Since(start)
				return
			case <-timer.C:
				if late := time.Since(due); late > stallIgnored {
					stalls.Longest, stalls.Total = max(stalls.Longest, late), stalls.Total+late
				}
				timer.Reset(stallEvery)
			}
		}
	}()
	return func() Stalls {
		close(done)
		<-watched
		return stalls
	}
}
