package fleet_test

import (
	"flag"
	"fmt"
	"hash/fnv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets/shared"
	"github.com/ratelight/ratelight/internal/discordsim"
	"github.com/ratelight/ratelight/internal/fleet"
)

var (
	playSeed     = flag.Uint64("fleet.seed", 1, "seed of the first play of each world")
	playCount    = flag.Uint64("fleet.plays", 0, "number of plays of each world; 0: one or two short ones")
	playRequests = flag.Int("fleet.requests", 0,
		"number of requests that all worlds together send at least, divided equally; 0: -fleet.plays decides")
)

// world is a kind of play (simulated run).
type world struct {
	name     string
	scenery  func(s *scene, pick func(values ...int) int) // changes the parameters of a play
	trouble  func(s *stage)
	discord  func(c *discordsim.Config, s *scene) // changes how Discord behaves
	request  func(r *fleet.Request, n int)        // changes the n-th request
	apart    bool                                 // processes share nothing
	declares bool                                 // limits are declared
	costs    string                               // why avoidable 429s are allowed, and only counted; "": they are errors
}

// In each world without costs, a bucket may have at most one avoidable 429 for each earlier loss of state, and one for
// each of its first requests that Close has cut off.
var worlds = []world{
	{name: "nothing happens"},
	{name: "calls are lost or late",
		scenery: func(s *scene, pick func(...int) int) { s.lossy = pick(1, 5) }},
	{name: "engine is away", trouble: (*stage).outages, scenery: strict},
	{name: "engine is away, policy share", trouble: (*stage).outages, costs: "policy share",
		scenery: func(s *scene, _ func(...int) int) { s.policy = shared.OutageShare }},
	{name: "engine is away, policy full", trouble: (*stage).outages, costs: "policy full",
		scenery: func(s *scene, _ func(...int) int) { s.policy = shared.OutageFull }},
	{name: "processes are cut off", trouble: (*stage).cuts, scenery: strict},
	{name: "engine is flushed", trouble: (*stage).flushes},
	{name: "engine goes back", trouble: (*stage).rollbacks, scenery: strict},
	{name: "engine goes back to processes that have died", trouble: (*stage).oldRollback,
		scenery: func(s *scene, pick func(...int) int) {
			strict(s, pick)
			s.length = max(s.length, 20*time.Second)
		}},
	{name: "engine evicts keys", trouble: (*stage).evictions},
	{name: "clock of the engine steps back",
		trouble: func(s *stage) { s.steps(-1) }},
	{name: "clock of the engine steps forward",
		trouble: func(s *stage) { s.steps(1) }},
	{name: "clock of the machine of all steps back", trouble: (*stage).machineSteps},
	{name: "processes are suspended", trouble: func(s *stage) { s.suspensions(true) }},
	{name: "processes are stopped", trouble: func(s *stage) { s.suspensions(false) }},
	{name: "wall clocks step", trouble: (*stage).wallClocks},
	{name: "processes die", trouble: (*stage).deaths},
	{name: "processes die after a used-up window", trouble: (*stage).deathsAfterBursts},
	{name: "rolling restart", trouble: (*stage).rolling},
	{name: "windows slide", scenery: func(s *scene, _ func(...int) int) {
		s.quota = discordsim.Sliding(s.quota.Limit, s.quota.Period)
	}},
	{name: "windows leak", scenery: func(s *scene, _ func(...int) int) {
		s.quota = discordsim.Leaky(s.quota.Limit, s.quota.Period)
	}},
	{name: "callers give up", scenery: func(s *scene, pick func(...int) int) { s.leaving = pick(10, 50) }},
	{name: "requests go in order", scenery: func(s *scene, _ func(...int) int) { s.ordered = true }},
	{name: "responses are lost or late", scenery: func(s *scene, pick func(...int) int) { s.faulty = pick(10, 50) }},
	{name: "channels have a limit of all clients", discord: limitOfAll},
	{name: "another client sends as well", discord: anotherClient},
	{name: "Discord blocks the credential", discord: globalBlock,
		scenery: func(s *scene, _ func(...int) int) { s.global = 50 }},
	{name: "the edge refuses", discord: edgeBan, costs: "processes do not share the edge"},
	{name: "two routes have one bucket", discord: twoRoutes, request: alternately,
		costs: "the bucket of a route's first request is not known"},
	{name: "the hash changes", discord: changingHash, costs: "processes cannot know when a hash changes"},
	{name: "the limit changes", discord: changingLimit, costs: "permits from before a limit changes stay valid"},
	{name: "fields have limits", discord: limitOfFields, request: changesOfName,
		costs: "processes do not share limits on fields"},
	{name: "everything",
		scenery: func(s *scene, pick func(...int) int) {
			strict(s, pick)
			s.lossy = pick(0, 2)
		}, trouble: func(s *stage) {
			all := []func(*stage){
				(*stage).outages, (*stage).cuts, (*stage).flushes, (*stage).rollbacks, (*stage).evictions, (*stage).deaths,
				(*stage).deathsAfterBursts, (*stage).rolling, (*stage).wallClocks, func(s *stage) { s.suspensions(true) },
			}
			for _, trouble := range all {
				if s.trouble.IntN(3) == 0 {
					trouble(s)
				}
			}
		}},
}

