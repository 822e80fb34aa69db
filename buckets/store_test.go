package buckets_test

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/buckets/shared"
	"github.com/ratelight/ratelight/internal/discordsim"
	"github.com/ratelight/ratelight/internal/memoryengine"
	"github.com/ratelight/ratelight/ratelimits"
	"github.com/ratelight/ratelight/routes"
)

// store is a store of shared limits on an engine in memory, for all managers of one test. Its calls take no time.
// Permits that are lent to a manager (a loan) are returned a millisecond after another manager needs them.
type store struct {
	*memoryengine.Engine
	*shared.Store
}

func newStore(t *testing.T, options ...shared.Option) *store {
	t.Helper()
	engine := memoryengine.New()
	t.Cleanup(engine.Close)
	s, err := shared.New(engine, options...)
	require.NoError(t, err)
	return &store{engine, s}
}

// patientStore returns a store whose calls wait for an answer of the engine until the test ends the wait.
func patientStore(t *testing.T) *store {
	t.Helper()
	return newStore(t, shared.WithCallTimeout(time.Hour))
}

// freeze makes the engine answer no call (true), or all calls again (false).
func (s *store) freeze(frozen bool) {
	s.SetFrozen(frozen)
	exchanged()
}

// outage makes the engine refuse all calls (true), or accept them again (false), and waits until all managers know
// that.
func (s *store) outage(down bool) {
	s.SetDown(down)
	wait(1500 * time.Millisecond)
}

// exchanged waits until messages have been exchanged and a loan (permits lent to a manager) has been returned.
func exchanged() { wait(5 * time.Millisecond) }

// noisy is a store that also calls all functions named changed when nothing has changed: when the test asks for it, and
// while a session ends.
type noisy struct {
	*store
	mu  sync.Mutex
	all []func() // all functions named changed
}

type noisySession struct {
	shared.Session
	noise *noisy
}

func (n *noisy) Join(clock clockwork.Clock, origin time.Time) shared.Session {
	return noisySession{n.store.Join(clock, origin), n}
}

// changed calls the functions, and returns when all goroutines of the bubble are blocked.
func (n *noisy) changed() {
	n.callAll()
	synctest.Wait()
}

// callAll calls the functions in goroutines, and waits until they have returned.
func (n *noisy) callAll() {
	var calls sync.WaitGroup
	n.mu.Lock()
	for _, changed := range n.all {
		calls.Go(changed)
	}
	n.mu.Unlock()
	calls.Wait()
}

func (n *noisy) add(changed func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.all = append(n.all, changed)
}

func (s noisySession) Bucket(key shared.Key, w *ratelimits.Window, changed func()) shared.Bucket {
	s.noise.add(changed)
	return s.Session.Bucket(key, w, changed)
}

func (s noisySession) Discovery(credential, route string, changed func()) shared.Discovery {
	s.noise.add(changed)
	return s.Session.Discovery(credential, route, changed)
}

func (s noisySession) Global(credential string, limit int, changed func()) shared.Global {
	s.noise.add(changed)
	go changed() // a new process may learn of a hold at any time
	return s.Session.Global(credential, limit, changed)
}

func (s noisySession) Close() {
	s.noise.callAll()
	s.Session.Close()
}

// fleet starts n managers that share a store and send to the same simulated Discord.
func fleet(t *testing.T, s *store, n int, config discordsim.Config, options ...buckets.Option) []*world {
	t.Helper()
	options = append([]buckets.Option{buckets.WithShared(s)}, options...)
	all := []*world{newWorld(t, config, options...)}
	for len(all) < n {
		time.Sleep(7 * time.Millisecond) // so that their times differ
		m := started(t, append([]buckets.Option{buckets.WithMaxRateLimit(time.Hour)}, options...)...)
		all = append(all, &world{Server: all[0].Server, manager: m, sent: 1000 * len(all)})
	}
	return all
}

// pair returns two managers that share limits, without a simulated server.
func pair(t *testing.T, s shared.Source, options ...buckets.Option) (a, b *buckets.RESTBucketManager) {
	t.Helper()
	options = append([]buckets.Option{buckets.WithShared(s), buckets.WithMaxRateLimit(time.Hour)}, options...)
	a = started(t, options...)
	wait(3 * time.Millisecond)
	return a, started(t, options...)
}

// known lets each manager discover the bucket of message(1), and waits until the bucket's window has ended.
func known(t *testing.T, limit int, managers ...*buckets.RESTBucketManager) {
	t.Helper()
	for _, m := range managers {
		discoverShared(t, m, message(1), limited("messages", limit, limit-1, time.Second))
		wait(1100 * time.Millisecond)
	}
}

// sharers returns two managers that share limits and know the bucket "messages", which has this limit. Both have just
// used the bucket, so it is lent to neither of them.
func sharers(t *testing.T, limit int, options ...buckets.Option) (a, b *buckets.RESTBucketManager) {
	t.Helper()
	a, b = pair(t, newStore(t), options...)
	known(t, limit, a, b)
	return a, b
}

// askShared calls ask, and waits until the managers have exchanged messages.
func askShared(m *buckets.RESTBucketManager, route routes.CompiledRoute) *caller {
	c := ask(m, route)
	exchanged()
	return c
}

// discoverShared does the same as discover with managers that share limits.
func discoverShared(t *testing.T, m *buckets.RESTBucketManager, route routes.CompiledRoute, r ratelimits.Response) {
	t.Helper()
	answer(t, askShared(m, route), r)
	exchanged()
}

// rightNow sends a request that must not wait, and waits until the managers have exchanged messages.
func rightNow(m *buckets.RESTBucketManager, route routes.CompiledRoute) *caller {
	c := call(buckets.ContextWithMaxWait(background, 0), m, *request(route))
	exchanged()
	return c
}
