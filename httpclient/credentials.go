package httpclient

import (
	"cmp"
	"context"
	"hash/maphash"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/puzpuzpuz/xsync/v4"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/internal/wire"
	"github.com/ratelight/ratelight/routes"
)

const (
	// restTime is how long a credential rests (is not used) after Discord has refused it. No rest is permanent, because
	// the refusal may be due to a missing permission or to an error of Discord.
	restTime = 10 * time.Minute
	// provenFor is how long a credential counts as valid after a success. It is a week, because some bots send requests
	// on only one day of the week.
	provenFor = 7 * 24 * time.Hour
	// maxCredentials bounds how many credentials are remembered. maxPlaces bounds on how many routes, counted separately
	// for each major parameter, one credential can rest at the same time.
	maxCredentials = 20_000
	maxPlaces      = 1_000
)

// never is the time of an event that has not happened.
const never time.Duration = math.MinInt64

// credentials remembers which credentials Discord has refused, and which it has accepted. It keeps only their hashes.
//
// A credential is proven if a request that needs a credential has succeeded with it within provenFor. All other
// credentials are unproven.
//
// An Authorization that was refused rests for requests with the same route and major parameter. After refusals on two
// routes, with no success between them, the Authorization rests everywhere. A token in a path rests everywhere after
// one refusal. When a rest begins, all waiting requests to which it applies stop waiting.
type credentials struct {
	epoch   time.Time
	secret  wire.Secret                // from WithStateKey
	key     atomic.Pointer[wire.Key]   // hashes credentials
	manager *buckets.RESTBucketManager // hashes an Authorization for display; nil if there is no manager
	seed    maphash.Seed               // hashes major parameters
	known   *xsync.Map[credentialID, *credentialState]
	waiting *xsync.Map[*credential, context.CancelCauseFunc] // functions that end the waits of requests

	mu sync.Mutex // guards all non-atomic fields of credentialStates, and additions to known
}

// credentialID identifies a credential by a keyed hash. The zero value means no credential.
type credentialID struct {
	kind CredentialKind
	hash uint64
}

// place is a route with a major parameter, on which an Authorization can rest. A token in a path has only one place,
// the zero value.
type place struct {
	route routes.Route
	major uint64
}

// credentialState records the outcomes of one credential's requests. The outcomes are ordered by the times at which the
// requests were sent. A refusal does not count if a request that was sent later has succeeded. All times are counted
// from the epoch.
type credentialState struct {
	accepted atomic.Int64 // when the latest successful request was sent, or never
	doubtful atomic.Bool  // whether the credential may rest or may have been refused; if false, mu is not needed
	shown    string       // the credential's RestingCredential.Hash, "" until the credential is refused

	refused map[place]rest
	rests   time.Duration // when the latest rest ends

	latest     time.Duration // when the latest refused request was sent; irrelevant if accepted is later
	route      routes.Route  // of the latest refused request
	everywhere rest          // after refusals on two routes; sent is that of the earlier request

	since time.Duration // when the latest reset was; refusals of requests that were sent before it are ignored
}

// rest is a period in which a credential is not used.
type rest struct {
	status      int
	sent, until time.Duration
}

func newCredentials(secret wire.Secret, manager *buckets.RESTBucketManager) *credentials {
	c := &credentials{
		epoch: time.Now(), secret: secret, manager: manager, seed: maphash.MakeSeed(),
		known: xsync.NewMap[credentialID, *credentialState](), waiting: xsync.NewMap[*credential, context.CancelCauseFunc](),
	}
	c.key.Store(wire.NewKey(secret))
	return c
}

func (c *credentials) now() time.Duration { return time.Since(c.epoch) }

// idOf returns the id of a credential. For an empty text it returns the zero value.
func (c *credentials) idOf(kind CredentialKind, text string) credentialID {
	if text == "" {
		return credentialID{}
	}
	return credentialID{kind, c.key.Load().Sum(text)}
}

// rest returns the rest of a credential that applies in a place, whether that rest applies everywhere, and how much
// longer (left) it lasts. If there is no such rest, left is 0.
func (c *credentials) rest(id credentialID, p place) (r rest, everywhere bool, left time.Duration) {
	s, ok := c.known.Load(id)
	if !ok || !s.doubtful.Load() {
		return rest{}, false, 0
	}
	now := c.now()
	c.mu.Lock()
	defer c.mu.Unlock()
	s.settle(now)
	r, everywhere = s.everywhere, true
	if r.until <= now {
		r, everywhere = s.refused[p], false
	}
	return r, everywhere, max(r.until-now, 0)
}

// proven reports whether a credential has succeeded within provenFor.
func (c *credentials) proven(id credentialID) bool {
	s, ok := c.known.Load(id)
	return ok && s.accepted.Load() > int64(c.now()-provenFor)
}

