package processes

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/ratelight/ratelight/bench/internal/load"
	"github.com/ratelight/ratelight/buckets/shared"
	"github.com/ratelight/ratelight/internal/discordsim"
)

// accident is something that happens to processes or the engine.
type accident struct {
	name  string
	at    time.Duration
	until time.Duration // when it is over; at, if it is at once
	// allowed is how many 429s cannot be helped afterwards, and in how many buckets at most; 0 buckets: in any number of them.
	allowed, allowedBuckets int
	// ends returns which of so many processes it ends; nil: none, it is the engine's.
	ends func(processes int) []int
	// prepare is called at an earlier time, unless it is nil.
	prepareAt  time.Duration
	prepare    func(*run) error
	begin, end func(context.Context, *run) error
}

const (
	// sessionTime is after how long others do without a process that says nothing.
	sessionTime  = 3 * time.Second
	restartedAt  = 7 * time.Second
	restartedFor = 4 * time.Second
	killedAt     = 21 * time.Second
	frozenAt     = 31 * time.Second
	frozenFor    = 3 * time.Second
	// rolledBackAt is in the middle of long windows: since the engine was frozen most of them begin at the same time.
	rolledBackAt = 46 * time.Second
	// rolledBackFor is how long a supervisor takes to start an engine again.
	rolledBackFor = 500 * time.Millisecond
	// rolledBackTo is when the snapshot is taken: a while before, as engines take one every minute or so, and before processes died.
	rolledBackTo = killedAt - 2*time.Second
	emptiedAt    = 57 * time.Second
	emptiedFor   = 2 * time.Second
)

// accidents are all that happen in a run.
func accidents() []accident {
	nothing := func(context.Context, *run) error { return nil }
	kill := func(_ context.Context, r *run) error {
		r.engine.own.Kill()
		return nil
	}
	return []accident{{
		name: "all processes are restarted, one after the other", at: restartedAt, until: restartedAt + restartedFor,
		ends:  func(processes int) []int { return last(processes, processes) },
		begin: func(ctx context.Context, r *run) error { return r.restartAll(ctx) }, end: nothing,
	}, {
		name: "half of the processes are killed, and started again", at: killedAt, until: killedAt, ends: half,
		begin: func(ctx context.Context, r *run) error {
			return r.replaceAll(ctx, half(r.settings.Processes), func(_ int, w *worker) { w.shoot() })
		}, end: nothing,
	}, {
		name: fmt.Sprintf("the engine is frozen for %g s", frozenFor.Seconds()), at: frozenAt, until: frozenAt + frozenFor,
		begin: func(_ context.Context, r *run) error { return r.engine.own.Pause() },
		end:   func(_ context.Context, r *run) error { return r.engine.own.Resume() },
	}, {
		name: fmt.Sprintf("the engine is killed, and back as it was %g s before", (rolledBackAt - rolledBackTo).Seconds()),
		at:   rolledBackAt, until: rolledBackAt + rolledBackFor, allowed: quota.Limit, allowedBuckets: 1,
		prepareAt: rolledBackTo, prepare: func(r *run) error { return r.engine.snapshot() },
		begin: kill, end: func(ctx context.Context, r *run) error { return r.engine.rollBack(ctx) },
	}, {
		name: fmt.Sprintf("the engine is killed, and back empty after %g s", emptiedFor.Seconds()), at: emptiedAt, until: emptiedAt + emptiedFor,
		allowed: 2, begin: kill, end: func(ctx context.Context, r *run) error { return r.engine.own.Restart(ctx) },
	}}
}

// last returns the last n of so many.
func last(n, of int) (list []int) {
	for i := of - n; i < of; i++ {
		list = append(list, i)
	}
	return list
}

func half(processes int) []int { return last(processes/2, processes) }

