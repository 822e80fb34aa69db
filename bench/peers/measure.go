package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/ratelight/ratelight/bench/internal/load"
	"github.com/ratelight/ratelight/internal/discordsim"
)

// result is what became of a scenario with one contender.
type result struct {
	Contender string
	Calls     int
	GivenUp   int // calls that were given up by their callers, which have no other outcome
	OK        int
	Failed    int
	// NeverEnded calls had not returned when the run was over.
	NeverEnded int
	// Error is that of the first call that failed.
	Error string
	// Took is the time until the last call succeeded.
	Took, Ideal time.Duration
	// Late is how long a call went on at most after it had been given up.
	Late time.Duration
	// Refused and Avoidable count 429s. Avoidable are those that what had been told would have prevented.
	Refused, Avoidable discordsim.ByClass
	Queued             load.Queued
	LargestInFlight    int
	// Note is what else there is to say: that the process crashed, or had to be killed.
	Note string
}

func newResult(by contender, s scenario, ideal time.Duration) result {
	r := result{Contender: by.name, Calls: len(s.calls), NeverEnded: len(s.calls), Ideal: ideal}
	for _, c := range s.calls {
		if c.end != waits {
			r.GivenUp++
		}
	}
	return r
}

// wanted is how many calls have to succeed.
func (r *result) wanted() int { return r.Calls - r.GivenUp }

// efficiency is the ideal's part of the time, 0 if not everything was done.
func (r *result) efficiency() float64 {
	if r.OK < r.wanted() || r.Took == 0 {
		return 0
	}
	return r.Ideal.Seconds() / r.Took.Seconds()
}

// realTime is how late the judge allows the machine to be in real time.
const realTime = 20 * time.Millisecond

// grace is for those that end late, once the simulated Discord has closed.
const grace = time.Second

// longest is when a run is over, whatever has not ended by then.
func longest(ideal time.Duration) time.Duration { return 2*ideal + 5*time.Second }

// measure makes all calls of a scenario, each in a goroutine of its own. It returns when all have ended, or after a time in
// which they should have. What ends never is left behind.
func measure(ctx context.Context, by contender, s scenario, seed uint64, tolerance time.Duration) (result, error) {
	ideal, err := s.ideal()
	if err != nil {
		return result{}, err
	}
	discord, err := discordsim.New(s.config(seed, tolerance))
	if err != nil {
		return result{}, err
	}
	defer discord.Close()
	m := load.NewMeter(nil)
	with, end := by.start(m.Below(discord.RoundTripper()), s)
	defer end()

	ctx, stop := context.WithCancel(ctx) // without a deadline: limiters would look at it
	defer stop()
	defer time.AfterFunc(longest(ideal), stop).Stop()
	watched := func(ctx context.Context, c call) (err error) {
		m.Watch(ctx, func(ctx context.Context) { err = with(ctx, c) })
		return err
	}
	r := newResult(by, s, ideal)
	var mu sync.Mutex
	began := time.Now()
	var calls sync.WaitGroup
	for _, c := range s.calls {
		calls.Go(func() {
			if load.Pause(ctx, time.Until(began.Add(c.at))) != nil {
				return
			}
			given := time.Now().Add(patience)
			err := makeOne(ctx, c, given, watched)
			mu.Lock()
			defer mu.Unlock()
			if ctx.Err() == nil { // what the end of the run ends has no outcome
				r.note(c, err, time.Since(began), time.Since(given))
			}
		})
	}
	ended := make(chan struct{})
	go func() {
		calls.Wait()
		close(ended)
	}()
	select {
	case <-ended:
	case <-ctx.Done():
	}
	report := discord.Report()
	_ = discord.Close() // takes away what they wait for
	select {
	case <-ended:
	case <-time.After(grace):
	}
	mu.Lock()
	defer mu.Unlock()
	r.Refused, r.Avoidable, r.LargestInFlight, r.Queued = report.Refused, report.Avoidable, report.MaxInFlight, m.Read().Queued
	return r, nil
}

// makeOne makes one call, which is given up then if it is one of those. A panic of the library is an error of the call.
func makeOne(ctx context.Context, c call, given time.Time, with caller) (err error) {
	defer func() {
		if panicked := recover(); panicked != nil {
			err = fmt.Errorf("panic: %v", panicked)
		}
	}()
	switch c.end {
	case deadline:
		limited, cancel := context.WithDeadline(ctx, given)
		defer cancel()
		ctx = limited
	case cancelled:
		limited, cancel := context.WithCancel(ctx)
		defer time.AfterFunc(time.Until(given), cancel).Stop()
		defer cancel()
		ctx = limited
	}
	return with(ctx, c)
}

// note takes in the outcome of a call, after so long, and so long after it was given up.
func (r *result) note(c call, err error, took, late time.Duration) {
	r.NeverEnded--
	switch {
	case c.end != waits:
		r.Late = max(r.Late, late)
	case err == nil:
		r.OK++
		r.Took = took
	default:
		if r.Failed == 0 {
			r.Error = err.Error()
		}
		r.Failed++
	}
}
