package buckets

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	"github.com/puzpuzpuz/xsync/v4"

	"github.com/ratelight/ratelight/internal/wire"
	"github.com/ratelight/ratelight/ratelimits"
	"github.com/ratelight/ratelight/routes"
)

var (
	// ErrNotStarted is returned by Acquire before Start. Call Start once before the first request. If an option cannot be used, the error
	// of Start is returned in its place, see ErrOptions.
	ErrNotStarted = errors.New("rest bucket manager is not started: call Start first")
	// ErrClosed is returned by Acquire after Close, and for requests that wait when Close is called. During Shutdown,
	// new requests get an error that matches it.
	ErrClosed = errors.New("closed: the rest bucket manager, or the transport")
	// errDraining is returned by Acquire during Shutdown.
	errDraining = fmt.Errorf("shutting down, no new requests: %w", ErrClosed)
	// errStarted is returned by Start if the manager runs already.
	errStarted = errors.New("rest bucket manager is started already")
	// ErrNoContext is returned by Acquire for a nil context. Pass context.Background() to wait without a bound.
	ErrNoContext = errors.New("context is nil: pass context.Background() if there is none")
	// errNoRoute is returned by Acquire for the zero compiled route. Get one from routes.Match or from a route's Compile.
	errNoRoute = errors.New("compiled route is empty: get one from routes.Match or Route.Compile")
)

// RESTBucketManager decides when requests to Discord may be sent. It maps compiled routes to the buckets that Discord's
// responses name, and keeps a queue for each of them, below one global limit for each authentication. See the package's
// documentation for how a request goes through it.
//
// Get one from NewRESTBucketManager; the zero value cannot be used. All methods are safe for concurrent use. Nothing but
// Acquire, AcquireRequest, Shutdown and Close ever waits for a limit or a request.
type RESTBucketManager struct {
	settings settings
	origin   time.Time
	latest   atomic.Int64 // of all times that it was by a clock that may go back, a time.Duration
	seed     maphash.Seed
	key      atomic.Pointer[wire.Key] // of what the manager leaves to the next; RestoreState sets it
	counters counters
	hooks    atomic.Pointer[Hooks] // never nil
	groupIDs atomic.Uint64         // how many there have been
	discord  *server
	waiting  atomic.Int64
	waiters  waiterPool
	draining atomic.Pointer[drain] // that is under way, nil if there is none
	comeBack atomic.Int64          // when the latest request ended that may come back to its place
	calls    calls

	life  sync.Mutex // guards starting and closing
	state atomic.Int32
	stop  chan struct{}
	gone  chan struct{} // closed when the garbage collector has ended

	entries         *xsync.Map[uint64, *routeEntry] // see findEntry
	buckets         *table
	authentications *xsync.Map[uint64, *authentication]
	listed          *xsync.Map[*authentication, struct{}] // those in whose buckets somebody waits, or that are held
	waitedFor       *xsync.Map[*declaredLimit, struct{}]  // those for which somebody waits
	declaredWaiting map[*limitRule]*atomic.Int64          // how many wait for each declared limit; not changed

	moves     sync.Mutex // guards the creation and removal of entries, authentications, servers and limit groups, and moves between buckets
	limits    *xsync.Map[limitKey, *declaredLimit]
	servers   map[string]*server
	forgotten counterTotals       // of servers that are forgotten
	throttled ratelimits.Throttle // for authentications that are yet to come

	joined atomic.Pointer[SharedSession] // what processes share, from Start to Close; nil if nothing is
	shared SharedStats                   // what the sessions before have counted

	leaving sync.Mutex   // guards leaves and left, and is held while everything is forgotten
	leaves  bool         // somebody wants the state
	left    []byte       // the state when the manager was closed
	doubted atomic.Int64 // until then another manager may have sent what this one does not know of, a time.Duration; 0: never

	sweptAt time.Duration // when unused routes were looked for, by the garbage collector
}

// NewRESTBucketManager returns a manager. It does nothing before Start.
func NewRESTBucketManager(options ...Option) *RESTBucketManager {
	s := defaults()
	for _, option := range options {
		if option != nil {
			option(&s)
		}
	}
	m := &RESTBucketManager{
		settings:        s,
		origin:          s.clock.Now().Add(-past),
		seed:            maphash.MakeSeed(),
		counters:        newCounters(),
		entries:         xsync.NewMap[uint64, *routeEntry](),
		buckets:         newTable(),
		authentications: xsync.NewMap[uint64, *authentication](),
		listed:          xsync.NewMap[*authentication, struct{}](),
		waitedFor:       xsync.NewMap[*declaredLimit, struct{}](),
		declaredWaiting: newDeclaredWaiting(s.limits),
		limits:          xsync.NewMap[limitKey, *declaredLimit](),
	}
	m.hooks.Store(&s.hooks)
	m.key.Store(wire.NewKey(s.stateKey))
	m.sweptAt = m.now()
	m.servers = make(map[string]*server)
	m.discord = m.server("")
	m.calls.manager = m
	return m
}

// past is for how long before a manager was made there is time, for what it finds of another one.
const past = 3 * ratelimits.LongestTrust

// now returns the time since the manager's origin, which never goes back.
func (m *RESTBucketManager) now() time.Duration {
	if m.settings.realTime {
		return time.Since(m.origin) // monotonic, and cheaper, as it does not read the wall clock
	}
	now := int64(m.settings.clock.Since(m.origin))
	for {
		latest := m.latest.Load()
		if now <= latest {
			return time.Duration(latest)
		}
		if m.latest.CompareAndSwap(latest, now) {
			return time.Duration(now)
		}
	}
}

// MaxRateLimit returns the longest predicted wait that is accepted.
func (m *RESTBucketManager) MaxRateLimit() time.Duration { return m.settings.maxRateLimit }

// UpdateRateLimits applies a response to a request that was not sent under a lease to the route's bucket.
func (m *RESTBucketManager) UpdateRateLimits(route routes.CompiledRoute, authorization string, r ratelimits.Response) {
	if route.IsZero() || m.closed() {
		return
	}
	request := &Request{Route: route, Authorization: authorization}
	entry, own := m.entriesOf(request)
	limits, _ := m.limitsOf(context.Background(), own, request) // whose key cannot be told, nobody can charge
	a := ask{request: request, entry: entry, own: own}
	b := m.enter(&a)
	now := b.now()
	h := leases.Get().(*held)
	h.grant = grant{
		permit: b.adopt(now, now), entry: a.entry, credential: a.own.authentication, ctx: context.Background(), route: route, major: a.major(),
		arrived: now,
	}
	h.declared = limits.adopt(now)
	b.addInFlight(h)
	h.counters = b.server().budget.counters.shardOf(b)
	h.counters.adopted.Add(1)
	lease := h.lease()
	b.mu.Unlock()
	lease.Update(r)
}
