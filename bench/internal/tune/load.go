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

// Load is a list of requests with the times at which they are made.
type Load struct {
	arrivals []arrival // in the order of time
	queues   []queue
	// Length is the time over which the requests are made.
	Length time.Duration
	// Skipped counts the lines of a trace that were skipped. FirstSkipped says what was wrong with the first of them.
	Skipped      int
	FirstSkipped error

	numbers map[queueKey]int // indexes of queues
}

// arrival is one request.
type arrival struct {
	at    time.Duration // since the beginning of the load
	queue int
}

// queue is a route with one value of its major parameter. Other parameters do not affect the limit.
type queue struct {
	route    routes.CompiledRoute
	requests int
}

// queueKey identifies a queue. It may contain the token of a webhook.
type queueKey struct {
	method, template string
	major            routes.Major
}

func newLoad() *Load { return &Load{numbers: make(map[queueKey]int)} }

// Requests returns the number of requests.
func (l *Load) Requests() int { return len(l.arrivals) }

// queue returns the index of a route's queue. It adds the queue if there is none yet.
func (l *Load) queue(route routes.CompiledRoute) int {
	r := route.Route()
	key := queueKey{r.Method(), r.Template(), route.Major()}
	number, ok := l.numbers[key]
	if !ok {
		number = len(l.queues)
		l.numbers[key] = number
		l.queues = append(l.queues, queue{route: route})
	}
	return number
}

// add adds a request.
func (l *Load) add(at time.Duration, queue int) {
	l.arrivals = append(l.arrivals, arrival{at, queue})
	l.queues[queue].requests++
}

// template returns the method and the path template of the queue's route.
func (q *queue) template() string { return q.route.Route().Method() + " " + q.route.Route().Template() }

// name returns the route with its channel, guild or webhook, without tokens and without the ids of interactions.
func (q *queue) name() string {
	r := q.route.Route()
	id, _, _ := strings.Cut(q.route.Major().String(), ":")
	if r.GlobalExempt() || id == "-" || id == "…" {
		return q.template()
	}
	kind, _, _ := strings.Cut(r.MajorKind().String(), " ")
	return q.template() + " of " + kind + " " + id
}

// matches reports whether a rule applies to the queue's requests. Callers use the first rule that applies.
func (q *queue) matches(rule discordsim.Rule) bool {
	return rule.Matches(q.route.Method(), q.route.Path())
}

// byRoute lists the path templates with the most requests first, and counts their requests.
func (l *Load) byRoute() (templates []string, requests map[string]int) {
	requests = make(map[string]int)
	for i := range l.queues {
		requests[l.queues[i].template()] += l.queues[i].requests
	}
	templates = slices.SortedFunc(maps.Keys(requests), func(a, b string) int {
		return cmp.Or(requests[b]-requests[a], cmp.Compare(a, b))
	})
	return templates, requests
}

// CheckRules returns an error if a rule has no effect, because it is mistyped or because earlier rules apply instead.
func (l *Load) CheckRules(rules []discordsim.Rule) error {
	for i := range rules {
		if !slices.ContainsFunc(l.queues, func(q queue) bool { return slices.IndexFunc(rules, q.matches) == i }) {
			templates, _ := l.byRoute()
			return fmt.Errorf("-rule, number %d has no effect on any request: expected a rule for one of these routes, "+
				"before all other rules for it:\n  %s", i+1, strings.Join(templates, "\n  "))
		}
	}
	return nil
}
