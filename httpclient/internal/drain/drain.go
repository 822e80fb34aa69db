// Package drain counts requests, so that a shutdown can wait until all requests have ended.
package drain

import (
	"context"
	"fmt"
	"sync"

	"github.com/ratelight/ratelight/buckets"
)

// ErrShuttingDown is the error for requests during a shutdown.
var ErrShuttingDown = fmt.Errorf("shutting down, no new requests: %w", buckets.ErrClosed)

// Drain counts the requests inside: those that have called Enter, but have not called Leave yet. Get a Drain from New.
// It is safe for concurrent use.
type Drain struct {
	mu     sync.Mutex
	inside int
	shut   bool
	cut    bool          // Closing was called while requests were inside
	empty  chan struct{} // closed when shut is true and inside is 0, which does not change any more
}

// New returns a Drain that is open.
func New() *Drain { return &Drain{empty: make(chan struct{})} }

// Enter counts a request and returns true; call Leave when the request ends. After the start of a shutdown, Enter only
// returns false.
func (d *Drain) Enter() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.shut {
		return false
	}
	d.inside++
	return true
}

// IsShut reports whether Enter returns false.
func (d *Drain) IsShut() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.shut
}

// Leave must be called when a request that Enter has counted ends.
func (d *Drain) Leave() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.inside--
	if d.shut && d.inside == 0 {
		close(d.empty)
	}
}

// Closing records whether requests are inside. If so, Wait will return an error. Call Closing before you cut off these
// requests.
func (d *Drain) Closing() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.cut = d.cut || d.inside > 0
}

// shutDown makes Enter return false from now on.
func (d *Drain) shutDown() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.shut && d.inside == 0 {
		close(d.empty)
	}
	d.shut = true
}

// Wait makes Enter return false from now on, and waits until no request is inside. If the context ends before that, it
// returns the context's error. If the parameter closed is closed before that, or if Closing was called while requests
// were inside, it returns buckets.ErrClosed.
func (d *Drain) Wait(ctx context.Context, closed <-chan struct{}) error {
	if ctx == nil {
		return buckets.ErrNoContext
	}
	d.shutDown()
	select {
	case <-d.empty: // return nil even if the context has ended, too
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
