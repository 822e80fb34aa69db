package tune

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/ratelight/ratelight/internal/discordsim"
	"github.com/ratelight/ratelight/routes"
)

// Load is requests with the times at which they are made.
type Load struct {
	arrivals []arrival // in the order of time
	queues   []queue
	// Length is the time in which the requests are made.
	Length time.Duration
	// Bursts is how many of them a load that is made up has.
	Bursts int
	// Skipped is how many lines of a trace were skipped, FirstSkipped what was wrong with the first of them.
	Skipped      int
	FirstSkipped error

	numbers map[queueKey]int // of queues
}

// arrival is one request.
type arrival struct {
	at    time.Duration // since the beginning of the load
	queue int
}

// queue is what has a limit of its own: a route for one major parameter. What else stands in a path makes no difference to a limit.
type queue struct {
	route    routes.CompiledRoute
	name     string
	requests int
}

// matches reports that a rule is for its requests. The first such rule counts.
func (q *queue) matches(rule discordsim.Rule) bool {
	return rule.Matches(q.route.Method(), q.route.Path())
}

// queueKey tells queues apart. It contains the tokens of webhooks.
type queueKey struct{ method, template, id, token string }

func newLoad() *Load { return &Load{numbers: make(map[queueKey]int)} }

// Requests is how many there are.
func (l *Load) Requests() int { return len(l.arrivals) }

// Queues is how many routes there are, counting each channel, guild and webhook for itself.
func (l *Load) Queues() int { return len(l.queues) }

// Routes is how many routes there are, whatever they are about.
func (l *Load) Routes() int { return len(l.byRoute()) }

// byRoute is how many requests there are for each route.
func (l *Load) byRoute() map[string]int {
	requests := make(map[string]int)
	for _, q := range l.queues {
		requests[q.route.Route().Method()+" "+q.route.Route().Template()] += q.requests
	}
	return requests
}

// queue returns the number of what a request waits in.
func (l *Load) queue(route routes.CompiledRoute) int {
	r := route.Route()
	key := queueKey{r.Method(), r.Template(), route.MajorID(), route.MajorToken()}
	number, ok := l.numbers[key]
	if !ok {
		number = len(l.queues)
		l.numbers[key] = number
		l.queues = append(l.queues, queue{route: route, name: nameOf(route)})
	}
	return number
}

// add adds a request.
func (l *Load) add(at time.Duration, queue int) {
	l.arrivals = append(l.arrivals, arrival{at, queue})
	l.queues[queue].requests++
}

// sort puts the requests in the order of time. Those of one moment keep theirs.
func (l *Load) sort() {
	slices.SortStableFunc(l.arrivals, func(a, b arrival) int { return cmp.Compare(a.at, b.at) })
}

// nameOf is the route and what it is about, without any token. Every interaction has another one.
func nameOf(route routes.CompiledRoute) string {
	r := route.Route()
	name := r.Method() + " " + r.Template()
	id, _, _ := strings.Cut(route.RedactedMajor(), ":")
	if r.GlobalExempt() || id == "-" || id == "…" {
		return name
	}
	kind, _, _ := strings.Cut(r.Major().String(), " ")
	return name + " of " + kind + " " + id
}

// CheckRules reports a rule that has no effect: it is for no request, or an earlier one is for all of them, too.
func (l *Load) CheckRules(rules []discordsim.Rule) error {
	for i, rule := range rules {
		queues := slices.DeleteFunc(slices.Clone(l.queues), func(q queue) bool { return !q.matches(rule) })
		if len(queues) == 0 {
			names := strings.Join(l.routeNames(), "\n")
			return fmt.Errorf("-rule, number %d: no request of the load is for that route: expected one of these:\n%s", i+1, names)
		}
		if !slices.ContainsFunc(queues, func(q queue) bool { return slices.IndexFunc(rules, q.matches) == i }) {
			return fmt.Errorf("-rule, number %d has no effect: number %d is for the same requests; omit one of them",
				i+1, slices.IndexFunc(rules, queues[0].matches)+1)
		}
	}
	return nil
}

// mostNames bounds how many routes are listed.
const mostNames = 20

// routeNames lists the routes with most requests, and how many these are.
func (l *Load) routeNames() (names []string) {
	requests := l.byRoute()
	all := slices.SortedFunc(maps.Keys(requests), func(a, b string) int { return cmp.Or(requests[b]-requests[a], cmp.Compare(a, b)) })
	for _, name := range all[:min(len(all), mostNames)] {
		names = append(names, fmt.Sprintf("  %s (%d)", name, requests[name]))
	}
	if more := len(all) - mostNames; more > 0 {
		names = append(names, fmt.Sprintf("  and %d more", more))
	}
	return names
}
