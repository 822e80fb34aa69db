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

// Traffic has the flags of a generated load: requests at random times, and bursts in addition.
type Traffic struct {
	Requests   int           `group:"Generated load" range:"1..10000000" default:"100000" help:"Requests at random times, without the bursts."`
	Length     time.Duration `name:"duration" group:"Generated load" range:"1s..744h" default:"24h" help:"Time over which the requests are spread."`
	Channels   int           `group:"Generated load" range:"1..1000000" default:"1000" help:"Channels (or guilds, or webhooks) of the requests, each with its own bucket."`
	Skew       float64       `group:"Generated load" range:"0..10" default:"1" help:"How unequal the channels are: the n-th most popular one gets a share proportional to 1/n^skew; 0 for equal shares."`
	Burst      int           `group:"Generated load" range:"0..100000" default:"20" help:"Requests per burst, all at once to one channel, in addition to the others; 0 for none."`
	BurstEvery time.Duration `group:"Generated load" range:"0s..744h" default:"10m" help:"Time from one burst to the next; 0 for none."`

	Mix  []Share `kong:"-"` // routes of the requests
	Seed uint64  `kong:"-"`
}

// Share is a route and its weight: its number of requests in proportion to the other weights.
type Share struct {
	Route  routes.Route
	Weight float64
}

// Generate generates a load. The same traffic always gives the same load.
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

// compile fills in the parameters of a route. The first one is the id of a channel, guild or webhook.
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

// draw returns a function that draws a number below n, each in proportion to its weight.
func draw(chance *rand.Rand, n int, weight func(int) float64) func() int {
	below, sum := make([]float64, n), 0.0 // cumulative weights
	for i := range below {
		sum += weight(i)
		below[i] = sum
	}
	return func() int { return min(sort.SearchFloat64s(below, chance.Float64()*sum), n-1) }
}
