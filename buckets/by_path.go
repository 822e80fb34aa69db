package buckets

import (
	"strings"
	"time"

	"github.com/ratelight/ratelight/ratelimits"
	"github.com/ratelight/ratelight/routes"
)

// Servers that are compatible with Discord may have a bucket for each URL, which they name as they please. Then the
// major parameter says nothing, and the hash of the latest response nothing of the next request: the buckets of such a
// route are those of its paths.

const (
	// A route has a bucket for each path when so many paths have named different hashes of fresh buckets, and none of
	// them two.
	differentPaths = 3
	// mostPaths is of how many paths the hash is remembered at a time.
	mostPaths = 8
)

// pathHashes are the hashes that responses to a route have named of late, by path, since they began to differ.
type pathHashes struct {
	since time.Duration
	named [mostPaths]struct{ path, hash uint64 } // keyed hashes of both
	fresh int                                    // paths whose first response told of a bucket that nothing else was counted in
	used  int                                    // the others
	mixed bool                                   // one path has named two hashes, or two paths have named the same one
}

// proven reports that each path has a bucket of its own, as far as is known. If a limit that is common to the paths
// stood behind names that are always new, most buckets would not be fresh.
func (p *pathHashes) proven() bool {
	return p.fresh >= differentPaths && !p.mixed && 2*p.used <= p.fresh
}

// record records that a path has named a hash, of a bucket that is fresh or not. It returns whether paths have buckets
// of their own, and whether that is certainly not so.
func (p *pathHashes) record(now time.Duration, path, hash uint64, fresh bool) (yes, no bool) {
	if !p.proven() && now-p.since > unstableWithin {
		p.since, p.fresh, p.used, p.mixed = now, 0, 0, false
	}
	n := p.fresh + p.used
	for _, other := range p.named[:min(n, mostPaths)] {
		if other.path == path && other.hash == hash {
			return p.proven(), p.mixed
		}
		p.mixed = p.mixed || other.path == path || other.hash == hash
	}
	p.named[n%mostPaths].path, p.named[n%mostPaths].hash = path, hash
	switch {
	case fresh:
		p.fresh++
	case !p.proven(): // else it may be a path whose hash is not remembered any more
		p.used++
	}
	return p.proven(), p.mixed || n >= differentPaths && !p.proven()
}

// countedByPath returns whether a response shows that the route has a bucket for each path, and whether it shows that
// it has not.
func (e *routeEntry) countedByPath(now time.Duration, h *held, r *ratelimits.Response) (yes, no bool) {
	if r.Bucket == "" || failed(r) || !hasMinor(h.route.Route()) {
		return false, false
	}
	if strings.Contains(r.Bucket, h.route.Path()) {
		return true, false
	}
	if e.pathHashes == nil {
		e.pathHashes = &pathHashes{since: now}
	}
	digest := e.account.server.manager.digest
	fresh := r.Limited && r.Limit > 1 && r.Remaining >= r.Limit-1 // a limit of one looks the same whatever it is of
	return e.pathHashes.record(now, digest(h.route.Path()), digest(r.Bucket), fresh)
}

// notePath records that a response has named the hash that was expected, if others have not.
func (e *routeEntry) notePath(now time.Duration, h *held, r *ratelimits.Response) {
	if e.pathHashes != nil {
		e.countedByPath(now, h, r)
	}
}

// hasMinor reports that the paths of a route differ by more than the major parameter.
func hasMinor(route routes.Route) bool {
	parameters := strings.Count(route.Template(), "{")
	switch route.Major() {
	case routes.MajorNone:
		return parameters > 0
	case routes.MajorWebhookToken:
		return parameters > 2
	}
	return parameters > 1
}

// keyIn returns what a bucket of a limit group is for: the major parameter of a request, or its path.
func (group *limitGroup) keyIn(route *routes.CompiledRoute, m major) major {
	if group.kind == pathGroup {
		return group.account.server.manager.pathKey(route)
	}
	return m
}

// pathKey stands for the path of a request, which may contain a token.
func (m *RESTBucketManager) pathKey(route *routes.CompiledRoute) major {
	return major{id: m.digest(route.Path()) | hashed}
}
