package share

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/ratelight/ratelight/buckets/shared"
	"github.com/ratelight/ratelight/internal/discordsim"
)

var (
	// quota is the limit of every bucket, unless a scenario has another one.
	quota = discordsim.Fixed(5, time.Second)
	// longWindow lasts longer than other processes wait for a silent one.
	longWindow = discordsim.Fixed(5, 5*time.Second)
	// latency is 10 to 40 ms each way.
	latency = discordsim.Latency{RoundTrip: 50 * time.Millisecond, Jitter: 30 * time.Millisecond}
)

// Scenario describes the work of the processes, and the targets.
type Scenario struct {
	Name  string
	About string // what happens, in one line

	targets targets
	quota   discordsim.Quota // the limit of every bucket
	works   []work           // of each process
	alone   bool             // nothing is shared
	// accidents are the accidents of the scenario; nil: none. With accidents, callers go on until the end.
	accidents []accident
}

// targets are the targets of a scenario, besides two that all have: every request is answered, and there is no 429.
type targets struct {
	certain   float64 // minimum efficiency; 0: no target
	callsEach float64 // maximum calls to the engine per request; 0: no target
	inOrder   bool    // no pairs inverted, from the second window on
	// backWithin bounds the time from the end of an accident until the rate is back. servedWithin bounds how long
	// requests wait after it until each affected bucket has served one; 0: no target.
	backWithin, servedWithin time.Duration
	// anything reports whether the scenario is only shown and not judged.
	anything bool
}

// list describes the targets.
func (t targets) list() []string {
	if t.anything {
		return []string{"none: it shows what the policy for outages costs"}
	}
	list := []string{"every request answered"}
	if t.backWithin > 0 {
		list = append(list, fmt.Sprintf("the rate back %g s after an accident", t.backWithin.Seconds()))
	}
	if t.servedWithin > 0 {
		return append(list, fmt.Sprintf("each bucket served again %g s after an accident", t.servedWithin.Seconds()), "no 429, except:",
			fmt.Sprintf("%d in one bucket when the engine comes back as it was earlier", quota.Limit), "2 when it comes back empty")
	}
	list = append(append(list, "no 429"), t.ofLongRuns()...)
	if t.inOrder {
		list = append(list, "no pairs inverted from the second window on")
	}
	return list
}

// ofLongRuns lists the targets of runs that take shortestJudged or longer.
func (t targets) ofLongRuns() (list []string) {
	if t.certain > 0 {
		list = append(list, fmt.Sprintf("%.2f of the certain ideal", t.certain))
	}
	if t.callsEach > 0 {
		list = append(list, fmt.Sprintf("%.2f engine calls per request at most", t.callsEach))
	}
	return list
}

// shortestJudged is how long a run must be for its efficiency and its calls to be meaningful.
const shortestJudged = 10 * time.Second

// all returns the scenarios for these options, in the order in which they are run.
func (o Options) all() []Scenario {
	if o.Disturb {
		return o.disturbed()
	}
	contested := contested(o.Processes, max(int(o.Length/quota.Period)*quota.Limit, o.Processes*each))
	users := own(o.Processes, 0, o.Length, o.Seed)
	all := []Scenario{{
		Name: "one-bucket", About: "all processes with 10 callers each on one bucket of 5 per second",
		targets: targets{certain: 0.97, inOrder: true}, quota: quota, works: contested,
	}, {
		Name: "own-buckets", About: "each process with 10 buckets of its own, 5 per second in each, two thirds used",
		targets: targets{callsEach: 0.1}, quota: quota, works: users,
	}, {
		Name: "foreign-traffic", About: "as own-buckets, but one request in fifty is another process's",
		targets: targets{callsEach: 0.35}, quota: quota, works: own(o.Processes, 50, o.Length, o.Seed),
	}, {
		Name: "one-bucket-alone", About: "the work of one-bucket by one process that shares nothing",
		quota: quota, works: []work{slices.Concat(contested...)}, alone: true,
	}, {
		Name: "own-buckets-alone", About: "the work of own-buckets by one process that shares nothing",
		quota: quota, works: []work{slices.Concat(users...)}, alone: true,
	}}
	if o.Processes == 1 {
		all = slices.Delete(all, 2, 3)
	}
	return all
}

// disturbed returns the scenarios with accidents.
func (o Options) disturbed() []Scenario {
	// No request waits longer than for the end of a session and the next window. The second is for network and timers.
	within := func(q discordsim.Quota) time.Duration { return sessionTime + q.Period + time.Second }
	fast, slow := targets{backWithin: within(quota), servedWithin: within(quota)}, targets{servedWithin: within(longWindow)}
	if o.Outage != "" && o.Outage != shared.OutageWait.String() {
		fast = targets{anything: true} // the other policies trade waits for errors or 429s
		slow = fast
	}
	return []Scenario{{
		Name: "one-bucket", About: "all processes with 10 callers each on one bucket of 5 per second, and accidents",
		targets: fast, quota: quota, works: contested(o.Processes, 0), accidents: accidents(),
	}, {
		Name: "own-buckets", About: "each process with 10 buckets of its own, 5 per second in each, two thirds used, and accidents",
		targets: fast, quota: quota, works: own(o.Processes, 0, o.Length, o.Seed), accidents: accidents(),
	}, {
		Name: "used-up", About: "each process with 10 buckets of its own, and 5 that all use, 5 per 5 s in each, every window used up, and accidents",
		targets: slow, quota: longWindow, works: usedUp(o.Processes), accidents: accidents(),
	}}
}

