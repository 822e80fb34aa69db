package load

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ratelight/ratelight/internal/discordsim"
)

// Scenario is one situation.
type Scenario struct {
	Name string
	// About says in one line what happens.
	About string
	// IdealBy says how the ideal is computed, or why none is stated.
	IdealBy string
	Targets Targets

	offers []offer                                           // in the order of time
	server discordsim.Config                                 // its aligned windows begin with the work
	work   []discordsim.Work                                 // what the ideal clients have to do
	ideal  func(*Scenario, discordsim.Report) (Ideal, error) // nil: none is stated
}

// Targets are what a scenario has to reach, besides that no 429 is avoidable and that every request is answered.
type Targets struct {
	// Certain and Omniscient are the least efficiencies; 0: none is asked for.
	Certain, Omniscient float64
	// P99 is the longest 99th percentile of the time spent queued; 0: any.
	P99 time.Duration
	// InOrder: no request may overtake another one of its bucket.
	InOrder bool
}

// List says what has to be reached.
func (t Targets) List() []string {
	list := []string{"every request answered", "no avoidable 429"}
	if t.Certain > 0 {
		list = append(list, fmt.Sprintf("%.2f of the certain ideal", t.Certain))
	}
	if t.Omniscient > 0 {
		list = append(list, fmt.Sprintf("%.2f of the omniscient ideal", t.Omniscient))
	}
	if t.P99 > 0 {
		list = append(list, fmt.Sprintf("99 %% queued for %v at most", t.P99))
	}
	if t.InOrder {
		list = append(list, "no request overtaken")
	}
	return list
}

// Requests is how many requests the scenario makes.
func (s *Scenario) Requests() int { return len(s.offers) }

// FindScenarios returns the scenario of that name, or all of them for "all". The error lists the names.
func FindScenarios(name string) ([]Scenario, error) {
	all := Scenarios()
	if name == "all" {
		return all, nil
	}
	if i := slices.IndexFunc(all, func(s Scenario) bool { return s.Name == name }); i >= 0 {
		return all[i : i+1], nil
	}
	names := make([]string, len(all))
	for i := range all {
		names[i] = all[i].Name
	}
	return nil, fmt.Errorf("there is no scenario %q: choose one of %s, or all", name, strings.Join(names, ", "))
}
