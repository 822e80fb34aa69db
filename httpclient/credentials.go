package httpclient

import (
	"fmt"
	"hash/maphash"
	"maps"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/puzpuzpuz/xsync/v4"

	"github.com/ratelight/ratelight/internal/wire"
	"github.com/ratelight/ratelight/routes"
)

const (
	// restTime is for how long an Authorization is not tried again after a 401: it may be about a permission, or be a mistake.
	restTime = 10 * time.Minute
	// A webhook that is gone is not asked for that long; somebody may have been wrong about it.
	missingFor = 10 * time.Minute
	// Interaction tokens are valid for 15 minutes (Discord's documentation). Those of webhooks do not end, but memory is bounded.
	interactionLife = 15 * time.Minute
	webhookLife     = 24 * time.Hour

	// maxStopped is how many stops are remembered, and of how many Authorizations it is known how they fare.
	maxStopped = 10_000
	// sweepEvery is how often those are forgotten that are over, if another one is added then.
	sweepEvery = time.Minute
)

// CredentialKind says what a credential is for.
type CredentialKind int

const (
	// CredentialAuthorization is the value of an Authorization header, such as a bot's token.
	CredentialAuthorization CredentialKind = iota
	// CredentialWebhook is a webhook, by its id and token.
	CredentialWebhook
	// CredentialInteraction is the token of an interaction.
	CredentialInteraction
)

func (k CredentialKind) String() string {
	names := [...]string{"Authorization", "webhook", "interaction token"}
	if k < 0 || int(k) >= len(names) {
		return fmt.Sprintf("CredentialKind(%d)", int(k))
	}
	return names[k]
}

// CredentialError says that a request was not sent because its credential has been refused before. More requests with
// it would use up the invalid request budget of the IP address, and Discord might revoke the token.
type CredentialError struct {
	// Route is the method and template of this request, without parameters.
	Route string
	// Kind is the kind of credential that was refused.
	Kind CredentialKind
	// Status is the status of the refusal: 401, or 404 for a deleted webhook.
	Status int
	// Everywhere reports for an Authorization that nothing is sent with it any more. Otherwise it is only not sent to this route with this
	// channel, guild or webhook.
	Everywhere bool
	// RetryAfter is how long the credential is not used again, 0 for ever.
	RetryAfter time.Duration
}

func (e *CredentialError) Error() string {
	where, advice := "", fmt.Sprintf("it is not used again for %v", e.RetryAfter.Round(time.Second))
	switch {
	case e.Kind != CredentialAuthorization:
	case e.RetryAfter == 0:
		advice = "replace it, or call ResetCredential"
	case !e.Everywhere:
		where = " on this route"
	}
	return fmt.Sprintf("%s not sent: its %v was refused with %d%s; %s", e.Route, e.Kind, e.Status, where, advice)
}

// credentials remembers which of them do not work. Only keyed hashes of them are kept.
//
// An Authorization is stopped in one place by each 401, see scope, and as a whole by what its authorizationState says. A token in a path is
// stopped by one 401 or 404. A stop ends the waits of its requests at once.
type credentials struct {
	secret  wire.Secret              // of WithStateKey
	key     atomic.Pointer[wire.Key] // of the hashes that are kept
	seed    maphash.Seed             // of those by which an Authorization is found in known, fast
	known   *xsync.Map[credentialID, *authorizationState]
	waiting *xsync.Map[*watch, struct{}]
	count   atomic.Int32 // of those stopped, so that nobody takes the lock where there is nothing

	mu       sync.Mutex // also for changes of known
	stopped  map[finding]stop
	swept    time.Time
	restored map[credentialID]*authorizationState // found in a state; known when a request comes
}

// credentialID is one credential on one server: the same token on another server is another credential.
type credentialID struct {
	server string
	kind   CredentialKind
	hash   uint64
}

// scope is where a credential is stopped: for an Authorization a route with a major parameter, for a token in a path everywhere.
type scope struct {
	credentialID
	route routes.Route
	major uint64
}

// evidence is why a credential is stopped in a scope.
type evidence uint8

const (
	confirmed evidence = iota
	byHeader           // of a 401 whose body is not known yet
	overtaken          // a 401 after which a request that left later has succeeded, perhaps there. It stops nothing
)

// finding is one thing that is known against a credential.
type finding struct {
	scope
	evidence evidence
}

type stop struct {
	status int
	until  time.Time
	by     uint64 // the number of the request that was refused, see authorizationState; of the latest one that may be out of date, if overtaken
}

func newCredentials(secret wire.Secret) *credentials {
	c := &credentials{
		secret: secret, seed: maphash.MakeSeed(), known: xsync.NewMap[credentialID, *authorizationState](), waiting: xsync.NewMap[*watch, struct{}](), stopped: make(map[finding]stop),
	}
	c.key.Store(wire.NewKey(secret))
	return c
}

