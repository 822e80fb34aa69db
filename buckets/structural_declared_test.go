package buckets_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

const (
	leastUse = 0.93 // share of a limit that has to be used
	// If the ideal order itself uses less than leastUse, the use may be lower than the ideal by useMargin.
	useMargin = 0.02
)

// wanted returns the share of a limit that has to be used. It is called only for limits that some requests need alone,
// so there is always something to send.
func (c *crossing) wanted(name string, ideal []*flow) float64 {
	return min(leastUse, c.use(name, ideal)-useMargin)
}

// patience returns how long a tenant's first request may wait: as long as in the ideal order, and one period more. Each
// round trip may take 2 ms longer than in the ideal order.
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

// unmended lists the crossings with a known fault.
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

// Some requests need several limits. They must not starve, and must not keep other requests from using the limits.
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

// No request needs more than one limit. The limits must be used and no tenant may wait too long, as above.
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
// At present 6 of 60 worlds with unequal periods fail; in none of them does a tenant stop.
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
