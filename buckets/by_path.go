package buckets

import (
	"strings"
	"time"

	"github.com/ratelight/ratelight/ratelimits"
	"github.com/ratelight/ratelight/routes"
)

// A server that is compatible with Discord may have a bucket for each URL, and may name these buckets arbitrarily. On
// such a server, neither the major parameter nor the hash of the latest response identifies the bucket of the next
// request. A route whose buckets are like that gets one bucket for each path.

const (
	// differentPaths is how many paths of a route must name different hashes, each of an otherwise unused (fresh) bucket,
	// to prove that each path has a bucket of its own. Nothing is proven if one of the paths names two hashes.
	differentPaths = 3
	// mostPaths is how many paths of a route have their hash remembered.
	mostPaths = 8
)

// pathHashes records which hashes the recent responses of a route named for its paths, since these hashes began to
// differ.
type pathHashes struct {
	since time.Duration
	named [mostPaths]struct{ path, hash uint64 } // keyed hashes of both
	fresh int                                    // paths whose first response showed an otherwise unused bucket
	used  int                                    // paths whose first response showed a bucket that other requests also use
	mixed bool                                   // one path has named two hashes, or two paths have named the same hash
}

// proven reports whether the responses so far show that each path has a bucket of its own. If all paths shared one
// limit whose hash changes all the time, most of the buckets would not be fresh.
func (p *pathHashes) proven() bool {
	return p.fresh >= differentPaths && !p.mixed && 2*p.used <= p.fresh
}

// record records that a response for a path named a hash. fresh says that no other request was counted in the bucket of
// that hash. record reports whether each path has a bucket of its own (yes), and whether the paths certainly have no
// buckets of their own (no).
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
	case !p.proven(): // otherwise the hash of this path may have been dropped from named
		p.used++
	}
	return p.proven(), p.mixed || n >= differentPaths && !p.proven()
}

// countedByPath reports whether a response shows that each path of the route has a bucket of its own (yes), and whether
// the response shows the opposite (no).
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
	fresh := r.Limited && r.Limit > 1 && r.Remaining >= r.Limit-1 // with a limit of 1 every bucket looks fresh
	return e.pathHashes.record(now, digest(h.route.Path()), digest(r.Bucket), fresh)
}

// notePath records a response that named the expected hash, if earlier responses named different hashes.
func (e *routeEntry) notePath(now time.Duration, h *held, r *ratelimits.Response) {
	if e.pathHashes != nil {
		e.countedByPath(now, h, r)
	}
}

// hasMinor reports whether the paths of a route differ in more than the major parameter.
func hasMinor(route routes.Route) bool {
	parameters := strings.Count(route.Template(), "{")
	switch route.MajorKind() {
	case routes.MajorNone:
		return parameters > 0
	case routes.MajorWebhookToken:
		return parameters > 2
	}
	return parameters > 1
}

// keyIn returns the key of a request's bucket in the limit group: its major parameter, or a hash of its path.
func (group *limitGroup) keyIn(route *routes.CompiledRoute, m major) major {
	if group.kind == pathGroup {
		return group.account.server.manager.pathKey(route)
	}
	return m
}

// pathKey returns a keyed hash of a request's path, because the path itself may contain a token.
func (m *RESTBucketManager) pathKey(route *routes.CompiledRoute) major {
	return major{id: m.digest(route.Path()) | hashed}
}
