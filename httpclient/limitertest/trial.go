package limitertest

import (
	"context"
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"testing/synctest"
	"time"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/httpclient"
	"github.com/ratelight/ratelight/ratelimits"
	"github.com/ratelight/ratelight/routes"
)

// reporter gets the findings of a case, usually a *testing.T.
type reporter interface {
	Helper()
	Errorf(format string, arguments ...any)
	Fatalf(format string, arguments ...any)
	Skipf(format string, arguments ...any)
}

// trial is one run of a case with a new limiter.
type trial struct {
	settings
	reporter reporter
	why      string
	limiter  httpclient.Limiter
	ctx      context.Context // parent of the contexts of all requests; ends with the case
	cancel   context.CancelFunc
	asking   atomic.Int64 // calls of AcquireRequest that have not returned
	running  atomic.Int64 // goroutines of the case
}

func newTrial(r reporter, s settings, why string) *trial {
	t := &trial{settings: s, reporter: r, why: why}
	t.ctx, t.cancel = context.WithCancel(context.Background())
	return t
}

// expect ends the case with a failure unless ok is true.
func (t *trial) expect(ok bool, format string, arguments ...any) {
	t.reporter.Helper()
	if !ok {
		t.reporter.Fatalf(format+"\nwhy it matters: %s", append(arguments, t.why)...)
	}
}

// background runs f in a goroutine for which finish waits.
func (t *trial) background(f func()) {
	t.running.Add(1)
	go func() {
		defer t.running.Add(-1)
		f()
	}()
}

// finish ends all requests of the case. It fails the case if a wait outlives its context.
func (t *trial) finish() {
	t.cancel()
	t.settle()
	if n := t.asking.Load(); n > 0 {
		t.reporter.Errorf("every wait was expected to end with its context, but %d requests still wait\n"+
			"why it matters: %s", n, t.why)
		if closer, ok := t.limiter.(io.Closer); ok {
			closer.Close() // Close may end these waits
		}
	}
	// Goroutines may need time to end, and only a sleep lets time pass in a bubble.
	for range 100 {
		if t.running.Load() == 0 {
			return
		}
		t.wait(100 * time.Millisecond)
	}
}

// settle waits until no goroutine can proceed unless time passes.
func (t *trial) settle() {
	if t.realTime {
		time.Sleep(t.pause)
		return
	}
	synctest.Wait()
}

// soon reports whether a condition holds. In real time it waits up to the tolerance until the condition holds, because
// a trial cannot see when all parts of a limiter have learnt of a response.
func (t *trial) soon(holds func() bool) bool {
	deadline := time.Now().Add(t.tolerance)
	for !holds() {
		if !t.realTime || time.Now().After(deadline) {
			return false
		}
		t.settle()
	}
	return true
}

// wait lets time pass.
func (t *trial) wait(d time.Duration) {
	time.Sleep(d)
	t.settle()
}

// late returns the greatest permitted delay of an event that depends on this many timers, one after the other.
func (t *trial) late(rounds int) time.Duration {
	d := time.Duration(rounds) * t.tolerance
	if t.realTime {
		d += t.pause
	}
	return d
}

// rounds returns how often to repeat a race, or how many requests to send. In real time the number is smaller.
func (t *trial) rounds(inBubble, inRealTime int) int {
	if t.realTime {
		return inRealTime
	}
	return inBubble
}

// sleep waits for d or until the case ends. It returns true if the case goes on.
func (t *trial) sleep(d time.Duration) bool {
	if d <= 0 {
		return t.ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-t.ctx.Done():
		return false
	}
}

// withMaxWait returns a context that bounds waits to d.
func (t *trial) withMaxWait(d time.Duration) context.Context {
	return buckets.ContextWithMaxWait(t.ctx, d)
}

// isTooLong reports whether err is a *ratelimits.TooLongError.
func isTooLong(err error) bool { return errors.As(err, new(*ratelimits.TooLongError)) }

// call is a call of AcquireRequest in the background, or a request that world.post sends.
type call struct {
	request *buckets.Request
	cancel  context.CancelFunc
	began   time.Time

	mu    sync.Mutex
	lease buckets.Lease
	outcome
}

// outcome is the state of a call.
type outcome struct {
	done   bool      // AcquireRequest has returned, or the request has been answered
	err    error     // why the call was not granted
	at     time.Time // time of the first grant, or of the error
	grants int
	status int // status of the latest response, 0: none
}

func (c *call) now() outcome {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.outcome
}

func (c *call) granted() bool { return c.now().grants > 0 }

// waiting reports whether the call waits for its first grant.
func (c *call) waiting() bool {
	o := c.now()
	return !o.done && o.grants == 0
}

// String describes the state of the call in failure messages.
func (c *call) String() string {
	switch o := c.now(); {
	case o.err != nil:
		return "it failed after " + o.at.Sub(c.began).String() + ": " + o.err.Error()
	case o.grants == 0:
		return "it waits"
	default:
		return "it was granted after " + o.at.Sub(c.began).String()
	}
}

// grant records a grant and returns the number of earlier ones.
func (c *call) grant(lease buckets.Lease) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.grants++; c.grants == 1 {
		c.at = time.Now()
	}
	c.lease = lease
	return c.grants - 1
}

// end records the last state of the call.
func (c *call) end(status int, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.done, c.status, c.err = true, status, err
	if err != nil && c.grants == 0 {
		c.at = time.Now()
	}
}

// held returns the lease, or a zero Lease if there is none.
func (c *call) held() buckets.Lease {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lease
}

