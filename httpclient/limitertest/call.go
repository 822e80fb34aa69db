package limitertest

import (
	"context"
	"sync"
	"time"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/ratelimits"
	"github.com/ratelight/ratelight/routes"
)

// call is a call of AcquireRequest in the background.
type call struct {
	request *buckets.Request
	cancel  context.CancelFunc
	began   time.Time

	mu    sync.Mutex
	done  bool
	lease buckets.Lease
	err   error
	at    time.Time // when it returned
}

// start calls AcquireRequest in the background.
func (t *trial) start(ctx context.Context, r *buckets.Request) *call {
	ctx, cancel := context.WithCancel(ctx)
	c := &call{request: r, cancel: cancel, began: time.Now()}
	t.asking.Add(1)
	t.background(func() {
		defer t.asking.Add(-1)
		defer cancel()
		lease, err := t.limiter.AcquireRequest(ctx, r)
		c.mu.Lock()
		defer c.mu.Unlock()
		c.done, c.lease, c.err, c.at = true, lease, err, time.Now()
	})
	return c
}

// call calls AcquireRequest in the background. It returns when AcquireRequest has returned or waits.
func (t *trial) call(ctx context.Context, r *buckets.Request) *call {
	c := t.start(ctx, r)
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

// must acquires a request that must be granted at once.
func (t *trial) must(route routes.CompiledRoute, because string) *call {
	t.reporter.Helper()
	c := t.ask(route)
	t.expect(c.granted(), "%v was expected to be granted at once (%s), but %s", route, because, c)
	return c
}

// tell sends one request and updates its lease with the answer. It returns the time of the update.
func (t *trial) tell(route routes.CompiledRoute, answer ratelimits.Response) time.Time {
	t.reporter.Helper()
	return t.must(route, "nothing stands against it yet").update(t, answer)
}

// waits reports whether a request would have to wait now. It leaves the limiter unchanged.
func (t *trial) waits(r *buckets.Request) bool {
	c := t.call(t.ctx, r)
	if c.granted() {
		c.held().Return()
		t.settle()
		return false
	}
	c.cancel()
	t.settle()
	c.held().Return() // in case it was granted meanwhile
	return true
}

// expectWait expects that a request would have to wait now, or would not.
func (t *trial) expectWait(r *buckets.Request, want bool, what string) {
	t.reporter.Helper()
	text := map[bool]string{true: "wait", false: "go at once"}
	got := t.waits(r)
	t.expect(got == want, "%s was expected to %s, but would %s", what, text[want], text[got])
}

func (c *call) state() (done bool, at time.Time, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.done, c.at, c.err
}

// held returns the lease, zero if there is none.
func (c *call) held() buckets.Lease {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lease
}

func (c *call) granted() bool {
	done, _, err := c.state()
	return done && err == nil
}

// waiting reports whether the call has not returned.
func (c *call) waiting() bool {
	done, _, _ := c.state()
	return !done
}

// String describes the state of the call, for messages.
func (c *call) String() string {
	done, at, err := c.state()
	switch {
	case !done:
		return "it waits"
	case err != nil:
		return "it failed after " + at.Sub(c.began).String() + ": " + err.Error()
	}
	return "it was granted after " + at.Sub(c.began).String()
}

// update ends the lease with an answer, and returns the time of the update.
func (c *call) update(t *trial, answer ratelimits.Response) time.Time {
	answered := time.Now()
	c.held().Update(answer)
	t.settle()
	return answered
}

// release ends the lease of a request that was sent and got no answer.
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

// grantedAfter expects that a call is granted d after since: not earlier, and not much later.
func (t *trial) grantedAfter(c *call, since time.Time, d time.Duration, what string) {
	t.reporter.Helper()
	t.wait(time.Until(since.Add(d)) + t.late(1))
	t.expect(c.granted(), "%s was expected to be granted %v after the answer, but %s", what, d, c)
	_, at, _ := c.state()
	after := at.Sub(since)
	t.expect(after >= d, "%s was expected to wait for %v, but was granted after %v", what, d, after)
	t.expect(after <= d+t.late(1), "%s was expected to wait for %v and no longer, but was granted after %v", what, d, after)
}
