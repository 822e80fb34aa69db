package tune

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/ratelimits"
)

// authorization is the credential of all requests.
const authorization = "Bot simulated"

// replay runs a load through a manager with one max rate limit.
type replay struct {
	load    *Load
	discord *Discord
	clock   *clock
	server  *server
	manager *buckets.RESTBucketManager
	record  record

	arrival event
	next    int // index of the next arrival
	asking  int // number of requests that have arrived and were not yet handled by settle

	// mu guards all fields below, and record.predicted.
	mu      sync.Mutex
	answers []*exchange // requests that the manager has answered and that were not yet handled by settle
}

// errStuck reports a fault of the manager.
var errStuck = errors.New("some requests wait for ever")

// simulate replays the load. patient says how long each request waits if nothing is refused (nil: not known). The error
// is that of the context, or reports a faulty manager.
func simulate(ctx context.Context, c Config, patient []time.Duration, maxRateLimit time.Duration) (Result, error) {
	r := &replay{load: c.Load, discord: &c.Discord, clock: &clock{}, server: newServer(c.Load, &c.Discord)}
	r.record = newRecord(&c, r.server.bucketOf, len(r.server.counters), patient)
	r.manager = buckets.NewRESTBucketManager(buckets.WithClock(r.clock), buckets.WithMaxRateLimit(maxRateLimit),
		buckets.WithGlobalLimit(c.Discord.GlobalLimit), buckets.WithLogger(nil))
	r.manager.AddHooks(buckets.Hooks{Waiting: r.waiting, Waited: waited})
	if err := r.manager.Start(); err != nil {
		return Result{}, err
	}
	defer r.manager.Close()
	r.arrival.call = r.arrive
	r.awaitArrival()
	for r.clock.next() && ctx.Err() == nil {
		r.settle()
	}
	if ctx.Err() != nil {
		return Result{}, ctx.Err()
	}
	if missing := c.Load.Requests() - r.record.answered - r.record.Refused; missing > 0 {
		return Result{}, fmt.Errorf("%w: %d with a max rate limit of %v", errStuck, missing, maxRateLimit)
	}
	return r.record.result(maxRateLimit), nil
}

type exchangeKey struct{}

// waiting records the predicted wait of a request that the manager has accepted.
func (r *replay) waiting(ctx context.Context, w buckets.Waiting) {
	if x, ok := ctx.Value(exchangeKey{}).(*exchange); ok {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.record.predicted = max(r.record.predicted, x.queued+w.Wait)
		x.enter()
	}
}

// waited records which limit opened last for a request.
func waited(ctx context.Context, w buckets.Waited) {
	if x, ok := ctx.Value(exchangeKey{}).(*exchange); ok {
		x.opened = w.For
	}
}

// awaitArrival schedules the arrival of the next request.
func (r *replay) awaitArrival() {
	if r.next < len(r.load.arrivals) {
		r.clock.after(r.load.arrivals[r.next].at-r.clock.now, &r.arrival)
	}
}

// arrive handles the arrival of the next request.
func (r *replay) arrive() {
	queue := r.load.arrivals[r.next].queue
	x := &exchange{replay: r, number: r.next, queue: queue}
	x.request = buckets.Request{Route: r.load.queues[queue].route, Authorization: authorization}
	x.call = x.proceed
	x.random.Seed(r.discord.Seed, uint64(r.next))
	r.next++
	x.acquire()
	r.awaitArrival()
}

// settle hands out the manager's answers. After that, every request has an answer or waits in a queue. The replay calls
// settle after each event. Answers come from goroutines, and settle waits for these goroutines, so that none runs at
// the same time as the replay. The answers are handed out in the order in which the requests arrived.
func (r *replay) settle() {
	if r.asking == 0 {
		return
	}
	r.mu.Lock()
	for len(r.answers)+r.manager.Stats().Waiting < r.asking {
		r.mu.Unlock()
		runtime.Gosched()
		r.mu.Lock()
	}
	answers := r.answers
	r.answers = nil
	r.mu.Unlock()
	slices.SortFunc(answers, func(x, y *exchange) int { return cmp.Compare(x.number, y.number) })
	r.asking -= len(answers)
	for _, x := range answers {
		x.answered()
	}
}

// exchange is one request from its arrival to its outcome.
type exchange struct {
	*replay
	event
	number  int // index of its arrival
	queue   int
	request buckets.Request
	random  rand.PCG      // separate, so that the round trips of a request do not depend on other requests
	asked   time.Duration // when the latest attempt asked the manager
	queued  time.Duration // how long the earlier attempts waited together
	entered chan struct{} // closed when the latest attempt waits or has an answer
	// The manager's answer, and which limit opened last.
	lease    buckets.Lease
	err      error
	opened   buckets.WaitsFor
	sent     bool // the request was sent, and the server has not processed it yet
	response ratelimits.Response
}

// acquire starts a goroutine that asks the manager for a lease and adds the result to the answers. It blocks until the
// request waits or has an answer, so that the manager sets no timer while the replay goes on.
func (x *exchange) acquire() {
	x.asked, x.opened, x.entered = x.clock.now, buckets.WaitsForNothing, make(chan struct{})
	x.asking++
	go func() {
		lease, err := x.manager.AcquireRequest(context.WithValue(context.Background(), exchangeKey{}, x), &x.request)
		x.mu.Lock()
		defer x.mu.Unlock()
		x.lease, x.err = lease, err
		x.answers = append(x.answers, x)
		x.enter()
	}()
	<-x.entered
}

// enter ends acquire. Only the goroutine that acquire has started calls enter.
func (x *exchange) enter() {
	select {
	case <-x.entered:
	default:
		close(x.entered)
	}
}

// answered handles the manager's answer: it sends the request, or records why the manager refused it.
func (x *exchange) answered() {
	if x.err != nil {
		x.record.refuse(x.number, x.queue, x.err)
		return
	}
	waited := x.clock.now - x.asked
	x.record.wait(x.queue, x.opened, waited)
	x.queued += waited
	x.sent = true
	x.clock.after(x.way(), &x.event)
}

// way draws the time that a request takes to the server, or a response to the client.
func (x *exchange) way() time.Duration {
	latency := x.discord.Latency
	spread := rand.New(&x.random).Float64() - 0.5
	return max(latency.RoundTrip/2+time.Duration(spread*float64(latency.Jitter)), 0)
}

// proceed handles the arrival of the request at the server or, the next time, of the response. After a 429, it acquires
// again.
func (x *exchange) proceed() {
	if x.sent {
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
	x.record.answer(x.number, x.queued)
}
