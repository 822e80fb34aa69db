package buckets

import (
	"iter"
	"slices"
	"time"

	"github.com/ratelight/ratelight/ratelimits"
)

// sharedLink is a bucket's link to what other processes share of it, which decides what leaves. The bucket's lock guards it.
type sharedLink struct {
	bucket   *bucket
	remote   SharedBucket
	arrivals iter.Seq[time.Duration] // of those who wait
	at       time.Duration           // when they are asked for
}

// newSharedLink returns the link of a bucket that was just made, nil if it is not shared.
func (m *RESTBucketManager) newSharedLink(b *bucket) *sharedLink {
	session := m.session()
	if session == nil || b.group.kind == unlimitedGroup || b.group.kind == unknownGroup {
		return nil
	}
	l := &sharedLink{bucket: b}
	l.arrivals = l.eachArrival // once, as this allocates
	l.remote = session.Bucket(b.sharedKey(), &b.window, l.changed)
	return l
}

// sharedKey is the bucket's name in all processes.
func (b *bucket) sharedKey() SharedKey {
	group := b.group
	key := SharedKey{Credential: group.authentication.credential, Hash: group.hash, Major: b.major.shared()}
	if !group.route.IsZero() {
		key.Route = group.route.String()
	}
	switch group.kind { // a hash that a server names begins with none of these
	case routeGroup:
		key.Hash = "~" + key.Route
	case unstableGroup:
		key.Hash = "!" + key.Route
	case separateGroup:
		key.Hash = "=" + group.hash + " " + key.Route
	}
	return key
}

// changed is called when there is something new to say of the bucket.
func (l *sharedLink) changed() {
	l.bucket.mu.Lock()
	defer l.bucket.mu.Unlock()
	l.bucket.othersChanged()
}

// othersChanged is called when other processes have something new to say of the bucket, which is locked.
func (b *bucket) othersChanged() {
	if b.evicted.Load() {
		return
	}
	now := b.now()
	b.dispatchNow(now)
	b.refuseLate(now) // what is ahead of them may have changed
	b.refuseOverdue(now)
}

// tell lets the others know who waits.
func (l *sharedLink) tell(now time.Duration) {
	if l != nil && !l.bucket.evicted.Load() {
		l.at = now
		l.remote.Demand(now, l.bucket.queues.queued(now), l.arrivals)
		l.bucket.noteBusy() // the window may be another one
	}
}

// eachArrival yields when those arrived who wait for the bucket, in order: all of the main queue, and of each sub-limit that is open the first.
func (l *sharedLink) eachArrival(yield func(time.Duration) bool) {
	qs := l.bucket.queues
	var heads []time.Duration // of sub-limits, which are rare
	for q := range qs.all {
		if head := q.waiting.Head(); q != &qs.main && head != nil && q.open(l.at) {
			heads = append(heads, head.Arrived)
		}
	}
	slices.Sort(heads)
	if qs != nil {
		for w := range qs.main.waiters {
			for ; len(heads) > 0 && heads[0] < w.Arrived; heads = heads[1:] {
				if !yield(heads[0] - HeadStart) {
					return
				}
			}
			if !yield(w.Arrived - HeadStart) {
				return
			}
		}
	}
	for _, arrived := range heads {
		if !yield(arrived - HeadStart) {
			return
		}
	}
}

// alone reports that nobody else has to be asked what may leave. A nil link is that of a bucket that is not shared.
func (l *sharedLink) alone(now time.Duration) bool { return l == nil || l.remote.Predict(now, 0).Own }

// close ends the link of a bucket that is forgotten.
func (l *sharedLink) close() {
	if l != nil {
		l.remote.Close()
	}
}

// permit is what one request has of its bucket: a permit of the window, or if the bucket is shared of that, and when it was sent.
type permit struct {
	ratelimits.Permit
	shared SharedPermit
}

// sharedPermit is that of a request that is sent at the given time.
func sharedPermit(p SharedPermit, sent time.Duration) permit {
	return permit{ratelimits.Permit{}.SentAt(sent), p}
}

// take takes a permit for a request that is sent now, if there is one.
func (b *bucket) take(now time.Duration, p *permit) (ok bool) {
	if b.link == nil {
		p.Permit, ok = b.window.Take(now)
		return ok
	}
	shared, ok := b.link.remote.Take(now)
	*p = sharedPermit(shared, now)
	return ok
}

// adopt charges a request in flight that was sent at the given time without a permit of this bucket.
func (b *bucket) adopt(now, sent time.Duration) permit {
	if b.link != nil {
		return sharedPermit(b.link.remote.Adopt(now, sent), sent)
	}
	return permit{Permit: b.window.Adopt(now, sent)}
}

// adoptFrom is adopt for a request that has a permit of another bucket.
func (b *bucket) adoptFrom(now time.Duration, from *bucket, p permit) permit {
	if b.link != nil || from.link != nil {
		return b.adopt(now, p.Sent())
	}
	return permit{Permit: b.window.AdoptFrom(now, &from.window, p.Permit)}
}

// report ends a permit with a response, the zero one if there was none.
func (b *bucket) report(now time.Duration, p *permit, r *ratelimits.Response) {
	if b.link != nil {
		b.link.remote.Report(now, p.shared, *r)
	} else {
		b.window.Report(now, p.Permit, *r)
	}
}

// giveBack ends a permit whose request was not sent.
func (b *bucket) giveBack(now time.Duration, p *permit) {
	if b.link != nil {
		b.link.remote.Return(now, p.shared)
	} else {
		b.window.Return(now, p.Permit)
	}
}
