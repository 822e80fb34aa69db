package httpclient

import (
	"fmt"
	"hash/maphash"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/puzpuzpuz/xsync/v4"

	"github.com/ratelight/ratelight/routes"
)

const (
	// restTime is for how long an Authorization is not tried again after a 401: it may be about a permission, or be a mistake.
	restTime = 10 * time.Minute
	// A webhook that is gone is not asked for that long; somebody may have been wrong about it.
	missingFor = 10 * time.Minute
	// Interaction tokens live 15 minutes (Discord's documentation). Those of webhooks do not end, but memory does.
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

// CredentialError says that a request was not sent because its credential has been refused before. More requests with it would
// only use up the invalid request budget of the address, and in the end the token is revoked.
type CredentialError struct {
	// Route is the method and template of this request, without parameters.
	Route string
	// Kind is what was refused.
	Kind CredentialKind
	// Status is how: 401, or 404 for a webhook that is gone.
	Status int
	// Everywhere tells for an Authorization that nothing is sent with it any more. Otherwise it is only not sent to this route with this
	// channel, guild or webhook.
	Everywhere bool
	// RetryAfter is for how long it is not tried again, 0 for ever.
	RetryAfter time.Duration
}

func (e *CredentialError) Error() string {
	where, advice := "", fmt.Sprintf("it is not tried again for %v", e.RetryAfter.Round(time.Second))
	switch {
	case e.Kind != CredentialAuthorization:
	case e.RetryAfter == 0:
		advice = "replace it, or call ResetCredential"
	case !e.Everywhere:
		where = " here"
	}
	return fmt.Sprintf("%s not sent: %d was answered to its %v%s; %s", e.Route, e.Status, e.Kind, where, advice)
}

// credentials remembers which of them do not work. Only keyed hashes of them are kept.
//
// An Authorization is stopped in one place by each 401, see place, and as a whole by what its standing says. A token in a path is
// stopped by one 401 or 404.
type credentials struct {
	seed  maphash.Seed
	known *xsync.Map[owner, *standing]
	count atomic.Int32 // of those stopped, so that nobody takes the lock where there is nothing

	mu      sync.Mutex // also for changes of known
	stopped map[place]stop
	swept   time.Time
}

// owner is one credential on one server: the same token on another server is another credential.
type owner struct {
	server string
	kind   CredentialKind
	hash   uint64
}

// place is where a credential is stopped: for an Authorization a route with a major parameter, for a token in a path everywhere.
type place struct {
	owner
	route routes.Route
	major uint64
}

type stop struct {
	status int
	until  time.Time
	by     uint64 // the number of the request that was refused, see standing
}

func newCredentials() *credentials {
	return &credentials{seed: maphash.MakeSeed(), known: xsync.NewMap[owner, *standing](), stopped: make(map[place]stop)}
}

func (c *credentials) hashMajor(route routes.CompiledRoute) uint64 {
	var h maphash.Hash
	h.SetSeed(c.seed)
	h.WriteString(route.MajorID())
	h.WriteByte(':')
	h.WriteString(route.MajorToken())
	return h.Sum64()
}

// stop stops a credential in a place. A stop is only ever extended.
func (c *credentials) stop(p place, s stop) {
	c.mu.Lock()
	defer c.mu.Unlock()
	before, ok := c.stopped[p]
	if ok && before.until.After(s.until) {
		return
	}
	s.by = max(s.by, before.by)
	if now := time.Now(); len(c.stopped) >= maxStopped || now.Sub(c.swept) > sweepEvery {
		c.sweep(now)
	}
	c.stopped[p] = s
	c.count.Store(int32(len(c.stopped)))
}

// sweep forgets what is over, and if that is not enough, some of the rest: one more request each will tell again.
func (c *credentials) sweep(now time.Time) {
	c.swept = now
	maps.DeleteFunc(c.stopped, func(_ place, s stop) bool { return !s.until.After(now) })
	surplus := 0
	if len(c.stopped) >= maxStopped {
		surplus = maxStopped / 8
	}
	for p := range c.stopped {
		if surplus--; surplus < 0 {
			return
		}
		delete(c.stopped, p)
	}
}

// lift ends a stop that the request of that number, or one before it, has brought about.
func (c *credentials) lift(p place, number uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s, ok := c.stopped[p]; ok && s.by <= number {
		c.forget(p)
	}
}

// forget ends a stop. The lock is held.
func (c *credentials) forget(p place) {
	delete(c.stopped, p)
	c.count.Store(int32(len(c.stopped)))
}

// reset lets an Authorization be used again on all servers.
func (c *credentials) reset(authorization string) {
	if authorization != "" {
		hash := maphash.String(c.seed, authorization)
		c.resetAll(func(o owner) bool { return o.kind == CredentialAuthorization && o.hash == hash })
	}
}

// resetAll forgets all that is known against credentials. The function says which.
func (c *credentials) resetAll(which func(owner) bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for o, s := range c.known.All() {
		if which(o) {
			s.reset()
		}
	}
	maps.DeleteFunc(c.stopped, func(p place, _ stop) bool { return which(p.owner) })
	c.count.Store(int32(len(c.stopped)))
}

// standingOf returns how an Authorization fares, nil if it is empty.
func (c *credentials) standingOf(server, authorization string) *standing {
	if authorization == "" {
		return nil
	}
	o := owner{server, CredentialAuthorization, maphash.String(c.seed, authorization)}
	if s, ok := c.known.Load(o); ok {
		return s
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known.Size() >= maxStopped {
		c.sweepKnown()
	}
	s, _ := c.known.LoadOrStore(o, newStanding(o, authorization))
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
