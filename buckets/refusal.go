package buckets

import (
	"time"

	"github.com/ratelight/ratelight/ratelimits"
)

// predict returns how long an ask would have to wait with so many ahead of it, and whether that is for the global limit or the
// edge rather than for the bucket.
func (b *RESTBucket) predict(now time.Duration, a *ask, ahead int) (wait time.Duration, global bool, class ratelimits.Class) {
	wait, class = b.window.Predict(now, ahead), b.window.HoldClass(now)
	if !a.exempt {
		if w := b.family.authentication.wait(now, ahead); w > wait {
			wait, global, class = w, true, ratelimits.ClassOK
			if b.family.authentication.holdWait(now) > 0 {
				class = ratelimits.ClassGlobal
			}
		}
	}
	if w := b.manager().edge.wait(now); w > wait {
		wait, global, class = w, true, ratelimits.ClassEdge
	}
	if b.queue != nil {
		if w := b.queue.laneWait(now, a); w > wait {
			wait, global, class = w, false, ratelimits.ClassSubLimit
		}
	}
	return wait, global, class
}

// refusal returns the error for an ask that must not wait as long as it would have to, nil if it may.
func (b *RESTBucket) refusal(now time.Duration, a *ask, ahead int) error {
	wait, global, class := b.predict(now, a, ahead)
	a.predicted, a.waitGlobal, a.waitClass = wait, global, class
	// A wait of exactly the maximum looks a little longer, as the server's times are rounded.
	if a.atOnce || wait > 0 && now+wait > a.latest+2*precision {
		return a.tooLong(b, wait, global, class)
	}
	return nil
}

// refuseLate refuses those who wait and, after a hold was raised, would wait too long.
func (b *RESTBucket) refuseLate(now time.Duration) {
	if b.queue == nil {
		return
	}
	ahead := 0
	for e := b.queue.waiting.Head(); e != nil; {
		w := e.Value
		e = e.Next()
		if err := b.refusal(now, &w.ask, ahead); err != nil {
			b.remove(w)
			b.answer(w, Lease{}, err)
			continue
		}
		ahead++
	}
	b.queue.refuseLate(b, now)
}

// refuseOverdue refuses those who have waited longer than they may, because nothing was known that their wait could have been
// predicted from.
func (b *RESTBucket) refuseOverdue(now time.Duration) {
	if b.queue == nil {
		return
	}
	for e := b.queue.waiting.Head(); e != nil; {
		w := e.Value
		e = e.Next()
		if now > w.latest {
			b.remove(w)
			b.answer(w, Lease{}, w.tooLong(b, 0, false, ratelimits.ClassOK))
		}
	}
}

// refuseLate refuses those who wait, under one authentication or under all of them, and would wait too long after a hold was
// raised.
func (m *RESTBucketManager) refuseLate(now time.Duration, a *authentication) {
	if m.waiting.Load() == 0 {
		return
	}
	for key, b := range m.buckets.All() {
		if a != nil && key.family.authentication != a {
			continue
		}
		b.mu.Lock()
		b.refuseLate(now)
		b.mu.Unlock()
	}
}
