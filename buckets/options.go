package buckets

import (
	"errors"
	"time"

	"github.com/jonboulle/clockwork"

	"github.com/ratelight/ratelight/internal/sparselog"
	"github.com/ratelight/ratelight/ratelimits"
)

const (
	// DefaultMaxRateLimit is the longest predicted wait that is accepted unless WithMaxRateLimit says otherwise.
	DefaultMaxRateLimit = 300 * time.Second
	// DefaultPollPeriod is how often the garbage collector looks for stale buckets (hikari's default).
	DefaultPollPeriod = 20 * time.Second
	// DefaultExpireAfter is how long after its reset an idle bucket is kept (hikari's default).
	DefaultExpireAfter = 10 * time.Second
	// DefaultGlobalLimit is the number of requests per second that Discord allows an authentication, unless it raised the
	// limit for it (Discord's documentation).
	DefaultGlobalLimit = 50
	// DefaultInvalidMargin is the difference between Discord's limit of invalid requests and the budget.
	DefaultInvalidMargin = 500
)

// UnknownMode says how requests of a route are sent whose bucket hash is not known yet.
type UnknownMode uint8

const (
	// UnknownProbe sends the first request of a route alone; the others follow when its response arrives, as far as its
	// limits allow. A burst to an unknown route then causes no 429. This is the default.
	UnknownProbe UnknownMode = iota
	// UnknownUnlimited sends everything at once: the UNKNOWN bucket has no limit at all.
	UnknownUnlimited
)

// ErrOptions is wrapped by the errors of Start, and of Acquire before it, if an option of NewRESTBucketManager cannot be used. Each error
// names the option and the value.
var ErrOptions = errors.New("bad options")

// Option configures a RESTBucketManager.
type Option func(*settings)

// settings are what the options say.
type settings struct {
	clock        clockwork.Clock
	realTime     bool // the clock is the real one
	maxRateLimit time.Duration
	pollPeriod   time.Duration
	expireAfter  time.Duration
	globalLimit  int
	globalOf     func(authorization string) int // nil: the same for all
	unknown      UnknownMode
	ordered      bool
	maxWaiting   int // per bucket, 0: no bound
	maxTotal     int // in all buckets, 0: no bound
	stateKey     []byte
	budget       int // invalid responses, 0: no bound
	budgetPeriod time.Duration
	shared       Shared
	hooks        Hooks
	limits       []*limitRule   // of WithLimit
	problems     []error        // what is wrong with the options
	log          *sparselog.Log // nil: nothing is logged
}

// problem returns what is wrong with the options, nil if nothing is.
func (s *settings) problem() error { return errors.Join(s.problems...) }

func defaults() settings {
	return settings{
		clock:        clockwork.NewRealClock(),
		realTime:     true,
		maxRateLimit: DefaultMaxRateLimit,
		pollPeriod:   DefaultPollPeriod,
		expireAfter:  DefaultExpireAfter,
		globalLimit:  DefaultGlobalLimit,
		budget:       ratelimits.DefaultInvalidLimit - DefaultInvalidMargin,
		budgetPeriod: ratelimits.DefaultInvalidPeriod,
		log:          sparselog.New(nil),
	}
}

// WithMaxRateLimit sets the longest predicted wait that is accepted. A request that would have to wait longer, counting
// the queue ahead of it, is refused at once with a *ratelimits.TooLongError; so is one that waits already when a later
// response makes its wait too long. It has no effect while no wait can be predicted, because the probe of an UNKNOWN
// bucket is in flight.
//
// Zero or less means that no request ever waits; on an unknown route all requests but the probe are then refused. The
// default is DefaultMaxRateLimit. ContextWithMaxWait overrides it for one request.
func WithMaxRateLimit(d time.Duration) Option {
	return func(s *settings) { s.maxRateLimit = max(d, 0) }
}

