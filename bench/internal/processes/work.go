package processes

import (
	"math/rand/v2"
	"slices"
	"time"
)

// Work is what one process has to do. Times count from the common start.
type Work struct {
	Callers []Caller `json:"callers,omitempty"`
	Offers  []Offer  `json:"offers,omitempty"`
}

// Caller makes one request after the other, each when the one before it was answered.
type Caller struct {
	At     time.Duration `json:"at"`
	Bucket int           `json:"bucket"`
	Count  int           `json:"count"` // 0: until the end
}

// Offer is one request that is made whatever has become of others.
type Offer struct {
	At     time.Duration `json:"at"`
	Bucket int           `json:"bucket"`
}

// requests is how many requests there are to make, as far as that is fixed.
func (w Work) requests() (n int) {
	for _, caller := range w.Callers {
		n += caller.Count
	}
	return n + len(w.Offers)
}

const (
	// each is how many callers on the one bucket, or how many buckets of its own, a process has.
	each = 10
	// apart is the time from one caller's first request to the next one's. Order between processes means nothing for
	// requests that are made at the same moment.
	apart = 10 * time.Millisecond
	// offered is how many requests a second are made in a bucket of one's own: two thirds of what its limit allows.
	offered = 3.25
)

// contested is work on one bucket. The callers of all processes take turns in their first requests; together they make so
// many. 0: as many as they can.
func contested(processes, requests int) []Work {
	works := make([]Work, processes)
	callers := processes * each
	for i := range callers {
		count := 0
		if requests > 0 {
			count = requests / callers
			if i < requests%callers {
				count++
			}
		}
		work := &works[i%processes]
		work.Callers = append(work.Callers, Caller{At: time.Duration(i) * apart, Count: count})
	}
	return works
}

// usedUp is work that uses up every window: two callers in each bucket of a process's own, and one of each process in those that all use.
// The first windows of the buckets begin at times that are spread over one.
func usedUp(processes int) []Work {
	const common = 5
	works := make([]Work, processes)
	all := processes*each + common
	for bucket := range all {
		at := longWindow.Period * time.Duration(bucket) / time.Duration(all)
		for i := range works {
			callers := 0
			switch bucket / each {
			case i:
				callers = 2
			case processes:
				callers = 1
			}
			for range callers {
				works[i].Callers = append(works[i].Callers, Caller{At: at, Bucket: bucket})
			}
		}
	}
	return works
}

// own is work in buckets of one process each, at times that chance decides. One request in foreign is made by another process than
// the bucket's own; 0: none is.
func own(processes, foreign int, length time.Duration, seed uint64) []Work {
	works := make([]Work, processes)
	chance := rand.New(rand.NewPCG(seed, 3))
	for bucket := range processes * each {
		for at := time.Duration(0); ; {
			at += time.Duration(chance.ExpFloat64() / offered * float64(time.Second))
			if at >= length {
				break
			}
			by := bucket / each
			// Drawn in any case, so that the times are the same with foreign traffic and without.
			if x, other := chance.Float64(), chance.Float64(); x*float64(foreign) < 1 && foreign > 0 && processes > 1 {
				by = (by + 1 + int(other*float64(processes-1))) % processes
			}
			works[by].Offers = append(works[by].Offers, Offer{At: at, Bucket: bucket})
		}
	}
	for i := range works {
		slices.SortFunc(works[i].Offers, func(a, b Offer) int { return int(a.At - b.At) })
	}
	return works
}

// offers are the times of all offers, in order.
func offers(works []Work) (at []time.Duration) {
	for _, work := range works {
		for _, offer := range work.Offers {
			at = append(at, offer.At)
		}
	}
	slices.Sort(at)
	return at
}

// together is the work of all processes for one.
func together(works []Work) []Work {
	var all Work
	for _, work := range works {
		all.Callers = append(all.Callers, work.Callers...)
		all.Offers = append(all.Offers, work.Offers...)
	}
	slices.SortStableFunc(all.Callers, func(a, b Caller) int { return int(a.At - b.At) })
	slices.SortStableFunc(all.Offers, func(a, b Offer) int { return int(a.At - b.At) })
	return []Work{all}
}

// after is what is left at a time for whoever comes in somebody's place.
func (w Work) after(at time.Duration) (left Work) {
	for _, caller := range w.Callers {
		caller.At = max(caller.At, at)
		left.Callers = append(left.Callers, caller)
	}
	left.Offers = slices.DeleteFunc(slices.Clone(w.Offers), func(o Offer) bool { return o.At < at })
	return left
}

// buckets are those that the work is in.
func (w Work) buckets() map[int]bool {
	all := make(map[int]bool)
	for _, caller := range w.Callers {
		all[caller.Bucket] = true
	}
	for _, offer := range w.Offers {
		all[offer.Bucket] = true
	}
	return all
}
