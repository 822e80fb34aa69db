package memoryengine

import (
	"context"
	"errors"
	"maps"
	"sync"
	"time"
)

// ErrDown is the error of calls to a server that is down.
var ErrDown = errors.New("memoryengine: connection refused")

// Fate says how long one call takes, and whether the call or its reply is lost.
type Fate struct {
	// Before is how long the call takes to reach the server. The server carries the call out even if the caller has
	// stopped waiting by then.
	Before time.Duration
	// After is how long the reply takes to reach the caller.
	After time.Duration
	// If Lost is set, the call never reaches the server. If LostReply is set, the reply is lost. In both cases the
	// caller waits until its context ends.
	Lost, LostReply bool
}

// Faults decides what happens to the calls to a server, and counts the calls. Use NewFaults to make one.
type Faults struct {
	running sync.WaitGroup
	closed  chan struct{}

	// mu guards all fields below.
	mu     sync.Mutex
	calls  map[string]int
	down   bool
	frozen chan struct{} // closed when the server continues; nil if it is not frozen
	fate   func(purpose string) Fate
	quiet  bool
}

// NewFaults returns Faults that neither lose nor delay calls.
func NewFaults() *Faults {
	return &Faults{calls: map[string]int{}, closed: make(chan struct{})}
}

// Close drops all delayed calls, and waits for calls that are being carried out.
func (f *Faults) Close() {
	close(f.closed)
	f.running.Wait()
}

// Decide sets the function that determines the fate of each call from the call's purpose. If the function is nil, no
// call is lost or delayed.
func (f *Faults) Decide(decide func(purpose string) Fate) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fate = decide
}

// SetDown sets whether the server refuses every call at once. The server keeps its contents.
func (f *Faults) SetDown(down bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.down = down
}

// SetFrozen sets whether the server stands still. While it does, each call waits until the server continues, or until
// the call's context ends. When the server continues, it also carries out the calls for which no caller waits any more.
func (f *Faults) SetFrozen(frozen bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case frozen && f.frozen == nil:
		f.frozen = make(chan struct{})
	case !frozen && f.frozen != nil:
		close(f.frozen)
		f.frozen = nil
	}
}

// SetQuiet sets whether all messages are lost from now on.
func (f *Faults) SetQuiet(quiet bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.quiet = quiet
}

// LosesMessages reports whether messages are lost at present: the server is quiet, down or frozen.
func (f *Faults) LosesMessages() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.quiet || f.down || f.frozen != nil
}

// Calls returns how many calls were made for each purpose.
func (f *Faults) Calls() map[string]int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return maps.Clone(f.calls)
}

// Total returns how many calls were made for all purposes together.
func (f *Faults) Total() (n int) {
	for _, count := range f.Calls() {
		n += count
	}
	return n
}

// Deliver makes one call to a server with faults. If the call reaches the server, carryOut carries it out there.
func Deliver[R any](ctx context.Context, f *Faults, purpose string, carryOut func() (R, error)) (none R, err error) {
	if err := ctx.Err(); err != nil {
		return none, err
	}
	f.mu.Lock()
	f.calls[purpose]++
	down, frozen, fate := f.down, f.frozen, Fate{}
	if f.fate != nil {
		fate = f.fate(purpose)
	}
	f.mu.Unlock()
	if down {
		return none, ErrDown
	}
	type result struct {
		reply R
		err   error
	}
	done := make(chan result, 1)
	f.running.Go(func() {
		if fate.Lost || !f.wait(fate.Before) || !f.thaw(frozen) {
			return
		}
		reply, err := carryOut()
		if !fate.LostReply && f.wait(fate.After) {
			done <- result{reply, err}
		}
	})
	select {
	case r := <-done:
		return r.reply, r.err
	case <-ctx.Done():
		return none, ctx.Err()
	}
}

// wait waits for the duration d. It returns false if the server is closed in the meantime.
func (f *Faults) wait(d time.Duration) bool {
	if d <= 0 {
		return true
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-f.closed:
		return false
	}
}

func (f *Faults) thaw(frozen chan struct{}) bool {
	if frozen == nil {
		return true
	}
	select {
	case <-frozen:
		return true
	case <-f.closed:
		return false
	}
}