// Find returns the scenarios that the options name, in the order in which they are run. The error lists the names.
func (o Options) Find() ([]Scenario, error) {
	all := o.all()
	for _, name := range o.Scenarios {
		if !slices.Contains(names(all), name) {
			return nil, fmt.Errorf("with these flags there is no scenario %q: choose among %s", name, strings.Join(names(all), ", "))
		}
	}
	return slices.DeleteFunc(all, func(s Scenario) bool { return len(o.Scenarios) > 0 && !slices.Contains(o.Scenarios, s.Name) }), nil
}

func names(scenarios []Scenario) (names []string) {
	for _, s := range scenarios {
		names = append(names, s.Name)
	}
	return names
}

// Requests returns how many requests a scenario makes in a time; about how many if its callers go on until the end.
func (s Scenario) Requests(length time.Duration) (n int) {
	all := work(slices.Concat(s.works...))
	for _, caller := range all {
		n += caller.count
	}
	if n == 0 {
		n = len(all.buckets()) * int(length/s.quota.Period) * s.quota.Limit
	}
	return n
}

// work has the callers of one process. Times count from the start.
type work []caller

// caller makes one request after the other, each when the one before it was answered.
type caller struct {
	at     time.Duration
	bucket int
	count  int // 0: until the end; 1: its request waits for no other
}

const (
	// each is the number of callers on the one bucket, and of own buckets, for each process.
	each = 10
	// apart is the time between the first requests of two callers. Simultaneous requests would have no order.
	apart = 10 * time.Millisecond
	// offered is the number of requests per second in an own bucket: two thirds of its limit.
	offered = 3.25
)

// contested returns work on one bucket. The first requests come from the processes in turn. Together the callers make
// that many requests; 0: as many as they can.
func contested(processes, requests int) []work {
	works := make([]work, processes)
	callers := processes * each
	for i := range callers {
		works[i%processes] = append(works[i%processes], caller{at: time.Duration(i) * apart, count: (requests - i + callers - 1) / callers})
	}
	return works
}

// usedUp returns work that uses up every window: two callers in each own bucket of a process, and one of each process
// in each common bucket. The first windows of the buckets begin at different times, spread over one window.
func usedUp(processes int) []work {
	const common = 5
	works := make([]work, processes)
	all := processes*each + common
	for bucket := range all {
		c := caller{at: longWindow.Period * time.Duration(bucket) / time.Duration(all), bucket: bucket}
		for i := range works {
			switch bucket / each {
			case i:
				works[i] = append(works[i], c, c)
			case processes:
				works[i] = append(works[i], c)
			}
		}
	}
	return works
}

// own returns work at random times in buckets that belong to one process each. One request in foreign comes from
// another process; 0: none.
func own(processes, foreign int, length time.Duration, seed uint64) []work {
	works := make([]work, processes)
	chance := rand.New(rand.NewPCG(seed, 3))
	for bucket := range processes * each {
		for at := time.Duration(0); ; {
			at += time.Duration(chance.ExpFloat64() / offered * float64(time.Second))
			if at >= length {
				break
			}
			by := bucket / each
			// Draw in any case, so that the times are the same with foreign traffic and without.
			if x, other := chance.Float64(), chance.Float64(); x*float64(foreign) < 1 && foreign > 0 && processes > 1 {
				by = (by + 1 + int(other*float64(processes-1))) % processes
			}
			works[by] = append(works[by], caller{at: at, bucket: bucket, count: 1})
		}
	}
	return works
}

// buckets returns the set of buckets of the work.
func (w work) buckets() map[int]bool {
	all := make(map[int]bool)
	for _, c := range w {
		all[c.bucket] = true
	}
	return all
}

// planned returns the times, in order, of the requests that wait for no other.
func (w work) planned() (at []time.Duration) {
	for _, c := range w {
		if c.count == 1 {
			at = append(at, c.at)
		}
	}
	slices.Sort(at)
	return at
}

// idealOf plans work with a fixed number of requests for one certain client, which does it for all processes with the
// smallest round trip. It plans all requests of a caller for its start, which can only make the ideal faster. MeanWait
// is 0 then, because it depends on when callers make their next requests.
func idealOf(all work, quota discordsim.Quota) (discordsim.Plan, error) {
	arrivals := make(map[int][]time.Duration) // by bucket
	again := false
	for _, c := range all {
		arrivals[c.bucket] = append(arrivals[c.bucket], slices.Repeat([]time.Duration{c.at}, max(c.count, 1))...)
		again = again || c.count > 1
	}
	var planned []discordsim.Work
	for _, bucket := range slices.Sorted(maps.Keys(arrivals)) {
		slices.Sort(arrivals[bucket])
		planned = append(planned, discordsim.Work{Quota: quota, Offered: arrivals[bucket], Route: "messages"})
	}
	plan, err := discordsim.Certain(discordsim.Conditions{RoundTrip: latency.Smallest(), Global: discordsim.Unlimited()}, planned...)
	if again {
		plan.MeanWait = 0
	}
	return plan, err
}
