package processes

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/ratelight/ratelight/internal/discordsim"
)

// Scenario is one situation.
type Scenario struct {
	Name string
	// About says in one line what happens.
	About   string
	Targets Targets

	// work is what each process has to do.
	work func(Settings) []Work
	// alone: one process does the work of all, and shares nothing.
	alone bool
	// accidents happen in it. Callers then go on until the end.
	accidents []accident
	quota     discordsim.Quota // the limit of every bucket; the zero value is that of most scenarios
}

// Targets are what a scenario has to reach, besides that every request is answered and that there is no 429.
type Targets struct {
	Certain   float64 // least efficiency; 0: none is asked for
	CallsEach float64 // most calls of the engine for each request; 0: any number
	InOrder   bool    // no pairs inverted, from the second window on
	// BackWithin is how long after an accident the rate has to be back, and ServedWithin how long requests may wait afterwards until each
	// bucket that it touched serves one again; 0: any time.
	BackWithin, ServedWithin time.Duration
	// Anything will do: what happens is shown and not judged.
	Anything bool
}

// List says what has to be reached.
func (t Targets) List() []string {
	if t.Anything {
		return []string{"none: it shows what the policy for outages costs"}
	}
	list := []string{"every request answered"}
	if t.BackWithin > 0 {
		list = append(list, fmt.Sprintf("the rate back %g s after an accident", t.BackWithin.Seconds()))
	}
	if t.ServedWithin > 0 {
		return append(list, fmt.Sprintf("each bucket served again %g s after an accident", t.ServedWithin.Seconds()), "no 429, except:",
			fmt.Sprintf("%d in one bucket when the engine comes back as it was earlier", quota.Limit), "2 when it comes back empty")
	}
	list = append(list, "no 429")
	list = append(list, t.ofLongRuns()...)
	if t.InOrder {
		list = append(list, "no pairs inverted from the second window on")
	}
	return list
}

// ofLongRuns lists the targets that only runs of ShortestJudged have to reach.
func (t Targets) ofLongRuns() (list []string) {
	if t.Certain > 0 {
		list = append(list, fmt.Sprintf("%.2f of the certain ideal", t.Certain))
	}
	if t.CallsEach > 0 {
		list = append(list, fmt.Sprintf("%.2f engine calls per request at most", t.CallsEach))
	}
	return list
}

// ShortestJudged is how long a run has to be for efficiency and calls to say something.
const ShortestJudged = 10 * time.Second

// Scenarios returns those that make sense for so many processes, in the order in which they are run.
func Scenarios(s Settings) []Scenario {
	if s.Disturb {
		return disturbed(s)
	}
	limited := func(s Settings) []Work {
		return contested(s.Processes, max(int(s.Length/quota.Period)*quota.Limit, s.Processes*each))
	}
	users := func(s Settings) []Work { return own(s.Processes, 0, s.Length, s.Seed) }
	all := []Scenario{{
		Name: "one-bucket", About: "all processes with 10 callers each on one bucket of 5 per second",
		Targets: Targets{Certain: 0.97, InOrder: true}, work: limited,
	}, {
		Name: "own-buckets", About: "each process with 10 buckets of its own, 5 per second in each, two thirds used",
		Targets: Targets{CallsEach: 0.1}, work: users,
	}}
	if s.Processes > 1 {
		all = append(all, Scenario{
			Name: "foreign-traffic", About: "as own-buckets, but one request in fifty is another process's",
			Targets: Targets{CallsEach: 0.35},
			work:    func(s Settings) []Work { return own(s.Processes, 50, s.Length, s.Seed) },
		})
	}
	return append(all, Scenario{
		Name: "one-bucket-alone", About: "the work of one-bucket by one process that shares nothing",
		work: limited, alone: true,
	}, Scenario{
		Name: "own-buckets-alone", About: "the work of own-buckets by one process that shares nothing",
		work: users, alone: true,
	})
}

// Find returns the scenario of that name, or all of them for "" and "all". The error lists the names.
func Find(name string, s Settings) ([]Scenario, error) {
	all := Scenarios(s)
	if name == "" || name == "all" {
		return all, nil
	}
	if i := slices.IndexFunc(all, func(s Scenario) bool { return s.Name == name }); i >= 0 {
		return all[i : i+1], nil
	}
	names := make([]string, len(all))
	for i := range all {
		names[i] = all[i].Name
	}
	return nil, fmt.Errorf("with these flags there is no scenario %q: choose one of %s, or all", name, strings.Join(names, ", "))
}

// Estimated reports that Requests is an estimate: the run ends at a time, and what has no answer then does not count.
func (s *Scenario) Estimated() bool { return len(s.accidents) > 0 }

// Requests is how many requests a scenario makes, or about how many if it goes on until a time.
func (s *Scenario) Requests(settings Settings) (n int) {
	for _, work := range s.work(settings) {
		n += work.requests()
	}
	if n == 0 {
		used := make(map[int]bool)
		for _, work := range s.work(settings) {
			maps.Copy(used, work.buckets())
		}
		limit := s.limit()
		n = len(used) * int(settings.Length/limit.Period) * limit.Limit
	}
	return n
}

// limit is that of every bucket.
func (s *Scenario) limit() discordsim.Quota {
	if s.quota.Limit == 0 {
		return quota
	}
	return s.quota
}
