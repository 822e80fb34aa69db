package tune

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/ratelimits"
)

// authorization is the credential of all requests.
const authorization = "Bot simulated"

// replay is a load on its way through a manager with one max rate limit.
type replay struct {
	load    *Load
	discord Discord
	done    func(requests int)

	clock  *clock
	server *server

	permits *acquirer

	arrival event
	next    int         // arrival
	open    int         // requests that have arrived and have no outcome
	free    []*exchange // of requests that have ended
	record  record
	// undisturbed is set by events that cannot have made the manager answer anybody who waits. That saves asking it.
	undisturbed bool
}

// errStuck is what a manager would be to blame for.
var errStuck = errors.New("requests wait that nothing will ever wake")

// lookEvery is after how many events a replay looks whether it is still wanted.
const lookEvery = 1 << 12

// simulate replays the load. The error is the context's, or about a manager that does not do what it should.
func simulate(ctx context.Context, load *Load, discord Discord, maxRateLimit time.Duration, done func(int)) (Result, error) {
	clock := &clock{}
	manager := buckets.NewRESTBucketManager(
		buckets.WithClock(clock), buckets.WithMaxRateLimit(maxRateLimit), buckets.WithGlobalLimit(discord.GlobalLimit),
		buckets.WithLogger(nil),
	)
	if err := manager.Start(); err != nil {
		return Result{}, err
	}
	defer manager.Close()
	r := &replay{
		load: load, discord: discord, done: done, clock: clock, server: newServer(load, discord),
		permits: newAcquirer(manager), record: newRecord(load),
	}
	r.arrival.call = r.arrive
	r.awaitArrival()
	for n := 0; clock.next(); n++ {
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
	return r.record.result(maxRateLimit, clock.called), nil
}

// awaitArrival waits for the next request.
func (r *replay) awaitArrival() {
	if r.next < len(r.load.arrivals) {
		r.clock.after(r.load.arrivals[r.next].at-r.clock.now, &r.arrival)
	}
}

// arrive lets all requests of this moment arrive.
func (r *replay) arrive() {
	r.undisturbed = true
	for r.next < len(r.load.arrivals) && r.load.arrivals[r.next].at <= r.clock.now {
		x := r.exchange(r.load.arrivals[r.next].queue)
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
	event
	queue    int
	request  buckets.Request
	chance   rand.PCG // of its own, so that the round trips of a request do not depend on those of others
	asked    time.Duration
	queued   time.Duration
	lease    buckets.Lease
	response ratelimits.Response
	sent     bool // and not processed yet
}

// exchange returns one for the next request.
func (r *replay) exchange(queue int) (x *exchange) {
	if last := len(r.free) - 1; last >= 0 {
		x, r.free = r.free[last], r.free[:last]
	} else {
		x = &exchange{replay: r}
		x.call = x.proceed
	}
	x.queue, x.queued = queue, 0
	x.request = buckets.Request{Route: r.load.queues[queue].route, Authorization: authorization}
	x.chance.Seed(r.discord.Seed, uint64(r.next))
	return x
}

// acquire asks for the permission to send, and reports whether it was given at once.
func (x *exchange) acquire() bool {
	x.asked = x.clock.now
	x.record.ask(x.queue)
	return x.permits.acquire(x, x.record.waiting[x.queue] > 1)
}

// answered brings the permission, or says why there is none.
func (x *exchange) answered(lease buckets.Lease, err error, waitsFor buckets.WaitsFor) {
	waited := x.clock.now - x.asked
	x.record.answered(x.queue)
	x.record.wait(x.queue, waitsFor, waited)
	if err != nil {
		x.record.refuse(x.queue, err)
		x.end()
		return
	}
	x.lease, x.sent = lease, true
	x.queued += waited
	x.clock.after(x.way(), &x.event)
}

// way draws how long the request, or its answer, is under way.
func (x *exchange) way() time.Duration {
	latency := x.discord.Latency
	spread := rand.New(&x.chance).Float64() - 0.5
	return max(latency.RoundTrip/2+time.Duration(spread*float64(latency.Jitter)), 0)
}

// proceed lets the request arrive at the server, and then its answer at the client. A request that was refused is acquired again.
func (x *exchange) proceed() {
	if x.sent {
		x.undisturbed = true
		x.sent, x.response = false, x.server.handle(x.clock.Now(), x.queue)
		x.clock.after(x.way(), &x.event)
		return
	}
	x.lease.Update(x.response)
	if x.response.Status == http.StatusTooManyRequests {
		x.record.Limited++
		x.acquire()
		return
	}
	x.record.serve(x.queued, x.clock.now)
	x.end()
}

func (x *exchange) end() {
	x.open--
	x.free = append(x.free, x)
	x.done(1)
}
