package buckets_test

import (
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/ratelimits"
)

// A test calls structural if it shows a known bug that has not been fixed. The test fails, so it is skipped unless the
// environment variable RATELIGHT_STRUCTURAL is 1. Remove the call when the bug is fixed.
//
//	RATELIGHT_STRUCTURAL=1 go test ./buckets -run Structural
//
//	RATELIGHT_STRUCTURAL=1 go test ./buckets -run '^$' -bench Structural -benchtime 1x
func structural(tb testing.TB) {
	tb.Helper()
	if os.Getenv("RATELIGHT_STRUCTURAL") != "1" {
		tb.Skip("a known bug that is not fixed yet; RATELIGHT_STRUCTURAL=1 runs the test, which then fails")
	}
}

// allowance is one limit of a crossing: at most limit requests in a period.
type allowance struct {
	limit  int
	period time.Duration
}

// demand is an endless series of requests of one kind, all to one channel. Each tenant always has several waiting
// requests.
type demand struct {
	needs   string // names of the limits, one letter each
	tenants int    // groups; 0 for one tenant without a group
}

// crossing is a set of limits; some requests need several of them. A lower-case name is a declared limit, "G" is the
// global limit, and any other capital letter is a bucket that only one demand needs.
type crossing struct {
	limits  map[string]allowance
	demands []demand
	shared  int           // number of processes that share the limits and have the same demands; 0 for one alone
	trip    time.Duration // round-trip time
	span    time.Duration
}

// flow records the requests that one tenant of a demand has sent.
type flow struct {
	needs string
	sent  int
	wait  time.Duration // the longest time between two requests, or before the first or after the last
	last  time.Duration
}

func (f *flow) send(now time.Duration) {
	f.sent++
	f.wait, f.last = max(f.wait, now-f.last), now
}

// flows returns an empty flow for each tenant of each demand in each process.
func (c *crossing) flows() (all []*flow) {
	for range max(c.shared, 1) {
		for _, d := range c.demands {
			for range max(d.tenants, 1) {
				all = append(all, &flow{needs: d.needs})
			}
		}
	}
	return all
}

// use returns the share of a limit that the flows have used; 1 is all that the limit allows.
func (c *crossing) use(name string, flows []*flow) float64 {
	a, sent := c.limits[name], 0
	for _, f := range flows {
		if strings.Contains(f.needs, name) {
			sent += f.sent
		}
	}
	return float64(sent) / (float64(a.limit) * float64(c.span) / float64(a.period+c.trip))
}

// longest returns the longest wait of a tenant's first request.
func longest(flows []*flow) (wait time.Duration) {
	for _, f := range flows {
		wait = max(wait, f.wait)
	}
	return wait
}

// ideal simulates the same demands without a manager, by backfilling. Of the tenants that need several limits, the one
// that has waited longest has a reservation for the instant at which all of its limits will be open. Requests of other
// tenants are sent earlier if they do not delay that instant.
func (c *crossing) ideal() []*flow {
	flows := c.flows()
	back := map[string][]time.Duration{} // when each charge of a limit ends
	charged := func(name string, at time.Duration) (n int) {
		for _, until := range back[name] {
			if until > at {
				n++
			}
		}
		return n
	}
	opens := func(name string, now time.Duration) time.Duration { // when the limit has room
		at := now
		for _, until := range back[name] { // sorted
			if charged(name, at) < c.limits[name].limit {
				break
			}
			at = max(at, until)
		}
		return at
	}
	next := func(f *flow, now time.Duration) (at time.Duration) {
		for _, name := range strings.Split(f.needs, "") {
			at = max(at, opens(name, now))
		}
		return at
	}
	for now := time.Duration(0); now < c.span; {
		var reserved *flow
		var at time.Duration
		var leaving *flow
		slices.SortStableFunc(flows, func(a, b *flow) int { return int(a.last - b.last) })
		for _, f := range flows {
			open := next(f, now)
			if open > now {
				if reserved == nil && len(f.needs) > 1 {
					reserved, at = f, open
				}
				continue
			}
			delays := func(name string) bool {
				return strings.Contains(reserved.needs, name) && now+c.limits[name].period+c.trip > at &&
					charged(name, at) >= c.limits[name].limit-1
			}
			if reserved == nil || !slices.ContainsFunc(strings.Split(f.needs, ""), delays) {
				leaving = f
				break
			}
		}
		if leaving != nil {
			leaving.send(now)
			for _, name := range strings.Split(leaving.needs, "") {
				back[name] = append(back[name], now+c.limits[name].period+c.trip)
			}
			continue
		}
		soonest := c.span
		for name := range back {
			back[name] = slices.DeleteFunc(back[name], func(until time.Duration) bool { return until <= now })
			if len(back[name]) > 0 {
				soonest = min(soonest, back[name][0])
			}
		}
		now = soonest
	}
	for _, f := range flows {
		f.wait = max(f.wait, c.span-f.last)
	}
	return flows
}

