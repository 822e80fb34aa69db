package buckets

import (
	"iter"
	"slices"
	"strconv"
	"time"

	"github.com/ratelight/ratelight/ratelimits"
)

// BucketSnapshot is what is known of a bucket at one moment. It contains no credential and no token.
type BucketSnapshot struct {
	// Server is the server to which the bucket belongs (see Request.Server), empty for Discord.
	Server string
	// Hash is the bucket hash, UnknownHash for a route whose hash is not known, empty for one whose responses name
	// none. A bucket hash that contains a token, or is so long that it may, is replaced by a hash of it.
	Hash string
	// Routes are the methods and templates of all routes that are known to use the bucket, in order.
	Routes []string
	// Route is the only route of the bucket if no other route can use it, otherwise empty.
	Route string
	// Major is the major parameter, with a hash in place of a token, "-" if there is none.
	Major string
	// Authentication identifies the credential, "-" for none. It differs between managers.
	Authentication string
	// Kind is how the bucket refills.
	Kind ratelimits.Kind
	// Unlimited reports that responses carry no limits.
	Unlimited bool
	// Limit is the number of requests per Period, 0 if not known.
	Limit  int
	Period time.Duration
	// Remaining is how many requests could be sent now.
	Remaining int
	// ResetAfter is the time until all charges have certainly expired, HoldAfter how long nothing may be sent.
	ResetAfter, HoldAfter time.Duration
	// InFlight and Waiting are the numbers of requests in flight and in the queue.
	InFlight, Waiting int
	// WaitsFor says what the first waiting request waits for, WaitsForNothing if none waits. WaitAfter is how long it
	// will wait, 0 if that depends on the outcome of a request in flight or on another process.
	WaitsFor  WaitsFor
	WaitAfter time.Duration
}

// WaitsFor is what a bucket waits for.
type WaitsFor string

const (
	WaitsForNothing  WaitsFor = ""
	WaitsForWindow   WaitsFor = "window"    // the bucket is used up, or a 429 holds it
	WaitsForSubLimit WaitsFor = "sub-limit" // a hidden limit on fields of the body
	WaitsForShared   WaitsFor = "shared"    // the limit of a resource, used up by all its users
	WaitsForGlobal   WaitsFor = "global"    // the global limit of the credential
	WaitsForEdge     WaitsFor = "edge"      // the network in front of the server
	WaitsForProbe    WaitsFor = "probe"     // the response to a request that was sent first
	WaitsForOrdered  WaitsFor = "ordered"   // requests are sent one at a time, and one is in flight
	WaitsForOutage   WaitsFor = "outage"    // the other processes cannot be reached
)

// Buckets returns snapshots of all buckets, in no order. Buckets that are created or removed meanwhile may be missing.
// One bucket is locked at a time, only while its snapshot is taken.
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
		s.Authentication = "#" + strconv.FormatUint(a.digest&0xffffff, 16)
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
		return "#" + strconv.FormatUint(group.authentication.global.manager.digest(group.hash)&0xffffff, 16)
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
