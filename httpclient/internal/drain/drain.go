// Package drain counts requests, so that one can wait for them after no more are let in.
package drain

import (
	"context"
	"fmt"
	"sync"

	"github.com/ratelight/ratelight/buckets"
)

// ErrShuttingDown is the error for a request that comes during a shutdown.
var ErrShuttingDown = fmt.Errorf("shutting down, no new requests: %w", buckets.ErrClosed)

// Drain counts the requests inside. Get one from New. It is safe for concurrent use.
type Drain struct {
	mu     sync.Mutex
	inside int
	shut   bool
	cut    bool          // somebody was inside when it was closed
	empty  chan struct{} // closed when it is shut and nobody is inside, which stays so
}

// New returns one that lets requests in.
func New() *Drain { return &Drain{empty: make(chan struct{})} }

// Enter lets a request in, unless it is shut. If it does, Leave has to be called.
func (d *Drain) Enter() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.shut {
		return false
	}
	d.inside++
	return true
}

// Leave lets a request out.
func (d *Drain) Leave() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.inside--
	if d.shut && d.inside == 0 {
		close(d.empty)
	}
}

// Closing has to be called before those inside are cut off.
func (d *Drain) Closing() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.cut = d.cut || d.inside > 0
}

// shutDown lets nobody in any more.
func (d *Drain) shutDown() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.shut && d.inside == 0 {
		close(d.empty)
	}
	d.shut = true
}

// Wait lets nobody in any more, and waits until nobody is inside. The errors are the context's, and buckets.ErrClosed if it is closed
// before, after Closing.
func (d *Drain) Wait(ctx context.Context, closed <-chan struct{}) error {
	if ctx == nil {
		return buckets.ErrNoContext
	}
	d.shutDown()
	select {
	case <-d.empty: // whatever else has happened
		return nil
	default:
	}
	select {
	case <-d.empty:
	case <-closed:
	case <-ctx.Done():
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	switch err := ctx.Err(); {
	case d.inside == 0 && !d.cut:
		return nil
	case err != nil:
		return err
	}
	return buckets.ErrClosed
}