// run lets a manager send the demands. The seed determines the order in which limits are declared, the order of the
// first requests, and how much longer each round trip takes (up to 2 ms).
func (c *crossing) run(t *testing.T, seed uint64) (flows []*flow) {
	t.Helper()
	random := rand.New(rand.NewPCG(seed, 0))
	options := []buckets.Option{
		buckets.WithMaxRateLimit(24 * time.Hour), buckets.WithGlobalLimit(c.limits["G"].limit),
		buckets.WithEviction(20*time.Second, 10*time.Second),
	}
	names := slices.Sorted(maps.Keys(c.limits))
	random.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	for _, name := range names {
		if a := c.limits[name]; strings.ToLower(name) == name {
			options = append(options, buckets.WithLimit(buckets.ForAll(), a.limit, a.period, buckets.Named(name),
				buckets.PerKey(func(r *buckets.Request) string { return c.applies(name, r) })))
		}
	}
	if c.shared > 0 {
		options = append(options, buckets.WithShared(newStore(t)))
	}
	var managers []*buckets.RESTBucketManager
	for range max(c.shared, 1) {
		m := started(t, options...)
		managers = append(managers, m)
		for i, d := range c.demands {
			discover(t, m, message(i+1), c.answer(d))
			wait(c.longestPeriod() + time.Second) // until no charge is left
		}
	}
	start, lock, over := time.Now(), sync.Mutex{}, false
	flows = c.flows()
	var arrive func(m *buckets.RESTBucketManager, f *flow, d demand, channel int, tenant string)
	arrive = func(m *buckets.RESTBucketManager, f *flow, d demand, channel int, tenant string) {
		request := &buckets.Request{Route: message(channel), Authorization: bot, Group: tenant}
		buckets.AcquireFunc(background, m, request, func(lease buckets.Lease, err error) {
			if err != nil {
				return
			}
			lock.Lock()
			defer lock.Unlock()
			if over {
				lease.Return()
				return
			}
			f.send(time.Since(start))
			time.AfterFunc(c.trip+time.Duration(random.IntN(2000))*time.Microsecond,
				func() { lease.Update(c.answer(d)) })
			time.AfterFunc(0, func() { arrive(m, f, d, channel, tenant) })
		})
	}
	number := 0
	var first []func()
	for _, m := range managers {
		for i, d := range c.demands {
			for tenant := range max(d.tenants, 1) {
				f, name := flows[number], c.tenant(d, i, tenant)
				number++
				first = append(first, func() { arrive(m, f, d, i+1, name) })
			}
		}
	}
	for range 5 {
		lock.Lock()
		random.Shuffle(len(first), func(i, j int) { first[i], first[j] = first[j], first[i] })
		lock.Unlock()
		for _, f := range first {
			f()
			time.Sleep(time.Microsecond)
		}
	}
	wait(c.span - time.Since(start))
	lock.Lock()
	over = true
	lock.Unlock()
	for _, m := range managers {
		require.NoError(t, m.Close())
	}
	wait(c.trip + time.Second)
	for _, f := range flows {
		f.wait = max(f.wait, c.span-f.last)
	}
	return flows
}

