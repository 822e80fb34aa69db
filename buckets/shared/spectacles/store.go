package spectacles

import (
	"time"

	"github.com/jonboulle/clockwork"

	"github.com/ratelight/ratelight/buckets/shared"
)

// Store shares limits with Spectacles clients. Pass it to buckets.WithShared. Several managers can use the same Store.
// A Store is safe for concurrent use.
type Store struct {
	runner    shared.Runner
	prefix    string
	route     func(shared.Key) string
	lease     time.Duration
	timeout   time.Duration
	processes int
}

var (
	_ shared.Source  = (*Store)(nil)
	_ shared.ByRoute = (*Store)(nil)
)

// Option changes how a Store works.
type Option func(*Store)

// WithPrefix sets a prefix for the names of all keys. The other clients must use the same prefix. By default there is
// no prefix, as in the Spectacles specification. The prefix must not be a token. On a cluster it must contain a hash
// tag, such as "{my-bot}", because the keys of a route and the key of the global limit must be in one slot.
func WithPrefix(prefix string) Option { return func(s *Store) { s.prefix = prefix } }

// WithRoute sets the function that returns the name of a route in keys. The names must be exactly those that the other
// clients use. Buckets with the same name share a counter. The default is [ByPath]. The function must not block, and
// must be safe for concurrent use.
func WithRoute(name func(shared.Key) string) Option {
	return func(s *Store) {
		if name != nil {
			s.route = name
		}
	}
}

// WithLease sets how long a request may take from its permit to its outcome. After that time the request counts as
// unanswered, and a counter without an expiry is deleted. The minimum is a second, and the default is 30 s.
func WithLease(d time.Duration) Option { return func(s *Store) { s.lease = max(d, time.Second) } }

// WithCallTimeout sets how long one call may take, at least a millisecond. A call that takes longer fails. If such a
// call reaches the server after this time, it has no effect. The default is 500 ms.
func WithCallTimeout(d time.Duration) Option {
	return func(s *Store) { s.timeout = max(d, time.Millisecond) }
}

// WithProcesses sets the number of processes that divide the global limit, including processes of other clients. It is
// needed because Spectacles cannot share the global limit. Each Ratelight process then sends at most an equal part of
// it. The minimum and the default are 1: each process uses the whole limit, and all processes together may exceed the
// limit, which causes global 429s.
func WithProcesses(n int) Option { return func(s *Store) { s.processes = max(n, 1) } }

// New returns a store that uses the server of the runner. It does not call the server. It ignores options that are nil.
func New(runner shared.Runner, options ...Option) *Store {
	s := &Store{runner: runner, route: ByPath, lease: 30 * time.Second, timeout: 500 * time.Millisecond, processes: 1}
	for _, option := range options {
		if option != nil {
			option(s)
		}
	}
	return s
}

// ByRoute implements shared.ByRoute. It returns true, because Spectacles counts every route separately.
func (s *Store) ByRoute() bool { return true }

// Join starts a session. It implements shared.Source.
func (s *Store) Join(clock clockwork.Clock, origin time.Time) shared.Session {
	return newSession(s, clock, origin)
}

// keys returns the keys of a bucket, in the order in which the scripts expect them.
func (s *Store) keys(key shared.Key) []string {
	route := s.prefix + s.route(key)
	return []string{route + ":remaining", route + ":limit", s.globalKey(), route + ":x", route + ":f"}
}

func (s *Store) globalKey() string { return s.prefix + "global" }
