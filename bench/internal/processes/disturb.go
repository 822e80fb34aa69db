package processes

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/ratelight/ratelight/buckets/shared"
)

// accident is something that happens to processes or the engine.
type accident struct {
	name  string
	at    time.Duration
	until time.Duration // when it is over; at, if it is at once
	// losesState: a 429 or two afterwards cannot be helped.
	losesState bool
	// kills: it is over when the buckets of the process that died are used again as they were, if it had any of its own.
	kills      bool
	begin, end func(context.Context, *run) error
}

const (
	// sessionTime is after how long others do without a process that says nothing.
	sessionTime = 3 * time.Second
	killedAt    = 8 * time.Second
	frozenAt    = 16 * time.Second
	frozenFor   = 3 * time.Second
	emptiedAt   = 27 * time.Second
	emptiedFor  = 2 * time.Second
)

// accidents are all that happen in a run.
func accidents() []accident {
	nothing := func(context.Context, *run) error { return nil }
	return []accident{{
		name: "a process is killed", at: killedAt, until: killedAt, kills: true,
		begin: func(_ context.Context, r *run) error { return r.killOne() }, end: nothing,
	}, {
		name: fmt.Sprintf("the engine is frozen for %g s", frozenFor.Seconds()), at: frozenAt, until: frozenAt + frozenFor,
		begin: func(_ context.Context, r *run) error { return r.engine.own.Pause() },
		end:   func(_ context.Context, r *run) error { return r.engine.own.Resume() },
	}, {
		name: fmt.Sprintf("the engine is killed, and back empty after %g s", emptiedFor.Seconds()), at: emptiedAt, until: emptiedAt + emptiedFor,
		losesState: true,
		begin: func(_ context.Context, r *run) error {
			r.engine.own.Kill()
			return nil
		},
		end: func(ctx context.Context, r *run) error { return r.engine.own.Restart(ctx) },
	}}
}

// disturbed are the scenarios in which accidents happen.
func disturbed(s Settings) []Scenario {
	targets := Targets{BackWithin: sessionTime + 2*quota.Period, Refused: 2}
	if s.Outage != "" && s.Outage != shared.OutageWait.String() {
		targets = Targets{Anything: true} // others buy time with errors or 429s
	}
	return []Scenario{{
		Name: "one-bucket", About: "all processes with 10 callers each on one bucket of 5 per second, and accidents",
		Targets: targets, accidents: accidents(),
		work: func(s Settings) []Work { return contested(s.Processes, 0) },
	}, {
		Name: "own-buckets", About: "each process with 10 buckets of its own, 5 per second in each, two thirds used, and accidents; " +
			"another process takes over those of the one that dies",
		Targets: targets, accidents: accidents(),
		work: func(s Settings) []Work { return own(s.Processes, 0, s.Length, s.Seed) },
	}}
}

// Accident is what an accident cost.
type Accident struct {
	Name      string
	At, Until time.Duration
	// Before is the rate before it, in requests a second.
	Before float64
	// Lost is how many requests fewer came through, until the next accident, than were made, or than would have at that rate if
	// nobody makes a request before another one was answered.
	Lost float64
	// Back is when the rate was back, counted from its end; negative: not before the next one.
	Back time.Duration
	// Refused is how many 429s there were until the next one, and Errors how many waiters were told of it.
	Refused, Errors int
	// Seconds are how many requests came through in each second around it, from At - Around on.
	Seconds []int

	losesState bool
}

const (
	// steady is how long before an accident its rate is measured, and settled how long after it the rate has to be back.
	steady, settled = 6 * time.Second, 3 * time.Second
	// Around is how many seconds before an accident Accident.Seconds begins.
	Around = 2
)

// happenings are the times at which things happened, each in order.
type happenings struct {
	served, refused, failed []time.Duration
	planned                 []time.Duration // requests that are made whatever becomes of others; none: callers wait for answers
	ofTheDead               *happenings     // the part in buckets of the process that dies, if it has any of its own
}

// expected is how many requests should come through in a time, and which part of that is enough to be back. If callers wait for answers
// it is those at a rate, and as many more or less as there are in a window, which is a matter of when one looks.
func (h happenings) expected(rate float64, from, to time.Duration) (n, enough float64) {
	if len(h.planned) > 0 {
		return float64(within(h.planned, from, to)), 0.9
	}
	return rate * (to - from).Seconds(), 0.75
}

// account works out what accidents cost.
func account(accidents []accident, h happenings, end time.Duration) (costs []Accident) {
	for i, a := range accidents {
		next := end
		if i+1 < len(accidents) {
			next = accidents[i+1].at
		}
		from := max(a.at-steady, 0)
		before := float64(within(h.served, from, a.at)) / (a.at - from).Seconds()
		cost := Accident{
			Name: a.name, At: a.at, Until: a.until, losesState: a.losesState,
			Before: before, Refused: within(h.refused, a.at, next), Errors: within(h.failed, a.at, next),
		}
		expected, _ := h.expected(before, a.at, next)
		cost.Lost = max(expected-float64(within(h.served, a.at, next)), 0)
		cost.Back = h.back(a, before, next)
		for second := a.at - Around*time.Second; second < next; second += time.Second {
			cost.Seconds = append(cost.Seconds, within(h.served, second, min(second+time.Second, next)))
		}
		costs = append(costs, cost)
	}
	return costs
}

// back is how long after its end an accident was felt: until the first request from which on the rate is what it was. Those that
// had come through before count as well.
func (h happenings) back(a accident, rate float64, next time.Duration) time.Duration {
	if a.kills && h.ofTheDead != nil {
		return h.ofTheDead.back(a, 0, next)
	}
	for _, from := range h.served[first(h.served, a.at):] {
		if from+settled > next {
			break
		}
		if expected, enough := h.expected(rate, from, from+settled); float64(within(h.served, from, from+settled)) >= enough*expected {
			return max(from-a.until, 0)
		}
	}
	return -1
}

// within counts times from one to another, the latter not included.
func within(times []time.Duration, from, to time.Duration) int {
	return max(first(times, to)-first(times, from), 0)
}

// first is the index of the first time that is not before another.
func first(times []time.Duration, at time.Duration) int {
	i, _ := slices.BinarySearch(times, at)
	return i
}