// tenant returns the name of a tenant, or "" if the demand has no tenants.
func (c *crossing) tenant(d demand, number, tenant int) string {
	if d.tenants == 0 {
		return ""
	}
	return "tenant " + strconv.Itoa(tenant) + " of " + strconv.Itoa(number)
}

// applies returns the key of a declared limit for a request, or "" if the request does not need the limit.
func (c *crossing) applies(name string, r *buckets.Request) string {
	for i, d := range c.demands {
		if r.Route.Major() == message(i+1).Major() && strings.Contains(d.needs, name) {
			return name
		}
	}
	return ""
}

// answer returns the server's response to a request of a demand. If the request's bucket is one of the limits, the
// bucket is used up; otherwise, it has room.
func (c *crossing) answer(d demand) ratelimits.Response {
	for name, a := range c.limits {
		if name != "G" && strings.ToUpper(name) == name && strings.Contains(d.needs, name) {
			return limited("messages", a.limit, 0, a.period)
		}
	}
	return limited("messages", 1_000_000, 999_999, time.Second)
}

func (c *crossing) longestPeriod() (d time.Duration) {
	for _, a := range c.limits {
		d = max(d, a.period)
	}
	return d
}

const (
	leastUse = 0.93 // share of a limit that has to be used
	// If the ideal order itself uses less than leastUse, the use may be lower than the ideal by useMargin.
	useMargin = 0.02
)

// wanted returns the share of a limit that has to be used. It is called only for limits that are the only need of some
// requests, so there is always something to send.
func (c *crossing) wanted(name string, ideal []*flow) float64 {
	return min(leastUse, c.use(name, ideal)-useMargin)
}

// patience returns how long a tenant's first request may wait: one period longer than in the ideal order. Each round
// trip may take 2 ms longer than in the ideal order.
func (c *crossing) patience(ideal []*flow) time.Duration {
	late := time.Duration(len(ideal)) * 2 * time.Millisecond
	return longest(ideal) + c.longestPeriod() + 2*c.trip + 100*time.Millisecond + late
}

