package buckets

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"
)

// authentication is one credential at one server: the gates that are above all its buckets, and what is known of its routes. Requests
// without a credential share one, as Discord counts them by IP address. The credential itself is not kept, only a keyed hash.
type authentication struct {
	server       *server
	id           uint64
	credential   string       // what stands for it in all processes, if limits are shared
	anonymous    bool         // there is no credential
	edge         *gate        // of the server
	global       *gate        // its global limit
	entries      atomic.Int64 // route entries that refer to it
	undiscovered atomic.Int64 // requests in flight whose bucket is not known

	groups map[groupKey]*limitGroup // guarded by the manager's lock for moves

	queuedLock sync.Mutex
	queued     map[*RESTBucket]struct{} // those with a queue
}

// queueOpened and shut are told when a bucket, which is locked, has got a queue, and has none any more.
func (a *authentication) queueOpened(b *RESTBucket) {
	a.queuedLock.Lock()
	defer a.queuedLock.Unlock()
	a.queued[b] = struct{}{}
}

func (a *authentication) queueClosed(b *RESTBucket) {
	a.queuedLock.Lock()
	defer a.queuedLock.Unlock()
	delete(a.queued, b)
}

// waiting yields all buckets in which somebody may wait, each locked.
func (a *authentication) waiting(yield func(*RESTBucket) bool) bool {
	a.queuedLock.Lock()
	all := slices.Collect(maps.Keys(a.queued))
	a.queuedLock.Unlock()
	for _, b := range all {
		if !b.visit(yield) {
			return false
		}
	}
	return true
}

// visit calls a function with the bucket locked.
func (b *RESTBucket) visit(f func(*RESTBucket) bool) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return f(b)
}