func (c *credentials) hashMajor(route routes.CompiledRoute) uint64 {
	return c.key.Load().Sum(route.MajorID() + ":" + route.MajorToken())
}

// stop stops a credential in a place, also for those who wait. A stop is only ever extended.
func (c *credentials) stop(k finding, s stop) {
	c.note(k, s)
	c.wake(k.scope)
}

// note remembers a finding.
func (c *credentials) note(k finding, s stop) {
	c.mu.Lock()
	defer c.mu.Unlock()
	before, ok := c.stopped[k]
	if ok && before.until.After(s.until) {
		return
	}
	s.by = max(s.by, before.by)
	if now := time.Now(); len(c.stopped) >= maxStopped || now.Sub(c.swept) > sweepEvery {
		c.sweep(now)
	}
	c.stopped[k] = s
	c.count.Store(int32(len(c.stopped)))
}

// sweep forgets what is over, and if that is not enough, some of the rest: one more request each will find it out again.
func (c *credentials) sweep(now time.Time) {
	c.swept = now
	maps.DeleteFunc(c.stopped, func(_ finding, s stop) bool { return !s.until.After(now) })
	surplus := 0
	if len(c.stopped) >= maxStopped {
		surplus = maxStopped / 8
	}
	for k := range c.stopped {
		if surplus--; surplus < 0 {
			return
		}
		delete(c.stopped, k)
	}
}

// refusedAgain takes in a 401 to the request of that number, after which a later one has succeeded, perhaps there: only another one that
// left after that was known counts. It reports whether this is it. Sent is how many requests have left.
func (c *credentials) refusedAgain(p scope, number, sent uint64) bool {
	now := time.Now()
	c.mu.Lock()
	before := c.stopped[finding{p, overtaken}]
	stopped := c.stopped[finding{p, confirmed}].until.After(now) || c.stopped[finding{p, byHeader}].until.After(now)
	c.mu.Unlock()
	switch {
	case stopped:
		return true
	case before.until.After(now):
		return before.by < number
	}
	c.note(finding{p, overtaken}, stop{http.StatusUnauthorized, now.Add(restTime), sent})
	return false
}

// lift ends what the request of that number, or one before it, has brought about in a place.
func (c *credentials) lift(p scope, number uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, e := range [...]evidence{confirmed, byHeader, overtaken} {
		if s, ok := c.stopped[finding{p, e}]; ok && s.by <= number {
			c.forget(finding{p, e})
		}
	}
}

// takeBack forgets what the request of that number was the latest to say.
func (c *credentials) takeBack(k finding, number uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s, ok := c.stopped[k]; ok && s.by == number {
		c.forget(k)
	}
}

// forget ends a stop. The lock is held.
func (c *credentials) forget(k finding) {
	delete(c.stopped, k)
	c.count.Store(int32(len(c.stopped)))
}

// reset lets an Authorization be used again on all servers.
func (c *credentials) reset(authorization string) {
	if authorization != "" {
		hash := c.key.Load().Sum(authorization)
		c.resetAll(func(o credentialID) bool { return o.kind == CredentialAuthorization && o.hash == hash })
	}
}

// resetAll forgets all that is known against credentials. The function says which.
func (c *credentials) resetAll(which func(credentialID) bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.known.All() {
		if which(s.credentialID) {
			s.reset()
		}
	}
	maps.DeleteFunc(c.restored, func(o credentialID, _ *authorizationState) bool { return which(o) })
	maps.DeleteFunc(c.stopped, func(k finding, _ stop) bool { return which(k.credentialID) })
	c.count.Store(int32(len(c.stopped)))
}

// stateOf returns how an Authorization fares, nil if it is empty.
func (c *credentials) stateOf(server, authorization string) *authorizationState {
	if authorization == "" {
		return nil
	}
	o := credentialID{server, CredentialAuthorization, maphash.String(c.seed, authorization)}
	if s, ok := c.known.Load(o); ok {
		return s
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known.Size() >= maxStopped {
		c.sweepKnown()
	}
	if s, ok := c.known.Load(o); ok { // in the meantime
		return s
	}
	kept := o
	kept.hash = c.key.Load().Sum(authorization)
	s := newAuthorizationState(kept, authorization)
	if found, ok := c.restored[kept]; ok {
		found.bot = s.bot
		s = found
		delete(c.restored, kept)
	}
	c.known.Store(o, s)
	return s
}

// sweepKnown makes room for more Authorizations: it forgets some of those against which nothing is known, or of all if that is not
// enough.
func (c *credentials) sweepKnown() {
	for _, all := range []bool{false, true} {
		for o, s := range c.known.All() {
			if c.known.Size() <= maxStopped-maxStopped/8 {
				return
			}
			if all || !s.doubtful.Load() {
				c.known.Delete(o)
			}
		}
	}
}
