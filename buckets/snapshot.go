package buckets

import (
	"encoding/json"
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
	// ResetAfter is the time until all charges have certainly expired, HoldAfter how long nothing may be sent. HoldClass is the class of
	// the 429 that caused the hold, ratelimits.ClassOK if none did or nothing is held.
	ResetAfter, HoldAfter time.Duration
	HoldClass             ratelimits.Class
	// SubLimitAfter is how long the longest hold of a sub-limit lasts, a hidden limit on fields of the body. Other requests do not wait for it.
	SubLimitAfter time.Duration
	// InFlight and Waiting are the numbers of requests in flight and in the queue.
	InFlight, Waiting int
	// WaitsFor says what the first waiting request waits for, WaitsForNothing if none waits; Declared is the name of the declared limit if it
	// is that, otherwise empty. WaitAfter is how long it will wait, 0 if that depends on the outcome of a request in flight or on another
	// process.
	WaitsFor  WaitsFor
	Declared  string
	WaitAfter time.Duration
	// WaitUntil is the same as a time of the wall clock, for comparison with logs; zero if WaitAfter is.
	WaitUntil time.Time
	// Waited is how long the one has waited that was there first of those who wait, 0 if none does.
	Waited time.Duration
	// PredictedWait is how long a request that came now would wait, like those who wait if there are any, and behind them; 0 if
	// no reason to wait is known.
	PredictedWait time.Duration
}

// MarshalJSON encodes the snapshot with descriptive names: classes and kinds by name, times in seconds.
func (s BucketSnapshot) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Server         string    `json:"server"`
		Hash           string    `json:"hash"`
		Routes         []string  `json:"routes"`
		Route          string    `json:"route"`
		Major          string    `json:"major"`
		Authentication string    `json:"authentication"`
		Kind           string    `json:"kind"`
		Unlimited      bool      `json:"unlimited"`
		Limit          int       `json:"limit"`
		Period         float64   `json:"period_seconds"`
		Remaining      int       `json:"remaining"`
		ResetAfter     float64   `json:"reset_seconds"`
		HoldAfter      float64   `json:"hold_seconds"`
		HoldClass      string    `json:"hold_class"`
		SubLimitAfter  float64   `json:"sub_limit_hold_seconds"`
		InFlight       int       `json:"in_flight"`
		Waiting        int       `json:"waiting"`
		WaitsFor       WaitsFor  `json:"waits_for"`
		Declared       string    `json:"declared"`
		WaitAfter      float64   `json:"wait_seconds"`
		WaitUntil      time.Time `json:"wait_until,omitzero"`
		Waited         float64   `json:"waited_seconds"`
		PredictedWait  float64   `json:"predicted_wait_seconds"`
	}{
		s.Server, s.Hash, append([]string{}, s.Routes...), s.Route, s.Major, s.Authentication, s.Kind.String(), s.Unlimited,
		s.Limit, s.Period.Seconds(), s.Remaining, s.ResetAfter.Seconds(), s.HoldAfter.Seconds(), s.HoldClass.String(), s.SubLimitAfter.Seconds(),
		s.InFlight, s.Waiting, s.WaitsFor, s.Declared, s.WaitAfter.Seconds(), s.WaitUntil, s.Waited.Seconds(), s.PredictedWait.Seconds(),
	})
}

// WaitsFor is what a bucket waits for.
type WaitsFor string

const (
	WaitsForNothing  WaitsFor = ""
	WaitsForWindow   WaitsFor = "window"    // the bucket is used up, or a 429 holds it
	WaitsForSubLimit WaitsFor = "sub-limit" // a hidden limit on fields of the body
	WaitsForShared   WaitsFor = "shared"    // the limit of a resource, used up by all its users
	WaitsForDeclared WaitsFor = "declared"  // a limit of WithLimit
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
			s := b.lockedSnapshot()
			s.Routes = users.of(b)
			if !yield(s) {
				return
			}
		}
	}
}

// users are the routes that have buckets in a limit group, as far as is known; under nil those of which nobody has looked in which.
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

// usersAmong returns some routes as users. Those that have many limit groups, which are few, are not looked for in all of these.
func usersAmong(entries []*routeEntry) users {
	u := make(users)
	for _, e := range entries {
		group := e.group.Load()
		if e.groupsByMajor.Load() != nil {
			group = nil
		}
		u[group] = append(u[group], e)
	}
	return u
}

// of returns the routes of a bucket.
func (u users) of(b *bucket) (routes []string) {
	for _, entries := range [][]*routeEntry{u[b.group], u[nil]} {
		for _, e := range entries {
			if e.groupOf(b.major) == b.group {
				routes = append(routes, e.route.String())
			}
		}
	}
	slices.Sort(routes)
	return routes
}

func (b *bucket) lockedSnapshot() BucketSnapshot {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.snapshot()
}

