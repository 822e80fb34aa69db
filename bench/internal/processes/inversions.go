package processes

import (
	"cmp"
	"slices"
	"time"
)

const (
	// simultaneous requests have no order: it takes about so long to tell the engine of one, and as much longer as the machine is behind.
	simultaneous = 5 * time.Millisecond
	// blur is more than the times differ that requests take to the server. What was sent at one moment may be processed in any order.
	blur = 100 * time.Millisecond
)

// served is a request that the server let through.
type served struct {
	process, bucket          int
	arrived, sent, processed time.Duration
}

// inversions counts pairs of requests that different processes made in one bucket one after the other, and those of them that
// the server let through in the other order. Requests that were made within atOnce have no order.
//
// A bucket's first window, of the given length, is left out: until its hash is known, requests wait in each process by themselves, and
// the process that finds it out is lent the bucket, as nobody else has asked for it yet.
func inversions(all []served, atOnce, window time.Duration) (pairs, inverted int) {
	byBucket := make(map[int][]served)
	for _, s := range all {
		byBucket[s.bucket] = append(byBucket[s.bucket], s)
	}
	for _, bucket := range byBucket {
		second := byProcessing(bucket)[0].processed + window
		slices.SortFunc(bucket, func(a, b served) int { return cmp.Compare(a.arrived, b.arrived) })
		for i, earlier := range bucket {
			for _, later := range bucket[i+1:] {
				if later.process == earlier.process || later.arrived-earlier.arrived < atOnce || later.processed < second {
					continue
				}
				pairs++
				if later.processed+blur < earlier.processed {
					inverted++
				}
			}
		}
	}
	return pairs, inverted
}
