package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/ratelight/ratelight/bench/internal/load"
)

// settings are about the run and neither about the scenario nor about who runs it.
type settings struct {
	seed      uint64
	tolerance time.Duration // how late the judge allows the machine to be
}

// realTime is the tolerance of a simulation in real time, on a busy machine.
const realTime = 20 * time.Millisecond

// grace is for those that end late, once the simulated Discord has closed.
const grace = time.Second

// longest is when a run is over, whatever has not ended by then.
func longest(ideal time.Duration) time.Duration { return 2*ideal + 5*time.Second }

// measure makes all calls of a scenario, each in a goroutine of its own. It returns when all have ended, or after a time in
// which they should have. What ends never is left behind.
func measure(ctx context.Context, by contender, s scenario, settings settings) (result, error) {
	ideal, err := s.ideal()
	if err != nil {
		return result{}, err
	}
	discord, err := newSimulated(s.config(settings))
	if err != nil {
		return result{}, err
	}
	defer discord.server.Close()
	m := load.NewMeter(nil)
	with, end, err := by.open(m.Below(discord), s)
	if err != nil {
		return result{}, err
	}
	defer end()

	r := &run{with: with, meter: m, result: newResult(by, s, ideal)}
	r.makeAll(ctx, s.calls, longest(ideal), func() { discord.server.Close() })

	r.mu.Lock()
	defer r.mu.Unlock()
	r.result.observe(discord.server.Report(), m.Read())
	return r.result, nil
}

// run is a scenario under way.
type run struct {
	with  client
	meter *load.Meter
	start time.Time

	mu     sync.Mutex
	over   bool // what ends now does not count any more
	ended  int
	result result
}

// makeAll makes all calls. When the time is over it takes away what they wait for, their contexts and their server.
func (r *run) makeAll(ctx context.Context, calls []call, longest time.Duration, shut func()) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	r.start = time.Now()
	ended := make(chan struct{})
	go func() {
		r.offer(ctx, calls)
		close(ended)
	}()
	if !within(ctx, ended, longest) {
		r.finish()
		stop()
		shut()
		within(context.WithoutCancel(ctx), ended, grace)
		return
	}
	r.finish()
}

// within waits until the channel is closed, and reports whether that was before the time or the context were over.
func within(ctx context.Context, ended <-chan struct{}, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ended:
		return true
	case <-timer.C:
	case <-ctx.Done():
	}
	return false
}

// offer makes each call at its time, and waits for all of them.
func (r *run) offer(ctx context.Context, calls []call) {
	var group sync.WaitGroup
	defer group.Wait()
	for _, c := range calls {
		if load.Pause(ctx, time.Until(r.start.Add(c.at))) != nil {
			return
		}
		group.Go(func() { r.make(ctx, c) })
	}
}

// make makes one call and notes what became of it.
func (r *run) make(ctx context.Context, c call) {
	given := time.Now().Add(patience)
	switch c.end {
	case deadline:
		limited, cancel := context.WithDeadline(ctx, given)
		defer cancel()
		ctx = limited
	case cancelled:
		limited, cancel := context.WithCancel(ctx)
		defer time.AfterFunc(patience, cancel).Stop()
		defer cancel()
		ctx = limited
	}
	err := r.call(ctx, c)

	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over {
		return
	}
	r.ended++
	switch {
	case c.end != waits:
		r.result.Late = max(r.result.Late, seconds(time.Since(given)))
	case err != nil:
		r.result.fail(err)
	default:
		r.result.OK++
		r.result.Took = seconds(time.Since(r.start))
	}
}

// call makes one call. A panic of the library is an error of the call.
func (r *run) call(ctx context.Context, c call) (err error) {
	defer func() {
		if panicked := recover(); panicked != nil {
			err = fmt.Errorf("panic: %v", panicked)
		}
	}()
	r.meter.Watch(ctx, func(ctx context.Context) { err = c.do(r.with.under(ctx)) })
	return err
}

// finish counts what has not ended.
func (r *run) finish() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.over = true
	r.result.NeverEnded = r.result.Calls - r.ended
}
