package soak

import (
	"fmt"
	"slices"
	"time"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/internal/discordsim"
)

// Result is what a soak saw.
type Result struct {
	Config      Config
	Interrupted bool
	Took        time.Duration

	// Started requests were made, Ended have an outcome, Late ones had it after Patience. Longest is the longest time it took.
	Started, Ended, Late int64
	Longest              time.Duration
	Outcomes             map[string]int
	// Unexpected are outcomes that no request should have had, a few of them.
	Unexpected map[string]int
	// Open are the bodies that were never closed.
	Open int

	// Storm and Calm are what the servers saw in rounds of either sort.
	Storm, Calm discordsim.Tally
	Bans        int
	// Invalid is how many invalid responses there were, LargestInvalid the most of them in any period.
	Invalid, LargestInvalid int
	// Revoked is how many tokens were revoked, Replaced how many of them were replaced.
	Revoked, Replaced int

	Checkpoints []Checkpoint
	// Left is what the manager knew in the end. Held is how many of its buckets were held back by an absurd answer.
	Left buckets.Stats
	Held int
	// Goroutines are those before and after.
	Goroutines [2]int

	// Searched is how many texts were searched for tokens, Found what was found.
	Searched, SearchedBytes uint64
	Found                   []string

	// Broken are the promises that were not kept.
	Broken []string
}

func (r *Result) observe(report discordsim.Report, w weather) {
	tally := &r.Calm
	if w.storm {
		tally = &r.Storm
	}
	tally.Accepted += report.Accepted
	tally.Failed += report.Failed + report.Lost
	add(&tally.Refused, report.Refused)
	add(&tally.Avoidable, report.Avoidable)
	add(&tally.Excused, report.Excused)
	r.Bans += report.Bans
}

func add(sum *discordsim.ByClass, more discordsim.ByClass) {
	sum.User += more.User
	sum.SubLimit += more.SubLimit
	sum.Shared += more.Shared
	sum.Global += more.Global
	sum.Edge += more.Edge
}

// judge fills in what was promised and not kept.
func (r *Result) judge() {
	r.judgeRequests()
	r.judgeServer()
	r.judgeRest()
	r.judgeHeap()
	for _, found := range r.Found {
		r.broken("token in %s", found)
	}
}

func (r *Result) broken(format string, values ...any) {
	r.Broken = append(r.Broken, fmt.Sprintf(format, values...))
}

func (r *Result) judgeRequests() {
	outcomes := 0
	for _, n := range r.Outcomes {
		outcomes += n
	}
	if r.Started != r.Ended || int64(outcomes) != r.Ended {
		r.broken("%d requests have %d outcomes", r.Started, r.Ended)
	}
	if r.Late > 0 {
		r.broken("%d requests had no outcome within %v, the slowest after %v", r.Late, Patience, r.Longest)
	}
	for what, n := range r.Unexpected {
		r.broken("%d times %s", n, what)
	}
	if r.Open != 0 {
		r.broken("%d bodies were not closed", r.Open)
	}
}

func (r *Result) judgeServer() {
	if n := r.Calm.Avoidable.Total(); n > 0 {
		r.broken("%d avoidable 429s in calm rounds: %+v", n, r.Calm.Avoidable)
	}
	if r.LargestInvalid > r.Config.budget() || r.Bans > 0 {
		r.broken("%d invalid responses within %v, of %d allowed, and %d bans", r.LargestInvalid, r.Config.budgetPeriod(), r.Config.budget(), r.Bans)
	}
	if r.Invalid == 0 || r.Storm.Refused.Total() == 0 {
		r.broken("the server refused nothing: this was no soak")
	}
}

// judgeRest asks whether everything came back to where it was. In real time there is no time to wait until routes are forgotten.
func (r *Result) judgeRest() {
	for i, c := range r.Checkpoints {
		if c.Waiting != 0 || c.InFlight != 0 {
			r.broken("after round %d, %d requests waited and %d were in flight", i, c.Waiting, c.InFlight)
		}
	}
	routes, authentications := 0, 0
	if !r.Config.Virtual {
		routes, authentications = 150, 10
	}
	l := r.Left
	if l.Waiting != 0 || l.InFlight != 0 {
		r.broken("in the end %d requests wait and %d are in flight", l.Waiting, l.InFlight)
	}
	if l.Buckets > r.Held || l.Routes > routes || l.Authentications > authentications {
		r.broken("in the end %d buckets, %d routes and %d authentications are left", l.Buckets, l.Routes, l.Authentications)
	}
	if r.Goroutines[1] > r.Goroutines[0] {
		r.broken("%d goroutines became %d", r.Goroutines[0], r.Goroutines[1])
	}
}

// heapSlack is how much the heap may grow from one third of the soak to the next: what maps, pools and the runtime keep
// for another time. In a day that is 5 bytes for each request of a third.
const heapSlack = 2 << 20

// judgeHeap compares the last third of the checkpoints with the one before it, and the end with the warm-up.
func (r *Result) judgeHeap() {
	middle, last, ok := r.heaps()
	if !ok {
		return
	}
	if last > middle+middle/10+heapSlack {
		r.broken("the heap grew from %s to %s between the second and the last third", mega(middle), mega(last))
	}
	first, end := r.Checkpoints[0].Heap, r.Checkpoints[len(r.Checkpoints)-1].Heap
	if end > first+first/4+2*heapSlack {
		r.broken("the heap grew from %s after the warm-up to %s", mega(first), mega(end))
	}
}

// heaps are the means of the second and the last third.
func (r *Result) heaps() (middle, last uint64, ok bool) {
	n := len(r.Checkpoints)
	if n < 3 {
		return 0, 0, false
	}
	mean := func(checkpoints []Checkpoint) (sum uint64) {
		for c := range slices.Values(checkpoints) {
			sum += c.Heap
		}
		return sum / uint64(len(checkpoints))
	}
	return mean(r.Checkpoints[n/3 : 2*n/3]), mean(r.Checkpoints[2*n/3:]), true
}
