package buckets

import (
	"errors"
	"slices"
	"time"

	"github.com/ratelight/ratelight/ratelimits"
)

// The model remembers only what the responses have said. It makes no decisions. It only checks that the manager has
// done nothing wrong.

// scope is the limit that a 429 is about.
type scope uint8

const (
	ofBucket   scope = iota // the first of two values, one for each hash
	ofSubLimit scope = iota + 1
	ofGlobal   scope = iota + 2
	ofEdge
	scopes
)

var scopeNames = [scopes]string{
	"bucket x", "bucket y", "sub-limit of the first route", "sub-limit of the second route", "global limit", "edge",
}

// hold is the model's memory of the 429s of one scope.
type hold struct {
	until time.Duration
	at    time.Duration // when the latest 429 came; 0 if that no longer matters
	alone bool          // no request that was sent after the 429 has succeeded
}

const (
	nowhereYet = -1 // no response has named a hash
)

// memory is what the simulated server and the model remember.
type memory struct {
	hashOf  [2]int // for each route, the hash in whose bucket the server counts
	counted [2]counted

	known    [2]int // for each route, the hash in the response to the newest request
	holds    [scopes]hold
	forgiven [2]bool         // LiftHolds has ended a hold of the bucket, so the manager no longer knows the window
	moved    bool            // a route has changed its hash
	hidden   bool            // a 429 of a resource came: the manager obeys a limit that no header shows
	declared []time.Duration // for each request, when it stops counting for the declared limit
	second   []time.Duration // for each request, when it stops counting for the global limit
	newest   [2]int          // for each route, the highest version of a request with a key that was sent
}

func (m *memory) init() {
	m.hashOf, m.known = [2]int{0, 1}, [2]int{nowhereYet, nowhereYet}
}

func (l *life) anythingHeld() bool {
	now := l.now()
	return slices.ContainsFunc(l.holds[:], func(h hold) bool { return h.until > now })
}

func (l *life) liftHolds() {
	for s := range l.holds {
		if scope(s) < ofSubLimit && l.holds[s].until > l.now() {
			l.forgiven[s] = true
		}
		l.holds[s].until = 0
	}
	l.hidden = false
	l.forgetPredictions()
}

// forgetPredictions discards all predictions. It is called after an event that the predictions could not foresee.
func (l *life) forgetPredictions() {
	for i := range l.actors {
		l.actors[i].leaves = 0
	}
}

// scopesOf returns the limits that can hold back a request of a route.
func (l *life) scopesOf(route int) []scope {
	all := []scope{ofEdge, ofGlobal, ofSubLimit + scope(route)}
	if h := l.known[route]; h != nowhereYet && !l.moved { // otherwise the route may belong to either bucket
		all = append(all, ofBucket+scope(h))
	}
	return all
}

// inFlight yields all requests in flight except the given one.
func (l *life) inFlight(but *actor) func(yield func(*actor) bool) {
	return func(yield func(*actor) bool) {
		for i := range l.actors {
			if o := &l.actors[i]; o.stage == flies && o != but && !yield(o) {
				return
			}
		}
	}
}

