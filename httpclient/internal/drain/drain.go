// Package drain counts requests, so that one can wait for them after no more are let in.
package drain

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/ratelight/ratelight/buckets"
)

// ErrShuttingDown is the error for a request that comes during a shutdown.
var ErrShuttingDown = fmt.Errorf("shutting down, no new requests: %w", buckets.ErrClosed)

// Drain counts the requests inside. Get one from New. It is safe for concurrent use.
type Drain struct {
	inside atomic.Int64
	shut   atomic.Bool
	cut    atomic.Bool // somebody was inside when it was closed
	once   sync.Once
	empty  chan struct{} // closed when it is shut and nobody is inside, which stays so
}

// New returns one that lets requests in.
func New() *Drain { return &Drain{empty: make(chan struct{})} }

// Enter lets a request in, unless it is shut. If it does, Leave has to be called.
func (d *Drain) Enter() bool {
	d.inside.Add(1)
	if d.shut.Load() { // after it is counted, so that Shut sees it or is seen
		d.Leave()
		return false
	}
	return true
}

// Leave lets a request out.
func (d *Drain) Leave() {
	if d.inside.Add(-1) == 0 && d.shut.Load() {
		d.once.Do(func() { close(d.empty) })
	}
}

// Closing has to be called before those inside are cut off.
func (d *Drain) Closing() {
	if d.inside.Load() > 0 {
		d.cut.Store(true)
	}
}

// Wait lets nobody in any more, and waits until nobody is inside. The errors are the context's, and buckets.ErrClosed if it is closed
// before, after Closing.
func (d *Drain) Wait(ctx context.Context, closed <-chan struct{}) error {
	if ctx == nil {
		return buckets.ErrNoContext
	}
	d.shut.Store(true)
	d.inside.Add(1)
	d.Leave() // closes empty if nobody is inside
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
	select {
	case <-d.empty:
		if !d.cut.Load() {
			return nil
		}
	default:
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return buckets.ErrClosed
}
