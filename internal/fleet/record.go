package fleet

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/ratelight/ratelight/internal/discordsim"
)

// record has the known facts about one request.
type record struct {
	process   *Process
	request   Request
	arrived   time.Duration // when the request arrived at its process
	sent      time.Duration // when the request was sent, for the last time; 0: it was not sent
	ended     time.Duration // 0: the request has not ended
	accepted  bool
	processed time.Duration // when Discord accepted the request
	answers   []discordsim.Event
}

// arrived records that a caller makes a request, and returns the request's sequence number.
func (f *Fleet) arrived(p *Process, r Request) (sequence int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.records = append(f.records, &record{process: p, request: r, arrived: f.Now()})
	return int64(len(f.records))
}

func (f *Fleet) sent(sequence int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.records[sequence-1].sent = f.Now()
}

func (f *Fleet) ended(sequence int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.records[sequence-1].ended = f.Now()
}

// processed records Discord's answer to a request.
func (f *Fleet) processed(e discordsim.Event) {
	if e.Sequence <= 0 {
		return
	}
	f.mu.Lock()
	r := f.records[e.Sequence-1]
	at := e.At.Sub(f.epoch)
	r.answers = append(r.answers, e)
	if e.Status != 0 {
		f.trips = append(f.trips, at)
	}
	if e.Accepted > 0 {
		r.accepted, r.processed = true, at
	}
	f.mu.Unlock()
	r.process.processed(e.Sequence)
}

// FirstsInFlight returns the paths of the process's requests in flight, except the paths for which some process has
// already received an answer.
func (f *Fleet) FirstsInFlight(p *Process) (paths []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	answered := map[string]bool{}
	for _, r := range f.records {
		if r.ended > 0 && len(r.answers) > 0 {
			answered[r.request.Path] = true
		}
	}
	for _, r := range f.records {
		if r.process == p && r.sent > 0 && r.ended == 0 && !answered[r.request.Path] {
			paths = append(paths, r.request.Path)
		}
	}
	return paths
}

// left describes the requests that have not ended. It returns "" if there are none.
func (f *Fleet) left() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	count, first := 0, ""
	for i, r := range f.records {
		if r.ended == 0 {
			if count++; count == 1 {
				first = fmt.Sprintf("number %d of process %d (%s %s, arrived %v, sent %v)",
					i+1, r.process.Number, r.request.Method, r.request.Path, r.arrived, r.sent)
			}
		}
	}
	if count == 0 {
		return ""
	}
	return fmt.Sprintf("%d of %d requests, first %s", count, len(f.records), first)
}

// Busiest returns how many requests Discord has processed in the busiest interval of length d.
func (f *Fleet) Busiest(d time.Duration) (most int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	slices.Sort(f.trips)
	first := 0
	for i, at := range f.trips {
		for at-f.trips[first] >= d {
			first++
		}
		most = max(most, i-first+1)
	}
	return most
}

// Processed yields the path of each request that Discord has processed and not refused, with the time of processing.
// The requests are not in order of time.
func (f *Fleet) Processed(yield func(path string, at time.Duration) bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, r := range f.records {
		for _, a := range r.answers {
			if a.Status != 0 && a.Status != http.StatusTooManyRequests && !yield(r.request.Path, a.At.Sub(f.epoch)) {
				return
			}
		}
	}
}

// Inversions counts pairs of accepted requests of different processes that arrived at least the duration apart after
// each other. inverted counts the pairs that Discord accepted in the other order, more than the duration blur apart.
// All requests must belong to one bucket.
func (f *Fleet) Inversions(apart, blur time.Duration) (pairs, inverted int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := slices.DeleteFunc(slices.Clone(f.records), func(r *record) bool { return !r.accepted })
	slices.SortStableFunc(all, func(a, b *record) int { return cmp.Compare(a.arrived, b.arrived) })
	for i, earlier := range all {
		for _, later := range all[i+1:] {
			if later.process == earlier.process || later.arrived-earlier.arrived < apart {
				continue
			}
			pairs++
			if later.processed+blur < earlier.processed {
				inverted++
			}
		}
	}
	return pairs, inverted
}

// Overtaken counts requests that were overtaken: before such a request, Discord accepted another request with the same
// path that had arrived later at the same process.
func (f *Fleet) Overtaken() (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	type line struct {
		process *Process
		path    string
	}
	earliest := map[line]time.Duration{} // when the first of the later requests was accepted
	for _, r := range slices.Backward(f.records) {
		if !r.accepted {
			continue
		}
		of := line{r.process, r.request.Path}
		first, ok := earliest[of]
		if ok && first < r.processed {
			n++
		}
		if !ok || r.processed < first {
			earliest[of] = r.processed
		}
	}
	return n
}