// ended updates the model with a response, before the manager gets it.
func (l *life) ended(a *actor, how answer, hash int, r *ratelimits.Response) {
	now := l.now()
	if r.Bucket != "" && how != notSent {
		if a.newest {
			l.known[a.kind.route] = hash
		}
		for o := range l.inFlight(nil) {
			o.newest = o.newest && (o.kind.route != a.kind.route || o.number > a.number)
		}
	}
	if how != ok || r.Class != ratelimits.ClassOK {
		l.forgetPredictions()
	}
	s := scopes
	switch {
	case r.Class == ratelimits.ClassUser, r.Class == ratelimits.ClassShared:
		s = ofBucket + scope(hash)
		l.hidden = l.hidden || r.Class == ratelimits.ClassShared
	case r.Class == ratelimits.ClassSubLimit:
		s = ofSubLimit + scope(a.kind.route)
	case r.Class == ratelimits.ClassGlobal:
		s = ofGlobal
	case r.Class == ratelimits.ClassEdge:
		s = ofEdge
	}
	if s < scopes {
		l.holds[s] = hold{max(l.holds[s].until, now+r.RetryAfter), now, true}
		for o := range l.inFlight(nil) {
			o.after &^= 1 << s
		}
	}
	if how == lost || how == notSent {
		if how == lost && l.world.declared {
			l.declared = append(l.declared, now+declaredTime)
		}
		if i := slices.Index(l.second, a.sent+time.Second); how == notSent && i >= 0 {
			l.second = slices.Delete(l.second, i, i+1)
		}
		return
	}
	for s := range scopes { // the request has passed every limit that did not refuse it
		passes := r.Class == ratelimits.ClassOK
		switch s {
		case ofGlobal:
			passes = r.Class != ratelimits.ClassGlobal && r.Class != ratelimits.ClassEdge
		case ofEdge:
			passes = r.Class != ratelimits.ClassEdge
		case ofBucket, ofBucket + 1:
			passes = passes && s == ofBucket+scope(hash)
		case ofSubLimit, ofSubLimit + 1:
			passes = passes && s == ofSubLimit+scope(a.kind.route)
		}
		// The model cannot know which of two events at the same instant was first.
		if passes && (a.after&(1<<s) != 0 || a.sent == l.holds[s].at) {
			l.holds[s].alone = false
		}
	}
	if r.Class == ratelimits.ClassOK && l.world.declared {
		l.declared = append(l.declared, now+declaredTime)
	}
}

// refusedByCount is called when the server refuses a request because its bucket is used up. Such a refusal is a fault
// of the manager unless another client used the bucket, a route has moved, LiftHolds was called, or the request was
// sent before the limit was known.
func (l *life) refusedByCount(a *actor, hash int, c *counted) {
	if !c.others && !l.moved && !l.forgiven[hash] && !a.unaware {
		l.fail("%s is refused, although no other client uses the bucket", a)
	}
}

// rivals yields the requests at a stage that have the same route and key as k. If k has no key, it yields none.
func (l *life) rivals(k kind, s stage) func(yield func(*actor) bool) {
	return func(yield func(*actor) bool) {
		for i := range l.actors {
			o := &l.actors[i]
			if o.stage == s && o.kind.route == k.route && o.kind.key == k.key && k.key != "" && !yield(o) {
				return
			}
		}
	}
}

func (l *life) rejected(a *actor, err error) {
	var superseded *ratelimits.SupersededError
	if errors.As(err, &superseded) {
		isOld := a.kind.key != "" && l.newest[a.kind.route] > a.version
		for o := range l.rivals(a.kind, waits) {
			if o.version > a.version {
				isOld, o.rank = true, min(o.rank, a.rank)
			}
		}
		if !isOld {
			l.fail("%s is superseded, although it is the newest with its key", a)
		}
		return
	}
	var tooLong *ratelimits.TooLongError
	if !errors.As(err, &tooLong) || tooLong.Wait <= tooLong.Max {
		l.fail("%s is rejected: %v", a, err)
	}
}

// check checks the effects of the latest event.
func (l *life) check() {
	now := l.now()
	over := func(until time.Duration) bool { return until <= now }
	l.declared, l.second = slices.DeleteFunc(l.declared, over), slices.DeleteFunc(l.second, over)
	for range l.granted {
		l.second = append(l.second, now+time.Second)
	}
	for _, i := range l.granted {
		if l.actors[i].stage == flies {
			l.checkSent(now, &l.actors[i])
		}
	}
	if m := l.manager.waiting.Load(); int(m) != l.count(waits) || l.server.waiting != l.count(waits) {
		l.fail("%d requests wait, but the manager counts %d and %d", l.count(waits), m, l.server.waiting)
	}
	for i := range l.actors {
		for o := range l.rivals(l.actors[i].kind, waits) {
			if l.actors[i].stage == waits && o.index != i {
				l.fail("%s waits, and %s with the same key waits, too", &l.actors[i], o)
			}
		}
	}
	if s := l.server.counts.inFlight(); s != l.count(flies) {
		l.fail("%d requests are in flight, but the manager counts %d", l.count(flies), s)
	}
	l.forgetHolds()
}

