package processes

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/ratelight/ratelight/bench/internal/load"
	"github.com/ratelight/ratelight/internal/discordsim"
)

// Result is what happened in a scenario.
type Result struct {
	Scenario  Scenario
	Processes int
	Length    time.Duration
	Requests  int // those that were given up at a planned end left out
	Answered  int
	Errors    map[string]int // why the others were not answered
	// Took is the time from the common start until the last answer, or until the planned end.
	Took  time.Duration
	Ideal Ideal
	// Queued is how long requests were held back; MeanWait is its mean.
	Queued   load.Queued
	MeanWait time.Duration
	// The simulator's view of refusals. It takes all processes for one client.
	Refused, Avoidable, Excused discordsim.ByClass
	// Pairs of requests that different processes made in one bucket one after the other, and those that changed places, from the
	// bucket's second window on.
	Pairs, Inverted int
	// Shared: there is an engine. Calls are those of scripts, with the time that the engine took for them; Late is the second half.
	Shared       bool
	Calls        Effort
	Late         Effort
	LateRequests int
	// Seconds is what happened in each second.
	Seconds   []Second
	Accidents []Accident
	// Stalled is how far behind the simulated Discord once was. From Busy on the machine had too much else to do for the figures to say
	// much of anything else.
	Stalled time.Duration

	Interrupted bool
	// Missed says which targets were missed and by how much. Empty: all were reached.
	Missed []string
}

// Second is what happened in one second.
type Second struct {
	Served, Refused, Errors int
	Calls                   float64 // of the engine; NaN: not known
}

// Busy is from where on a simulator that is behind spoils the figures: a fifth of a window.
const Busy = 200 * time.Millisecond

// Unanswered is the number of requests without a successful outcome.
func (r *Result) Unanswered() int { return r.Requests - r.Answered }

// Certain is the efficiency, 0 if none is stated.
func (r *Result) Certain() float64 {
	if r.Ideal.Took == 0 || r.Took == 0 || r.Unanswered() > 0 {
		return 0
	}
	return r.Ideal.Took.Seconds() / r.Took.Seconds()
}

// CallsEach is how many calls of the engine there were for each request, in all and in the second half.
func (r *Result) CallsEach() (all, late float64) {
	return part(r.Calls.Calls, r.Requests), part(r.Late.Calls, r.LateRequests)
}

// EngineEach is how much of the engine's own time a request took.
func (r *Result) EngineEach() time.Duration {
	if r.Requests == 0 {
		return 0
	}
	return r.Calls.Took / time.Duration(r.Requests)
}

// InvertedPart is the part of the pairs that changed places.
func (r *Result) InvertedPart() float64 { return part(r.Inverted, r.Pairs) }

func part(n, of int) float64 {
	if of == 0 {
		return 0
	}
	return float64(n) / float64(of)
}

// sumUp works out what happened from what was observed.
func (r *run) sumUp(result *Result) {
	report := r.server.Report()
	r.mu.Lock()
	defer r.mu.Unlock()
	through := r.match(result)
	result.Stalled = r.stalled
	result.Refused, result.Avoidable, result.Excused = report.Refused, report.Avoidable, report.Excused
	result.Pairs, result.Inverted = inversions(through, simultaneous+r.stalled, r.scenario.limit().Period)

	h := happenings{through: byProcessing(through), period: r.scenario.limit().Period}
	h.served = times(r.events, func(e discordsim.Event) (time.Duration, bool) { return e.At.Sub(r.start), e.Accepted > 0 })
	for _, e := range r.events {
		if e.Class != discordsim.ClassNone {
			h.refused = append(h.refused, refusal{e.At.Sub(r.start), e.Major, e.Verdict == discordsim.Avoidable})
		}
	}
	h.failed = times(r.records, func(r Record) (time.Duration, bool) { return r.Done, !r.answered() && !r.GivenUp })
	r.efforts(result)
	result.Seconds = r.seconds(result.Took, h)
	if len(r.scenario.accidents) > 0 && !result.Interrupted {
		h.planned = offers(r.works)
		happened := r.scenario.accidents[:len(r.affected)]
		for i, a := range happened {
			result.Accidents = append(result.Accidents, r.cost(i, a, h))
		}
	}
}

// cost works out what an accident cost.
func (r *run) cost(i int, a accident, h happenings) Accident {
	next := r.settings.Length
	if i+1 < len(r.scenario.accidents) {
		next = r.scenario.accidents[i+1].at
	}
	var all []touched
	for _, s := range r.affected[i] {
		works := r.works
		if s.place != everybody {
			works = r.works[s.place : s.place+1]
		}
		all = append(all, touched{s.at, together(works)[0].buckets()})
	}
	felt := &h
	if a.ends != nil && len(h.planned) > 0 {
		var theirs []Work
		for _, place := range a.ends(len(r.works)) {
			theirs = append(theirs, r.works[place])
		}
		felt = h.in(together(theirs)[0])
	}
	return account(a, h, felt, all, next)
}

