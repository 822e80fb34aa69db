package share

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/ratelight/ratelight/bench/internal/load"
	"github.com/ratelight/ratelight/bench/internal/report"
	"github.com/ratelight/ratelight/buckets/shared"
	"github.com/ratelight/ratelight/internal/discordsim"
)

// result holds the measurements of a scenario.
type result struct {
	Scenario
	length   time.Duration
	requests int // without those given up at the planned end
	answered int
	errors   map[string]int // errors of the other requests, with their numbers
	took     time.Duration  // from the common start until the last answer, or until the planned end
	ideal    discordsim.Plan
	queued   load.Queued // how long requests were held back
	meanWait time.Duration
	// 429s as the simulator judged them. It takes all processes for one client.
	refused, avoidable, excused discordsim.ByClass
	pairs, inverted             int
	calls                       shared.Calls // to the engine; zero if nothing is shared, or there are accidents
	seconds                     [][3]int     // of each second: accepted requests, 429s, failed requests
	costs                       []cost
	// stalled is the longest time that the simulated Discord was behind.
	stalled     time.Duration
	log         *report.Log
	interrupted bool
}

// busy is how far behind a simulator must be to spoil the figures: a fifth of a window.
const busy = 200 * time.Millisecond

// efficiency returns the efficiency against the certain ideal, 0 if a request was not answered or no ideal is stated.
func (r *result) efficiency() float64 {
	if r.took == 0 || r.answered < r.requests {
		return 0
	}
	return r.ideal.Makespan.Seconds() / r.took.Seconds()
}

// callsEach returns the calls to the engine per request.
func (r *result) callsEach() float64 { return part(int(r.calls.Calls), r.requests) }

func part(n, of int) float64 { return float64(n) / float64(max(of, 1)) }

// sumUp computes the result from what the run and the simulator have recorded.
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

// missed lists the targets that were missed, and by how much.
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

// explained reports whether a stall of the machine may be why targets were missed. Only the longest stall is known, so
// it excuses no more than its own time. It excuses no missing answers, no calls to the engine, and no inverted pairs,
// whose count allows for stalls already.
func (r *result) explained(demand report.Demand) bool {
	t := r.targets
	certain := max(t.certain, demand.MinEfficiency)
	excess := func(d, wanted time.Duration) bool { return wanted > 0 && (d < 0 || d-wanted > r.stalled) }
	return r.stalled >= busy && r.answered == r.requests && (r.inverted == 0 || !t.inOrder) && (t.callsEach == 0 || r.callsEach() <= t.callsEach) &&
		(certain == 0 || r.took-time.Duration(float64(r.ideal.Makespan)/certain) <= r.stalled) &&
		!slices.ContainsFunc(r.costs, func(c cost) bool { return excess(c.back, t.backWithin) || excess(c.served, t.servedWithin) })
}

// notJudged lists the targets that are not judged, because the run is too short for them.
func (r *result) notJudged() (list []string) {
	if r.length >= shortestJudged || r.interrupted || r.targets.anything {
		return nil
	}
	return r.targets.ofLongRuns()
}

// verdict judges the run by the targets of the scenario and the demands of the caller.
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