// forgetHolds resets the parts of holds that no longer matter.
func (l *life) forgetHolds() {
	over := func(until time.Duration) bool { return until <= l.now() }
	for s := range l.holds { // a sub-limit's hold is forgotten when it has ended and its route has no request
		r := s - int(ofSubLimit)
		of := func(a actor) bool { return a.stage != absent && a.kind.route == r }
		if r >= 0 && r < 2 && over(l.holds[s].until) && !slices.ContainsFunc(l.actors[:], of) {
			l.holds[s].alone = false
		}
		if over(l.holds[s].until) {
			l.holds[s].until = 0
		}
		if !l.holds[s].alone {
			l.holds[s].at = 0
		}
	}
}

func (l *life) count(s stage) (n int) {
	for i := range l.actors {
		if l.actors[i].stage == s {
			n++
		}
	}
	return n
}

// checkSent checks that a request that was just sent was allowed to leave.
func (l *life) checkSent(now time.Duration, a *actor) {
	// With a hidden limit, predictions may be wrong, because only trial shows how much such a limit allows.
	if late := now - a.leaves - l.window(); l.drains && a.leaves > 0 && late > 0 && !l.hidden {
		l.fail("%s leaves %v too late, even if a window is added to the predicted time", a, late)
	}
	route := a.kind.route
	for _, s := range l.scopesOf(route) {
		h := l.holds[s]
		if now < h.until {
			l.fail("%s is sent although the %s is held for another %v", a, scopeNames[s], h.until-now)
		}
		for o := range l.inFlight(a) {
			if !h.alone || o.after&(1<<s) == 0 || !slices.Contains(l.scopesOf(o.kind.route), s) {
				continue
			}
			if now >= o.sent+probePatient {
				continue
			}
			l.fail("%s is sent while %s, which goes first after a 429 of the %s, is in flight", a, o, scopeNames[s])
		}
	}
	if h := l.known[route]; h == nowhereYet {
		for o := range l.inFlight(a) {
			switch {
			case o.kind.route != route:
			case now < o.sent+probePatient:
				l.fail("%s is sent while %s discovers the bucket of the route", a, o)
			default: // after probePatient others no longer wait, so too many may leave
				o.unaware, a.unaware = true, true
			}
		}
	} else if !l.moved && !l.forgiven[h] {
		n, c := 1, &l.counted[h]
		for o := range l.inFlight(a) {
			if l.known[o.kind.route] == h {
				n++
			}
		}
		if c.until > now {
			n += c.used
		}
		if n > bucketLimit {
			l.fail("%s is sent as number %d of at most %d in a window of %s", a, n, bucketLimit, scopeNames[h])
		}
	}
	flying := l.count(flies)
	if n := flying + len(l.declared); l.world.declared && n > declaredMost {
		l.fail("%s is sent as number %d of at most %d of the declared limit", a, n, declaredMost)
	}
	if n := len(l.second); l.world.global > 0 && n > l.world.global {
		l.fail("%s is sent as number %d of at most %d in a second", a, n, l.world.global)
	}
	for i := range l.actors {
		o := &l.actors[i]
		if o.stage != waits || o.rank > a.rank {
			continue
		}
		if l.ahead(o, a) {
			l.fail("%s is sent before %s, which came earlier", a, o)
		}
		o.leaves = 0 // o's prediction could not know that a would come
	}
}

// ahead reports whether the request that arrived first must leave before the other one.
func (l *life) ahead(first, then *actor) bool {
	if first.kind == then.kind {
		return true
	}
	h := l.known[first.kind.route]
	return first.kind.tenant == then.kind.tenant && h != nowhereYet && h == l.known[then.kind.route] && !l.moved &&
		l.holds[ofSubLimit+scope(first.kind.route)] == hold{}
}
