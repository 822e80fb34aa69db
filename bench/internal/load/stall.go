package load

import (
	"context"
	"fmt"
	"time"
)

// Pause waits for d, and returns the context's error if that ends first. It does not wait if d is zero or less.
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
	// stallEvery is the time between the timers that detect stalls.
	stallEvery = 10 * time.Millisecond
	// stallIgnored is how late a timer may be on an idle machine.
	stallIgnored = 2 * time.Millisecond
	// A longer stall, or a larger fraction of stalled time, spoils the measurements. stallTolerated is also how late
	// the simulator's judge lets the client see a response.
	stallTolerated     = 20 * time.Millisecond
	stallTolerableTime = 0.01
)

// Stalls measures how much the machine delayed a run: how late timers rang, and the simulated Discord answered.
type Stalls struct {
	Longest time.Duration
	Total   time.Duration // sum over the timers
	over    time.Duration // how long timers were watched
}

// Disturbed reports whether the stalls were too large for measured times to mean much.
func (s Stalls) Disturbed() bool {
	return s.Longest > stallTolerated || s.Total.Seconds() > stallTolerableTime*s.over.Seconds()
}

func (s Stalls) String() string {
	return fmt.Sprintf("this machine stalled for %v at once and %v in all; run it again when it has less to do",
		s.Longest.Round(time.Millisecond), s.Total.Round(time.Millisecond))
}

// WatchStalls measures stalls until result is called, which must happen exactly once.
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
