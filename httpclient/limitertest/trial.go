package limitertest

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing/synctest"
	"time"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/httpclient"
	"github.com/ratelight/ratelight/internal/discordsim"
)

// trial is one run of a case with a new limiter.
type trial struct {
	settings
	name     string
	why      string
	limiter  httpclient.Limiter
	ctx      context.Context // parent of the contexts of all requests; ends with the case
	failures []string
	skipped  string // why the case does not apply to the limiter

	asking  atomic.Int64 // calls of AcquireRequest that have not returned
	running atomic.Int64 // goroutines of the case

	steps    []string // the lines that play has played
	named    map[string]*call
	answered time.Time // time of the latest answer of a script

	discord *discord
	sent    []*call      // by post
	trip    atomic.Int64 // round-trip time of requests that are sent from now on, a time.Duration
	jitter  atomic.Int64 // bound of the random time that is added to a round trip, a time.Duration
}

// perform runs the case, and then ends all its requests. It fails the case if a wait outlives its context.
func (t *trial) perform(c *testCase) {
	ctx, cancel := context.WithCancel(context.Background())
	t.ctx, t.discord = ctx, newDiscord(discordsim.Unlimited())
	t.trip.Store(int64(20 * time.Millisecond))
	over := make(chan struct{})
	go func() { // a goroutine, because a failure or a skip ends it
		defer close(over)
		for _, promise := range c.needs {
			if _, closes := t.limiter.(io.Closer); t.without[promise] || promise == closing && !closes {
				t.skip("skipped, because the case needs this: " + string(promise))
			}
		}
		c.run(t)
	}()
	<-over
	cancel()
	t.settle()
	if n := t.asking.Load(); n > 0 {
		t.fail("every wait was expected to end with its context, but %d requests still wait", n)
		if closer, ok := t.limiter.(io.Closer); ok {
			closer.Close() // Close may end these waits
		}
	}
	for range 100 { // goroutines may need time to end, and only a sleep lets time pass in a bubble
		if t.running.Load() == 0 {
			return
		}
		t.wait(100 * time.Millisecond)
	}
}

// shownSteps is how many lines of a script a failure shows.
const shownSteps = 20

func (t *trial) fail(format string, arguments ...any) {
	text := fmt.Sprintf(format, arguments...)
	if len(t.steps) > 0 {
		text += "\nsteps so far:\n\t" + strings.Join(t.steps[max(0, len(t.steps)-shownSteps):], "\n\t")
	}
	t.failures = append(t.failures, text+"\nwhy it matters: "+t.why)
}

// expect ends the case with a failure unless ok is true.
func (t *trial) expect(ok bool, format string, arguments ...any) {
	if !ok {
		t.fail(format, arguments...)
		runtime.Goexit()
	}
}

// skip ends the case, which does not apply to the limiter.
func (t *trial) skip(reason string) {
	t.skipped = reason
	runtime.Goexit()
}

// background runs f in a goroutine for which the end of the case waits.
func (t *trial) background(f func()) {
	t.running.Add(1)
	go func() {
		defer t.running.Add(-1)
		f()
	}()
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

// call is a call of AcquireRequest in the background, or a request that post sends.
type call struct {
	spec     string // see newCall
	label    string // the name and spec, for failures
	request  *buckets.Request
	ctx      context.Context
	cancel   context.CancelFunc
	began    time.Time
	decided  chan struct{} // closed by the first grant and by an error
	ended    chan struct{} // closed when AcquireRequest has returned, or the request has been answered
	answered time.Time     // when a script has answered it

	mu sync.Mutex
	outcome
}

// outcome is the state of a call.
type outcome struct {
	at     time.Time     // when the call was decided
	lease  buckets.Lease // of the latest grant
	grants int
	err    error // why the call was not granted
	status int   // status of the latest response, 0: none
}

// now returns the state of the call.
func (c *call) now() outcome {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.outcome
}

func (c *call) granted() bool { return c.now().grants > 0 }

func (c *call) failed() bool { return c.now().err != nil }

func (c *call) waiting() bool { return c.now().at.IsZero() }

// String describes the state of the call in failure messages.
func (c *call) String() string {
	switch o := c.now(); {
	case o.at.IsZero():
		return "it waits"
	case o.err != nil:
		return fmt.Sprintf("it failed after %v: %v", o.at.Sub(c.began), o.err)
	default:
		return fmt.Sprintf("it was granted after %v", o.at.Sub(c.began))
	}
}

// set changes the state of the call, which is decided now at the latest.
func (c *call) set(change func(o *outcome)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change(&c.outcome)
	if c.at.IsZero() {
		c.at = time.Now()
		close(c.decided)
	}
}

// giveBack ends the lease of a request that was not sent. If there is none, giveBack does nothing.
func (t *trial) giveBack(c *call) { t.endLease(c, false, buckets.Lease.Return) }

// endLease ends the lease of a request. If atOnce is true, that must not block.
func (t *trial) endLease(c *call, atOnce bool, end func(buckets.Lease)) {
	began := time.Now()
	end(c.now().lease)
	took := time.Since(began)
	t.expect(!atOnce || took <= t.late(0), "the lease of %s was expected to end at once, but that took %v", c.label, took)
	t.settle()
}

// start runs f in the background. Its results are the last state of the call.
func (t *trial) start(c *call, f func() (status int, err error)) {
	t.background(func() {
		status, err := f()
		c.set(func(o *outcome) { o.status, o.err = status, err })
		close(c.ended)
	})
}

// acquire calls AcquireRequest.
func (t *trial) acquire(c *call) (buckets.Lease, error) {
	t.asking.Add(1)
	defer t.asking.Add(-1)
	lease, err := t.limiter.AcquireRequest(c.ctx, c.request)
	if err == nil {
		c.set(func(o *outcome) { o.lease, o.grants = lease, o.grants+1 })
	}
	return lease, err
}

// ask calls AcquireRequest in the background. It returns when AcquireRequest has returned or waits.
func (t *trial) ask(c *call) *call {
	t.start(c, func() (int, error) {
		_, err := t.acquire(c)
		return 0, err
	})
	t.settle()
	return c
}
