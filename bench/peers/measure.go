package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/ratelight/ratelight/bench/internal/load"
	"github.com/ratelight/ratelight/internal/discordsim"
)

// result is the outcome of a scenario with one contender.
type result struct {
	Contender string
	Calls     int
	GivenUp   int // calls that their callers give up, which count neither as OK nor as Failed
	OK        int
	Failed    int
	// NeverEnded counts calls that had not returned when the run was over.
	NeverEnded int
	// Error is the error of the first call that failed.
	Error string
	// Took is the time until the last call succeeded. Ideal is the time of an ideal client.
	Took, Ideal time.Duration
	// Late is the longest time that a call took to return after its caller had given the call up.
	Late time.Duration
	// Refused counts all 429s. Avoidable counts the 429s that a client could have avoided, because earlier
	// responses said enough.
	Refused, Avoidable discordsim.ByClass
	Queued             load.Queued
	LargestInFlight    int
	// Note says why nothing was measured, such as a crash of the process. It is empty if there are measurements.
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

// wanted returns how many calls have to succeed.
func (r *result) wanted() int { return r.Calls - r.GivenUp }

// efficiency returns the ideal time divided by the time taken, or 0 if a call did not succeed.
func (r *result) efficiency() float64 {
	if r.OK < r.wanted() || r.Took == 0 {
		return 0
	}
	return r.Ideal.Seconds() / r.Took.Seconds()
}

// realTime is the tolerance for runs in real time: it is how much later a response may reach the library than the
// simulated latency says. The judge assumes that the library has read the response only after this time.
const realTime = 20 * time.Millisecond

// grace is how long calls may still take to return after the simulated Discord has closed.
const grace = time.Second

// longest returns the time after which a run ends, even if calls have not returned.
func longest(ideal time.Duration) time.Duration { return 2*ideal + 5*time.Second }

// measure makes all calls of a scenario, each in its own goroutine. It returns when all have ended, or abandons the
// goroutines of calls that have not returned after longest.
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
	m := new(meter)
	with, end := by.start(m.below(discord.RoundTripper()), s)
	defer end()

	ctx, stop := context.WithCancel(ctx) // no deadline, because limiters would take it into account
	defer stop()
	defer time.AfterFunc(longest(ideal), stop).Stop()
	watched := func(ctx context.Context, c call) (err error) {
		m.watch(ctx, func(ctx context.Context) { err = with(ctx, c) })
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
			if ctx.Err() == nil { // calls that the end of the run cuts off have no outcome
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
	_ = discord.Close() // ends calls that wait for a response
	select {
	case <-ended:
	case <-time.After(grace):
	}
	mu.Lock()
	defer mu.Unlock()
	r.Refused, r.Avoidable, r.LargestInFlight, r.Queued = report.Refused, report.Avoidable, report.MaxInFlight, m.read()
	return r, nil
}

// makeOne makes one call. If the call is to be given up, makeOne gives it up at the given time. It returns a panic of
// the library as an error.
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

// note records the outcome of a call. took counts from the start of the run, late from the time at which the call was
// given up.
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
