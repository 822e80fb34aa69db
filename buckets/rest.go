package buckets

import (
	"sync"
	"time"

	"github.com/ratelight/ratelight/ratelimits"
)

// A bucket that nobody has used since the garbage collector looked last, but that must not be forgotten yet, rests: only what its
// window has to remember is kept, in a form that is a fifth of the size. Whoever locks it wakes it.

var lives = sync.Pool{New: func() any { return new(live) }}

// lock locks the bucket, and wakes it if it rests.
func (b *RESTBucket) lock() {
	b.mu.Lock()
	if b.live == nil {
		b.wake()
	}
	if b.unlinked {
		b.link()
	}
}

func (b *RESTBucket) unlock() { b.mu.Unlock() }

func (b *RESTBucket) wake() {
	b.live = lives.Get().(*live)
	*b.live = live{window: b.rest.Window()}
	b.rest = nil
}

// lay lets the bucket, which is locked and idle, rest if it was not used since it was tried last and its window can be packed.
func (b *RESTBucket) lay(now time.Duration) {
	if !b.live.idle || b.partner != nil || b.scout != nil {
		b.live.idle = true
		return
	}
	if rest, ok := b.window.Rest(now); ok {
		b.rest = &rest
		lives.Put(b.live)
		b.live = nil
	}
}

// look returns the window of the bucket, which is locked and may rest, without waking it.
func (b *RESTBucket) look() *ratelimits.Window {
	if b.live != nil {
		return &b.window
	}
	w := b.rest.Window()
	return &w
}
