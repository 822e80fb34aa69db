package tune

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/ratelight/ratelight/bench/internal/virtual"
	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/internal/discordsim"
	"github.com/ratelight/ratelight/ratelimits"
)

// Discord is the simulated server.
type Discord struct {
	Rules []discordsim.Rule
	// Quota is the limit of everything that no rule is about.
	Quota discordsim.Quota
	// GlobalLimit is that of client and server, in requests per second. 0: none.
	GlobalLimit int
	Latency     discordsim.Latency // uniform
	Seed        uint64
}

func (d Discord) config() discordsim.Config {
	config := discordsim.Config{
		Rules: d.Rules, Default: &discordsim.Rule{Path: "**", Quota: d.Quota}, Global: discordsim.Unlimited(), Recent: 1,
	}
	if d.GlobalLimit > 0 {
		config.Global = discordsim.Aligned(d.GlobalLimit, time.Second, 0)
	}
	return config
}

// Validate reports whether it can be simulated.
func (d Discord) Validate() error {
	_, err := discordsim.NewWorld(beginning, d.config())
	return err
}

// beginning is when every replay begins. No result depends on it.
var beginning = time.Date(2030, time.January, 1, 0, 0, 0, 0, time.UTC)

// authorization is the credential of all requests.
const authorization = "Bot simulated"

// replay is a load on its way through a manager with one max rate limit.
type replay struct {
	load    *Load
	discord Discord
	done    func(requests int)

	clock *virtual.Clock
	world *discordsim.World

	permits *acquirer

	next   int // arrival
	open   int // requests that have arrived and have no outcome
	record record
	// undisturbed is set by events that cannot have made the manager answer anybody who waits. That saves asking it.
	undisturbed bool
}

// errStuck is what a manager would be to blame for.
var errStuck = errors.New("requests wait that nothing will ever wake")

// lookEvery is after how many events a replay looks whether it is still wanted.
const lookEvery = 1 << 12

// simulate replays the load. The error is the context's, or about a manager that does not do what it should.
func simulate(ctx context.Context, load *Load, discord Discord, maxRateLimit time.Duration, done func(int)) (Result, error) {
	clock := virtual.New(beginning)
	world, err := discordsim.NewWorld(beginning, discord.config())
	if err != nil {
		return Result{}, err
	}
	manager := buckets.NewRESTBucketManager(
		buckets.WithClock(clock), buckets.WithMaxRateLimit(maxRateLimit), buckets.WithGlobalLimit(discord.GlobalLimit),
		buckets.WithLogger(nil),
	)
	if err := manager.Start(); err != nil {
		return Result{}, err
	}
	defer manager.Close()
	r := &replay{
		load: load, discord: discord, done: done, clock: clock, world: world,
		permits: newAcquirer(manager), record: newRecord(load),
	}
	r.awaitArrival()
	for n := 0; clock.Next(); n++ {
		if n%lookEvery == 0 && ctx.Err() != nil {
			return Result{}, ctx.Err()
		}
		if r.undisturbed {
			r.undisturbed = false
			continue
		}
		r.permits.settle()
		r.record.measure()
	}
	if r.open > 0 {
		return Result{}, fmt.Errorf("%w: %d with a max rate limit of %v", errStuck, r.open, maxRateLimit)
	}
	return r.result(maxRateLimit), nil
}

// awaitArrival waits for the next request.
func (r *replay) awaitArrival() {
	if r.next < len(r.load.arrivals) {
		r.clock.AfterFunc(r.load.arrivals[r.next].at-r.clock.Elapsed(), r.arrive)
	}
}

// arrive lets all requests of this moment arrive.
func (r *replay) arrive() {
	r.undisturbed = true
	for r.next < len(r.load.arrivals) && r.load.arrivals[r.next].at <= r.clock.Elapsed() {
		target := r.load.targets[r.load.arrivals[r.next].target]
		x := &exchange{
			replay: r, queue: target.queue,
			request: buckets.Request{Route: target.route, Authorization: authorization},
			chance:  rand.NewPCG(r.discord.Seed, uint64(r.next)),
		}
		r.next++
		r.open++
		if !x.acquire() {
			r.undisturbed = false
		}
	}
	r.awaitArrival()
}

// exchange is one request from its arrival to its outcome.
type exchange struct {
	*replay
	queue    int // in the record
	request  buckets.Request
	chance   *rand.PCG // of its own, so that the round trips of a request do not depend on those of others
	asked    time.Duration
	queued   time.Duration
	sent     time.Time
	lease    buckets.Lease
	response *discordsim.Response
}

// acquire asks for the permission to send, and reports whether it was given at once.
func (x *exchange) acquire() bool {
	x.asked = x.clock.Elapsed()
	x.record.ask(x.queue)
	return x.permits.acquire(x)
}

// answered brings the permission, or says why there is none.
func (x *exchange) answered(lease buckets.Lease, err error, waitsFor buckets.WaitsFor) {
	x.record.answered(x.queue)
	x.record.wait(x.queue, waitsFor, x.clock.Elapsed()-x.asked)
	if err != nil {
		x.record.refuse(x.queue, err)
		x.end()
		return
	}
	x.lease = lease
	x.queued += x.clock.Elapsed() - x.asked
	x.sent = x.clock.Now()
	x.clock.AfterFunc(x.way(), x.process)
}

// way draws how long the request, or its answer, is under way.
func (x *exchange) way() time.Duration {
	latency := x.discord.Latency
	spread := rand.New(x.chance).Float64() - 0.5
	return max(latency.RoundTrip/2+time.Duration(spread*float64(latency.Jitter)), 0)
}

// process lets the request arrive at the server.
func (x *exchange) process() {
	x.undisturbed = true
	route := x.request.Route
	x.response = x.world.Handle(x.clock.Now(), discordsim.Request{
		Method: route.Method(), Path: route.Path(), Authorization: authorization, SentAt: x.sent,
	})
	x.clock.AfterFunc(x.way(), x.receive)
}

// receive lets the answer arrive. A request that was refused is acquired again.
func (x *exchange) receive() {
	response := x.response
	x.world.Deliver(response, x.clock.Now())
	x.lease.Update(ratelimits.ParseResponse(response.Status, response.Header, response.Body))
	if response.Status == http.StatusTooManyRequests {
		x.record.limited++
		x.acquire()
		return
	}
	x.record.serve(x.queued, x.clock.Elapsed())
	x.end()
}

func (x *exchange) end() {
	x.open--
	x.done(1)
}
