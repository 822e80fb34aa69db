package buckets

import (
	"time"

	"github.com/ratelight/ratelight/ratelimits"
)

// reading is what waits from the headers of a 429 until its body has told how long: whatever they say may be meant.
type reading uint8

const (
	nothingWaits reading = iota
	bucketWaits
	authenticationWaits
	edgeWaits
)

// pause lets nothing leave that a refusal of a lease in flight in this bucket, which is locked, may be about.
func (b *RESTBucket) pause(h *held, r *ratelimits.Response) {
	a := h.entry.authentication
	if h.reading != nothingWaits {
		return
	}
	h.heard = b.now()
	switch {
	case r.Class == ratelimits.ClassEdge:
		h.reading = edgeWaits
		a.edge.pause()
	case r.Class == ratelimits.ClassGlobal && !h.entry.exempt:
		h.reading = authenticationWaits
		a.pause()
	default:
		h.reading = bucketWaits
		b.reading++
	}
}

// age takes the time that it took to read a refusal off what it asks for, as that counts from its headers.
func (h *held) age(now time.Duration, r *ratelimits.Response) {
	if h.reading != nothingWaits {
		read := now - h.heard
		r.RetryAfter, r.ResetAfter = max(r.RetryAfter-read, precision), max(r.ResetAfter-read, 0)
	}
}

// resume ends the pause of a gate. That of a bucket ends when the lease leaves it.
func (h *held) resume(now time.Duration) {
	switch a := h.entry.authentication; h.reading {
	case authenticationWaits:
		a.resume(now)
	case edgeWaits:
		a.edge.resume(now)
	}
}

func (a *authentication) pause() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.reading++
	a.open.Store(false)
}

func (a *authentication) resume(now time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.reading--
	a.moveOn(now)
}

func (e *edge) pause() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.reading++
	e.active.Store(true)
}

func (e *edge) resume(now time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.reading--
	e.active.Store(e.busy(now))
	e.move(now)
}