// succeed records that Discord accepted the credential of a request that was sent at the given time.
func (c *credentials) succeed(id credentialID, p place, sent time.Duration) {
	s := c.state(id)
	raise(&s.accepted, sent)
	if !s.doubtful.Load() {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.refused[p].sent < sent {
		delete(s.refused, p)
	}
	if s.everywhere.sent < sent {
		s.everywhere = rest{}
	}
	s.settle(c.now())
}

// raise stores a time (to) in at, unless at already has a later time.
func raise(at *atomic.Int64, to time.Duration) {
	for before := at.Load(); before < int64(to); before = at.Load() {
		if at.CompareAndSwap(before, int64(to)) {
			return
		}
	}
}

// refuse records that Discord refused the credential of a request that was sent at the given time. All waiting requests
// to which the new rest applies stop waiting.
func (c *credentials) refuse(id credentialID, shown string, p place, status int, sent time.Duration) {
	s := c.state(id)
	c.mu.Lock()
	s.shown = shown
	s.refuse(p, rest{status, sent, c.now() + restTime})
	c.mu.Unlock()
	c.wake(id)
}

func (s *credentialState) refuse(p place, r rest) {
	accepted := time.Duration(s.accepted.Load())
	if r.sent <= s.since {
		return
	}
	s.doubtful.Store(true)
	s.rests = r.until
	if len(s.refused) >= maxPlaces {
		for any := range s.refused {
			delete(s.refused, any)
			break
		}
	}
	r.sent = max(r.sent, s.refused[p].sent)
	s.refused[p] = r
	if r.sent <= accepted || p == (place{}) {
		return
	}
	// If there has been no success since the latest rest everywhere, a single refusal makes that rest begin again.
	again := s.everywhere.until > 0 && s.everywhere.sent > accepted
	if again || s.latest > accepted && s.route != p.route {
		s.everywhere = rest{r.status, min(r.sent, s.latest), r.until}
	}
	if r.sent > s.latest {
		s.latest, s.route = r.sent, p.route
	}
}

// wake looks at all waiting requests with the credential, and ends the waits of those for which check returns an error.
func (c *credentials) wake(id credentialID) {
	for waiting, stop := range c.waiting.All() {
		if waiting.id != id {
			continue
		}
		if err := waiting.check(); err != nil {
			stop(err)
		}
	}
}

// settle removes the rests in places, and updates doubtful, if all rests are over. Otherwise it does nothing.
func (s *credentialState) settle(now time.Duration) {
	if now >= s.rests {
		clear(s.refused)
		s.doubtful.Store(s.latest > time.Duration(s.accepted.Load()))
	}
}

// reset ends all rests of a credential. Refusals of requests that are in flight now will be ignored.
func (c *credentials) reset(id credentialID) {
	s := c.state(id)
	c.mu.Lock()
	defer c.mu.Unlock()
	s.reset(c.now())
}

func (s *credentialState) reset(now time.Duration) {
	clear(s.refused)
	s.everywhere, s.latest, s.since = rest{}, never, now
	s.doubtful.Store(false)
}

func (c *credentials) resetAll() {
	now := c.now()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.known.All() {
		s.reset(now)
	}
}

// resting returns up to limit current rests of credentials. Those that last longest come first.
func (c *credentials) resting(limit int) (all []RestingCredential) {
	now := c.now()
	for id, s := range c.known.All() {
		if s.doubtful.Load() {
			c.mu.Lock()
			all = append(all, s.resting(now, id.kind)...)
			c.mu.Unlock()
		}
	}
	slices.SortFunc(all, func(a, b RestingCredential) int {
		order := cmp.Compare(b.RetryAfter, a.RetryAfter)
		return cmp.Or(order, cmp.Compare(a.Hash, b.Hash), cmp.Compare(a.Route, b.Route))
	})
	return all[:min(len(all), limit)]
}

func (s *credentialState) resting(now time.Duration, kind CredentialKind) (all []RestingCredential) {
	if r := s.everywhere; r.until > now {
		return []RestingCredential{{kind, s.shown, "", r.status, r.until - now}}
	}
	for p, r := range s.refused {
		if r.until > now {
			all = append(all, RestingCredential{kind, s.shown, p.route.String(), r.status, r.until - now})
		}
	}
	return all
}

// lift ends all rests of the credentials whose RestingCredential.Hash has the given value (shown). It returns the
// number of these credentials.
func (c *credentials) lift(shown string) (lifted int) {
	now := c.now()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.known.All() {
		if s.shown == shown {
			lifted++
			s.reset(now)
		}
	}
	return lifted
}

// state returns the state of a credential. If there is none, it adds one.
func (c *credentials) state(id credentialID) *credentialState {
	if s, ok := c.known.Load(id); ok {
		return s
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if s, ok := c.known.Load(id); ok { // another goroutine may have added it
		return s
	}
	if c.known.Size() >= maxCredentials {
		c.makeRoom()
	}
	return c.add(id, never)
}

// add adds the state of a credential. accepted is when the credential's latest successful request was sent, or never.
func (c *credentials) add(id credentialID, accepted time.Duration) *credentialState {
	s := &credentialState{refused: make(map[place]rest), latest: never, since: never}
	s.accepted.Store(int64(accepted))
	c.known.Store(id, s)
	return s
}

// makeRoom removes an eighth of the states. It first removes states without an outcome, then states without a success,
// then any states.
func (c *credentials) makeRoom() {
	for least := 1; least <= 3; least++ {
		for id, s := range c.known.All() {
			if c.known.Size() <= maxCredentials-maxCredentials/8 {
				return
			}
			if s.worth() < least {
				c.known.Delete(id)
			}
		}
	}
}

// worth ranks a state by its use: 2 if the credential has succeeded, 1 if it may have been refused, 0 otherwise.
func (s *credentialState) worth() int {
	switch {
	case s.accepted.Load() != int64(never):
		return 2
	case s.doubtful.Load():
		return 1
	}
	return 0
}
