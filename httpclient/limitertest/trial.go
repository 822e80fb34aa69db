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
	ctx      context.Context // parent of all requests' contexts; ends with the case
	cancel   context.CancelFunc
	asking   atomic.Int64 // calls of AcquireRequest that have not returned
	running  atomic.Int64 // goroutines of the case
}

func newTrial(r reporter, s settings, why string) *trial {
	t := &trial{settings: s, reporter: r, why: why}
	t.ctx, t.cancel = context.WithCancel(context.Background())
	return t
}

// errorf reports a failure and continues.
func (t *trial) errorf(format string, arguments ...any) {
	t.reporter.Helper()
	t.reporter.Errorf(format+"\nwhy it matters: %s", append(arguments, t.why)...)
}

// fatalf reports a failure and ends the case.
func (t *trial) fatalf(format string, arguments ...any) {
	t.reporter.Helper()
	t.reporter.Fatalf(format+"\nwhy it matters: %s", append(arguments, t.why)...)
}

// expect ends the case with a failure unless ok is true.
func (t *trial) expect(ok bool, format string, arguments ...any) {
	t.reporter.Helper()
	if !ok {
		t.fatalf(format, arguments...)
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
		t.errorf("every wait was expected to end with its context, but %d requests still wait", n)
		if closer, ok := t.limiter.(io.Closer); ok {
			closer.Close() // which may end them
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

// settle returns when no goroutine can proceed without time passing.
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

// late returns how late an event may be, for this many timers in a row.
func (t *trial) late(rounds int) time.Duration {
	d := time.Duration(rounds) * t.tolerance
	if t.realTime {
		d += t.pause
	}
	return d
}

// sleep waits for d, or until the case ends. It reports whether the case goes on.
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

// isTooLong reports whether err is a *ratelimits.TooLongError.
func isTooLong(err error) bool {
	var tooLong *ratelimits.TooLongError
	return errors.As(err, &tooLong)
}
