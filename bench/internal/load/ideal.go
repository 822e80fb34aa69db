package load

import (
	"slices"
	"time"

	"github.com/ratelight/ratelight/internal/discordsim"
)

const (
	// largestPlan bounds the effort of working out an ideal, in requests times channels: about three seconds.
	largestPlan = 100_000_000
	// The ideal clients have the smallest round trip all the time. An ideal must be that long and so many times as long as
	// the jitter, or else the luck with round trips would be all that is measured.
	shortestIdeal  = time.Second
	jittersInIdeal = 40
)

// Ideal is how long the ideal clients take for a load; zero if it is not stated.
type Ideal struct {
	Certain, Omniscient time.Duration
	// Missing says why none is stated.
	Missing string
}

// Ideal is that of the work, all of it offered when it is due. The conditions are the simulation's with the smallest of its round trips; the
// route of the messages has to be discovered. The places that others took in a run were not there for us, so theirs is work, too.
func (s *Scenario) Ideal(seen discordsim.Report) (Ideal, error) {
	switch {
	case s.config.Server != nil:
		return Ideal{Missing: "only the simulator has one"}, nil
	case s.ideal == nil:
		return Ideal{Missing: s.IdealBy}, nil
	case s.Requests()*len(s.work) > largestPlan:
		return Ideal{Missing: "not worked out for so many requests and channels"}, nil
	}
	ideal, err := s.ideal(s, seen)
	if err == nil && ideal.Certain < max(shortestIdeal, jittersInIdeal*s.server.Latency.Jitter) {
		return Ideal{Missing: "so short a load says nothing about efficiency"}, nil
	}
	return ideal, err
}

func (s *Scenario) conditions() discordsim.Conditions {
	return discordsim.Conditions{RoundTrip: s.server.Latency.Smallest(), Global: s.server.Global}
}

// planned is the ideal of the scenario's work and that of others, by the simulator's plans.
func (s *Scenario) planned(seen discordsim.Report) (Ideal, error) {
	all := slices.Clone(s.work)
	all[0].Count += seen.Foreign
	certain, err := discordsim.Certain(s.conditions(), all...)
	if err != nil {
		return Ideal{}, err
	}
	omniscient, err := discordsim.Omniscient(s.conditions(), all...)
	return Ideal{Certain: certain.Makespan, Omniscient: omniscient.Makespan}, err
}

// certainly is planned where no client can come near the omniscient ideal.
func (s *Scenario) certainly(seen discordsim.Report) (Ideal, error) {
	ideal, err := s.planned(seen)
	return Ideal{Certain: ideal.Certain}, err
}

// slower has the certain client take so many round trips more than planned.
//
// In a bucket behind which a fixed window lies that no header shows, it needs two for each further window instead of one: it is refused and
// told when the window closes. Then it knows that one request will be accepted, but not how many more, and sends that one first. Where it
// sends one request at a time, those of the last window follow each other by a round trip each, instead of leaving together.
func slower(roundTrips int) func(*Scenario, discordsim.Report) (Ideal, error) {
	return func(s *Scenario, seen discordsim.Report) (Ideal, error) {
		ideal, err := s.planned(seen)
		ideal.Certain += time.Duration(roundTrips) * s.conditions().RoundTrip
		return ideal, err
	}
}

// blocked is the ideal when nothing is accepted from one moment to another. What an undisturbed client would have had
// processed before the block is done; the rest is work that starts when the block ends, with all windows empty, as the
// block is longer than they are. The omniscient client has its requests arrive at that moment. The certain one was told
// the end by an answer to what it sent into the block, and sends when it is sure: one way later.
func (s *Scenario) blocked(discordsim.Report) (Ideal, error) {
	conditions, block := s.conditions(), s.server.Blocks[0]
	oneWay := conditions.RoundTrip / 2
	after := func(plan func(discordsim.Conditions, ...discordsim.Work) (discordsim.Plan, error)) (time.Duration, error) {
		before, err := plan(conditions, s.work...)
		if err != nil {
			return 0, err
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
		then, err := plan(conditions, rest...)
		return block.Until + then.Makespan, err
	}
	omniscient, err := after(discordsim.Omniscient)
	if err != nil {
		return Ideal{}, err
	}
	certain, err := after(discordsim.Certain)
	return Ideal{Certain: certain + oneWay, Omniscient: omniscient - oneWay}, err
}
