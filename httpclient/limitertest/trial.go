package limitertest

import (
	"context"
	"errors"
	"io"
	"sync/atomic"
	"testing/synctest"
	"time"

	"github.com/ratelight/ratelight/httpclient"
	"github.com/ratelight/ratelight/ratelimits"
)

// reporter is whom a case tells what it finds: a *testing.T, as a rule.
type reporter interface {
	Helper()
	Errorf(format string, arguments ...any)
	Fatalf(format string, arguments ...any)
	Skipf(format string, arguments ...any)
}

// trial is one limiter that goes through one case.
type trial struct {
	settings
	reporter reporter
	why      string
	limiter  httpclient.Limiter
	ctx      context.Context // of all requests; ends with the case
	cancel   context.CancelFunc
	asking   atomic.Int64 // calls of AcquireRequest that have not returned
	running  atomic.Int64 // goroutines of the case
}

func newTrial(r reporter, s settings, why string) *trial {
	t := &trial{settings: s, reporter: r, why: why}
	t.ctx, t.cancel = context.WithCancel(context.Background())
	return t
}

// errorf reports a failure and goes on.
func (t *trial) errorf(format string, arguments ...any) {
	t.reporter.Helper()
	t.reporter.Errorf(format+"\nwhy it matters: %s", append(arguments, t.why)...)
}

// fatalf reports a failure and ends the case.
func (t *trial) fatalf(format string, arguments ...any) {
	t.reporter.Helper()
	t.reporter.Fatalf(format+"\nwhy it matters: %s", append(arguments, t.why)...)
}

// expect ends the case if something is not as it should be.
func (t *trial) expect(ok bool, format string, arguments ...any) {
	t.reporter.Helper()
	if !ok {
		t.fatalf(format, arguments...)
	}
}

// background runs f in a goroutine that finish knows of.
func (t *trial) background(f func()) {
	t.running.Add(1)
	go func() {
		defer t.running.Add(-1)
		f()
	}()
}

// finish ends what the case has left over. No wait may outlive its context.
func (t *trial) finish() {
	t.cancel()
	t.settle()
	if n := t.asking.Load(); n > 0 {
		t.errorf("every wait was expected to end with its context, but %d requests still wait", n)
		if closer, ok := t.limiter.(io.Closer); ok {
			closer.Close() // perhaps this ends them
		}
	}
	for range 100 { // whatever is slow, as nobody else can let time pass in a bubble
		if t.running.Load() == 0 {
			return
		}
		t.wait(100 * time.Millisecond)
	}
}

// settle returns when everybody has done what there was to do without time passing.
func (t *trial) settle() {
	if t.realTime {
		time.Sleep(t.pause)
		return
	}
	synctest.Wait()
}

// wait lets time pass.
func (t *trial) wait(d time.Duration) {
	time.Sleep(d)
	t.settle()
}

// late is how much later than a certain moment something may happen, if it must not happen before.
func (t *trial) late(rounds int) time.Duration {
	d := time.Duration(rounds) * t.tolerance
	if t.realTime {
		d += t.pause
	}
	return d
}

// sleep waits for d or until the case is over, and reports whether it is not.
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

// isTooLong reports a refusal of what would wait too long.
func isTooLong(err error) bool {
	var tooLong *ratelimits.TooLongError
	return errors.As(err, &tooLong)
}
