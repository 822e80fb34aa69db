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
	conditions := discordsim.Conditions{RoundTrip: s.Latency.Smallest(), Global: discordsim.Unlimited()}
	if c.GlobalLimit > 0 {
		conditions.Global = discordsim.Aligned(c.GlobalLimit, time.Second, 0)
	}
	var work []discordsim.Work
	for n := range min(s.Channels, c.Requests) {
		share := (c.Requests - n + s.Channels - 1) / s.Channels
		work = append(work, discordsim.Work{Quota: s.Quota, Count: share, Route: "messages"})
	}
	certain, err := discordsim.Certain(conditions, work...)
	if err != nil {
		return Ideal{}, err
	}
	if certain.Makespan < max(shortestIdeal, jittersInIdeal*s.Latency.Jitter) {
		return Ideal{Missing: "so short a load says nothing about efficiency"}, nil
	}
	omniscient, err := discordsim.Omniscient(conditions, work...)
	return Ideal{Certain: certain.Makespan, Omniscient: omniscient.Makespan}, err
}
