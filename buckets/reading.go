package buckets

import (
	"time"

	"github.com/ratelight/ratelight/ratelimits"
)

// While a refusal is read of which only the headers have come, nothing leaves that it may be about: the bucket, or the gate that the
// headers name, waits until the body has told how long.

// pause lets nothing leave that a refusal of a lease in flight in this bucket, which is locked, may be about.
func (b *RESTBucket) pause(h *held, r *ratelimits.Response) {
	if h.heard != 0 {
		return
	}
	h.heard = max(b.now(), 1)
	switch {
	case r.Class == ratelimits.ClassEdge:
		h.pauses = h.entry.authentication.edge
	case r.Class == ratelimits.ClassGlobal && !h.entry.exempt:
		h.pauses = h.entry.authentication.global
	default:
		b.reading++
		return
	}
	h.pauses.pause()
}

// pausesBucket reports that the bucket waits that the lease is in flight in.
func (h *held) pausesBucket() bool { return h.heard != 0 && h.pauses == nil }

// age takes the time that it took to read a refusal off what it asks for, as that counts from its headers.
func (h *held) age(now time.Duration, r *ratelimits.Response) {
	read := now - h.heard
	r.RetryAfter, r.ResetAfter = max(r.RetryAfter-read, precision), max(r.ResetAfter-read, 0)
}

// resume ends the pause of a gate. That of a bucket ends when the lease leaves it.
func (h *held) resume(now time.Duration) {
	if h.pauses != nil {
		h.pauses.resume(now)
	}
}
