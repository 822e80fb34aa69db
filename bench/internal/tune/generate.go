package tune

import (
	"fmt"
	"math"
	"math/rand/v2"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/ratelight/ratelight/routes"
)

// Traffic describes a load that is made up: requests at random times all along, and bursts on top of them.
type Traffic struct {
	Requests int // at random times
	Length   time.Duration
	// Channels is how many channels, guilds or webhooks the requests are about. The n-th most popular one gets a share
	// proportional to 1/n^Skew; with 0 all are equal.
	Channels int
	Skew     float64
	// Every BurstEvery, Burst requests are made at once, for one channel. 0: no bursts.
	Burst      int
	BurstEvery time.Duration
	// Mix is which routes the requests are for.
	Mix  []Share
	Seed uint64
}

// Share is a route and how many of the requests are for it, in proportion to the others.
type Share struct {
	Route  routes.Route
	Weight float64
}

// bursts is how many bursts there are.
func (t Traffic) bursts() int {
	if t.Burst == 0 || t.BurstEvery == 0 {
		return 0
	}
	return int((t.Length - 1) / t.BurstEvery)
}

// Generate makes the load up. The same traffic always gives the same load.
func Generate(t Traffic) (*Load, error) {
	g := &generator{
		load: newLoad(), chance: rand.New(rand.NewPCG(t.Seed, 3)), queues: make(map[place]int),
		channels: newDraw(t.Channels, func(n int) float64 { return math.Pow(float64(n+1), -t.Skew) }),
		mix:      t.Mix, shares: newDraw(len(t.Mix), func(n int) float64 { return t.Mix[n].Weight }),
	}
	g.load.Length, g.load.Bursts = t.Length, t.bursts()
	for range t.Requests {
		at := time.Duration(g.chance.Float64() * float64(t.Length))
		if err := g.add(at, g.shares.from(g.chance), g.channels.from(g.chance)); err != nil {
			return nil, err
		}
	}
	for n := range g.load.Bursts {
		route, channel := g.shares.from(g.chance), g.channels.from(g.chance)
		for range t.Burst {
			if err := g.add(time.Duration(n+1)*t.BurstEvery, route, channel); err != nil {
				return nil, err
			}
		}
	}
	g.load.sort()
	return g.load, nil
}

// generator is a load in the making.
type generator struct {
	load     *Load
	chance   *rand.Rand
	channels draw
	shares   draw
	mix      []Share
	queues   map[place]int
}

// place is a route for one channel, guild or webhook.
type place struct{ route, channel int }

func (g *generator) add(at time.Duration, route, channel int) error {
	key := place{route, channel}
	queue, ok := g.queues[key]
	if !ok {
		compiled, err := compile(g.mix[route].Route, channel)
		if err != nil {
			return err
		}
		queue = g.load.queue(compiled)
		g.queues[key] = queue
	}
	g.load.add(at, queue)
	return nil
}

const firstID = 900_000_000_000_000_000

// compile fills in the parameters of a route. The first one is the number of a channel, guild or webhook.
func compile(route routes.Route, channel int) (routes.CompiledRoute, error) {
	parameters := make([]string, strings.Count(route.Template(), "{"))
	for i := range parameters {
		parameters[i] = "1"
	}
	if len(parameters) > 0 {
		parameters[0] = strconv.Itoa(firstID + channel)
	}
	compiled, err := route.Compile(parameters...)
	if err != nil {
		return compiled, fmt.Errorf("%s cannot be requested: %w", route, err)
	}
	return compiled, nil
}

// draw chooses among things that are not equally likely.
type draw struct{ below []float64 } // the sum of the weights so far

func newDraw(n int, weight func(int) float64) draw {
	d := draw{make([]float64, n)}
	sum := 0.0
	for i := range n {
		sum += weight(i)
		d.below[i] = sum
	}
	return d
}

func (d draw) from(chance *rand.Rand) int {
	x := chance.Float64() * d.below[len(d.below)-1]
	return min(sort.SearchFloat64s(d.below, x), len(d.below)-1)
}