// number returns a number that differs between worlds, so that each world draws different plays.
func (w *world) number() uint64 {
	h := fnv.New64()
	h.Write([]byte(w.name))
	return h.Sum64()
}

// strict sets a policy for outages of the engine under which processes send nothing.
func strict(s *scene, pick func(...int) int) {
	s.policy = []shared.Outage{shared.OutageWait, shared.OutageFail}[pick(0, 0, 1)]
}

// tally counts the events and the 429s of plays.
type tally struct {
	plays, requests, calls, refused, avoidable int
	excess, failed                             int // avoidable 429s beyond the allowed ones, and plays with such 429s
	lost, late, dead, closed, suspended        int
}

func (t *tally) add(o tally) {
	t.plays, t.requests, t.calls = t.plays+o.plays, t.requests+o.requests, t.calls+o.calls
	t.refused, t.avoidable = t.refused+o.refused, t.avoidable+o.avoidable
	t.excess, t.failed = t.excess+o.excess, t.failed+o.failed
	t.lost, t.late = t.lost+o.lost, t.late+o.late
	t.dead, t.closed, t.suspended = t.dead+o.dead, t.closed+o.closed, t.suspended+o.suspended
}

// TestWorlds runs as many plays of each world as -fleet.plays says; the default is one or two. At the end it sums up
// the 429s. A million requests take about half an hour of processor time:
//
//	go test ./internal/fleet -run TestWorlds -fleet.requests=1000000 -timeout 3h -v
func TestWorlds(t *testing.T) {
	plays, longest := uint64(2), 20*time.Second
	share := *playRequests / len(worlds)
	switch {
	case share > 0:
		longest = time.Hour
	case *playCount > 0:
		plays, longest = *playCount, time.Hour
	case testing.Short():
		plays = 1
	}
	var mu sync.Mutex
	results := map[string]*tally{}
	count := func(line string, counts tally) {
		mu.Lock()
		defer mu.Unlock()
		if results[line] == nil {
			results[line] = &tally{}
		}
		results[line].add(counts)
	}
	t.Cleanup(func() { t.Log(table(results)) })
	for i := range worlds {
		w := &worlds[i]
		t.Run(w.name, func(t *testing.T) {
			t.Parallel()
			told, sent := 0, 0
			more := func(played uint64) bool { return share == 0 && played < plays || sent < share }
			for seed, played := *playSeed, uint64(0); more(played); seed++ {
				if w.scene(seed).length > longest {
					continue
				}
				played++
				var counts tally
				var err error
				synctest.Test(t, func(*testing.T) { counts, err = w.play(seed) })
				counts.plays = 1
				sent += counts.requests
				if err != nil {
					counts.failed = 1
				}
				count(w.name, counts)
				count(strangers(w.scene(seed).strangers), counts)
				count("all", counts)
				count(w.excuse(), tally{requests: counts.requests, avoidable: counts.avoidable - counts.excess, lost: counts.lost})
				if err == nil {
					continue
				}
				if told++; told <= 2 {
					t.Errorf("%v\nAgain: go test ./internal/fleet -run 'TestWorlds/%s$' -fleet.seed=%d -fleet.plays=1",
						err, strings.ReplaceAll(w.name, " ", "_"), seed)
				}
			}
			if told > 2 {
				t.Errorf("and %d more plays with a fault", told-2)
			}
		})
	}
}

