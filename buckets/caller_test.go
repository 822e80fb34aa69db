package buckets_test

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/internal/discordsim"
	"github.com/ratelight/ratelight/ratelimits"
	"github.com/ratelight/ratelight/routes"
)

const bot = "Bot one"

// started returns a running manager that is closed when the test is over. The manager has no global limit unless an
// option sets one.
func started(t *testing.T, options ...buckets.Option) *buckets.RESTBucketManager {
	t.Helper()
	m := buckets.NewRESTBucketManager(append([]buckets.Option{buckets.WithGlobalLimit(0)}, options...)...)
	require.NoError(t, m.Start())
	t.Cleanup(func() {
		everybodyLeaves(t, m)
		assert.NoError(t, m.Close())
	})
	return m
}

// callersOf holds the callers of all managers that a test has started.
var callersOf = struct {
	sync.Mutex
	all map[*buckets.RESTBucketManager][]*caller
}{all: make(map[*buckets.RESTBucketManager][]*caller)}

// everybodyLeaves ends a test: it cancels the waiting callers and returns the leases. Then it requires that no request
// waits or is in flight, unless requests of AcquireFunc still wait.
func everybodyLeaves(t *testing.T, m *buckets.RESTBucketManager) {
	t.Helper()
	callersOf.Lock()
	all := callersOf.all[m]
	delete(callersOf.all, m)
	callersOf.Unlock()
	for _, c := range all {
		c.cancel()
	}
	if len(all) > 0 {
		synctest.Wait()
	}
	for _, c := range all {
		if c.done() {
			c.lease.Return()
		}
	}
	if !buckets.AsyncUnderway(m) {
		drained(t, m)
		buckets.CheckIdle(t, m)
	}
}

func compile(route routes.Route, parameters ...string) routes.CompiledRoute {
	compiled, err := route.Compile(parameters...)
	if err != nil {
		panic(err)
	}
	return compiled
}

// message returns the route POST /channels/{channel_id}/messages; list (below) returns the route GET of the same path.
// The channel is the major parameter of both.
func message(channel int) routes.CompiledRoute {
	return compile(routes.CreateMessage, strconv.Itoa(channel))
}

func list(channel int) routes.CompiledRoute {
	return compile(routes.ListMessages, strconv.Itoa(channel))
}

// interactionToken returns a token that begins as Discord's interaction tokens do.
func interactionToken(n int) string { return "aW50ZXJhY3Rpb246" + strconv.Itoa(n) }

// callback returns the route of the first response to an interaction; followUp (below) returns that of a later message.
// Both routes are exempt from the global limit.
func callback(n int) routes.CompiledRoute {
	return compile(routes.CreateInteractionResponse, strconv.Itoa(n), interactionToken(n))
}

func followUp(n int) routes.CompiledRoute {
	return compile(routes.ExecuteWebhook, "77", interactionToken(n))
}

// limited returns a 200 with limit headers, plain (below) a response without limit headers, and refused (below) a 429
// with a Retry-After.
func limited(hash string, limit, remaining int, after time.Duration) ratelimits.Response {
	return ratelimits.Response{
		Status: 200, Limited: true, Bucket: hash, Limit: limit, Remaining: remaining, ResetAfter: after,
	}
}

func plain(status int) ratelimits.Response { return ratelimits.Response{Status: status} }

func refused(class ratelimits.Class, wait time.Duration) ratelimits.Response {
	return ratelimits.Response{Status: 429, Class: class, HasRetryAfter: true, RetryAfter: wait}
}

// inBucket returns r with the headers of a bucket.
func inBucket(r ratelimits.Response, hash string, limit, remaining int, after time.Duration) ratelimits.Response {
	r.Limited, r.Bucket, r.Limit, r.Remaining, r.ResetAfter = true, hash, limit, remaining, after
	return r
}

// usedUp returns the 429 of a bucket that has no requests remaining and resets when the Retry-After has passed.
func usedUp(hash string, limit int, wait time.Duration) ratelimits.Response {
	return inBucket(refused(ratelimits.ClassUser, wait), hash, limit, 0, wait)
}

// caller is one call of AcquireRequest and its result.
type caller struct {
	request  buckets.Request
	context  context.Context
	cancel   context.CancelFunc
	answered atomic.Bool

	// Read the fields below only after done has returned true.
	lease buckets.Lease
	err   error
	at    time.Time // when AcquireRequest returned
	ended bool      // the lease has ended; used only by tests that poll many callers
}

// call calls AcquireRequest in a goroutine and returns when all goroutines of the bubble are blocked. So requests
// arrive in the order in which a test calls call.
func call(ctx context.Context, m *buckets.RESTBucketManager, request buckets.Request) *caller {
	c := &caller{request: request}
	c.context, c.cancel = context.WithCancel(ctx)
	c.again(m)
	return c
}

