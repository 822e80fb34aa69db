package limitertest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/internal/discordsim"
	"github.com/ratelight/ratelight/ratelimits"
	"github.com/ratelight/ratelight/routes"
)

// discord is a fake Discord without a network. It counts a request at the call of process; world adds the round-trip
// time.
type discord struct {
	mu       sync.Mutex
	fake     *discordsim.World
	rules    map[string]rule // by method and template
	scripted int             // 429s that a fault has caused
}

// rule is the limit of a route.
type rule struct {
	quota discordsim.Quota // zero: no limit, and no limit headers
	hash  string           // bucket hash; routes with the same hash share a bucket; "": the headers name no hash
}

// newDiscord returns a fake Discord with this global limit, which may be discordsim.Unlimited.
func newDiscord(global discordsim.Quota) *discord {
	d := &discord{rules: make(map[string]rule)}
	ruleOf := func(c discordsim.Call) rule { return d.rules[c.Request.Value.(string)] } // the caller holds d.mu
	nameless := discordsim.Fault{
		Also: true, Drop: []string{"X-RateLimit-Bucket"},
		When: func(c discordsim.Call) bool { return ruleOf(c).hash == "" },
	}
	fake, err := discordsim.NewWorld(time.Now(), discordsim.Config{
		Default: &discordsim.Rule{
			Path: "**", Faults: []discordsim.Fault{nameless},
			Vary: func(c discordsim.Call) discordsim.Variant {
				r := ruleOf(c)
				return discordsim.Variant{Hash: r.hash, Quota: r.quota}
			},
		},
		Global:   global,
		Rounding: discordsim.RoundDown, // the rounding that misleads clients most
	})
	if err != nil {
		panic(err) // the limits are constants of this package
	}
	d.fake = fake
	return d
}

// seenBy converts a request to the form of the fake Discord.
func seenBy(r *buckets.Request) discordsim.Request {
	seen := discordsim.Request{
		Method: r.Route.Route().Method(), Path: r.Route.Path(), Authorization: r.Authorization,
		Value: r.Route.Route().String(),
	}
	if r.Fields != nil {
		seen.Fields = r.Fields()
	}
	return seen
}

// process counts a request now, and returns the response.
func (d *discord) process(r *buckets.Request) *discordsim.Response {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.fake.Handle(time.Now(), seenBy(r))
}

// foreign counts n requests of another client with the same credential.
func (d *discord) foreign(r *buckets.Request, n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.fake.Consume(time.Now(), seenBy(r), n)
}

// set changes the limit of a route.
func (d *discord) set(route routes.CompiledRoute, q discordsim.Quota, hash string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.rules[route.Route().String()] = rule{q, hash}
}

// script replaces the faults. The request numbers in faults count all requests since the start of the case.
func (d *discord) script(faults ...discordsim.Fault) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := range faults {
		if faults[i].Refuse != nil {
			faults[i].When = func(discordsim.Call) bool {
				d.scripted++
				return true
			}
		}
	}
	d.fake.SetFaults(faults)
}

// tally counts requests by outcome. refused does not include the 429s that a fault caused, but does include the 429s to
// requests that were sent during the holds after such faults.
type tally struct{ arrived, accepted, failed, refused int }

func (d *discord) tally() tally {
	d.mu.Lock()
	defer d.mu.Unlock()
	r := d.fake.Report()
	return tally{r.Requests, r.Accepted, r.Failed + r.Lost, r.Refused.Total() - d.scripted}
}

// world is a trial with a fake Discord behind a simulated round trip.
type world struct {
	*trial
	*discord
	all    sync.WaitGroup
	sent   []*call
	jitter time.Duration // bound of the random time that is added to a round trip
	trip   atomic.Int64  // round-trip time, a time.Duration
}

// newWorld returns a world without any limit.
func newWorld(t *trial) *world { return worldWith(t, discordsim.Unlimited()) }

func worldWith(t *trial, global discordsim.Quota) *world {
	w := &world{trial: t, discord: newDiscord(global)}
	w.setTrip(20 * time.Millisecond)
	return w
}

// limited returns a world in which messages have this limit.
func limited(t *trial, q discordsim.Quota) *world {
	w := newWorld(t)
	w.set(message(1), q, "messages")
	return w
}

// setTrip changes the round-trip time of requests that are sent from now on.
func (w *world) setTrip(d time.Duration) { w.trip.Store(int64(d)) }

// post sends a request in the background.
func (w *world) post(r *buckets.Request) *call {
	number := len(w.sent)
	w.all.Add(1)
	c := w.start(w.ctx, r, func(ctx context.Context, c *call) {
		defer w.all.Done()
		c.end(w.deliver(ctx, c, number))
	})
	w.sent = append(w.sent, c)
	return c
}

// send sends a request in the background. It returns when the request waits in the limiter or is in flight.
func (w *world) send(r *buckets.Request) *call {
	c := w.post(r)
	w.settle()
	return c
}