// snapshot returns what is known of the bucket, which is locked, but for its routes.
func (b *bucket) snapshot() BucketSnapshot {
	now, window := b.now(), &b.window
	s := BucketSnapshot{
		Server: b.server().name, Hash: b.group.shown(), Major: b.major.String(), Authentication: b.group.authentication.shown(),
		Kind: window.Kind(), Unlimited: window.Unlimited(),
		Limit: window.Limit(), Period: window.Period(), Remaining: window.Remaining(now),
		ResetAfter: max(window.Reset()-now, 0), HoldAfter: window.HoldWait(now),
		SubLimitAfter: b.queues.longestHold(now),
		InFlight:      window.InFlight(), Waiting: b.queues.length(),
	}
	if s.HoldAfter > 0 {
		s.HoldClass = window.HoldClass(now)
	}
	var f forecast
	s.WaitsFor, f = b.waitsFor(now)
	if s.Declared, s.WaitAfter = f.declared(), f.wait; s.WaitAfter > 0 {
		s.WaitUntil = b.manager().settings.clock.Now().Add(s.WaitAfter)
	}
	s.Waited, s.PredictedWait = b.waited(now), b.predictNext(now)
	if !b.group.route.IsZero() {
		s.Route = b.group.route.String()
	}
	return s
}

// shown returns the credential as it may be shown: a part of a keyed hash, "-" if there is none.
func (a *authentication) shown() string {
	if a.anonymous {
		return "-"
	}
	return "#" + strconv.FormatUint(a.digest&0xffffff, 16)
}

// longestShown is the length of the longest bucket hash that is shown. Those of Discord have 32 characters, a webhook's token 68.
const longestShown = 64

// shown returns the bucket hash as it may be shown.
func (group *limitGroup) shown() string {
	switch {
	case group.kind.unknown():
		return UnknownHash
	case group.secret.Load() || len(group.hash) > longestShown:
		return "#" + strconv.FormatUint(group.authentication.global.manager.digest(group.hash)&0xffffff, 16)
	}
	return group.hash
}

// named returns the bucket hash as responses name it, empty if there is none or it must not be shown.
func (group *limitGroup) named() string {
	if group.kind != hashGroup || group.secret.Load() || len(group.hash) > longestShown {
		return ""
	}
	return group.hash
}

// waitsFor returns what the first of those who wait waits for, and the forecast.
func (b *bucket) waitsFor(now time.Duration) (WaitsFor, forecast) {
	if b.queues.length() == 0 {
		return WaitsForNothing, forecast{}
	}
	first := b.foremost(now)
	if first == nil {
		return WaitsForSubLimit, forecast{wait: b.queues.subLimitWait(now)}
	}
	return b.outlook(now, &first.ask, b.predict(now, &first.ask, ahead{}))
}

// outlook returns what somebody waits for in the bucket of whom that is forecast, and the forecast as it may be told: of no wait if only the
// outcome of one in flight can tell, or another process.
func (b *bucket) outlook(now time.Duration, a *ask, f forecast) (WaitsFor, forecast) {
	reason := b.reason(now, a, f)
	switch reason {
	case WaitsForOutage, WaitsForOrdered, WaitsForProbe:
		f = forecast{}
	case WaitsForDeclared:
		if line := b.queues.lineOf(a); f.limit == nil && line != nil {
			f.limit = line.above.(*declaredLimit)
		}
	default:
		f.limit = nil
	}
	return reason, f
}

// reason returns what somebody waits for in the bucket, of whom that is forecast.
func (b *bucket) reason(now time.Duration, a *ask, f forecast) WaitsFor {
	line := b.queues.lineOf(a)
	switch q := b.queues.subLimitOf(a); {
	case q != nil && !q.open(now):
		return WaitsForSubLimit
	case b.unreachable(now, a) != nil:
		return WaitsForOutage
	case b.queues != nil && b.queues.ordered > 0 && b.serial(a):
		return WaitsForOrdered
	case f.limit != nil || f.wait == 0 && line != nil && line.above.declared():
		return WaitsForDeclared
	case f.class == ratelimits.ClassEdge || f.wait == 0 && line != nil && line == &b.group.authentication.edge.line:
		return WaitsForEdge
	case line == nil && f.class == ratelimits.ClassOK && b.awaitsProbe(now): // for longer than anybody can tell
		return WaitsForProbe
	case f.global || f.wait == 0 && line != nil:
		return WaitsForGlobal
	case b.awaitsProbe(now):
		return WaitsForProbe
	case f.class == ratelimits.ClassShared:
		return WaitsForShared
	case f.wait > 0:
		return WaitsForWindow
	}
	return WaitsForProbe
}

// awaitsProbe reports that nothing leaves before the outcome of a request that went first, to find a limit or to see
// whether one has opened.
func (b *bucket) awaitsProbe(now time.Duration) bool {
	if !b.link.alone(now) {
		return false
	}
	_, known := b.nextPermit(now)
	return !known && b.window.Limit() == 0 || b.window.AwaitsProbe(now)
}

// waited returns how long the one has waited that was there first.
func (b *bucket) waited(now time.Duration) (waited time.Duration) {
	for q := range b.queues.all {
		if head := q.waiting.Head(); head != nil {
			waited = max(waited, now-head.Value.asked())
		}
	}
	return waited
}

// longestHold returns how long the longest hold of a sub-limit lasts.
func (qs *queues) longestHold(now time.Duration) (hold time.Duration) {
	for q := range qs.all {
		hold = max(hold, q.hold.Wait(now)) // the main queue has none
	}
	return hold
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