// ask does the same as call, with a request to the given route with the authorization bot.
func ask(m *buckets.RESTBucketManager, route routes.CompiledRoute) *caller {
	return call(background, m, *request(route))
}

// asks calls ask n times.
func asks(m *buckets.RESTBucketManager, route routes.CompiledRoute, n int) []*caller {
	all := make([]*caller, n)
	for i := range all {
		all[i] = ask(m, route)
	}
	return all
}

// again calls AcquireRequest again with the same Request, as callers do after a 429.
func (c *caller) again(m *buckets.RESTBucketManager) {
	callersOf.Lock()
	callersOf.all[m] = append(callersOf.all[m], c)
	callersOf.Unlock()
	c.answered.Store(false)
	go func() {
		c.lease, c.err = m.AcquireRequest(c.context, &c.request)
		c.at = time.Now()
		c.answered.Store(true)
	}()
	synctest.Wait()
}

func (c *caller) done() bool { return c.answered.Load() }

func (c *caller) granted() bool { return c.done() && c.err == nil }

// failed returns the error of AcquireRequest. It returns nil while AcquireRequest waits and if it has succeeded.
func (c *caller) failed() error {
	if c.done() {
		return c.err
	}
	return nil
}

// update ends the lease with a response and returns when all goroutines of the bubble are blocked.
func (c *caller) update(r ratelimits.Response) {
	c.lease.Update(r)
	synctest.Wait()
}

// updateAll ends the leases of all callers with the same response.
func updateAll(all []*caller, r ratelimits.Response) {
	for _, c := range all {
		c.update(r)
	}
}

// answer requires that the caller's request was granted, and ends its lease with a response.
func answer(t *testing.T, c *caller, r ratelimits.Response) {
	t.Helper()
	require.True(t, c.granted(), "done: %v, error: %v", c.done(), c.failed())
	c.update(r)
}

// granted returns how many callers have been granted. It requires that they are the first ones of the list.
func granted(t *testing.T, all []*caller) int {
	t.Helper()
	n := 0
	for n < len(all) && all[n].granted() {
		n++
	}
	for i, c := range all[n:] {
		require.False(t, c.granted(), "number %d is granted before number %d", n+i, n)
	}
	return n
}

// sendNow acquires a lease in this goroutine and ends it with r. There must be room for the request.
func sendNow(
	t *testing.T, m *buckets.RESTBucketManager, route routes.CompiledRoute, authorization string, r ratelimits.Response,
) {
	t.Helper()
	lease, err := m.Acquire(background, route, authorization)
	require.NoError(t, err)
	lease.Update(r)
}

// discover makes a bucket known: it sends one request, which is answered with r.
func discover(t *testing.T, m *buckets.RESTBucketManager, route routes.CompiledRoute, r ratelimits.Response) {
	t.Helper()
	answer(t, ask(m, route), r)
}

// discoverPunctual discovers a bucket that has no requests remaining, and sends another request after the reset. That
// shows that the bucket opens on time. So at the next opening, all requests that the limit allows leave at once.
// Without that proof, the first of them would leave alone.
func discoverPunctual(t *testing.T, m *buckets.RESTBucketManager, route routes.CompiledRoute, r ratelimits.Response) {
	t.Helper()
	require.Zero(t, r.Remaining)
	discover(t, m, route, r)
	wait(r.ResetAfter + 2*time.Millisecond)
	discover(t, m, route, r)
}

// firstOpens requires that only the first caller is granted when a bucket opens for the first time, and answers that
// caller's request. The response shows that the bucket opens on time.
func firstOpens(t *testing.T, all []*caller, r ratelimits.Response) {
	t.Helper()
	require.Equal(t, 1, granted(t, all), "one request leaves alone at the first opening")
	all[0].update(r)
}

// drained asserts that no request waits or is in flight.
func drained(t *testing.T, m *buckets.RESTBucketManager) {
	t.Helper()
	s := m.Stats()
	assert.Zero(t, s.Waiting, "waiting")
	assert.Zero(t, s.InFlight, "in flight")
	for b := range m.Buckets() {
		assert.Zero(t, b.Waiting, "%+v", b)
		assert.Zero(t, b.InFlight, "%+v", b)
	}
}

// snapshot requires that exactly one bucket has this hash, and returns its snapshot.
func snapshot(t *testing.T, m *buckets.RESTBucketManager, hash string) buckets.LimitSnapshot {
	t.Helper()
	var found []buckets.LimitSnapshot
	for b := range m.Buckets() {
		if b.Hash == hash {
			found = append(found, b)
		}
	}
	require.Len(t, found, 1, "buckets of hash %q", hash)
	return found[0]
}

