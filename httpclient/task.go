package httpclient

import (
	"context"
	"runtime"
	"time"
)

// briefWait bounds waits for calls that normally return at once but may never return.
const briefWait = 100 * time.Millisecond

// task is a function call in a separate goroutine, so that its caller can stop waiting for it. Reads and round trips
// are tasks, because a read does not always return when the body is closed, and a round trip does not always return
// when the context ends.
type task[T any] struct {
	over     chan struct{}
	returned bool
	result   T
	problem  any // the value with which the call panicked
}

func start[T any](call func() T) *task[T] {
	t := &task[T]{over: make(chan struct{})}
	go func() {
		defer close(t.over)
		defer func() {
			if !t.returned {
				t.problem = recover()
			}
		}()
		t.result = call()
		t.returned = true
	}()
	return t
}

// wait waits until the call or the context ends, and reports whether the call has ended.
func (t *task[T]) wait(ctx context.Context) bool {
	select {
	case <-t.over:
		return true
	case <-ctx.Done():
		return false
	}
}

// waitBriefly waits until the call ends, but at most for briefWait, and reports whether the call has ended.
func (t *task[T]) waitBriefly() bool {
	select {
	case <-t.over:
		return true
	case <-time.After(briefWait):
		return false
	}
}

// get waits for the call and returns its result. If the call has panicked, get panics with the same value. If the call
// has ended its goroutine (runtime.Goexit), get ends the goroutine of its caller.
func (t *task[T]) get() T {
	<-t.over
	switch {
	case t.returned:
	case t.problem != nil:
		panic(t.problem)
	default: // the call has called Goexit, for example through FailNow in a test
		runtime.Goexit()
	}
	return t.result
}

// leave returns at once. When the call ends, late is called with the result of the call, which is the zero value after
// a panic or Goexit.
func (t *task[T]) leave(late func(T)) {
	go func() {
		<-t.over
		late(t.result)
	}()
}
