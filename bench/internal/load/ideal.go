package load

import (
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

// Ideal plans the load for clients that must be sure, and for those that know everything. The conditions are the
// simulation's with the smallest of its round trips; the work is each channel's share of the requests, all of it offered
// at the start; the route of the messages has to be discovered.
func (c Config) Ideal() (Ideal, error) {
	s := c.Simulated
	switch {
	case c.Real != nil:
		return Ideal{Missing: "only the simulator has one"}, nil
	case c.Requests*min(s.Channels, c.Requests) > largestPlan:
		return Ideal{Missing: "not worked out for so many requests and channels"}, nil
	}
	var all []discordsim.Work
	for n := range min(s.Channels, c.Requests) {
		all = append(all, work(s.Quota, (c.Requests-n+s.Channels-1)/s.Channels))
	}
	conditions := discordsim.Conditions{RoundTrip: s.Latency.Smallest(), Global: globalQuota(c.GlobalLimit, 0)}
	ideal, err := planned(conditions, all...)(discordsim.Report{})
	if err == nil && ideal.Certain < max(shortestIdeal, jittersInIdeal*s.Latency.Jitter) {
		return Ideal{Missing: "so short a load says nothing about efficiency"}, nil
	}
	return ideal, err
}

// idealFunc works out the ideal of a scenario, of which the server has reported.
type idealFunc func(discordsim.Report) (Ideal, error)

// planned is the ideal of work that the simulator's plans describe completely.
func planned(conditions discordsim.Conditions, work ...discordsim.Work) idealFunc {
	return func(discordsim.Report) (Ideal, error) {
		certain, err := discordsim.Certain(conditions, work...)
		if err != nil {
			return Ideal{}, err
		}
		omniscient, err := discordsim.Omniscient(conditions, work...)
		return Ideal{Certain: certain.Makespan, Omniscient: omniscient.Makespan}, err
	}
}

// certainOnly leaves the omniscient ideal out.
func (f idealFunc) certainOnly() idealFunc {
	return func(report discordsim.Report) (Ideal, error) {
		both, err := f(report)
		return Ideal{Certain: both.Certain}, err
	}
}

// slower has the certain client take so many round trips more.
func (f idealFunc) slower(roundTrips int) idealFunc {
	return func(report discordsim.Report) (Ideal, error) {
		ideal, err := f(report)
		ideal.Certain += time.Duration(roundTrips) * usualConditions.RoundTrip
		return ideal, err
	}
}

// hidden is the ideal for count requests to a bucket behind which a fixed window lies that no header shows.
//
// Omniscient: as if the hidden window were the bucket's own. Certain: that, with two round trips for each further window
// instead of one. It cannot see the window coming, so it is refused and told when the window closes. Then it knows that
// one request will be accepted, but not how many more, and sends that one first.
func hidden(quota discordsim.Quota, count int) idealFunc {
	return planned(usualConditions, work(quota, count)).slower((count+quota.Limit-1)/quota.Limit - 1)
}

// inTurn adds what it costs to send requests one at a time: the last window's requests follow each other by a round trip
// each, instead of leaving together. In the windows before, they have time to.
func inTurn(quota discordsim.Quota, count int) idealFunc {
	return planned(usualConditions, work(quota, count)).slower((count - 1) % quota.Limit)
}

// contested is the ideal for count requests to a bucket that somebody else uses too: the places that they took in this
// run were not there for us, so it is the plan for our requests and theirs together.
func contested(quota discordsim.Quota, count int) idealFunc {
	return func(report discordsim.Report) (Ideal, error) {
		return planned(usualConditions, work(quota, count+report.Foreign))(report)
	}
}

// blocked is the ideal when nothing is accepted from one moment to another. What an undisturbed client would have had
// processed before the block is done; the rest is work that starts when the block ends, with all windows empty, as the
// block is longer than they are. The omniscient client has its requests arrive at that moment. The certain one was told
// the end by an answer to what it sent into the block, and sends when it is sure: one way later.
func blocked(block discordsim.GlobalBlock, work ...discordsim.Work) idealFunc {
	after := func(plan func(discordsim.Conditions, ...discordsim.Work) (discordsim.Plan, error)) (time.Duration, error) {
		before, err := plan(usualConditions, work...)
		if err != nil {
			return 0, err
		}
		var rest []discordsim.Work
		for i, w := range work {
			for _, sent := range before.Sent[i] {
				if sent+usualConditions.RoundTrip/2 < block.From {
					w.Count--
				}
			}
			w.Route = "" // discovered before the block
			rest = append(rest, w)
		}
		then, err := plan(usualConditions, rest...)
		return block.Until + then.Makespan, err
	}
	return func(discordsim.Report) (Ideal, error) {
		omniscient, err := after(discordsim.Omniscient)
		if err != nil {
			return Ideal{}, err
		}
		certain, err := after(discordsim.Certain)
		oneWay := usualConditions.RoundTrip / 2
		return Ideal{Certain: certain + oneWay, Omniscient: omniscient - oneWay}, err
	}
}