var crossings = map[string]struct {
	full []string // limits for which enough requests always wait
	crossing
}{
	"unequal periods": {[]string{"a", "b"}, crossing{
		limits:  map[string]allowance{"a": {1, 5 * time.Second}, "b": {3, 7 * time.Second}},
		demands: []demand{{"a", 0}, {"b", 0}, {"ab", 0}},
	}},
	"equal periods": {[]string{"a", "b"}, crossing{
		limits:  map[string]allowance{"a": {2, 3 * time.Second}, "b": {1, 3 * time.Second}},
		demands: []demand{{"ab", 1}, {"a", 1}, {"b", 1}},
	}},
	"three limits": {[]string{"a", "c"}, crossing{
		limits:  map[string]allowance{"a": {2, 3 * time.Second}, "b": {3, 4 * time.Second}, "c": {5, 7 * time.Second}},
		demands: []demand{{"ab", 0}, {"bc", 0}, {"ac", 0}, {"a", 0}, {"c", 0}},
	}},
	"many tenants": {[]string{"a", "b"}, crossing{
		limits:  map[string]allowance{"a": {2, 2 * time.Second}, "b": {3, 2 * time.Second}},
		demands: []demand{{"ab", 20}, {"a", 20}, {"b", 20}},
	}},
	"many tenants, unequal periods": {[]string{"a", "b"}, crossing{
		limits:  map[string]allowance{"a": {1, 1 * time.Second}, "b": {3, 2 * time.Second}},
		demands: []demand{{"ab", 20}, {"a", 20}, {"b", 20}},
	}},
	"ten tenants before a bucket": {[]string{"d"}, crossing{
		limits:  map[string]allowance{"d": {5, time.Second}, "X": {1, 2 * time.Second}},
		demands: []demand{{"Xd", 10}, {"d", 1}},
	}},
	"a hundred tenants before a bucket": {[]string{"d"}, crossing{
		limits:  map[string]allowance{"d": {5, time.Second}, "X": {1, 2 * time.Second}},
		demands: []demand{{"Xd", 100}, {"d", 1}},
	}},
	"busy global limit": {[]string{"G", "d"}, crossing{
		limits: map[string]allowance{"G": {18, time.Second}, "d": {1, time.Second}},
		demands: []demand{{"G", 0}, {"G", 0}, {"G", 0}, {"G", 0}, {"G", 0}, {"G", 0}, {"G", 0}, {"G", 0}, {"G", 0}, {"G", 0},
			{"Gd", 0}},
	}},
	"busy global limit, tenants": {[]string{"G", "d"}, crossing{
		limits:  map[string]allowance{"G": {10, time.Second}, "d": {3, 2 * time.Second}},
		demands: []demand{{"G", 5}, {"Gd", 1}},
	}},
	"long round trips": {[]string{"G", "d"}, crossing{
		limits:  map[string]allowance{"G": {22, time.Second}, "d": {4, 4 * time.Second}},
		demands: []demand{{"G", 0}, {"G", 0}, {"G", 0}, {"Gd", 0}, {"Gd", 0}},
		trip:    300 * time.Millisecond,
	}},
	"long round trips, crossing": {[]string{"a", "b"}, crossing{
		limits:  map[string]allowance{"a": {1, 2 * time.Second}, "b": {3, 5 * time.Second}},
		demands: []demand{{"ab", 1}, {"a", 2}, {"b", 2}},
		trip:    300 * time.Millisecond,
	}},
	"processes": {[]string{"a", "b"}, crossing{
		limits:  map[string]allowance{"a": {2, 2 * time.Second}, "b": {3, 5 * time.Second}},
		demands: []demand{{"ab", 1}, {"a", 1}, {"b", 1}}, shared: 3,
	}},
	"processes, equal periods": {[]string{"a", "b"}, crossing{
		limits:  map[string]allowance{"a": {2, 3 * time.Second}, "b": {3, 3 * time.Second}},
		demands: []demand{{"ab", 1}, {"a", 1}, {"b", 1}}, shared: 3,
	}},
}

// unmended lists the crossings that show a known bug.
var unmended = map[string]bool{
	"many tenants":             true, // a tenant waits 44.5 s (allowed: 40.4 s and a period of 2 s)
	"processes":                true, // a tenant waits 29 s (allowed: 10 s and a period of 5 s)
	"processes, equal periods": true, // a tenant waits 33 s; 0.92 of limit a is used and 0.90 of limit b
}

// The numbers that the ideal order must reproduce come from an independent simulation.
func TestIdealOrderOfLimitsThatCross(t *testing.T) {
	t.Parallel()
	c := crossing{
		limits:  map[string]allowance{"a": {1, 5 * time.Second}, "b": {3, 7 * time.Second}},
		demands: []demand{{"a", 0}, {"b", 0}, {"ab", 0}}, span: 700 * time.Second,
	}
	sent := map[string]int{}
	for _, f := range c.ideal() {
		sent[f.needs] = f.sent
	}
	assert.Equal(t, map[string]int{"a": 71, "b": 211, "ab": 69}, sent)
	assert.Equal(t, 10*time.Second, longest(c.ideal()))
}

// Some requests need several limits. These requests must not starve, and must not keep other requests from using the
// limits.
func TestStructuralLimitsThatCross(t *testing.T) {
	t.Parallel()
	for name, world := range crossings {
		t.Run(name, func(t *testing.T) {
			if unmended[name] {
				structural(t)
			}
			t.Parallel()
			c := world.crossing
			c.span = 400 * time.Second
			if c.trip == 0 {
				c.trip = 20 * time.Millisecond
			}
			for seed := range uint64(3) {
				bubble(t, func(t *testing.T) { c.judge(t, seed, world.full) })
			}
		})
	}
}

