package share

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/ratelight/ratelight/bench/internal/load"
	"github.com/ratelight/ratelight/bench/internal/report"
	"github.com/ratelight/ratelight/internal/discordsim"
)

// result is what happened in a scenario.
type result struct {
	Scenario
	length   time.Duration
	requests int // those that were given up at a planned end left out
	answered int
	errors   map[string]int // why the others were not answered
	took     time.Duration  // from the common start until the last answer, or until the planned end
	ideal    ideal
	queued   load.Queued // how long requests were held back
	meanWait time.Duration
	// The simulator's view of refusals. It takes all processes for one client.
	refused, avoidable, excused discordsim.ByClass
	pairs, inverted             int
	effort                      effort // of the engine, if something is shared and nothing happens to it
	seconds                     []second
	costs                       []cost
	// stalled is how far behind the simulated Discord once was.
	stalled     time.Duration
	log         *report.Log
	interrupted bool
	// missed says which targets were missed and by how much.
	missed []string
}

// second is what happened in one second.
type second struct {
	served, refused, errors int
}

// busy is from where on a simulator that is behind spoils the figures: a fifth of a window.
const busy = 200 * time.Millisecond

// efficiency is against the certain ideal, 0 if none is stated.
func (r *result) efficiency() float64 {
	if r.took == 0 || r.answered < r.requests {
		return 0
	}
	return r.ideal.took.Seconds() / r.took.Seconds()
}

// callsEach is how many scripts the engine ran for each request.
func (r *result) callsEach() float64 { return part(r.effort.calls, r.requests) }

func part(n, of int) float64 { return float64(n) / float64(max(of, 1)) }

// sumUp works out what happened from what was observed.
func (r *run) sumUp(seen discordsim.Report) (*result, error) {
	all := work(slices.Concat(r.works...))
	result := &result{
		Scenario: r.Scenario, length: r.options.Length, errors: make(map[string]int), stalled: r.stalled,
		refused: seen.Refused, avoidable: seen.Avoidable, excused: seen.Excused,
	}
	h := &history{works: r.works, window: r.quota.Period, planned: all.planned()}
	var waits []time.Duration
	for _, one := range r.requests {
		result.count(one)
		h.take(one, r.start)
		passage := one.passage(r.start)
		if len(passage.Sends) > 0 {
			waits = append(waits, queued(passage))
			result.meanWait += queued(passage)
		}
		if r.log != nil {
			r.log.Add(passage)
		}
	}
	h.sort()
	result.queued, result.meanWait, result.log = load.Quantiles(waits), result.meanWait/time.Duration(max(len(waits), 1)), r.log
	result.pairs, result.inverted = h.inversions(simultaneous + r.stalled)
	if r.accidents == nil {
		result.requests = r.Requests(r.options.Length)
		var err error
		if result.ideal, err = idealOf(all, r.quota); err != nil {
			return nil, err
		}
	} else {
		result.took = r.options.Length
	}
	for from := time.Duration(0); from < result.took; from += time.Second {
		to := from + time.Second
		s := second{served: within(h.processed, from, to), errors: within(h.failed, from, to)}
		s.refused, _, _ = h.refusals(from, to)
		result.seconds = append(result.seconds, s)
	}
	for i, affected := range r.affected {
		next := r.options.Length
		if i+1 < len(r.accidents) {
			next = r.accidents[i+1].at
		}
		result.costs = append(result.costs, h.cost(r.accidents[i], affected, next))
	}
	return result, nil
}

// count counts what became of a request.
func (r *result) count(one *request) {
	if one.givenUp {
		return
	}
	r.requests++
	if one.failure != "" {
		r.errors[one.failure]++
		return
	}
	r.answered++
	r.took = max(r.took, one.done)
}

// take brings together what processes and the simulator say of a request.
func (h *history) take(one *request, start time.Time) {
	for _, e := range one.events {
		at := e.At.Sub(start)
		if e.Accepted > 0 {
			h.served = append(h.served, served{one.place, one.bucket, one.arrived, e.SentAt.Sub(start), at})
			h.processed = append(h.processed, at)
		}
		if e.Class != discordsim.ClassNone {
			h.refused = append(h.refused, refusal{at, e.Major, e.Verdict == discordsim.Avoidable})
		}
	}
	if one.failure != "" && !one.givenUp {
		h.failed = append(h.failed, one.done)
	}
}

func (h *history) sort() {
	slices.SortFunc(h.served, func(a, b served) int { return cmp.Compare(a.processed, b.processed) })
	slices.Sort(h.processed)
	slices.Sort(h.failed)
}

// passage is a request's way. When the client heard of a refusal is not known, only when that was sent.
func (one *request) passage(start time.Time) report.Passage {
	passage := report.Passage{HandedOver: one.arrived, Done: one.done}
	for i, e := range one.events {
		send := report.Send{At: e.SentAt.Sub(start), Back: e.At.Sub(start), Status: e.Status}
		if i == len(one.events)-1 {
			send.Back = one.done
		}
		passage.Sends = append(passage.Sends, send)
	}
	return passage
}

// queued is how long a request was held back by the client, round trips not counted.
func queued(p report.Passage) (d time.Duration) {
	since := p.HandedOver
	for _, send := range p.Sends {
		d += send.At - since
		since = send.Back
	}
	return d
}

// judge compares the result with the targets.
func (r *result) judge() {
	t := r.targets
	if r.interrupted || t.anything {
		return
	}
	miss := func(missed bool, format string, values ...any) {
		if missed {
			r.missed = append(r.missed, fmt.Sprintf(format, values...))
		}
	}
	unanswered := r.requests - r.answered
	miss(unanswered > 0, "not answered: %d of %d requests", unanswered, r.requests)
	for _, text := range slices.Sorted(maps.Keys(r.errors)) {
		miss(true, "%d ended with: %s", r.errors[text], text)
	}
	refused, when := r.refused.Total(), ""
	for _, c := range r.costs {
		refused, when = refused-c.refused, " before all accidents"
	}
	miss(refused > 0, "429s%s: %d, none wanted", when, refused)
	miss(r.inverted > 0 && t.inOrder, "inverted pairs from the second window on: %d of %d, none wanted", r.inverted, r.pairs)
	if len(r.notJudged()) == 0 && unanswered == 0 {
		miss(r.efficiency() < t.certain, "%.4f of the certain ideal, at least %.2f wanted", r.efficiency(), t.certain)
		miss(t.callsEach > 0 && r.callsEach() > t.callsEach, "%.3f engine calls per request, at most %.2f wanted", r.callsEach(), t.callsEach)
	}
	for _, c := range r.costs {
		r.missed = append(r.missed, c.missed(t)...)
	}
}

// notJudged lists the targets that say nothing of a run as short as this one, and are not looked at.
func (r *result) notJudged() (list []string) {
	if r.length >= shortestJudged || r.interrupted || r.targets.anything {
		return nil
	}
	return r.targets.ofLongRuns()
}
