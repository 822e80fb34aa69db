package load

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/ratelight/ratelight/internal/discordsim"
)

const (
	// ownBuckets is how many buckets each process uses.
	ownBuckets = 10
	// offered is the number of requests per second in each bucket, about two thirds of the bucket's limit.
	offered = 3.25
)

// Shared returns the scenarios for processes that share limits. Round trips take 20 to 80 ms.
func Shared(processes int, length time.Duration, seed uint64) []Scenario {
	far := func(s *Scenario) {
		s.server.Latency = discordsim.Latency{RoundTrip: 50 * time.Millisecond, Jitter: 30 * time.Millisecond}
		s.server.Global = discordsim.Unlimited()
		s.IdealBy = "one client that does the work of all processes, with the smallest round trip"
	}
	return []Scenario{
		burst("one-bucket", "all processes on one bucket of 5 per second, all requests at once",
			small, int(length/small.Period)*small.Limit).
			but(far).but(func(s *Scenario) {
			for i := range s.offers {
				s.offers[i].process = i % processes
			}
		}),
		burst("own-buckets", "each process with 10 buckets of its own, 5 per second in each, two thirds used", small, 0).
			but(far).but(func(s *Scenario) { s.own(processes, 0, length, seed) }),
		burst("foreign-traffic", "as own-buckets, but one request in fifty is another process's", small, 0).
			but(far).but(func(s *Scenario) { s.own(processes, 50, length, seed) }),
	}
}

// own makes requests at random times in buckets that belong to one process each. One of every `foreign` requests comes
// from another process (0: none). There is no target for the efficiency, because the requests come at random times.
func (s *Scenario) own(processes, foreign int, length time.Duration, seed uint64) {
	s.offers, s.work, s.Targets.Efficiency = nil, nil, 0
	random := rand.New(rand.NewPCG(seed, 3))
	for bucket := range processes * ownBuckets {
		var times []time.Duration
		for at := time.Duration(0); ; {
			at += time.Duration(random.ExpFloat64() / offered * float64(time.Second))
			if at >= length {
				break
			}
			o := offer{due: at, method: "POST", path: channel(bucket), process: bucket / ownBuckets}
			// Draw in any case, so that the times are the same with foreign traffic and without.
			if x, other := random.Float64(), random.Float64(); x*float64(foreign) < 1 && foreign > 0 {
				o.process = (o.process + 1 + int(other*float64(processes-1))) % processes
			}
			s.offers, times = append(s.offers, o), append(times, at)
		}
		s.work = append(s.work, discordsim.Work{Quota: small, Offered: times, Route: "messages"})
	}
	slices.SortFunc(s.offers, func(a, b offer) int { return int(a.due - b.due) })
}
