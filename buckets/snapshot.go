package buckets

import (
	"hash/maphash"
	"iter"
	"slices"
	"strconv"
	"time"

	"github.com/ratelight/ratelight/ratelimits"
)

// BucketSnapshot is what is known of a bucket at one moment. It contains no credential and no token.
type BucketSnapshot struct {
	// Server is the server that the bucket is of (see Request.Server), empty for Discord.
	Server string
	// Hash is the bucket hash, UnknownHash for a route whose hash is not known, empty for one whose responses name none. In place of one
	// that contains a token, or is so long that it may, it is a hash of that.
	Hash string
	// Routes are the methods and templates of all routes that are known to use the bucket, in order.
	Routes []string
	// Route is the only one of them if no other can come to use the bucket, otherwise empty.
	Route string
	// Major is the major parameter, with a hash in place of a token, "-" if there is none.
	Major string
	// Authentication stands for the credential, "-" for none. It differs from manager to manager.
	Authentication string
	// Kind is how the bucket fills up.
	Kind ratelimits.Kind
	// Unlimited reports that responses carry no limits.
	Unlimited bool
	// Limit is the number of requests per Period, 0 if not known.
	Limit  int
	Period time.Duration
	// Remaining is how many requests could leave now.
	Remaining int
	// ResetAfter is the time until everything has certainly come back, HoldAfter how long nothing may leave.
	ResetAfter, HoldAfter time.Duration
	// InFlight and Waiting are the requests under way and in the queue.
	InFlight, Waiting int
	// WaitsFor says what the first of those who wait waits for, WaitsForNothing if nobody does, and WaitAfter how long it will, 0 if
	// only the outcome of a request in flight, or another process, can tell.
	WaitsFor  WaitsFor
	WaitAfter time.Duration
}

// WaitsFor is what a bucket waits for.
type WaitsFor string

const (
	WaitsForNothing  WaitsFor = ""
	WaitsForWindow   WaitsFor = "window"    // the bucket is used up, or was refused
	WaitsForSubLimit WaitsFor = "sub-limit" // a hidden limit on what the body asks for
	WaitsForShared   WaitsFor = "shared"    // a resource that is used up for everybody
	WaitsForGlobal   WaitsFor = "global"    // the global limit of the credential
	WaitsForEdge     WaitsFor = "edge"      // the network in front of the server
	WaitsForProbe    WaitsFor = "probe"     // a request in flight goes first
	WaitsForOrdered  WaitsFor = "ordered"   // requests go one at a time, and one is in flight
	WaitsForOutage   WaitsFor = "outage"    // the other processes cannot be asked
)

// Buckets returns snapshots of all buckets, in no order. Buckets that come or go meanwhile may be missing. One bucket is locked
// at a time, while its snapshot is taken and not while the caller looks at it.
func (m *RESTBucketManager) Buckets() iter.Seq[BucketSnapshot] {
	return func(yield func(BucketSnapshot) bool) {
		users := m.users()
		for b := range m.buckets.all() {
			s := b.snapshot()
			s.Routes = users.of(b)
			if !yield(s) {
				return
			}
		}
	}
}

// users are the routes that have buckets in a limit group, as far as is known.
type users map[*limitGroup][]*routeEntry

func (m *RESTBucketManager) users() users {
	u := make(users)
	add := func(group *limitGroup, e *routeEntry) {
		if !slices.Contains(u[group], e) {
			u[group] = append(u[group], e)
		}
	}
	for _, e := range m.entries.All() {
		add(e.group.Load(), e)
		if others := e.groupsByMajor.Load(); others != nil {
			for _, group := range others.All() {
				add(group, e)
			}
		}
	}
	return u
}

// of returns the routes of a bucket.
func (u users) of(b *bucket) (routes []string) {
	for _, e := range u[b.group] {
		if e.groupOf(b.major) == b.group {
			routes = append(routes, e.route.String())
		}
	}
	slices.Sort(routes)
	return routes
}

func (b *bucket) snapshot() BucketSnapshot {
	b.mu.Lock()
	defer b.mu.Unlock()
	now, window := b.manager().now(), &b.window
	s := BucketSnapshot{
		Server: b.server().name, Hash: b.group.shown(), Major: b.major.String(), Authentication: "-",
		Kind: window.Kind(), Unlimited: window.Unlimited(),
		Limit: window.Limit(), Period: window.Period(), Remaining: window.Remaining(now),
		ResetAfter: max(window.Reset()-now, 0), HoldAfter: window.HoldWait(now),
		InFlight: window.InFlight(), Waiting: b.queues.waiting(),
	}
	s.WaitsFor, s.WaitAfter = b.waitsFor(now)
	if !b.group.route.IsZero() {
		s.Route = b.group.route.String()
	}
	if a := b.group.authentication; !a.anonymous {
		s.Authentication = "#" + strconv.FormatUint(a.id&0xffffff, 16)
	}
	return s
}

// longestShown is the length of the longest bucket hash that is shown. Those of Discord have 32 characters, a webhook's token 68.
const longestShown = 64

// shown returns the bucket hash as it may be shown.
func (group *limitGroup) shown() string {
	switch {
	case group.kind == unknownGroup:
		return UnknownHash
	case group.secret.Load() || len(group.hash) > longestShown:
		return "#" + strconv.FormatUint(maphash.String(group.authentication.global.manager.seed, group.hash)&0xffffff, 16)
	}
	return group.hash
}

// waitsFor returns what the first of those who wait waits for, and how long.
func (b *bucket) waitsFor(now time.Duration) (WaitsFor, time.Duration) {
	if b.queues.waiting() == 0 {
		return WaitsForNothing, 0
	}
	first, _ := b.first(now)
	switch {
	case first == nil:
		return WaitsForSubLimit, b.queues.subLimitWait(now)
	case b.unreachable(now, &first.ask) != nil:
		return WaitsForOutage, 0
	case b.queues.ordered > 0 && b.serial(&first.ask):
		return WaitsForOrdered, 0
	}
	f := b.predict(now, &first.ask, 0)
	line := b.queues.line
	switch {
	case f.class == ratelimits.ClassEdge || f.wait == 0 && line == b.group.authentication.edge:
		return WaitsForEdge, f.wait
	case f.global || f.wait == 0 && line != nil:
		return WaitsForGlobal, f.wait
	case f.class == ratelimits.ClassShared:
		return WaitsForShared, f.wait
	case f.wait > 0:
		return WaitsForWindow, f.wait
	}
	return WaitsForProbe, 0
}

// subLimitWait returns how long it is until the first of those leaves who wait for a sub-limit, 0 if only the outcome of one in flight can
// tell.
func (qs *queues) subLimitWait(now time.Duration) (wait time.Duration) {
	for _, q := range qs.subLimits {
		if hold := q.hold.Wait(now); q.waiting.Len() > 0 && !q.inFlight && (wait == 0 || hold < wait) {
			wait = hold
		}
	}
	return wait
}
