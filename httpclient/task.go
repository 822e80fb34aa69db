package httpclient

import (
	"context"
	"runtime"
	"time"
)

// briefWait bounds waits for calls that return at once or not at all.
const briefWait = 100 * time.Millisecond

// task is a call in a separate goroutine, so that its caller can stop waiting. It is used for calls of other code that
// may not return when their body is closed or their context ends: reads and round trips.
type task[T any] struct {
	over     chan struct{}
	returned bool
	result   T
	problem  any // the value of its panic
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

// wait waits for the end of the call until the context ends, and reports whether the call has ended.
func (t *task[T]) wait(ctx context.Context) bool {
	select {
	case <-t.over:
		return true
	case <-ctx.Done():
		return false
	}
}

// waitBriefly is wait for at most briefWait.
func (t *task[T]) waitBriefly() bool {
	select {
	case <-t.over:
		return true
	case <-time.After(briefWait):
		return false
	}
}

// get waits for the call and returns its result. It panics if the call has panicked.
func (t *task[T]) get() T {
	<-t.over
	switch {
	case t.returned:
	case t.problem != nil:
		panic(t.problem)
	default: // the call has called Goexit, as t.FailNow does
		runtime.Goexit()
	}
	return t.result
}

// leave lets the call go on without a waiter. late is called with its result, the zero value after a panic.
func (t *task[T]) leave(late func(T)) {
	go func() {
		<-t.over
		late(t.result)
	}()
}
