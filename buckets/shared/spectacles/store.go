package spectacles

import (
	"time"

	"github.com/jonboulle/clockwork"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/buckets/shared"
)

// Store shares limits with clients of Spectacles. Give it to buckets.WithShared. It is safe for concurrent use, and may serve
// several managers.
type Store struct {
	runner    shared.Runner
	prefix    string
	route     func(buckets.SharedKey) string
	lease     time.Duration
	timeout   time.Duration
	processes int
}

var (
	_ buckets.Shared        = (*Store)(nil)
	_ buckets.SharedByRoute = (*Store)(nil)
)

// Option changes how a Store works.
type Option func(*Store)

// WithPrefix puts a text before the names of all keys. The other clients have to use the same one; unless set there is none, which is
// what Spectacles describes. On a cluster it must contain a hash tag, "{my-bot}", because the keys of a route have to be in
// one slot together with that of the global limit. It must not be a token.
func WithPrefix(prefix string) Option { return func(s *Store) { s.prefix = prefix } }

// WithRoute sets what a route is called in the names of keys: exactly what the other clients call it. [ByPath] unless set.
// The function must not block and is called from several goroutines. Buckets of the same name share a counter.
func WithRoute(name func(buckets.SharedKey) string) Option {
	return func(s *Store) {
		if name != nil {
			s.route = name
		}
	}
}

// WithLease sets how long a request may take at most, from its permit to its outcome: after that it counts as one without an
// answer, and a counter that was left behind without an end is given up. At least a second; 30 s unless set.
func WithLease(d time.Duration) Option { return func(s *Store) { s.lease = max(d, time.Second) } }

// WithCallTimeout sets how long one call may take, at least a millisecond. A call that takes longer has failed, and does
// nothing if it gets to the server later. 500 ms unless set.
func WithCallTimeout(d time.Duration) Option {
	return func(s *Store) { s.timeout = max(d, time.Millisecond) }
}

// WithProcesses says among how many processes the global limit is divided, those of other clients included: each of ours sends its
// part of it at most. Spectacles has nothing to share it with. At least 1, which is also what it is unless set: then each process sends
// as much as if it were alone, and the others notice when a response says that it was too much.
func WithProcesses(n int) Option { return func(s *Store) { s.processes = max(n, 1) } }

// New returns a store on the server that the runner reaches. It does not call the server. Options that are nil are ignored.
func New(runner shared.Runner, options ...Option) *Store {
	s := &Store{runner: runner, route: ByPath, lease: 30 * time.Second, timeout: 500 * time.Millisecond, processes: 1}
	for _, option := range options {
		if option != nil {
			option(s)
		}
	}
	return s
}

// ByRoute is that of buckets.SharedByRoute: Spectacles counts every route apart.
func (s *Store) ByRoute() bool { return true }

// Join starts a session, see buckets.Shared.
func (s *Store) Join(clock clockwork.Clock, origin time.Time) buckets.SharedSession {
	return newSession(s, clock, origin)
}

// keys returns the names of the keys of a bucket, in the order in which the scripts expect them.
func (s *Store) keys(key buckets.SharedKey) []string {
	route := s.prefix + s.route(key)
	return []string{route + ":remaining", route + ":limit", s.globalKey(), route + ":x", route + ":f"}
}

func (s *Store) globalKey() string { return s.prefix + "global" }