// match brings together what processes and the simulator say of each request that came through.
func (r *run) match(result *Result) (through []served) {
	processed := make(map[int64]time.Duration)
	for _, event := range r.events {
		if event.Accepted > 0 {
			processed[event.Sequence] = event.At.Sub(r.start)
		}
	}
	var waits []time.Duration
	made := 0
	for _, record := range r.records {
		if len(record.Sends) > 0 {
			waits = append(waits, record.queued())
		}
		if at, ok := processed[record.Sequence]; ok {
			through = append(through, served{record.process(), record.Bucket, record.Arrived, record.sent(), at})
		}
		switch {
		case record.GivenUp:
			continue
		case record.answered():
			result.Answered++
			result.Took = max(result.Took, record.Done)
		case record.Error != "":
			result.Errors[record.Error]++
		default:
			result.Errors[fmt.Sprintf("status %d", record.Status)]++
		}
		made++
	}
	if len(r.scenario.accidents) > 0 {
		result.Requests = made
		result.Took = r.settings.Length
	}
	result.Queued, result.MeanWait = quantiles(waits)
	return through
}

// quantiles sorts the times.
func quantiles(all []time.Duration) (q load.Queued, mean time.Duration) {
	if len(all) == 0 {
		return q, 0
	}
	slices.Sort(all)
	at := func(part float64) time.Duration { return all[max(int(math.Ceil(part*float64(len(all))))-1, 0)] }
	var sum time.Duration
	for _, d := range all {
		sum += d
	}
	return load.Queued{Median: at(0.5), P90: at(0.9), P99: at(0.99), Max: all[len(all)-1]}, sum / time.Duration(len(all))
}

// efforts takes over what the engine did, in all and in the second half of the time.
func (r *run) efforts(result *Result) {
	result.Shared = r.engine != nil
	if len(r.samples) == 0 {
		return
	}
	from, to := r.samples[0], r.samples[len(r.samples)-1]
	result.Calls = to.effort.minus(from.effort)
	for _, s := range r.samples {
		if s.at >= result.Took/2 {
			result.Late = to.effort.minus(s.effort)
			for _, record := range r.records {
				if len(record.Sends) > 0 && record.Sends[0].At >= s.at {
					result.LateRequests++
				}
			}
			return
		}
	}
}

// seconds counts what happened in each second. Calls between two samples that lie apart are spread over the time between.
func (r *run) seconds(took time.Duration, h happenings) (seconds []Second) {
	for from := time.Duration(0); from < took; from += time.Second {
		to := from + time.Second
		seconds = append(seconds, Second{
			Served: within(h.served, from, to), Errors: within(h.failed, from, to), Calls: r.callsUntil(to) - r.callsUntil(from),
		})
		seconds[len(seconds)-1].Refused, _, _ = h.refusals(from, to)
	}
	return seconds
}

// callsUntil is how many calls the engine had done by a time, NaN if that is not known.
func (r *run) callsUntil(at time.Duration) float64 {
	i := slices.IndexFunc(r.samples, func(s sample) bool { return s.at >= at })
	if i < 0 || i == 0 && r.samples[0].at > at {
		return math.NaN()
	}
	to := r.samples[i]
	if to.at == at {
		return float64(to.effort.Calls)
	}
	from := r.samples[i-1]
	share := float64(at-from.at) / float64(to.at-from.at)
	return float64(from.effort.Calls) + share*float64(to.effort.Calls-from.effort.Calls)
}

// judge compares the result with the targets.
func (r *Result) judge() {
	targets := r.Scenario.Targets
	miss := func(missed bool, format string, values ...any) {
		if missed {
			r.Missed = append(r.Missed, fmt.Sprintf(format, values...))
		}
	}
	if r.Interrupted {
		miss(true, "interrupted")
		return
	}
	if targets.Anything {
		return
	}
	miss(r.Unanswered() > 0, "not answered: %d of %d requests", r.Unanswered(), r.Requests)
	for _, text := range slices.Sorted(maps.Keys(r.Errors)) {
		miss(true, "%d ended with: %s", r.Errors[text], text)
	}
	after := 0
	for _, a := range r.Accidents {
		after += a.Refused
	}
	when := ""
	if len(r.Accidents) > 0 {
		when = " before all accidents"
	}
	miss(r.Refused.Total() > after, "429s%s: %d, none wanted", when, r.Refused.Total()-after)
	miss(r.Inverted > 0 && targets.InOrder, "inverted pairs from the second window on: %d of %d, none wanted", r.Inverted, r.Pairs)
	if len(r.NotJudged()) == 0 && r.Unanswered() == 0 {
		all, _ := r.CallsEach()
		miss(r.Certain() < targets.Certain, "%.4f of the certain ideal, at least %.2f wanted", r.Certain(), targets.Certain)
		miss(targets.CallsEach > 0 && all > targets.CallsEach, "%.3f engine calls per request, at most %.2f wanted", all, targets.CallsEach)
	}
	for i := range r.Accidents {
		a := &r.Accidents[i]
		a.Missed = a.missed(targets)
		r.Missed = append(r.Missed, a.Missed...)
	}
}

// NotJudged lists the targets that say nothing of a run as short as this one, and are not looked at.
func (r *Result) NotJudged() (targets []string) {
	if r.Length >= ShortestJudged || r.Interrupted || r.Scenario.Targets.Anything {
		return nil
	}
	return r.Scenario.Targets.ofLongRuns()
}
