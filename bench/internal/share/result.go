package share

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/ratelight/ratelight/bench/internal/load"
	"github.com/ratelight/ratelight/bench/internal/report"
	"github.com/ratelight/ratelight/buckets"
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
	ideal    discordsim.Plan
	queued   load.Queued // how long requests were held back
	meanWait time.Duration
	// The simulator's view of refusals. It takes all processes for one client.
	refused, avoidable, excused discordsim.ByClass
	pairs, inverted             int
	calls                       buckets.SharedCalls // to the engine, if something is shared and nothing happens to it
	seconds                     [][3]int            // requests that came through in each, 429s, and those that failed in another way
	costs                       []cost
	// stalled is how far behind the simulated Discord once was.
	stalled     time.Duration
	log         *report.Log
	interrupted bool
}

// busy is from where on a simulator that is behind spoils the figures: a fifth of a window.
const busy = 200 * time.Millisecond

// efficiency is against the certain ideal, 0 if none is stated.
func (r *result) efficiency() float64 {
	if r.took == 0 || r.answered < r.requests {
		return 0
	}
	return r.ideal.Makespan.Seconds() / r.took.Seconds()
}

// callsEach is how many calls of the engine there were for each request.
func (r *result) callsEach() float64 { return part(int(r.calls.Calls), r.requests) }

func part(n, of int) float64 { return float64(n) / float64(max(of, 1)) }

// sumUp works out what happened from what was observed.
func (r *run) sumUp(seen discordsim.Report) (s *result, err error) {
	h := r.history()
	s = &result{
		Scenario: r.Scenario, length: r.options.Length, errors: make(map[string]int), stalled: r.stalled, log: r.log,
		refused: seen.Refused, avoidable: seen.Avoidable, excused: seen.Excused,
	}
	s.pairs, s.inverted = h.inversions(simultaneous + r.stalled)
	var waits []time.Duration
	for _, one := range r.requests {
		switch {
		case one.GivenUp:
		case one.failure != "":
			s.errors[one.failure]++
		default:
			s.answered++
			s.took = max(s.took, one.Done)
		}
		if !one.GivenUp {
			s.requests++
		}
		if len(one.Sends) > 0 {
			waits = append(waits, one.Queued())
			s.meanWait += one.Queued()
		}
		if r.log != nil {
			r.log.Add(one.Passage)
		}
	}
	s.queued, s.meanWait = load.Quantiles(waits), s.meanWait/time.Duration(max(len(waits), 1))
	if r.accidents == nil {
		s.requests = r.Requests(r.options.Length)
		for i := range r.places {
			calls := r.places[i].process.calls
			s.calls.Calls, s.calls.Time = s.calls.Calls+calls.Calls, s.calls.Time+calls.Time
		}
		if s.ideal, err = idealOf(slices.Concat(r.works...), r.quota); err != nil {
			return nil, err
		}
	} else {
		s.took = r.options.Length
	}
	for from := time.Duration(0); from < s.took; from += time.Second {
		refused, _, _ := h.refusals(from, from+time.Second)
		s.seconds = append(s.seconds, [3]int{within(h.processed, from, from+time.Second), refused, within(h.failed, from, from+time.Second)})
	}
	for i, affected := range r.affected {
		next := r.options.Length
		if i+1 < len(r.accidents) {
			next = r.accidents[i+1].at
		}
		s.costs = append(s.costs, h.cost(r.accidents[i], affected, next))
	}
	return s, nil
}

// missed says which targets were missed and by how much.
func (r *result) missed() (missed []string) {
	t := r.targets
	if t.anything {
		return nil
	}
	miss := func(missing bool, format string, values ...any) {
		if missing {
			missed = append(missed, fmt.Sprintf(format, values...))
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
		missed = append(missed, c.missed(t)...)
	}
	return missed
}

// explained reports that a stall of the machine may be why targets were missed. Only the longest is known, so no more time is excused than that
// took. It explains no answer that is missing, no calls to the server, and no order, which has been judged with it in mind.
func (r *result) explained(demand report.Demand) bool {
	t := r.targets
	certain := max(t.certain, demand.MinEfficiency)
	excess := func(d, wanted time.Duration) bool { return wanted > 0 && (d < 0 || d-wanted > r.stalled) }
	return r.stalled >= busy && r.answered == r.requests && (r.inverted == 0 || !t.inOrder) && (t.callsEach == 0 || r.callsEach() <= t.callsEach) &&
		(certain == 0 || r.took-time.Duration(float64(r.ideal.Makespan)/certain) <= r.stalled) &&
		!slices.ContainsFunc(r.costs, func(c cost) bool { return excess(c.back, t.backWithin) || excess(c.served, t.servedWithin) })
}

// notJudged lists the targets that say nothing of a run as short as this one, and are not looked at.
func (r *result) notJudged() (list []string) {
	if r.length >= shortestJudged || r.interrupted || r.targets.anything {
		return nil
	}
	return r.targets.ofLongRuns()
}

// verdict is on what the scenario has to reach, and on what the caller asks for.
func (r *result) verdict(demand report.Demand) report.Verdict {
	short := r.notJudged()
	reasons := append(r.missed(), demand.Missed(r.refused.Total(), r.efficiency())...)
	switch {
	case r.interrupted:
		return report.Verdict{Status: report.Interrupted, Line: "it was cut off and is not judged"}
	case len(reasons) > 0 && r.explained(demand):
		return report.Verdict{Status: report.Stalled, Reasons: reasons, Line: r.stall()}
	case len(reasons) == 0 && r.targets.anything:
		return report.Verdict{Status: report.NotJudged, Line: "this shows what the policy for outages costs, and nothing is judged"}
	case len(reasons) == 0 && len(short) > 0:
		return report.Verdict{Status: report.NotJudged,
			Line: fmt.Sprintf("it takes runs of %v to judge: %s", report.Setting(shortestJudged), strings.Join(short, "; "))}
	}
	return report.Judge("it reached its targets", reasons...)
}

func (r *result) stall() string {
	return fmt.Sprintf("this machine stalled, by %v once; run it again when it has less to do", report.Time(r.stalled))
}
