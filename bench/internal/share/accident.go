package share

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/ratelight/ratelight/bench/internal/load"
)

// accident is an event that disturbs processes or the engine.
type accident struct {
	name      string
	at, until time.Duration // since the start; equal if the accident is over at once
	// allowed bounds the unavoidable 429s after the accident, allowedBuckets their buckets; 0 buckets: any number.
	allowed, allowedBuckets int
	// begin starts the accident, and calls affects for each process that it affects. end ends an accident of the
	// engine, which affects all processes; nil for accidents of processes.
	begin, end func(context.Context, *run) error
}

// sessionTime is the time after which the other processes go on without a silent one.
const sessionTime = 3 * time.Second

// accidents returns the accidents of a run, in the order of time.
func accidents() []accident {
	const s = time.Second
	kill := func(_ context.Context, r *run) error {
		r.engine.Kill()
		return nil
	}
	return []accident{{
		name: "all processes are restarted, one after the other", at: 7 * s, until: 11 * s,
		begin: func(ctx context.Context, r *run) error {
			return r.replaceFrom(ctx, 0, 4*s/time.Duration(len(r.places)), (*process).end)
		},
	}, {
		name: "half of the processes are killed, and started again", at: 21 * s, until: 21 * s,
		begin: func(ctx context.Context, r *run) error {
			if err := snapshot(r.engine); err != nil {
				return err
			}
			return r.replaceFrom(ctx, (len(r.places)+1)/2, 0, (*process).shoot)
		},
	}, {
		name: "the engine is frozen for 3 s", at: 31 * s, until: 34 * s,
		begin: func(_ context.Context, r *run) error { return r.engine.Pause() },
		end:   func(_ context.Context, r *run) error { return r.engine.Resume() },
	}, {
		// This is in the middle of the long windows, most of which begin together since the engine was frozen. A
		// supervisor takes half a second to restart an engine, and its snapshots are about 25 s old.
		name: "the engine is killed, and back as it was 25 s before", at: 46 * s, until: 46*s + s/2, allowed: quota.Limit, allowedBuckets: 1,
		begin: kill, end: func(ctx context.Context, r *run) error { return rollBack(ctx, r.engine) },
	}, {
		name: "the engine is killed, and back empty after 2 s", at: 57 * s, until: 59 * s, allowed: 2,
		begin: kill, end: func(ctx context.Context, r *run) error { return r.engine.Restart(ctx) },
	}}
}

// disturb causes the accidents of the scenario, each at its time.
func (r *run) disturb(ctx context.Context) {
	for _, a := range r.accidents {
		if load.Pause(ctx, time.Until(r.start.Add(a.at))) != nil {
			return
		}
		r.mu.Lock()
		r.affected = append(r.affected, nil)
		r.mu.Unlock()
		err := a.begin(ctx, r)
		if err == nil && a.end != nil {
			_ = load.Pause(ctx, time.Until(r.start.Add(a.until))) // if the context has ended, no accident follows
			err = a.end(context.WithoutCancel(ctx), r)
			for place := range r.places {
				r.affects(place)
			}
		}
		if err != nil {
			r.fail(fmt.Errorf("%s: %w", a.name, err))
			return
		}
	}
}

// affected is the time from which an accident affects the process in a place.
type affected struct {
	at    time.Duration
	place int
}

// affects records that the latest accident affects the process in a place from now on.
func (r *run) affects(place int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	latest := &r.affected[len(r.affected)-1]
	*latest = append(*latest, affected{time.Since(r.start), place})
}

// replaceFrom replaces the processes from the place first on. end ends a process, and a new one takes over its work.
// apart is the time between two replacements; 0: all at once.
func (r *run) replaceFrom(ctx context.Context, first int, apart time.Duration, end func(*process)) error {
	var group errgroup.Group
	for i := range r.places[first:] {
		group.Go(func() error {
			if load.Pause(ctx, apart*time.Duration(i)) != nil {
				return nil
			}
			return r.replace(first+i, end)
		})
	}
	return group.Wait()
}
