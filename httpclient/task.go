package httpclient

import (
	"context"
	"runtime"
	"time"
)

// briefWait bounds waits for calls that return either at once or never.
const briefWait = 100 * time.Millisecond

// task is a call in a separate goroutine, so that its caller can stop waiting. It is used for reads and round trips,
// whose code may not return when their body is closed or their context ends.
type task[T any] struct {
	over     chan struct{}
	returned bool
	result   T
	problem  any // the value of the call's panic
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

// waitBriefly is wait for at most briefWait instead of a context.
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

// leave lets the call go on without waiting for it. late is called with the result of the call, the zero value after a
// panic.
func (t *task[T]) leave(late func(T)) {
	go func() {
		<-t.over
		late(t.result)
	}()
}