// sends sends n requests to a route, one after the other.
func (w *world) sends(n int, route routes.CompiledRoute) []*call {
	var all []*call
	for range n {
		all = append(all, w.send(request(route)))
	}
	return all
}

// burst sends n messages at once.
func (w *world) burst(n int) {
	for range n {
		w.post(request(message(1)))
	}
	w.settle()
}

// mostAttempts is far more than a limiter needs. A request ends with an error when all these attempts got a 429.
const mostAttempts = 20

// deliver sends a request like a client with a limiter, and sends it again after each 429.
func (w *world) deliver(ctx context.Context, c *call, number int) (status int, err error) {
	for attempt := 1; ; attempt++ {
		lease, err := w.acquire(ctx, c.request)
		if err != nil {
			return 0, err
		}
		answer, arrived := w.exchange(c.request, number, c.grant(lease))
		if !arrived {
			lease.Release()
			return 0, nil
		}
		response := parse(answer)
		lease.Update(response)
		switch {
		case response.Class == ratelimits.ClassOK || w.ctx.Err() != nil:
			return answer.Status, nil
		case attempt == mostAttempts:
			return answer.Status, fmt.Errorf("the request was refused %d times", mostAttempts)
		}
	}
}

// exchange sends a request and waits for the response. arrived is false if no response arrives.
func (w *world) exchange(r *buckets.Request, number, attempt int) (answer *discordsim.Response, arrived bool) {
	there, back := w.ways(number, attempt)
	if !w.sleep(there) {
		return nil, false
	}
	answer = w.process(r)
	return answer, w.sleep(back+answer.Delay) && answer.Connection == discordsim.ConnectionKept
}

// ways returns the travel times of a request and its response. They are the same in every run. The number of the
// request is added in microseconds, so that requests that are sent at once do not all arrive at the same instant.
func (w *world) ways(number, attempt int) (there, back time.Duration) {
	there = time.Duration(w.trip.Load()) / 2
	back = there
	if half := int64(w.jitter / 2); half > 0 {
		random := rand.New(rand.NewPCG(uint64(number), uint64(attempt)))
		there += time.Duration(random.Int64N(half))
		back += time.Duration(random.Int64N(half))
	}
	return there + time.Duration(number)*time.Microsecond, back
}

// finish waits until all requests have ended, and returns how long that took. The case fails if it takes longer than
// within.
func (w *world) finish(within time.Duration) time.Duration {
	w.reporter.Helper()
	began := time.Now()
	over := make(chan struct{})
	w.background(func() {
		w.all.Wait()
		close(over)
	})
	timer := time.NewTimer(within)
	defer timer.Stop()
	select {
	case <-over:
	case <-timer.C:
		waiting := 0
		for _, c := range w.sent {
			if !c.now().done {
				waiting++
			}
		}
		w.expect(false, "all requests were expected to be finished within %v, but %d of %d are not; Discord saw %+v",
			within, waiting, len(w.sent), w.tally())
	}
	return time.Since(began)
}

// acceptedAll expects that all these requests were accepted.
func (w *world) acceptedAll(all []*call, who string) {
	w.reporter.Helper()
	for i, c := range all {
		o := c.now()
		w.expect(o.done && o.err == nil && o.status == http.StatusOK,
			"%s were expected to be answered, but number %d has status %d, error %v", who, i+1, o.status, o.err)
	}
}

// refusedNone expects that Discord has refused no request.
func (w *world) refusedNone() {
	w.reporter.Helper()
	tally := w.tally()
	w.expect(tally.refused == 0, "no 429 was expected, because all of them are avoidable; Discord saw %+v", tally)
}

// delivered waits like the method finish. It expects that all these requests were accepted, and that there was no 429.
func (w *world) delivered(within time.Duration, all []*call, who string) time.Duration {
	w.reporter.Helper()
	took := w.finish(within)
	w.acceptedAll(all, who)
	w.refusedNone()
	return took
}

// inOrder expects that requests were granted in the order in which they were sent, if the limiter promises Order.
func (w *world) inOrder(all []*call) {
	w.reporter.Helper()
	if w.without[Order] {
		return
	}
	slack := time.Duration(0)
	if w.realTime {
		slack = w.pause
	}
	var latest time.Time
	for i, c := range all {
		if !c.granted() {
			continue // the call was cancelled
		}
		at := c.now().at
		w.expect(!at.Before(latest.Add(-slack)),
			"grants were expected in the order of arrival, but number %d was granted %v before one that came earlier",
			i+1, latest.Sub(at))
		latest = at
	}
}

// fullRate expects that a bucket of five per second can still be used at its full rate.
func (w *world) fullRate() {
	w.reporter.Helper()
	w.wait(2500 * time.Millisecond)
	after := w.sends(10, message(1))
	took := w.delivered(30*time.Second, after, "all that came later")
	w.expect(took < 1500*time.Millisecond+w.late(2), "10 later requests of a bucket of 5 in 1s were expected to take "+
		"little more than 1s, but took %v, so a place was not given back", took)
}
