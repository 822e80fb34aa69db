package buckets

import (
	"net/http"
	"time"

	"github.com/ratelight/ratelight/ratelimits"
)

// A server's 429s on many routes may name one bucket that no other response names, for example because the server
// counts the errors of an IP address. The requests of these routes then wait in one limit group, a foreign group,
// whatever their major parameters are. When the hold of the foreign group is over, one request is sent first. If this
// request is not refused, all routes return to their own buckets. If instead each route sent a request of its own
// first, each 429 might prolong the wait of the other routes.

// foreignTo returns the foreign group for a route whose 429 names a bucket that is not its own. There is such a group
// only if three conditions hold: 429s on routes of two families have named that bucket, no other response has named the
// bucket, and processes do not share limits. Otherwise foreignTo returns nil.
func (e *routeEntry) foreignTo(r *ratelimits.Response) *limitGroup {
	if r.Class != ratelimits.ClassUser || r.Bucket == "" || e.account.server.manager.session() != nil {
		return nil
	}
	a := e.account
	key := groupKey{kind: foreignGroup, hash: r.Bucket}
	if foreign := a.groups[key]; foreign != nil && foreign.routes > 0 {
		return foreign
	}
	named, of := a.group(groupKey{kind: hashGroup, hash: r.Bucket}), e.route.Family()
	if of == "" {
		of = e.route.String()
	}
	switch {
	case named.accepted:
		return nil
	case named.refused == "":
		named.refused = of
		return nil
	case named.refused == of:
		return nil
	}
	return a.group(key)
}

// home returns the limit group that a route had before a 429 moved it to a foreign group.
func (e *routeEntry) home() *limitGroup {
	if e.before == (groupKey{}) { // the route's first response was such a 429
		group, _ := e.account.firstGroup(e.route)
		return group
	}
	return e.account.group(e.before)
}

// leave records the limit group that a route has, before a 429 moves the route.
func (e *routeEntry) leave(current *limitGroup, r *ratelimits.Response) {
	if r.Class == ratelimits.ClassUser && current.kind != foreignGroup && current.groupKey != (groupKey{hash: r.Bucket}) {
		e.before = current.groupKey
	}
}

// passed reports whether a response shows that the bucket of a foreign group no longer refuses requests.
func passed(r *ratelimits.Response) bool {
	return r.Class == ratelimits.ClassOK && r.Status > 0 && r.Status < http.StatusInternalServerError
}

// learnForeign does the same as the method learn, for a request that was not refused and whose route is in a foreign
// group. If the request was sent from that group, it was sent after the 429s, so the whole route may leave the group.
// Otherwise only the request moves.
func (e *routeEntry) learnForeign(h *held, r *ratelimits.Response) (*limitGroup, moveScope) {
	scope, home := routeMoves, e.home()
	if h.order == 0 {
		scope = requestMoves
	}
	switch {
	case r.Bucket != "" && home.kind != pathGroup && (!home.hasHash() || home.hash != r.Bucket):
		return e.groupOfHash(r.Bucket), scope
	case withoutLimits(r) && home.kind.unknown():
		return e.groupFor(unlimitedGroup, ""), scope
	}
	return home, scope
}

// gather moves more routes into a new foreign group: the routes whose 429s named its bucket before the group existed.
// release moves all routes back to their own groups when a request was not refused. Both add to touched the buckets
// that have received requests.
func (foreign *limitGroup) gather(now time.Duration, touched map[*bucket]struct{}) {
	a := foreign.account
	named := a.groups[groupKey{kind: hashGroup, hash: foreign.hash}]
	if named == nil {
		return
	}
	for _, b := range named.buckets {
		for _, e := range a.routes {
			if e.groupOf(b.major) == named {
				e.move(now, b, foreign, routeMoves, touched)
			}
		}
	}
}

func (b *bucket) release(now time.Duration, touched map[*bucket]struct{}) {
	for _, e := range b.account().routes {
		if e.group == b.group {
			e.move(now, b, e.home(), routeMoves, touched)
		}
	}
}
