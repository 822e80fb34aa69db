package processes

import (
	"slices"
	"time"

	"github.com/ratelight/ratelight/internal/discordsim"
)

var (
	// quota is the limit of every bucket, unless a scenario has another one.
	quota = discordsim.Fixed(5, time.Second)
	// longWindow lasts longer than the others believe in a process that says nothing.
	longWindow = discordsim.Fixed(5, 5*time.Second)
	// latency is 10 to 40 ms each way.
	latency = discordsim.Latency{RoundTrip: 50 * time.Millisecond, Jitter: 30 * time.Millisecond}
)

// Ideal is what a client takes for the work of all processes that must be sure before it sends, and has the smallest round trip
// for all its requests.
type Ideal struct {
	Took     time.Duration // until the last answer
	MeanWait time.Duration // of a request until it is sent
}

// ideal plans work whose number of requests is fixed. A caller's later requests are planned as if they were there when the
// callers have begun, which can only make the ideal faster.
func ideal(works []Work) (Ideal, error) {
	arrivals := make(map[int][]time.Duration) // by bucket
	for _, work := range works {
		for _, offer := range work.Offers {
			arrivals[offer.Bucket] = append(arrivals[offer.Bucket], offer.At)
		}
	}
	begun := begun(works)
	waits := true
	for _, work := range works {
		for _, caller := range work.Callers {
			waits = false // how long a caller's later requests wait depends on when it makes them
			for n := range caller.Count {
				at := caller.At
				if n > 0 {
					at = begun
				}
				arrivals[caller.Bucket] = append(arrivals[caller.Bucket], at)
			}
		}
	}
	var planned []discordsim.Work
	for _, at := range arrivals {
		slices.Sort(at)
		planned = append(planned, discordsim.Work{Quota: quota, Offered: at, Route: "messages"})
	}
	conditions := discordsim.Conditions{RoundTrip: latency.Smallest(), Global: discordsim.Unlimited()}
	plan, err := discordsim.Certain(conditions, planned...)
	if err != nil {
		return Ideal{}, err
	}
	ideal := Ideal{Took: plan.Makespan}
	if waits {
		ideal.MeanWait = plan.MeanWait
	}
	return ideal, nil
}

// begun is when the last caller makes its first request.
func begun(works []Work) (at time.Duration) {
	for _, work := range works {
		for _, caller := range work.Callers {
			at = max(at, caller.At)
		}
	}
	return at
}
