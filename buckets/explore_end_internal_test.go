package buckets

import (
	"slices"
	"time"
)

// This file says how every story must end.

// longest returns the longest time that requests can still wait if all requests succeed from now on.
func (l *life) longest() time.Duration {
	now, wait := l.now(), time.Duration(0)
	for s := range l.holds {
		wait = max(wait, l.holds[s].until-now)
	}
	each := bucketPeriod + time.Second
	if l.world.declared {
		each += declaredTime
	}
	if l.hidden { // after a hold, the manager obeys a hidden limit for as long again
		each += longHold
	}
	return wait + time.Duration(l.count(waits)+1)*each
}

// drain lets all requests succeed and lets time pass until no request is left. Then it checks that everything is
// forgotten.
func (l *life) drain() {
	if l.fault != "" {
		return
	}
	begin, longest := l.now(), l.longest()
	l.drains = true
	l.say("-- from now on all requests succeed; within %v all must have ended", longest)
	for i := range l.actors { // earlier predictions could not know how long requests would be in flight
		if a := &l.actors[i]; a.asked < begin {
			a.leaves = 0
		}
	}
	for step := 0; l.fault == "" && l.count(absent) < most; step++ {
		flying := slices.IndexFunc(l.actors[:], func(a actor) bool { return a.stage == flies })
		switch {
		case flying >= 0:
			l.do(ends + event(flying)*event(answers) + event(ok))
		case !l.clock.set:
			l.fail("%d requests wait for ever: no timer is set, and no request is in flight", l.count(waits))
		case step > 300 || l.now() > begin+longest:
			l.fail("%d requests still wait", l.count(waits))
		default:
			l.do(timer)
		}
	}
	if l.fault == "" {
		l.checkEmpty()
	}
}

// window returns the longest period of a limit of this world, plus a second.
func (l *life) window() time.Duration {
	if l.world.declared {
		return declaredTime + time.Second
	}
	return bucketPeriod + time.Second
}

// checkEmpty checks that all permits and places were given back, and that after some days no bucket, credential, hold
// or declared limit is left.
func (l *life) checkEmpty() {
	s := l.server
	zero := func(what string, n int) {
		if n != 0 {
			l.fail("in the end there are %d %s", n, what)
		}
	}
	l.manager.leftOver(zero)
	for range 4 { // a route is evicted by the second run
		l.clock.at = l.clock.at.Add(25 * time.Hour)
		if l.clock.set {
			l.clock.set = false
			l.clock.ring()
		}
		s.collect(true)
	}
	zero("busy buckets", len(s.busy))
	zero("alarms", len(s.alarms))
	zero("buckets", len(s.buckets))
	zero("credentials", len(s.accounts))
	zero("holds of resources", len(s.holds))
	zero("declared limits", len(s.declared))
	if l.clock.set {
		l.fail("in the end the timer is still set")
	}
}

// leftOver calls tell for each kind of thing that requests still hold at Discord's server, with the number of these
// things. If there are no requests, it must not call tell.
func (m *RESTBucketManager) leftOver(tell func(what string, n int)) {
	stats := m.Stats()
	s := m.discord
	s.mu.Lock()
	defer s.mu.Unlock()
	count := func(what string, n int) {
		if n != 0 {
			tell(what, n)
		}
	}
	line := func(what string, l *line) {
		count("queues before "+what, l.queues.Len()+len(l.needed))
		count("requests before "+what, l.waiting)
		if l.reserved != nil {
			tell("reservations of "+what, 1)
		}
	}
	limits := func(all map[limitKey]*declaredLimit) {
		for _, d := range all {
			count("requests in flight of a declared limit", d.window.InFlight())
			count("requests that have asked a declared limit", d.asked)
			line("a declared limit", &d.line)
		}
	}
	count("requests waiting", stats.Waiting+s.waiting)
	count("requests in flight", stats.InFlight)
	count("places of the budget", s.budget.inFlight)
	for _, a := range s.accounts {
		count("requests of the credential", a.inFlight+a.waiting+len(a.undiscovered))
		count("series", len(a.series))
		count("unread 429s of a global limit", int(a.global.reading))
		line("a global limit", &a.globalLine)
		limits(a.declared)
	}
	limits(s.declared)
	for _, b := range s.buckets {
		count("charges in flight of a bucket", b.window.InFlight())
		count("requests in a bucket", b.queues.length()+int(b.reading))
		if b.inFlight != nil {
			tell("leases of a bucket", 1)
		}
	}
	count("unread 429s of the edge", int(s.edge.reading))
	line("the edge", &s.edgeLine)
	count("alarms of requests for whose outcome others wait", len(s.waitedFor))
}

// touchAll marks all lines and buckets, so that the server checks all waiting requests again.
func (s *server) touchAll() {
	s.touch(&s.edgeLine)
	for _, d := range s.declared {
		s.touch(&d.line)
	}
	for _, a := range s.accounts {
		s.touch(&a.globalLine)
		for _, d := range a.declared {
			s.touch(&d.line)
		}
	}
	for _, b := range s.buckets {
		b.changed()
	}
}