// excuse says why a world may have avoidable 429s.
func (w *world) excuse() string {
	if w.costs != "" {
		return w.costs
	}
	return "one for each bucket and lost state, or first request that was cut off"
}

// summary returns the results of all worlds in a few lines.
func summary(results map[string]*tally) string {
	all := results["all"]
	if all == nil {
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, "\n%d requests, %d calls, %d 429s, %d of them avoidable:\n",
		all.requests, all.calls, all.refused, all.avoidable)
	fmt.Fprintf(&b, "%6d too many, in %d of %d plays\n", all.excess, all.failed, all.plays)
	told := map[string]bool{}
	for i := range worlds {
		excuse := worlds[i].excuse()
		if of := results[excuse]; of != nil && !told[excuse] {
			told[excuse] = true
			fmt.Fprintf(&b, "%6d allowed: %s, in %d requests with %d losses\n", of.avoidable, excuse, of.requests, of.lost)
		}
	}
	fmt.Fprintf(&b, "%d losses of state, %d calls lost or late, %d deaths, %d processes closed, %d suspended\n",
		all.lost, all.late, all.dead, all.closed, all.suspended)
	return b.String()
}

// table returns a table with the counts of all worlds, followed by the summary.
func table(results map[string]*tally) string {
	var b strings.Builder
	line := func(name string) {
		t := results[name]
		if t == nil {
			return
		}
		fmt.Fprintf(&b, "%-38s %6d %9d %9d %6d %9d %7d %6d %6d %6d %6d %6d %9d\n",
			name, t.plays, t.requests, t.calls, t.refused, t.avoidable, t.excess, t.failed,
			t.lost, t.late, t.dead, t.closed, t.suspended)
	}
	fmt.Fprintf(&b, "\n%-38s %6s %9s %9s %6s %9s %7s %6s %6s %6s %6s %6s %9s\n",
		"world", "plays", "requests", "calls", "429s", "avoidable", "excess", "failed",
		"losses", "late", "dead", "closed", "suspended")
	for _, w := range worlds {
		line(w.name)
	}
	for percent := range 101 {
		line(strangers(percent))
	}
	line("all")
	return b.String() + summary(results)
}

// strangers returns the name of the line for plays with that percentage of strangers.
func strangers(percent int) string { return fmt.Sprintf("of these, with %d %% strangers", percent) }

// A play must fail if the processes share nothing.
func TestWorldsFailIfNothingIsShared(t *testing.T) {
	t.Parallel()
	w := world{name: "nothing is shared", apart: true, scenery: func(s *scene, _ func(...int) int) {
		s.strangers, s.channels, s.length = 20, 4, 5*time.Second
		s.quota = discordsim.Fixed(2, time.Second)
	}}
	var counts tally
	var err error
	synctest.Test(t, func(*testing.T) { counts, err = w.play(1) })
	require.ErrorContains(t, err, "avoidable 429s in all")
	require.ErrorContains(t, err, "status 429, user, avoidable")
	require.Positive(t, counts.avoidable)
}
