package load

import (
	"slices"
	"time"

	"github.com/ratelight/ratelight/internal/discordsim"
)

const (
	// largestPlan bounds the product of requests and channels for which an ideal is computed. The largest computation
	// takes about three seconds.
	largestPlan = 100_000_000
	// An ideal must last at least shortestIdeal, and jittersInIdeal times the jitter. In a shorter run, luck with round
	// trips would decide, because the ideal client always has the smallest round trip.
	shortestIdeal  = time.Second
	jittersInIdeal = 40
)

// Ideal has the time that the ideal client takes for a load, or zero and the reason why no ideal is stated.
type Ideal struct {
	Time time.Duration
	// Missing says why no ideal is stated.
	Missing string
}

// Ideal returns the ideal for the scenario's work. It assumes that requests are offered when they are due, that every
// round trip is the smallest, and that the client does not know the route. Foreign requests in seen are part of the
// work, because they took places.
func (s *Scenario) Ideal(seen discordsim.Report) (Ideal, error) {
	switch {
	case s.ideal == nil:
		return Ideal{Missing: s.IdealBy}, nil
	case s.Requests()*len(s.work) > largestPlan:
		return Ideal{Missing: "not computed for so many requests and channels"}, nil
	}
	ideal, err := s.ideal(s, seen)
	if err == nil && ideal.Time < max(shortestIdeal, jittersInIdeal*s.server.Latency.Jitter) {
		return Ideal{Missing: "so short a load says nothing about efficiency"}, nil
	}
	return ideal, err
}

func (s *Scenario) conditions() discordsim.Conditions {
	return discordsim.Conditions{RoundTrip: s.server.Latency.Smallest(), Global: s.server.Global}
}

// planned returns the ideal time, as the simulator plans it, for the scenario's work and the foreign requests.
func (s *Scenario) planned(seen discordsim.Report) (Ideal, error) {
	all := slices.Clone(s.work)
	all[0].Count += seen.Foreign
	plan, err := discordsim.Certain(s.conditions(), all...)
	return Ideal{Time: plan.Makespan}, err
}

// slower adds the given number of round trips to the planned time.
//
// If no header shows a fixed window, each further window costs the ideal client two round trips instead of one. A 429
// shows when the window closes, but not how many requests the next window accepts, so the ideal client sends one
// request first. A client that sends one request at a time needs a round trip for each request of the last window.
func slower(roundTrips int) func(*Scenario, discordsim.Report) (Ideal, error) {
	return func(s *Scenario, seen discordsim.Report) (Ideal, error) {
		ideal, err := s.planned(seen)
		ideal.Time += time.Duration(roundTrips) * s.conditions().RoundTrip
		return ideal, err
	}
}

// blocked returns the ideal when the server accepts nothing during a block. Requests of an undisturbed client that the
// server would have processed before the block count as done. The rest is work that starts when the block ends, with
// all windows empty, because the block is longer than the windows. A response during the block tells the client when
// the block ends. The client sends half a round trip after that time, when it is sure that the block has ended.
func (s *Scenario) blocked(discordsim.Report) (Ideal, error) {
	conditions, block := s.conditions(), s.server.Blocks[0]
	oneWay := conditions.RoundTrip / 2
	before, err := discordsim.Certain(conditions, s.work...)
	if err != nil {
		return Ideal{}, err
	}
	rest := slices.Clone(s.work)
	for i := range rest {
		for _, sent := range before.Sent[i] {
			if sent+oneWay < block.From {
				rest[i].Count--
			}
		}
		rest[i].Route = "" // discovered before the block
	}
	then, err := discordsim.Certain(conditions, rest...)
	return Ideal{Time: block.Until + then.Makespan + oneWay}, err
}