// wait lets virtual time pass.
func wait(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// bubble runs a part of a test under virtual time.
func bubble(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, test)
}

// inBubble runs a test under virtual time, in parallel with others.
func inBubble(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, test)
}

// withManager runs a test under virtual time, in parallel with others, with a manager from started without options.
func withManager(t *testing.T, test func(t *testing.T, m *buckets.RESTBucketManager)) {
	t.Helper()
	inBubble(t, func(t *testing.T) { test(t, started(t)) })
}

// subtest runs one case of a test as a subtest in a bubble of its own.
func subtest(t *testing.T, name string, test func(t *testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { inBubble(t, test) })
}

func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.DiscardHandler)) // the tests cause many warnings on purpose
	goleak.VerifyTestMain(m)
}

// world is a simulated Discord with a client that sends requests when the manager grants them.
type world struct {
	*discordsim.Server
	manager *buckets.RESTBucketManager
	sent    int
	all     sync.WaitGroup
}

// trip is a round-trip time of 20 ms that varies by a millisecond, so that no two events happen at the same moment.
var trip = discordsim.Latency{RoundTrip: 20 * time.Millisecond, Jitter: time.Millisecond}

func newWorld(t *testing.T, config discordsim.Config, options ...buckets.Option) *world {
	t.Helper()
	if config.Latency.RoundTrip == 0 {
		config.Latency = trip
	}
	server, err := discordsim.New(config)
	require.NoError(t, err)
	t.Cleanup(func() { server.Close() })
	return &world{Server: server,
		manager: started(t, append([]buckets.Option{buckets.WithMaxRateLimit(time.Hour)}, options...)...)}
}

// one returns the configuration of a server with a single rule, which applies to all paths.
func one(rule discordsim.Rule) discordsim.Config {
	rule.Path = "**"
	return discordsim.Config{Rules: []discordsim.Rule{rule}, Global: discordsim.Unlimited()}
}

// send starts a goroutine that sends a request and repeats the request after each 429. send returns when the request
// has arrived at the manager.
func (w *world) send(ctx context.Context, method, path string, then func(status int, err error)) {
	w.sent++
	number := w.sent
	w.all.Go(func() {
		status, err := w.do(ctx, method, path, number)
		if then != nil {
			then(status, err)
		}
	})
	synctest.Wait()
}

func (w *world) do(ctx context.Context, method, path string, number int) (int, error) {
	route, err := routes.Match(method, path)
	if err != nil {
		return 0, err
	}
	return untilAccepted(ctx, w.manager, request(route), func() (ratelimits.Response, error) {
		return w.attempt(ctx, method, path, number)
	})
}

func (w *world) attempt(ctx context.Context, method, path string, number int) (ratelimits.Response, error) {
	return exchange(ctx, w.Server, method, path, "{}", number)
}

// untilAccepted sends a request and repeats it after each 429 until the server accepts it.
func untilAccepted(
	ctx context.Context, m *buckets.RESTBucketManager, request *buckets.Request,
	attempt func() (ratelimits.Response, error),
) (status int, err error) {
	for {
		lease, err := m.AcquireRequest(ctx, request)
		if err != nil {
			return 0, err
		}
		r, err := attempt()
		if err != nil {
			lease.Release()
			return 0, err
		}
		lease.Update(r)
		if r.Class == ratelimits.ClassOK {
			return r.Status, nil
		}
	}
}

// exchange sends a request to a server once and returns the response.
func exchange(
	ctx context.Context, server *discordsim.Server, method, path, body string, number int,
) (ratelimits.Response, error) {
	r, err := http.NewRequestWithContext(ctx, method, discordsim.BaseURL+path, strings.NewReader(body))
	if err != nil {
		return ratelimits.Response{}, err
	}
	r.Header.Set("Authorization", bot)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set(discordsim.SequenceHeader, strconv.Itoa(number))
	response, err := server.RoundTripper().RoundTrip(r)
	if err != nil {
		return ratelimits.Response{}, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return ratelimits.Response{}, err
	}
	return ratelimits.ParseResponse(response.StatusCode, response.Header, text), nil
}

// post sends n messages to a channel.
func (w *world) post(channel, n int) {
	for range n {
		w.send(background, "POST", "/channels/"+strconv.Itoa(channel)+"/messages", nil)
	}
}

// finish waits until all requests have ended and returns how long that took.
func (w *world) finish() time.Duration {
	start := time.Now()
	w.all.Wait()
	return time.Since(start)
}
