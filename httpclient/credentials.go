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
	// restTime is for how long a credential is not used after Discord has refused it. The refusal may be about a
	// permission, or be a mistake.
	restTime = 10 * time.Minute
	// provenFor is for how long a credential counts as one that works: a bot may be at work on one day of the week.
	provenFor = 7 * 24 * time.Hour
	// maxCredentials is of how many credentials it is known how they fare, and maxPlaces in how many places one of them
	// rests.
	maxCredentials = 20_000
	maxPlaces      = 1_000
)

// never is the time of what has not happened.
const never time.Duration = math.MinInt64

// credentials remembers which credentials Discord has refused and accepted. It keeps only hashes of them.
//
// A credential is proven by a success that it was needed for. While there are any, all others are unproven together.
//
// A refused credential rests in one place: an Authorization on the route with its major parameter, a token in a path
// altogether. After refusals on two routes without a success between them an Authorization rests everywhere. A rest
// ends the waits of its requests at once.
type credentials struct {
	epoch   time.Time
	secret  wire.Secret                // of WithStateKey
	key     atomic.Pointer[wire.Key]   // of the hashes
	manager *buckets.RESTBucketManager // tells how an Authorization is shown, nil if there is none
	seed    maphash.Seed               // of the hashes of major parameters
	known   *xsync.Map[credentialID, *credentialState]
	waiting *xsync.Map[*credential, context.CancelCauseFunc] // ends the wait of a request
	latest  atomic.Int64                                     // when the latest request that succeeded was sent, or never

	mu sync.Mutex // guards the fields of all states that are not atomic, and additions to known
}

// credentialID is one credential, by a keyed hash. The zero value is none.
type credentialID struct {
	kind CredentialKind
	hash uint64
}

// place is where an Authorization rests. For a token in a path it is the zero value.
type place struct {
	route routes.Route
	major uint64
}

// credentialState is how a credential fares. Answers are ordered by when their requests were sent, in time since the
// epoch: the answer to a request that left before another one succeeded is out of date.
type credentialState struct {
	accepted atomic.Int64 // when the latest request that succeeded was sent, or never
	doubtful atomic.Bool  // something is known against it: nobody takes the lock otherwise
	shown    string       // what stands for it where it is shown, "" until it is refused

	refused map[place]rest
	rests   time.Duration // when the last of all rests is over

	latest     time.Duration // when the latest refused request was sent that no success has put out of date
	route      routes.Route  // its route
	everywhere rest          // sent is that of the earlier one of two routes

	since time.Duration // of the latest reset. What was sent before counts for nothing
}

// rest is a time in which a credential is not used.
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
	c.latest.Store(int64(never))
	return c
}

func (c *credentials) now() time.Duration { return time.Since(c.epoch) }

// idOf returns what stands for a credential.
func (c *credentials) idOf(kind CredentialKind, text string) credentialID {
	if text == "" {
		return credentialID{}
	}
	return credentialID{kind, c.key.Load().Sum(text)}
}

// rest returns the rest of a credential in a place, and for how much longer it lasts, 0 if there is none.
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

// proven reports that a credential has succeeded of late, and whether any has.
func (c *credentials) proven(id credentialID) (this, any bool) {
	lately := int64(c.now() - provenFor)
	if c.latest.Load() <= lately {
		return false, false
	}
	s, ok := c.known.Load(id)
	return ok && s.accepted.Load() > lately, true
}

// succeed records that Discord has accepted a credential with a request that was sent at that time.
func (c *credentials) succeed(id credentialID, p place, sent time.Duration) {
	s := c.state(id)
	raise(&s.accepted, sent)
	raise(&c.latest, sent)
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

// raise makes a time later, if it is earlier.
func raise(at *atomic.Int64, to time.Duration) {
	for before := at.Load(); before < int64(to); before = at.Load() {
		if at.CompareAndSwap(before, int64(to)) {
			return
		}
	}
}

// refuse records that Discord has refused a credential with a request that was sent at that time, and ends the waits
// that are over by that.
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
	// A rest everywhere after which nothing has succeeded begins again with one refusal.
	again := s.everywhere.until > 0 && s.everywhere.sent > accepted
	if again || s.latest > accepted && s.route != p.route {
		s.everywhere = rest{r.status, min(r.sent, s.latest), r.until}
	}
	if r.sent > s.latest {
		s.latest, s.route = r.sent, p.route
	}
}

// wake ends the waits of a credential's requests that would not be sent any more.
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

// settle forgets what is over.
func (s *credentialState) settle(now time.Duration) {
	if now >= s.rests {
		clear(s.refused)
		s.doubtful.Store(s.latest > time.Duration(s.accepted.Load()))
	}
}

// reset forgets what is known against a credential, and what the answers to requests that are under way will say.
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

// resetAll does the same for all credentials.
func (c *credentials) resetAll() {
	now := c.now()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.known.All() {
		s.reset(now)
	}
}

// resting returns credentials that rest, and where, with those first that rest longest.
func (c *credentials) resting(most int) (all []RestingCredential) {
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
	return all[:min(len(all), most)]
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

// lift forgets what is known against the credentials that are shown so, and returns how many there are.
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

// state returns the state of a credential.
func (c *credentials) state(id credentialID) *credentialState {
	if s, ok := c.known.Load(id); ok {
		return s
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if s, ok := c.known.Load(id); ok { // in the meantime
		return s
	}
	if c.known.Size() >= maxCredentials {
		c.makeRoom()
	}
	return c.add(id, never)
}

// add begins to know a credential that succeeded at that time.
func (c *credentials) add(id credentialID, accepted time.Duration) *credentialState {
	s := &credentialState{refused: make(map[place]rest), latest: never, since: never}
	s.accepted.Store(int64(accepted))
	c.known.Store(id, s)
	return s
}

// makeRoom forgets some credentials: first those of which nothing is known, then those that Discord has not accepted,
// then any.
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

// worth says how much is lost if the state is forgotten.
func (s *credentialState) worth() int {
	switch {
	case s.accepted.Load() != int64(never):
		return 2
	case s.doubtful.Load():
		return 1
	}
	return 0
}