// WithClock replaces the real clock, for tests. Nil is ignored.
func WithClock(clock clockwork.Clock) Option {
	return func(s *settings) {
		if clock != nil {
			s.clock, s.realTime = clock, false
		}
	}
}

// WithPollPeriod sets how often the garbage collector looks for stale buckets. A period below a millisecond counts as
// one millisecond. Zero or less means the default, DefaultPollPeriod.
func WithPollPeriod(d time.Duration) Option {
	return func(s *settings) {
		if d > 0 {
			s.pollPeriod = max(d, time.Millisecond)
		}
	}
}

// WithExpireAfter sets how long after its reset an idle bucket is kept. With zero or less it is evicted by the first
// run of the garbage collector after its reset. Higher values keep what is known for longer and take more memory; more
// than a hundred years is reduced to that. The default is DefaultExpireAfter.
func WithExpireAfter(d time.Duration) Option {
	return func(s *settings) { s.expireAfter = min(max(d, 0), longestWait) }
}

// WithGlobalLimit sets how many requests per second one authentication may send, for bots whose limit Discord has
// raised. Zero or less means no such limit; a 429 of the global class is obeyed in any case. More than a billion is
// reduced to that. Memory is taken only for slots in use. The default is DefaultGlobalLimit.
func WithGlobalLimit(perSecond int) Option {
	return func(s *settings) { s.globalLimit = clampGlobal(perSecond) }
}

func clampGlobal(perSecond int) int { return min(max(perSecond, 0), 1_000_000_000) }

// WithGlobalLimitOf sets how many requests per second each authentication may send, where they differ: the function is called with the
// value of the Authorization header, "" for requests without one, when a route is used with an authentication for the first time, and with
// "" by RestoreState. It returns what WithGlobalLimit takes, and the first answer counts as long as the authentication is known. It replaces
// WithGlobalLimit. It is called on the goroutine of the request and under no lock, and must be safe for concurrent use. Nil means that
// WithGlobalLimit counts.
func WithGlobalLimitOf(limit func(authorization string) (perSecond int)) Option {
	return func(s *settings) { s.globalOf = limit }
}

// WithUnknownMode sets what happens to the requests of a route whose bucket hash is not known yet. Other values than
// the constants mean UnknownProbe.
func WithUnknownMode(mode UnknownMode) Option {
	return func(s *settings) { s.unknown = mode }
}

// WithOrdered sends the requests of each bucket one at a time, so that Discord receives them in the order in which they
// were made. It costs a round trip per request. ContextWithOrdered does the same for single requests.
func WithOrdered() Option {
	return func(s *settings) { s.ordered = true }
}

// WithMaxWaiting bounds how many requests may wait for one bucket. One more is refused with a *ratelimits.QueueFullError.
// Zero or less means no bound, which is the default.
func WithMaxWaiting(n int) Option {
	return func(s *settings) { s.maxWaiting = max(n, 0) }
}

// WithMaxTotalWaiting bounds how many requests may wait in all buckets together, like WithMaxWaiting.
func WithMaxTotalWaiting(n int) Option {
	return func(s *settings) { s.maxTotal = max(n, 0) }
}

// WithInvalidBudget sets how many invalid responses (401, 403, and 429 except shared ones) there may be in any period
// before requests are refused with a *ratelimits.BudgetError: limit less margin, counting those in flight. Discord bans
// an IP address with 10,000 in 10 minutes; all processes behind it count together, so divide the limit among them. The
// defaults are ratelimits.DefaultInvalidLimit, ratelimits.DefaultInvalidPeriod and DefaultInvalidMargin. A limit of
// zero or less means no bound; a period of zero or less means the default.
func WithInvalidBudget(limit int, period time.Duration, margin int) Option {
	return func(s *settings) {
		if period <= 0 {
			period = ratelimits.DefaultInvalidPeriod
		}
		s.budgetPeriod, s.budget = period, 0
		if limit > 0 {
			s.budget = max(limit-max(margin, 0), 1)
		}
	}
}
