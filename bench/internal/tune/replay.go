package tune

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
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
	clock   *clock
	server  *server
	manager *buckets.RESTBucketManager
	record  record

	arrival event
	next    int // arrival
	asking  int // requests that have arrived and that the manager has not answered
	// undisturbed is set by events that cannot have made the manager answer anybody. That saves asking it.
	undisturbed bool

	mu      sync.Mutex
	told    *sync.Cond  // that a request waits, or is answered
	answers []*exchange // of the manager, which have not been handed out
}

// errStuck is what a manager would be to blame for.
var errStuck = errors.New("requests wait that nothing will ever wake")

// lookEvery is after how many events a replay looks whether it is still wanted, and tells how far it has come.
const lookEvery = 1 << 12

// simulate replays the load. The error is the context's, or about a manager that does not do what it should.
func simulate(ctx context.Context, load *Load, discord Discord, maxRateLimit time.Duration, done func(int)) (Result, error) {
	r := &replay{load: load, discord: discord, clock: &clock{}, server: newServer(load, discord), record: newRecord(load)}
	r.told = sync.NewCond(&r.mu)
	r.manager = buckets.NewRESTBucketManager(buckets.WithClock(r.clock), buckets.WithMaxRateLimit(maxRateLimit),
		buckets.WithGlobalLimit(discord.GlobalLimit), buckets.WithLogger(nil))
	r.manager.AddHooks(buckets.Hooks{
		Waiting: func(ctx context.Context, _ buckets.Waiting) {
			if x, ok := ctx.Value(exchangeKey{}).(*exchange); ok {
				x.tell(func() { x.entered = true })
			}
		},
		Waited: func(ctx context.Context, w buckets.Waited) {
			if x, ok := ctx.Value(exchangeKey{}).(*exchange); ok {
				x.waited = w.For
			}
		},
	})
	if err := r.manager.Start(); err != nil {
		return Result{}, err
	}
	defer r.manager.Close()
	r.arrival.call = r.arrive
	r.awaitArrival()
	told := 0
	for ; r.clock.next(); r.record.events++ {
		if r.record.events%lookEvery == 0 {
			if ctx.Err() != nil {
				return Result{}, ctx.Err()
			}
			told = r.record.tell(done, told)
		}
		if !r.undisturbed {
			r.settle()
		}
		r.undisturbed = false
	}
	if told = r.record.tell(done, told); told < load.Requests() {
		return Result{}, fmt.Errorf("%w: %d with a max rate limit of %v", errStuck, load.Requests()-told, maxRateLimit)
	}
	return r.record.result(maxRateLimit), nil
}

// awaitArrival waits for the next request.
func (r *replay) awaitArrival() {
	if r.next < len(r.load.arrivals) {
		r.clock.after(r.load.arrivals[r.next].at-r.clock.now, &r.arrival)
	}
}

// arrive lets the next request arrive.
func (r *replay) arrive() {
	queue := r.load.arrivals[r.next].queue
	x := &exchange{replay: r, number: r.next, queue: queue}
	x.request = buckets.Request{Route: r.load.queues[queue].route, Authorization: authorization}
	x.call = x.proceed
	x.chance.Seed(r.discord.Seed, uint64(r.next))
	r.next++
	r.undisturbed = x.acquire()
	r.awaitArrival()
}

// settle hands out the manager's answers until every request has one or waits in a queue. It is called after everything
// that may have told the manager something, or woken it. Each answer comes from a goroutine, for which the replay
// waits, so that nothing ever happens side by side. Answers are handed out in the order in which their requests
// arrived.
func (r *replay) settle() {
	if r.asking == 0 {
		return
	}
	resolved := r.asking - r.manager.Stats().Waiting
	r.mu.Lock()
	for len(r.answers) < resolved {
		r.told.Wait()
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
	number  int // by arrival
	queue   int
	request buckets.Request
	chance  rand.PCG // of its own, so that the round trips of a request do not depend on those of others
	asked   time.Duration
	queued  time.Duration
	entered bool // the manager lets it wait, or has answered
	// The manager's answer, and for what it had to wait.
	lease    buckets.Lease
	err      error
	waited   buckets.WaitsFor
	sent     bool // and not processed yet
	response ratelimits.Response
}

type exchangeKey struct{}

// atOnce is for requests that do not wait.
var atOnce = buckets.ContextWithMaxWait(context.Background(), 0)

// acquire asks for the permission to send, and reports whether it was given at once, as it mostly is if nobody else
// waits in the queue.
func (x *exchange) acquire() bool {
	x.asked = x.clock.now
	if x.record.waiting[x.queue] == 0 {
		if lease, err := x.manager.AcquireRequest(atOnce, &x.request); err == nil {
			x.lease = lease
			x.send()
			return true
		}
	}
	x.record.waiting[x.queue]++
	x.record.all++
	x.asking++
	x.entered, x.waited = false, buckets.WaitsForNothing
	go x.await()
	x.mu.Lock()
	defer x.mu.Unlock()
	for !x.entered {
		x.told.Wait()
	}
	return false
}

// await waits for the manager's answer.
func (x *exchange) await() {
	ctx := context.WithValue(context.Background(), exchangeKey{}, x)
	lease, err := x.manager.AcquireRequest(ctx, &x.request)
	x.tell(func() {
		x.entered, x.lease, x.err = true, lease, err
		x.answers = append(x.answers, x)
	})
}

// tell lets the replay go on that waits for what is changed.
func (x *exchange) tell(change func()) {
	x.mu.Lock()
	defer x.mu.Unlock()
	change()
	x.told.Signal()
}

// answered takes in that the request may be sent, or why not.
func (x *exchange) answered() {
	waited := x.clock.now - x.asked
	x.record.wait(x.queue, x.waited, waited)
	if x.err != nil {
		x.record.refuse(x.queue, x.err)
		return
	}
	x.queued += waited
	x.send()
}

func (x *exchange) send() {
	x.sent = true
	x.clock.after(x.way(), &x.event)
}

// way draws how long the request, or its answer, is under way.
func (x *exchange) way() time.Duration {
	latency := x.discord.Latency
	spread := rand.New(&x.chance).Float64() - 0.5
	return max(latency.RoundTrip/2+time.Duration(spread*float64(latency.Jitter)), 0)
}

// proceed lets the request arrive at the server, and then its answer at the client. A request that was refused is
// acquired again.
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
	x.record.queued = append(x.record.queued, x.queued)
	x.record.Makespan = x.clock.now
}
