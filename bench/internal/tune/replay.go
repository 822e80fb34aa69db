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
	asking  int // requests that have arrived and that the manager has not answered
	// undisturbed reports whether the event cannot have made the manager answer a request.
	undisturbed bool

	mu      sync.Mutex
	changed *sync.Cond  // signals that a request waits or is answered
	answers []*exchange // requests that the manager has answered, and settle has not handled
}

// errStuck reports a fault of the manager.
var errStuck = errors.New("requests wait that nothing will ever wake")

// lookEvery is the number of events after which a replay checks its context and reports its progress.
const lookEvery = 1 << 12

// simulate replays the load. The error is the context's, or reports a faulty manager.
func simulate(ctx context.Context, c Config, maxRateLimit time.Duration) (Result, error) {
	r := &replay{load: c.Load, discord: &c.Discord, clock: &clock{}, server: newServer(c.Load, &c.Discord)}
	r.record = newRecord(&c, r.server.bucketOf, len(r.server.counters))
	r.changed = sync.NewCond(&r.mu)
	r.manager = buckets.NewRESTBucketManager(buckets.WithClock(r.clock), buckets.WithMaxRateLimit(maxRateLimit),
		buckets.WithGlobalLimit(c.Discord.GlobalLimit), buckets.WithLogger(nil))
	r.manager.AddHooks(buckets.Hooks{
		Waiting: func(ctx context.Context, w buckets.Waiting) {
			if x, ok := ctx.Value(exchangeKey{}).(*exchange); ok {
				x.tell(func() {
					x.entered = true
					x.record.predicted = max(x.record.predicted, x.queued+w.Wait)
				})
			}
		},
		Waited: func(ctx context.Context, w buckets.Waited) {
			if x, ok := ctx.Value(exchangeKey{}).(*exchange); ok {
				x.opened = w.For
			}
		},
	})
	if err := r.manager.Start(); err != nil {
		return Result{}, err
	}
	defer r.manager.Close()
	r.arrival.call = r.arrive
	r.awaitArrival()
	reported := 0
	for ; r.clock.next(); r.record.events++ {
		if r.record.events%lookEvery == 0 {
			if ctx.Err() != nil {
				return Result{}, ctx.Err()
			}
			reported = r.record.tell(c.Done, reported)
		}
		if !r.undisturbed {
			r.settle()
		}
		r.undisturbed = false
	}
	if reported = r.record.tell(c.Done, reported); reported < c.Load.Requests() {
		return Result{}, fmt.Errorf("%w: %d with a max rate limit of %v", errStuck, c.Load.Requests()-reported, maxRateLimit)
	}
	return r.record.result(maxRateLimit), nil
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
	r.undisturbed = x.acquire()
	r.awaitArrival()
}

// settle hands out the manager's answers, after which every request has an answer or waits in a queue. The replay calls
// it after each event that may have changed the manager. Answers come from goroutines, for which settle waits, so that
// none runs beside the replay. It hands them out in the order in which their requests arrived.
func (r *replay) settle() {
	if r.asking == 0 {
		return
	}
	resolved := r.asking - r.manager.Stats().Waiting
	r.mu.Lock()
	for len(r.answers) < resolved {
		r.changed.Wait()
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
	queued  time.Duration // how long earlier attempts waited
	entered bool          // it waits in the manager, or has an answer
	// The manager's answer, and which limit opened last.
	lease    buckets.Lease
	err      error
	opened   buckets.WaitsFor
	sent     bool // and not yet processed by the server
	response ratelimits.Response
}

type exchangeKey struct{}

// atOnce is the context of requests that must not wait.
var atOnce = buckets.ContextWithMaxWait(context.Background(), 0)

// acquire asks the manager for a lease, and reports whether it was granted at once. It expects that only if no other
// request waits in the queue.
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
	x.asking++
	x.entered, x.opened = false, buckets.WaitsForNothing
	go x.await()
	x.mu.Lock()
	defer x.mu.Unlock()
	for !x.entered {
		x.changed.Wait()
	}
	return false
}

// await waits for the manager's answer and adds it to the answers.
func (x *exchange) await() {
	ctx := context.WithValue(context.Background(), exchangeKey{}, x)
	lease, err := x.manager.AcquireRequest(ctx, &x.request)
	x.tell(func() {
		x.entered, x.lease, x.err = true, lease, err
		x.answers = append(x.answers, x)
	})
}

// tell makes a change and wakes the replay, which waits for it.
func (x *exchange) tell(change func()) {
	x.mu.Lock()
	defer x.mu.Unlock()
	change()
	x.changed.Signal()
}

// answered handles the manager's answer: it sends the request, or records why the manager rejected it.
func (x *exchange) answered() {
	waited := x.clock.now - x.asked
	x.record.waiting[x.queue]--
	if x.err != nil {
		x.record.refuse(x.queue, x.err)
		return
	}
	x.record.wait(x.queue, x.opened, waited)
	x.queued += waited
	x.send()
}

func (x *exchange) send() {
	x.sent = true
	x.clock.after(x.way(), &x.event)
}

// way draws the time that a request or its response takes one way.
func (x *exchange) way() time.Duration {
	latency := x.discord.Latency
	spread := rand.New(&x.random).Float64() - 0.5
	return max(latency.RoundTrip/2+time.Duration(spread*float64(latency.Jitter)), 0)
}

// proceed handles the arrival of the request at the server, then of the response. After a 429 it acquires again.
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
	x.record.answer(x.queued)
}
