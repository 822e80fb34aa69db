package httpclient

import (
	"context"
	"runtime"
	"time"
)

// briefWait is for how long something is waited for that comes at once or not at all.
const briefWait = 100 * time.Millisecond

// task is a call in a goroutine of its own, so that whoever waits for it can leave: a read or a round trip of somebody else's that does
// not end when it is closed or its context ends.
type task[T any] struct {
	over     chan struct{}
	returned bool
	result   T
	problem  any // what it panicked with
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

// wait waits for the end of the call until the context ends, and reports whether it has come.
func (t *task[T]) wait(ctx context.Context) bool {
	select {
	case <-t.over:
		return true
	case <-ctx.Done():
		return false
	}
}

// waitBriefly is wait for a call that should end now.
func (t *task[T]) waitBriefly() bool {
	select {
	case <-t.over:
		return true
	case <-time.After(briefWait):
		return false
	}
}

// get returns what the call returned, when it is over. A panic goes on here.
func (t *task[T]) get() T {
	<-t.over
	switch {
	case t.returned:
	case t.problem != nil:
		panic(t.problem)
	default: // as a test that fails does
		runtime.Goexit()
	}
	return t.result
}

// leave lets the call go on alone. What it returns in the end is for late, or nothing if it panics.
func (t *task[T]) leave(late func(T)) {
	go func() {
		<-t.over
		late(t.result)
	}()
}
