package buckets

import "time"

// What is known of a wait without other processes, and what is told to those who wait if these cannot be asked.

// canTell reports that it is known whether an ask can leave at once that waits as w, or comes now if that is nil, with so many ahead of it. Where
// others have to be asked for that, even those who do not wait have to wait for their answer.
func (b *bucket) canTell(now time.Duration, a *ask, w *waiter, n ahead) bool {
	switch {
	case b.window.HoldWait(now) > 0 || b.queues.subLimitOf(a) != nil:
		return true // whatever the others say
	case a.atOnce && b.unreachable(now, a) != nil:
		return true // nobody can say
	case b.link != nil:
		if f := b.link.remote.Predict(now, n.all); !f.Own && (w == nil || !f.Certain) {
			return false
		}
	case b.discoveryLink != nil && !b.discoveryLink.canTell():
		return false
	}
	if w != nil && b.leaves(now) {
		return false // somebody is about to
	}
	if !b.declaredCanTell(now, a, w, n) {
		return false
	}
	if a.exempt || a.global().partKnown() {
		return true
	}
	return w != nil && b.queues.lineOf(a) != &a.global().line
}

// leaves reports that the first in the queue can leave as soon as somebody looks, as far as the bucket is concerned.
func (b *bucket) leaves(now time.Duration) bool {
	first, _ := b.first(now)
	if first == nil {
		return false
	}
	at, ok := b.next(now, &first.ask)
	return ok && at <= now
}

// outage returns why nobody can be asked at the moment, nil if that is not so or not known.
func (m *RESTBucketManager) outage() error {
	if session, ok := m.session().(SharedStatus); ok {
		return session.Outage()
	}
	return nil
}

// unreachable returns why nobody can be asked at the moment, nil if an ask in the bucket does not wait for that.
func (b *bucket) unreachable(now time.Duration, a *ask) error {
	err := b.manager().outage()
	discovers := b.discoveryLink == nil || b.discoveryLink.may || b.discoveryLink.probing
	alone := func(d *declaredLimit) bool { return d.alone(now) }
	if err == nil || b.link.alone(now) && discovers && a.limits.each(alone) && (a.exempt || a.global().certain(now)) {
		return nil
	}
	return err
}

// waitError returns what everybody who waits in the bucket is to be told, if that is how it is when the others cannot be asked.
func (b *bucket) waitError() error {
	switch {
	case b.link != nil:
		return b.link.remote.Err()
	case b.discoveryLink != nil && !b.discoveryLink.may:
		return b.discoveryLink.remote.Err()
	}
	return nil
}

// waitError returns what everybody who waits for the limit is to be told, if that is how it is when the others cannot be asked.
func (g *gate) waitError(now time.Duration) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.syncPart(now) {
		return nil
	}
	return g.part.remote.Err()
}
