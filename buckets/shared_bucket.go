package buckets

import (
	"iter"
	"slices"
	"time"
)

// sharedLink is the link of a bucket, or a declared limit, to what other processes share of it, which decides what leaves. Its owner's
// lock guards it.
type sharedLink struct {
	remote   SharedBucket
	arrivals iter.Seq[time.Duration] // of those who wait
	at       time.Duration           // when they are asked for
}

// newSharedLink returns the link of a bucket that was just made, nil if it is not shared.
func (m *RESTBucketManager) newSharedLink(b *bucket) *sharedLink {
	session := m.session()
	if session == nil || b.group.kind == unlimitedGroup || b.group.kind.unknown() {
		return nil
	}
	l := &sharedLink{arrivals: b.eachArrival} // once, as this allocates
	l.remote = session.Bucket(b.sharedKey(), &b.window, b.changed)
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
	case pathGroup:
		key.Hash = "/" + key.Route
	case separateGroup:
		key.Hash = "=" + group.hash + " " + key.Route
	}
	return key
}

// changed is called when other processes have something new to say of the bucket.
func (b *bucket) changed() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.othersChanged()
}

// othersChanged is called when other processes have something new to say of the bucket, which is locked.
func (b *bucket) othersChanged() {
	if b.evicted.Load() {
		return
	}
	now := b.now()
	b.dispatchNow(now)
	b.rejectLate(now) // what is ahead of them may have changed
	b.rejectOverdue(now)
}

// tell lets the others know who waits.
func (b *bucket) tell(now time.Duration) {
	if l := b.link; l != nil && !b.evicted.Load() {
		l.at = now
		l.remote.Demand(now, b.queues.wanted(now), l.arrivals)
		b.noteBusy() // the window may be another one
		for q := range b.queues.all {
			if until := q.keepsUntil(); until > now {
				b.wakeAt(now, until)
			}
		}
	}
}

// mostTold is how many of those are told one by one who have a group, or wait for more than the bucket.
const mostTold = 1024

// eachArrival yields when those arrived who want something of the bucket, in order.
func (b *bucket) eachArrival(yield func(time.Duration) bool) {
	qs := b.queues
	var others []time.Duration // there are mostly none
	for q := range qs.all {
		n := min(q.wanted(b.link.at), mostTold)
		for w := range q.waiters {
			if q == &qs.main || n == 0 {
				break
			}
			others = append(others, w.Arrived)
			n--
		}
	}
	slices.Sort(others)
	if qs != nil && qs.main.wanted(b.link.at) > 0 {
		for w := range qs.main.waiters {
			for ; len(others) > 0 && others[0] < w.Arrived; others = others[1:] {
				if !yield(others[0]) {
					return
				}
			}
			if !yield(w.Arrived) {
				return
			}
		}
	}
	for _, arrived := range others {
		if !yield(arrived) {
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
