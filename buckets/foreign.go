package buckets

import (
	"net/http"
	"time"

	"github.com/ratelight/ratelight/ratelimits"
)

// A server may refuse requests to many routes in the name of one bucket that no other response names: it counts errors
// of an address, say. Requests that were refused in its name wait together, whatever their routes and major parameters:
// one goes first when the hold is over, and when it is not refused, all go back to where they were. If each of them
// tried for itself, each refusal might prolong the others' wait.

// foreignTo returns the limit group in which requests wait that were refused in the name of a bucket that is not their
// own, nil if there is no reason to think so: two routes that do not share a bucket have to be refused in its name.
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

// home returns where a route belonged before its requests were refused in the name of another bucket.
func (e *routeEntry) home() *limitGroup {
	if e.before == (groupKey{}) { // it has been so since it is known
		group, _ := e.account.firstGroup(e.route)
		return group
	}
	return e.account.group(e.before)
}

// leave notes where a route was that a refusal moves.
func (e *routeEntry) leave(current *limitGroup, r *ratelimits.Response) {
	if r.Class == ratelimits.ClassUser && current.kind != foreignGroup && current.groupKey != (groupKey{hash: r.Bucket}) {
		e.before = current.groupKey
	}
}

// passed reports a response from which it follows that a request was not refused in the name of a bucket.
func passed(r *ratelimits.Response) bool {
	return r.Class == ratelimits.ClassOK && r.Status > 0 && r.Status < http.StatusInternalServerError
}

// learnForeign is learn for a request that waited because of refusals in the name of another bucket, and has passed. It
// was not refused, so the others may leave, too, if it was sent after the refusals.
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

// gather lets the routes join that were refused in the name of a bucket before it was known to be foreign, and release
// lets all routes go home when a request has passed. Both add the buckets to which requests have moved.
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
