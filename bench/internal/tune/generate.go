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

// Generate makes the load up. The same traffic always gives the same load.
func Generate(t Traffic) (*Load, error) {
	for _, share := range t.Mix {
		if _, err := compile(share.Route, 0); err != nil {
			return nil, fmt.Errorf("%s cannot be requested: %w", share.Route, err)
		}
	}
	load, chance := newLoad(), rand.New(rand.NewPCG(t.Seed, 3))
	drawChannel := draw(chance, t.Channels, func(n int) float64 { return math.Pow(float64(n+1), -t.Skew) })
	drawRoute := draw(chance, len(t.Mix), func(n int) float64 { return t.Mix[n].Weight })
	type place struct{ route, channel int }
	queues := make(map[place]int) // a route is compiled once for each channel
	add := func(at time.Duration, requests int) {
		p := place{drawRoute(), drawChannel()}
		queue, ok := queues[p]
		if !ok {
			compiled, _ := compile(t.Mix[p.route].Route, p.channel)
			queue = load.queue(compiled)
			queues[p] = queue
		}
		for range requests {
			load.add(at, queue)
		}
	}
	load.Length = t.Length
	for range t.Requests {
		add(time.Duration(chance.Float64()*float64(t.Length)), 1)
	}
	if t.Burst > 0 && t.BurstEvery > 0 {
		load.Bursts = int((t.Length - 1) / t.BurstEvery)
	}
	for n := range load.Bursts {
		add(time.Duration(n+1)*t.BurstEvery, t.Burst)
	}
	load.sort()
	return load, nil
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
	return route.Compile(parameters...)
}

// draw chooses among n things that are not equally likely.
func draw(chance *rand.Rand, n int, weight func(int) float64) func() int {
	below, sum := make([]float64, n), 0.0 // the sum of the weights so far
	for i := range below {
		sum += weight(i)
		below[i] = sum
	}
	return func() int { return min(sort.SearchFloat64s(below, chance.Float64()*sum), n-1) }
}
