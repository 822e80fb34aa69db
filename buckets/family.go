package buckets

import (
	"time"

	"github.com/ratelight/ratelight/ratelimits"
	"github.com/ratelight/ratelight/routes"
)

// Routes of one family (routes.Route.Family) are expected to share a bucket. So they have one UNKNOWN bucket: one
// request of one of them finds out where all belong. For the others that is a hint. Each of them sends one request
// first in a bucket that it has by a hint, and its own first response confirms the hint or overrules it. What overrules
// it is the hint of all those of which no response has come yet. They may share a bucket of one request, so two of them
// are tried at a time in a bucket: a wrong hint draws one 429 at most.

// family is what the responses of one family's routes have told under one credential.
type family struct {
	// place is where the routes are expected to belong: kind and hash. The zero value: no response has told.
	place   groupKey
	byError bool                      // only errors have told
	apart   map[routes.Route]struct{} // routes whose own responses have told another place
}

// familyOf returns the family of a route, nil if it has none, or its own responses have told another place than the
// family's.
func (a *account) familyOf(route routes.Route) *family {
	name := route.Family()
	if name == "" || a.server.manager.sharesByRoute() {
		return nil
	}
	f := a.families[name]
	if f == nil {
		f = &family{}
		a.families[name] = f
	}
	if _, apart := f.apart[route]; apart {
		return nil
	}
	return f
}

// firstGroup returns the limit group of a route that has not been used, and whether that is a hint.
func (a *account) firstGroup(route routes.Route) (group *limitGroup, hinted bool) {
	if route.OneShot() { // every request has its own major parameter, and there is nothing to discover
		return a.group(groupKey{kind: unlimitedGroup, route: route}), false
	}
	f := a.familyOf(route)
	switch {
	case f == nil:
		return a.group(groupKey{kind: unknownGroup, route: route}), false
	case f.place == groupKey{}:
		if erring := a.groups[groupKey{kind: erringGroup, family: route.Family()}]; erring != nil && erring.routes > 0 {
			return erring, false
		}
		return a.group(groupKey{kind: unknownGroup, family: route.Family()}), false
	}
	return a.groupAt(f.place, route), true
}

// groupAt returns the limit group of a place for a route. Where no hash has been named, that is one of the family, as
// its routes may share a bucket all the same: a route leaves it when its own response has come.
func (a *account) groupAt(place groupKey, route routes.Route) *limitGroup {
	switch place.kind {
	case unlimitedGroup, routeGroup:
		place.family = route.Family()
	case pathGroup:
		place.route = route
	}
	return a.group(place)
}

// hints reports that a route which has not been used has a place by a hint.
func (a *account) hints(route routes.Route) bool {
	f := a.families[route.Family()]
	if f == nil || f.place == (groupKey{}) {
		return false
	}
	_, apart := f.apart[route]
	return !apart
}

// learn records where a response has told that a route of the family belongs.
func (f *family) learn(route routes.Route, place groupKey, failed, hinted bool) {
	_, apart := f.apart[route]
	switch {
	case f.place == groupKey{}, f.byError && !failed:
		f.place, f.byError = place, failed
		delete(f.apart, route)
	case place == f.place:
		delete(f.apart, route)
	case hinted:
		if f.apart == nil {
			f.apart = make(map[routes.Route]struct{})
		}
		f.apart[route] = struct{}{}
	case !apart && (!failed || f.byError): // the family has moved
		f.place, f.byError = place, failed
	}
}

// moveFamily lets the routes follow of which nothing else is known than of the one that has moved because of its
// response: they share an UNKNOWN bucket, or have the same hint. It records the hint, and adds the buckets to which
// requests have moved.
func (e *routeEntry) moveFamily(now time.Duration, from *bucket, to *limitGroup, r *ratelimits.Response, hinted bool, touched map[*bucket]struct{}) {
	name, a := e.route.Family(), e.account
	if name == "" || a.server.manager.sharesByRoute() || r.Class != ratelimits.ClassOK && r.Bucket == "" {
		return
	}
	place, unknown := groupKey{kind: to.kind, hash: to.hash, family: to.family}, from.group.kind.unknown()
	switch to.kind {
	case hashGroup, unlimitedGroup, routeGroup, pathGroup:
		if a.families[name] == nil {
			a.families[name] = &family{}
		}
		if !to.secret { // a hash with a token is of use for that token only, and is forgotten with its bucket
			a.families[name].learn(e.route, place, failed(r), hinted)
		}
	}
	follows := unknown || hinted && to.kind != foreignGroup
	if unknown && answersByError(r) && to.kind == hashGroup { // its successes may be counted elsewhere
		e.hinted = true
	}
	for _, sibling := range a.routes {
		if follows && sibling.group == from.group && sibling.route.Family() == name && (unknown || sibling.hinted) {
			sibling.hinted = !to.kind.unknown() && to.kind != foreignGroup
			sibling.byError = answersByError(r)
			sibling.leave(from.group, r)
			sibling.move(now, from, a.groupAt(place, sibling.route), routeMoves, touched)
		}
	}
}

// settle records that the route's own response has told where it belongs. Errors do not tell it if only errors have.
func (e *routeEntry) settle(r *ratelimits.Response) {
	if e.hinted && (r.Bucket != "" || r.Limited || withoutLimits(r)) {
		e.hinted = e.byError && answersByError(r)
	}
}

// answersByError reports an error of the server's that is not a refusal.
func answersByError(r *ratelimits.Response) bool { return failed(r) && r.Class == ratelimits.ClassOK }

// mostTries is how many routes of a family try a hint at a time in a bucket.
const mostTries = 2

// tries reports that the route has its place by a hint, and waits for the response to a request that it has sent from
// this bucket, or others of its family do.
func (b *bucket) tries(e *routeEntry) bool {
	if !e.hinted || b.server().manager.settings.unknown == UnknownUnlimited {
		return false
	}
	n := 0
	return b.awaits(func(h *held) bool {
		if h.entry.hinted && h.entry.route.Family() == e.route.Family() {
			n++
		}
		return h.entry == e || n == mostTries
	})
}

// restoreFamily records where a route belongs of which the manager before has left that.
func (a *account) restoreFamily(e *routeEntry) {
	group := e.group
	f := a.familyOf(e.route)
	switch group.kind {
	case hashGroup, unlimitedGroup, routeGroup, pathGroup:
		if f != nil {
			f.learn(e.route, groupKey{kind: group.kind, hash: group.hash}, e.byError, true)
		}
	}
}