// disturbed are the scenarios in which accidents happen.
func disturbed(s Settings) []Scenario {
	// Nobody waits longer than for a session to be held for dead and for the next window; the rest is for network and timers.
	within := func(q discordsim.Quota) time.Duration { return sessionTime + q.Period + time.Second }
	targets, slow := Targets{BackWithin: within(quota), ServedWithin: within(quota)}, Targets{ServedWithin: within(longWindow)}
	if s.Outage != "" && s.Outage != shared.OutageWait.String() {
		targets = Targets{Anything: true} // others buy time with errors or 429s
		slow = targets
	}
	return []Scenario{{
		Name: "one-bucket", About: "all processes with 10 callers each on one bucket of 5 per second, and accidents",
		Targets: targets, accidents: accidents(),
		work: func(s Settings) []Work { return contested(s.Processes, 0) },
	}, {
		Name: "own-buckets", About: "each process with 10 buckets of its own, 5 per second in each, two thirds used, and accidents",
		Targets: targets, accidents: accidents(),
		work: func(s Settings) []Work { return own(s.Processes, 0, s.Length, s.Seed) },
	}, {
		Name: "used-up", About: "each process with 10 buckets of its own, and 5 that all use, 5 per 5 s in each, every window used up, and accidents",
		Targets: slow, accidents: accidents(), quota: longWindow,
		work: func(s Settings) []Work { return usedUp(s.Processes) },
	}}
}

// disturb has the accidents of the scenario happen.
func (r *run) disturb(ctx context.Context) {
	prepared := make([]sync.WaitGroup, len(r.scenario.accidents))
	defer func() {
		for i := range prepared {
			prepared[i].Wait()
		}
	}()
	for i, a := range r.scenario.accidents {
		if a.prepare != nil {
			prepared[i].Go(func() {
				if load.Pause(ctx, time.Until(r.start.Add(a.prepareAt))) == nil {
					r.failIf(a.prepare(r), "before "+a.name)
				}
			})
		}
	}
	for i, a := range r.scenario.accidents {
		prepared[i].Wait() // it may take its time on a busy machine
		if load.Pause(ctx, time.Until(r.start.Add(a.at))) != nil {
			return
		}
		r.happens()
		if r.failIf(a.begin(ctx, r), a.name) {
			return
		}
		over := load.Pause(ctx, time.Until(r.start.Add(a.until)))
		if r.failIf(a.end(context.WithoutCancel(ctx), r), "after "+a.name) || over != nil {
			return
		}
		if a.ends == nil {
			r.affects(everybody)
		}
	}
}

// failIf ends the run if there is an error.
func (r *run) failIf(err error, when string) bool {
	if err != nil {
		r.fail(fmt.Errorf("%s: %w", when, err))
	}
	return err != nil
}

// affected is the moment from which on a process, or everybody, has to do with what an accident left.
type affected struct {
	at    time.Duration
	place int
}

// everybody is the place of all processes.
const everybody = -1

// happens says that the next accident begins.
func (r *run) happens() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.affected = append(r.affected, nil)
}

// affects says whom the latest accident affects from now on.
func (r *run) affects(place int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	latest := &r.affected[len(r.affected)-1]
	*latest = append(*latest, affected{time.Since(r.start), place})
}

// restartAll restarts all processes in the time that there is for it.
func (r *run) restartAll(ctx context.Context) error {
	return r.replaceAll(ctx, last(r.settings.Processes, r.settings.Processes), func(i int, w *worker) {
		if load.Pause(ctx, restartedFor*time.Duration(i)/time.Duration(r.settings.Processes)) == nil {
			w.end()
		}
	})
}

// replaceAll stops processes, and has others do what is left of their work unless the run ends. The function that stops one gets its
// number among them.
func (r *run) replaceAll(ctx context.Context, places []int, stop func(i int, w *worker)) error {
	var group sync.WaitGroup
	failures := make([]error, len(places))
	for i, place := range places {
		group.Go(func() {
			w := r.at(place)
			if failures[i] = w.err(); failures[i] != nil {
				return
			}
			stop(i, w)
			if ctx.Err() != nil {
				return
			}
			r.affects(place)
			failures[i] = r.launch(place, r.works[place].after(time.Since(r.start)))
		})
	}
	group.Wait()
	return errors.Join(failures...)
}

// snapshot keeps what the engine knows at the moment.
func (e *Engine) snapshot() error {
	if _, err := e.own.Do("SAVE"); err != nil {
		return err
	}
	return os.Rename(e.dump(), e.dump()+".old")
}

// rollBack starts the engine again with what it knew when the snapshot was taken.
func (e *Engine) rollBack(ctx context.Context) error {
	if err := os.Rename(e.dump()+".old", e.dump()); err != nil {
		return err
	}
	defer os.Remove(e.dump())
	return e.own.Restart(ctx)
}

// dump is the file that a server reads when it starts.
func (e *Engine) dump() string { return filepath.Join(e.own.Directory(), "dump.rdb") }