// judge checks that the limits are used and that no tenant waits too long.
func (c *crossing) judge(t *testing.T, seed uint64, full []string) {
	t.Helper()
	ideal, flows := c.ideal(), c.run(t, seed)
	assert.LessOrEqual(t, longest(flows), c.patience(ideal), "ideal: %v", longest(ideal))
	for _, limit := range full {
		assert.GreaterOrEqual(t, c.use(limit, flows), c.wanted(limit, ideal), "use of %s", limit)
	}
}

// No request needs more than one limit. The limits must be used and no tenant may wait too long, as in the tests of
// limits that cross.
func TestLimitsThatDoNotCross(t *testing.T) {
	t.Parallel()
	c := crossing{
		limits: map[string]allowance{"a": {1, 5 * time.Second}, "b": {3, 2 * time.Second}, "c": {4, 3 * time.Second}},
		trip:   100 * time.Millisecond, span: 400 * time.Second,
	}
	for tenants := range 8 {
		c.demands = []demand{{"a", tenants}, {"b", tenants}, {"b", tenants}, {"c", tenants}}
		bubble(t, func(t *testing.T) { c.judge(t, 1, []string{"a", "b", "c"}) })
	}
}

// Random limits and demands: two or three limits with one period or with different ones, with or without tenants,
// sometimes with a busy global limit.
//
// At present, 6 of 60 worlds with unequal periods fail, but in none of them does a tenant send nothing for half of the
// time.
func TestStructuralRandomLimitsThatCross(t *testing.T) {
	t.Parallel()
	for name, equal := range map[string]bool{"equal periods": true, "unequal periods": false} {
		t.Run(name, func(t *testing.T) {
			if !equal {
				structural(t)
			}
			t.Parallel()
			const worlds = 60
			bad, still := 0, 0
			for seed := range uint64(worlds) {
				c := randomCrossing(rand.New(rand.NewPCG(seed, 1)), equal)
				ideal := c.ideal()
				bubble(t, func(t *testing.T) {
					flows := c.run(t, seed)
					wait, wanted := longest(flows), c.patience(ideal)
					wrong := wait > wanted
					for _, d := range c.demands {
						wrong = wrong || len(d.needs) == 1 && c.use(d.needs, flows) < c.wanted(d.needs, ideal)
					}
					if wrong {
						bad++
					}
					if wait > c.span/2 {
						still++
					}
				})
			}
			assert.Zero(t, bad, "worlds in which a limit is not used up, or a tenant waits too long")
			assert.Zero(t, still, "worlds in which a tenant sends nothing for half of the time")
		})
	}
}

func randomCrossing(r *rand.Rand, equal bool) *crossing {
	period := func() time.Duration { return time.Duration(1+r.IntN(5)) * time.Second }
	all := period()
	trip := time.Duration(r.IntN(3)) * 25 * time.Millisecond
	c := &crossing{limits: map[string]allowance{}, trip: trip, span: 150 * time.Second}
	names := []string{"a", "b", "c"}[:2+r.IntN(2)]
	for _, name := range names {
		a := allowance{1 + r.IntN(3), all}
		if !equal {
			a.period = period()
		}
		c.limits[name] = a
	}
	global := ""
	if r.IntN(3) == 0 {
		global = "G"
		c.limits["G"] = allowance{5 + r.IntN(10), time.Second}
	}
	tenants := r.IntN(2) * (1 + r.IntN(3))
	c.demands = append(c.demands, demand{global + "ab", tenants})
	for range 1 + r.IntN(3) {
		c.demands = append(c.demands, demand{global + names[r.IntN(len(names))], tenants})
	}
	if global != "" {
		c.demands = append(c.demands, demand{"G", tenants})
	}
	if len(names) == 3 {
		c.demands = append(c.demands, demand{global + "bc", tenants})
	}
	return c
}