// acquire calls AcquireRequest.
func (t *trial) acquire(ctx context.Context, r *buckets.Request) (buckets.Lease, error) {
	t.asking.Add(1)
	defer t.asking.Add(-1)
	return t.limiter.AcquireRequest(ctx, r)
}

// start runs f in the background with a context that the call's cancel ends.
func (t *trial) start(ctx context.Context, r *buckets.Request, f func(ctx context.Context, c *call)) *call {
	ctx, cancel := context.WithCancel(ctx)
	c := &call{request: r, cancel: cancel, began: time.Now()}
	t.background(func() {
		defer cancel()
		f(ctx, c)
	})
	return c
}

// call calls AcquireRequest in the background. It returns when AcquireRequest has returned or waits.
func (t *trial) call(ctx context.Context, r *buckets.Request) *call {
	c := t.start(ctx, r, func(ctx context.Context, c *call) {
		lease, err := t.acquire(ctx, r)
		if err == nil {
			c.grant(lease)
		}
		c.end(0, err)
	})
	t.settle()
	return c
}

// ask acquires a request to the route with the usual credential.
func (t *trial) ask(route routes.CompiledRoute) *call { return t.call(t.ctx, request(route)) }

// asks acquires n requests, one after the other.
func (t *trial) asks(n int, route routes.CompiledRoute) []*call {
	var all []*call
	for range n {
		all = append(all, t.ask(route))
	}
	return all
}

// granted acquires a request that must be granted at once.
func (t *trial) granted(r *buckets.Request, because string) *call {
	t.reporter.Helper()
	c := t.call(t.ctx, r)
	t.expect(t.soon(c.granted), "%v was expected to be granted at once (%s), but %s", r.Route, because, c)
	return c
}

// must acquires a request to the route that must be granted at once.
func (t *trial) must(route routes.CompiledRoute, because string) *call {
	t.reporter.Helper()
	return t.granted(request(route), because)
}

// waiter acquires a request to the route that must wait.
func (t *trial) waiter(route routes.CompiledRoute, because string) *call {
	t.reporter.Helper()
	c := t.ask(route)
	waits := t.soon(func() bool {
		if t.realTime && c.granted() { // a part of the limiter does not know of the limit yet
			c.giveBack(t)
			c = t.ask(route)
		}
		return c.waiting()
	})
	t.expect(waits, "%v was expected to wait (%s), but %s", route, because, c)
	return c
}

// tell sends one request and updates its lease with answer. It returns the time of the update.
func (t *trial) tell(route routes.CompiledRoute, answer ratelimits.Response) time.Time {
	t.reporter.Helper()
	return t.must(route, "no limit stops it yet").update(t, answer)
}

// refuse lets the limiter learn that four of five messages are left, and sends one more, which gets this refusal. It
// returns the time of the refusal.
func (t *trial) refuse(answer ratelimits.Response) time.Time {
	t.reporter.Helper()
	t.tell(message(1), ok("messages", 5, 4, time.Second))
	c := t.must(message(1), "four of five are left")
	t.wait(10 * time.Millisecond)
	return c.update(t, answer)
}

// cancelAll cancels calls.
func (t *trial) cancelAll(all []*call) {
	for _, c := range all {
		c.cancel()
	}
	t.settle()
}

// waits reports whether a request would have to wait now. It withdraws the request again.
func (t *trial) waits(r *buckets.Request) bool {
	c := t.call(t.ctx, r)
	granted := c.granted()
	if !granted {
		c.cancel()
		t.settle()
	}
	c.giveBack(t) // even after the cancellation, because the request may have been granted before
	return !granted
}

// expectWait expects that a request would have to wait now if want is true, and that it would not if want is false.
func (t *trial) expectWait(r *buckets.Request, want bool, what string) {
	t.reporter.Helper()
	text := map[bool]string{true: "wait", false: "go at once"}
	got := t.soon(func() bool { return t.waits(r) == want })
	t.expect(got, "%s was expected to %s, but would %s", what, text[want], text[!want])
}

// update ends the lease with a response, and returns the time of the update.
func (c *call) update(t *trial, answer ratelimits.Response) time.Time {
	answered := time.Now()
	c.held().Update(answer)
	t.settle()
	return answered
}

// release ends the lease of a request that was sent and got no response.
func (c *call) release(t *trial) {
	c.held().Release()
	t.settle()
}

// giveBack ends the lease of a request that was not sent.
func (c *call) giveBack(t *trial) {
	c.held().Return()
	t.settle()
}

// count returns how many calls are granted.
func count(all []*call) int {
	n := 0
	for _, c := range all {
		if c.granted() {
			n++
		}
	}
	return n
}

// expectGrants expects that exactly want of the calls are granted.
func (t *trial) expectGrants(want int, all []*call, because string) {
	t.reporter.Helper()
	got := count(all)
	t.expect(got == want, "%d of %d were expected to be granted (%s), but %d were", want, len(all), because, got)
}

// grantedAfter expects that a call is granted d after since: not earlier, and not much later.
func (t *trial) grantedAfter(c *call, since time.Time, d time.Duration, what string) {
	t.reporter.Helper()
	t.wait(time.Until(since.Add(d)) + t.late(1))
	t.expect(c.granted(), "%s was expected to be granted %v after the answer, but %s", what, d, c)
	after := c.now().at.Sub(since)
	t.expect(after >= d, "%s was expected to wait for %v, but was granted after %v", what, d, after)
	t.expect(after <= d+t.late(1), "%s was expected to wait for %v and no longer, but for %v", what, d, after)
}
