package share

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/ratelight/ratelight/bench/internal/load"
)

// accident is something that happens to processes or the engine.
type accident struct {
	name      string
	at, until time.Duration // until: when it is over; at, if it is at once
	// allowed is how many 429s cannot be helped afterwards, and in how many buckets at most; 0 buckets: in any number of them.
	allowed, allowedBuckets int
	// begin says by itself whom it affects. end is called when an accident of the engine is over, and affects all; nil: of processes.
	begin, end func(context.Context, *run) error
}

// sessionTime is after how long others do without a process that says nothing.
const sessionTime = 3 * time.Second

// accidents are all that happen in a run.
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
		// In the middle of long windows, most of which begin at the same time since the engine was frozen. A supervisor takes half a second to
		// start it again, and snapshots are about as old.
		name: "the engine is killed, and back as it was 25 s before", at: 46 * s, until: 46*s + s/2, allowed: quota.Limit, allowedBuckets: 1,
		begin: kill, end: func(ctx context.Context, r *run) error { return rollBack(ctx, r.engine) },
	}, {
		name: "the engine is killed, and back empty after 2 s", at: 57 * s, until: 59 * s, allowed: 2,
		begin: kill, end: func(ctx context.Context, r *run) error { return r.engine.Restart(ctx) },
	}}
}

// disturb has the accidents of the scenario happen.
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
			_ = load.Pause(ctx, time.Until(r.start.Add(a.until))) // if it was cut short, nothing follows
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

// affected is the moment from which on the process in a place has to do with what an accident left.
type affected struct {
	at    time.Duration
	place int
}

// affects says that the latest accident affects the process in a place from now on.
func (r *run) affects(place int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	latest := &r.affected[len(r.affected)-1]
	*latest = append(*latest, affected{time.Since(r.start), place})
}

// replaceFrom has the processes from a place on ended by the function, one after the other or all at once, and others do what is left of
// their work.
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
