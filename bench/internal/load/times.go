package load

import (
	"context"
	"slices"
	"time"
)

// Pause waits for d. If the context ends first, Pause returns the context's error. It does not wait if d is zero or
// less.
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
	// stallTolerated is how late a timer or a response may be. A longer stall spoils the measurements.
	stallTolerated = 20 * time.Millisecond
)

// WatchStalls measures how late timers fire. result ends the measurement and returns the longest delay; call it exactly
// once.
func WatchStalls() (result func() time.Duration) {
	var longest time.Duration
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		timer := time.NewTimer(stallEvery)
		defer timer.Stop()
		for due := time.Now().Add(stallEvery); ; due = time.Now().Add(stallEvery) {
			select {
			case <-stop:
				return
			case <-timer.C:
				longest = max(longest, time.Since(due))
				timer.Reset(stallEvery)
			}
		}
	}()
	return func() time.Duration {
		close(stop)
		<-stopped
		return longest
	}
}

// Queued has quantiles of how long requests were held back. All are zero if no request was sent.
type Queued struct {
	Median, P99, Max time.Duration
}

// Quantiles returns the quantiles of times, and sorts times in place.
func Quantiles(times []time.Duration) Queued {
	if len(times) == 0 {
		return Queued{}
	}
	slices.Sort(times)
	at := func(percent int) time.Duration { return times[(percent*len(times)+99)/100-1] }
	return Queued{at(50), at(99), at(100)}
}
