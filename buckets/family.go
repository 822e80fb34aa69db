package buckets

import (
	"time"

	"github.com/ratelight/ratelight/ratelimits"
	"github.com/ratelight/ratelight/routes"
)

// Routes of one family (routes.Route.Family) are expected to share a bucket, so they have one UNKNOWN bucket. The
// response to the first request of that bucket names a real bucket for the route of the request. For the other routes
// of the family this response is a hint. If a route has its bucket only by a hint, one request of the route is sent to
// that bucket first. The response to this request confirms or overrules the hint. If the response overrules the hint,
// the place named by the response becomes the hint of all routes that have only the old hint. At most two routes try a
// hint at the same time, because all routes may share a bucket that allows a single request. So a wrong hint causes at
// most one 429.

// family records what the responses to a family's routes have shown for one credential.
type family struct {
	// place is the kind and hash of the limit group to which the routes are expected to belong. Zero: not known yet.
	place   groupKey
	byError bool                      // only errors have named the place
	apart   map[routes.Route]struct{} // routes whose own responses have named another place
}

// familyOf returns the family of a route. It returns nil if the route has none, or if its own responses have named
// another place.
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

// firstGroup returns the limit group of a route without responses, and whether the route has that group by a hint.
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

// groupAt returns the limit group of a place for a route. If the place has no hash, the group is for the whole family,
// because its routes may share a bucket although no response names a hash. A route leaves such a group after its own
// first response.
func (a *account) groupAt(place groupKey, route routes.Route) *limitGroup {
	switch place.kind {
	case unlimitedGroup, routeGroup:
		place.family = route.Family()
	case pathGroup:
		place.route = route
	}
	return a.group(place)
}

// hints reports whether a hint says where a route without responses belongs.
func (a *account) hints(route routes.Route) bool {
	f := a.familyOf(route)
	return f != nil && f.place != groupKey{}
}

// learn records the place that a response has named for a route of the family.
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
	case !apart && (!failed || f.byError): // the whole family has moved
		f.place, f.byError = place, failed
	}
}

// moveFamily is called when a response has moved a route to another limit group. It records that group as a hint for
// the route's family. It also moves the other routes of the family that have the same UNKNOWN bucket or the same hint.
// The buckets that have received requests are added to touched.
func (e *routeEntry) moveFamily(
	now time.Duration, from *bucket, to *limitGroup, r *ratelimits.Response, hinted bool, touched map[*bucket]struct{},
) {
	name, a := e.route.Family(), e.account
	if name == "" || r.Class != ratelimits.ClassOK && r.Bucket == "" {
		return
	}
	place, unknown := groupKey{kind: to.kind, hash: to.hash, family: to.family}, from.group.kind.unknown()
	switch to.kind {
	case hashGroup, unlimitedGroup, routeGroup, pathGroup:
		if a.families[name] == nil {
			a.families[name] = &family{}
		}
		if !to.secret { // a hash with a token is useful for that token only, and must not outlive its bucket
			a.families[name].learn(e.route, place, failed(r), hinted)
		}
	}
	follows := unknown || hinted && to.kind != foreignGroup
	if unknown && answersByError(r) && to.kind == hashGroup { // the route's successes may belong to another bucket
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

// settle ends the hint of a route when its own response names a place. An error does not end a hint that comes from
// errors only.
func (e *routeEntry) settle(r *ratelimits.Response) {
	if e.hinted && (r.Bucket != "" || r.Limited || withoutLimits(r)) {
		e.hinted = e.byError && answersByError(r)
	}
}

// answersByError reports whether a response is an error, but not a 429.
func answersByError(r *ratelimits.Response) bool { return failed(r) && r.Class == ratelimits.ClassOK }

// mostTries bounds how many routes of a family try a hint at a time in a bucket.
const mostTries = 2

// tries reports whether a route with a hint has to wait in this bucket. It has to wait while a request of the route is
// in flight from the bucket, or while mostTries requests of hinted routes of its family are in flight from there.
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

// restoreFamily records the restored place of a route in its family.
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
