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

// world is a trial with a fake Discord at some distance.
type world struct {
	*trial
	*discord
	all    sync.WaitGroup
	sent   []*delivery
	jitter time.Duration // bound of the random time that is added to a round trip
	trip   atomic.Int64  // round-trip time, a time.Duration
}

// newWorld returns a world without a global limit.
func newWorld(t *trial) *world { return worldWith(t, discordsim.Unlimited()) }

func worldWith(t *trial, global discordsim.Quota) *world {
	w := &world{trial: t, discord: newDiscord(global)}
	w.trip.Store(int64(20 * time.Millisecond))
	return w
}

// limited returns a world in which one route has a limit.
func limited(t *trial, route routes.CompiledRoute, q discordsim.Quota) *world {
	w := newWorld(t)
	w.set(request(route), rule{q, "messages"})
	return w
}

// delivery is one request, which is sent again after each refusal.
type delivery struct {
	cancel context.CancelFunc
	number int // index in world.sent

	mu     sync.Mutex
	done   bool
	err    error
	status int       // of the last answer; 0: lost
	first  time.Time // time of the first grant
	times  int
}

// send sends a request in the background. It returns when the request waits in the limiter or is under way.
func (w *world) send(ctx context.Context, r *buckets.Request) *delivery {
	d := w.post(ctx, r)
	w.settle()
	return d
}

// burst sends n requests to a route at once.
func (w *world) burst(n int, route routes.CompiledRoute) {
	for range n {
		w.post(w.ctx, request(route))
	}
	w.settle()
}

// post sends a request in the background.
func (w *world) post(ctx context.Context, r *buckets.Request) *delivery {
	ctx, cancel := context.WithCancel(ctx)
	d := &delivery{cancel: cancel, number: len(w.sent)}
	w.sent = append(w.sent, d)
	w.all.Add(1)
	w.background(func() {
		defer w.all.Done()
		defer cancel()
		status, err := w.deliver(ctx, d, r)
		d.mu.Lock()
		defer d.mu.Unlock()
		d.done, d.status, d.err = true, status, err
	})
	return d
}

// sends sends n requests to a route, one after the other.
func (w *world) sends(n int, route routes.CompiledRoute) []*delivery {
	var all []*delivery
	for range n {
		all = append(all, w.send(w.ctx, request(route)))
	}
	return all
}

// mostAttempts is far more than a limiter needs. It ends requests that would be repeated for ever.
const mostAttempts = 20

var errStubborn = fmt.Errorf("the request was refused %d times", mostAttempts)

// deliver sends a request as a client with a limiter does, again after each 429.
func (w *world) deliver(ctx context.Context, d *delivery, r *buckets.Request) (status int, err error) {
	for attempt := 1; ; attempt++ {
		w.asking.Add(1)
		lease, err := w.limiter.AcquireRequest(ctx, r)
		w.asking.Add(-1)
		if err != nil {
			return 0, err
		}
		answer, arrived := w.exchange(r, d.number, d.grant())
		if !arrived {
			lease.Release()
			return 0, nil
		}
		response := answer.parse()
		lease.Update(response)
		switch {
		case response.Class == ratelimits.ClassOK || w.ctx.Err() != nil:
			return answer.status, nil
		case attempt == mostAttempts:
			return answer.status, errStubborn
		}
	}
}

// grant records a grant and returns the number of earlier ones.
func (d *delivery) grant() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.times++
	if d.times == 1 {
		d.first = time.Now()
	}
	return d.times - 1
}

// exchange sends a request and waits for the answer. It returns false if none arrives.
func (w *world) exchange(r *buckets.Request, number, attempt int) (answer, bool) {
	there, back := w.ways(number, attempt)
	if !w.sleep(there) {
		return answer{}, false
	}
	response := w.process(r)
	return answered(response), w.sleep(back+response.Delay) && response.Connection == discordsim.ConnectionKept
}

// ways returns the travel times of a request and its response. They are the same in every run, and no two requests
// arrive at the same moment.
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

// outcome returns the outcome of a request.
func (d *delivery) outcome() (done bool, status int, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.done, d.status, d.err
}

// grantedAt returns the time of the first grant and the number of grants.
func (d *delivery) grantedAt() (time.Time, int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.first, d.times
}

// finish waits until all requests have ended, and returns how long that took. The case fails if it exceeds within.
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
		for _, d := range w.sent {
			if done, _, _ := d.outcome(); !done {
				waiting++
			}
		}
		w.fatalf("all requests were expected to be finished within %v, but %d of %d are not; Discord saw %+v", within, waiting, len(w.sent), w.tally())
	}
	return time.Since(began)
}

// acceptedAll expects that all these requests were accepted.
func (w *world) acceptedAll(all []*delivery, who string) {
	w.reporter.Helper()
	for i, d := range all {
		done, status, err := d.outcome()
		w.expect(done && err == nil && status == http.StatusOK,
			"%s were expected to be answered, but number %d has status %d, error %v", who, i+1, status, err)
	}
}

// refusedNone expects that Discord has refused no request.
func (w *world) refusedNone() {
	w.reporter.Helper()
	tally := w.tally()
	w.expect(tally.refused == 0, "no 429 was expected, all of them could be avoided; Discord saw %+v", tally)
}

// delivered waits like finish. It expects that all these requests were accepted, and that there was no 429.
func (w *world) delivered(within time.Duration, all []*delivery, who string) time.Duration {
	w.reporter.Helper()
	took := w.finish(within)
	w.acceptedAll(all, who)
	w.refusedNone()
	return took
}

// inOrder expects that requests were granted in the order in which they were sent, if the limiter promises Order.
func (w *world) inOrder(all []*delivery) {
	w.reporter.Helper()
	if w.without[Order] {
		return
	}
	slack := time.Duration(0)
	if w.realTime {
		slack = w.pause
	}
	var latest time.Time
	for i, d := range all {
		at, times := d.grantedAt()
		if times == 0 {
			continue // never granted: it was cancelled
		}
		w.expect(!at.Before(latest.Add(-slack)), "grants were expected in the order of arrival, but number %d was granted %v before an earlier one", i+1, latest.Sub(at))
		latest = at
	}
}
