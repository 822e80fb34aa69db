package buckets

import (
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// There may be millions of buckets, and few of them matter at a time: those in which somebody waits, and those that are held. They are listed,
// so that nobody has to look at all the others to find them; and so are the authentications that have any.

// busyBuckets are the buckets of an authentication that have a queue, or were held when somebody looked last.
type busyBuckets struct {
	mu     sync.Mutex
	all    []*bucket // in no order
	listed bool      // the authentication is in the manager's list, or must not get there any more
}

// busyPlace is where a bucket stands among them, counted from 1; 0 if it does not. It changes with the list's lock held, and from and to 0
// only with the bucket's lock, too.
type busyPlace struct{ atomic.Int32 }

// noteBusy is called when a bucket, which is locked, may have become busy, or not be busy any more.
func (b *bucket) noteBusy() {
	busy := b.queues != nil || b.window.HoldWait(b.now()) > 0
	if busy == (b.busy.Load() != 0) {
		return
	}
	a := b.group.authentication
	a.busy.mu.Lock()
	defer a.busy.mu.Unlock()
	if busy {
		a.busy.add(b)
		a.list()
	} else {
		a.busy.remove(b)
	}
}

func (l *busyBuckets) add(b *bucket) {
	l.all = append(l.all, b)
	b.busy.Store(int32(len(l.all)))
}

func (l *busyBuckets) remove(b *bucket) {
	at, last := b.busy.Load()-1, len(l.all)-1
	l.all[at] = l.all[last]
	l.all[at].busy.Store(at + 1)
	l.all[last] = nil
	l.all = l.all[:last]
	b.busy.Store(0)
	if cap(l.all) > 64 && len(l.all) < cap(l.all)/4 { // there may have been very many
		l.all = slices.Clone(l.all)
	}
}

// some returns at most n of the buckets, others each time if there are more, and how many there are.
func (l *busyBuckets) some(n int) (some []*bucket, total int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.all) <= n {
		return slices.Clone(l.all), len(l.all)
	}
	from := rand.IntN(len(l.all))
	some = append(make([]*bucket, 0, n), l.all[from:min(from+n, len(l.all))]...)
	return append(some, l.all[:n-len(some)]...), len(l.all)
}

// eachBusy calls a function with all buckets in which somebody may wait, each locked.
func (a *authentication) eachBusy(f func(*bucket)) {
	a.busy.mu.Lock()
	all := slices.Clone(a.busy.all)
	a.busy.mu.Unlock()
	for _, b := range all {
		func() {
			b.mu.Lock()
			defer b.mu.Unlock()
			f(b)
		}()
	}
}

// list puts the authentication into the manager's list of those that are busy. The lock of its busy buckets is held.
func (a *authentication) list() {
	if !a.busy.listed {
		a.busy.listed = true
		a.global.manager.listed.Store(a, struct{}{})
	}
}

// noteHeld is called when the gate's hold has become longer. Everybody can find the edge, so nobody has to list that.
func (g *gate) noteHeld() {
	if a := g.authentication; a != nil {
		a.busy.mu.Lock()
		defer a.busy.mu.Unlock()
		a.list()
	}
}

// unlist takes the authentication out again if it is not busy any more.
func (a *authentication) unlist(now time.Duration) {
	a.busy.mu.Lock()
	defer a.busy.mu.Unlock()
	if len(a.busy.all) == 0 && a.global.holdWait(now) == 0 {
		a.busy.listed = false
		a.global.manager.listed.Delete(a)
	}
}

// unlistForGood takes the authentication out and never lets it in again: it is forgotten, whatever still ends in its buckets.
func (a *authentication) unlistForGood() {
	a.busy.mu.Lock()
	defer a.busy.mu.Unlock()
	a.busy.listed = true
	a.global.manager.listed.Delete(a)
}

// unlistIdle takes out of the list which authentications are not busy any more.
func (m *RESTBucketManager) unlistIdle() {
	for a := range m.listed.All() {
		a.unlist(m.now())
	}
}
