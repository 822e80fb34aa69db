package spectacles_test

import (
	"context"
	_ "embed"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/buckets/shared"
	"github.com/ratelight/ratelight/buckets/shared/spectacles"
	"github.com/ratelight/ratelight/internal/discordsim"
	"github.com/ratelight/ratelight/internal/redissim"
	"github.com/ratelight/ratelight/ratelimits"
)

// seedClaim is the script of the Spectacles specification, see testdata/README.md.
//
//go:embed testdata/claim.lua
var seedClaim string

// key is the shared.Key of the route that all tests use. route is the name of this route in the keys of Spectacles.
var key = shared.Key{Hash: "h", Major: "1", Route: "POST /channels/{channel_id}/messages"}

const route = "/channels/1/messages"

// world consists of a simulated Discord and an engine in memory, in virtual time.
type world struct {
	t        *testing.T
	discord  *discordsim.Server
	engine   *redissim.Server
	work     sync.WaitGroup
	context  context.Context
	cancel   context.CancelFunc
	sessions []shared.Session
	managers []*buckets.RESTBucketManager
}

// inWorld runs a test in virtual time with a bucket of five requests a second.
func inWorld(t *testing.T, test func(w *world)) {
	t.Parallel()
	inWorldOf(t, discordsim.Config{}, test)
}

// inWorldOf does the same as inWorld, with another configuration of Discord. If the configuration has no rules, there
// is a bucket of five requests a second.
func inWorldOf(t *testing.T, config discordsim.Config, test func(w *world)) {
	synctest.Test(t, func(t *testing.T) {
		config.Global = discordsim.Unlimited()
		if config.Default == nil {
			config.Default = &discordsim.Rule{Path: "**", Quota: discordsim.Fixed(5, time.Second)}
		}
		discord, err := discordsim.New(config)
		require.NoError(t, err)
		w := &world{t: t, discord: discord, engine: redissim.New()}
		w.context, w.cancel = context.WithCancel(context.Background())
		defer func() {
			w.end()
			for _, session := range w.sessions {
				session.Close()
			}
			for _, m := range w.managers {
				m.Close()
			}
			w.engine.Close()
			w.discord.Close()
		}()
		test(w)
	})
}

// eachWorld runs inWorld as a subtest.
func eachWorld(t *testing.T, name string, test func(t *testing.T, w *world)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { inWorld(t, func(w *world) { test(t, w) }) })
}

// end stops all callers. It returns what Discord has seen.
func (w *world) end() discordsim.Report {
	report := w.discord.Report()
	w.cancel()
	w.work.Wait()
	return report
}

// set sets the value of a key of the route, for example "limit".
func (w *world) set(name, value string) {
	require.NoError(w.t, w.engine.Redis.Set(route+":"+name, value))
}

// send sends one request.
func (w *world) send() ratelimits.Response {
	request, err := http.NewRequest("POST", discordsim.BaseURL+"/api/v10"+route, strings.NewReader("{}"))
	require.NoError(w.t, err)
	response, err := w.discord.RoundTripper().RoundTrip(request)
	if err != nil {
		return ratelimits.Response{}
	}
	defer response.Body.Close()
	body, _ := io.ReadAll(response.Body)
	r := ratelimits.ParseResponse(response.StatusCode, response.Header, body)
	r.Stamp = ratelimits.ParseStamp(response.Header)
	return r
}

// process uses one bucket as a manager does.
type process struct {
	world   *world
	origin  time.Time
	session shared.Session
	bucket  shared.Bucket

	mu      sync.Mutex
	window  ratelimits.Window
	waiting []waiter
}

// waiter is the channel on which a waiting request gets its permit.
type waiter chan shared.Permit

func (w *world) process(options ...spectacles.Option) *process {
	return w.processOn(w.engine, options...)
}

// two returns two processes. The options are for the first one.
func (w *world) two(options ...spectacles.Option) (p, other *process) {
	return w.process(options...), w.process()
}

func (w *world) processOn(runner shared.Runner, options ...spectacles.Option) *process {
	p := &process{world: w, origin: time.Now()}
	p.session = spectacles.New(runner, options...).Join(clockwork.NewRealClock(), p.origin)
	p.bucket = p.session.Bucket(key, &p.window, p.changed)
	w.sessions = append(w.sessions, p.session)
	return p
}

func (p *process) now() time.Duration { return time.Since(p.origin) }

func (p *process) changed() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dispatch()
}

// dispatch takes the permits of waiting requests that may be sent. p.mu must be held.
func (p *process) dispatch() {
	for len(p.waiting) > 0 {
		now := p.now()
		at, ok := p.bucket.Next(now)
		if ok && at > now {
			time.AfterFunc(at-now, p.changed)
		}
		if !ok || at > now {
			break
		}
		permit, ok := p.bucket.Take(now)
		if !ok {
			break
		}
		p.waiting[0] <- permit
		p.waiting = p.waiting[1:]
	}
	p.tell()
}

// tell reports the waiting requests. p.mu must be held.
func (p *process) tell() {
	p.bucket.Demand(p.now(), len(p.waiting), slices.Values(make([]time.Duration, len(p.waiting))))
}

// join adds a waiting request.
func (p *process) join() waiter {
	p.mu.Lock()
	defer p.mu.Unlock()
	granted := make(waiter, 1)
	p.waiting = append(p.waiting, granted)
	p.tell()
	return granted
}

// giveBack returns the permit of a request that was not sent.
func (p *process) giveBack(permit shared.Permit) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.bucket.Return(p.now(), permit)
	p.tell()
}

// report ends a permit with a response.
func (p *process) report(permit shared.Permit, response ratelimits.Response) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.bucket.Report(p.now(), permit, response)
	p.dispatch()
}

// acquire waits for a permit until the context ends.
func (p *process) acquire(ctx context.Context) (shared.Permit, bool) {
	granted := p.join()
	select {
	case permit := <-granted:
		return permit, true
	case <-ctx.Done():
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case permit := <-granted:
		p.bucket.Return(p.now(), permit)
	default:
		p.waiting = slices.DeleteFunc(p.waiting, func(other waiter) bool { return other == granted })
	}
	p.tell()
	return nil, false
}

// within waits for a permit for the given time at most.
func (p *process) within(d time.Duration) (shared.Permit, bool) {
	ctx, cancel := context.WithTimeout(p.world.context, d)
	defer cancel()
	return p.acquire(ctx)
}

// mustAcquire waits for a permit.
func (p *process) mustAcquire() shared.Permit {
	p.world.t.Helper()
	permit, ok := p.within(20 * time.Second)
	require.True(p.world.t, ok, "no permit: %v", p.bucket.Err())
	return permit
}

// opens requires that no permit is granted until the duration after has passed, and that one is granted within the
// duration slack after that.
func (p *process) opens(after, slack time.Duration, why string) {
	p.world.t.Helper()
	_, ok := p.within(after)
	assert.False(p.world.t, ok, "a permit before %v: %s", after, why)
	_, ok = p.within(slack)
	assert.True(p.world.t, ok, "no permit after %v: %s", after+slack, why)
}

// burst returns the permits that are granted without a wait, n at most.
func (p *process) burst(n int) (granted []shared.Permit) {
	for range n {
		permit, ok := p.within(time.Microsecond)
		if !ok {
			break
		}
		granted = append(granted, permit)
	}
	return granted
}

// headers returns a response of a bucket of five requests.
func headers(remaining int, after time.Duration, stamp int64) ratelimits.Response {
	return ratelimits.Response{Status: 200, Limited: true, Limit: 5, Remaining: remaining, ResetAfter: after, Stamp: stamp}
}

// hold returns a 429 of a class.
func hold(class ratelimits.Class, wait time.Duration) ratelimits.Response {
	return ratelimits.Response{Status: 429, Class: class, RetryAfter: wait, HasRetryAfter: true}
}

// stamp returns the end of a window that ends after d, by Discord's clock.
func stamp(d time.Duration) int64 { return time.Now().Add(d).UnixMilli() }

// answer reports responses to permits, the first one with four of five requests remaining.
func (p *process) answer(permits []shared.Permit, after time.Duration, stamp int64) {
	for i, permit := range permits {
		p.report(permit, headers(4-i, after, stamp))
	}
	synctest.Wait()
}

// learn sends one request, whose response names a window of five requests in a second.
func (p *process) learn() {
	p.answer([]shared.Permit{p.mustAcquire()}, time.Second, stamp(time.Second))
}

// learned does what learn does, and then waits until that window has ended.
func (p *process) learned() {
	p.learn()
	time.Sleep(1100 * time.Millisecond)
}

// callers starts callers that send one request after the other until the world ends.
func (p *process) callers(n int) {
	for range n {
		p.world.work.Go(func() {
			for {
				permit, ok := p.acquire(p.world.context)
				if !ok {
					return
				}
				p.report(permit, p.world.send())
			}
		})
	}
}

// processes starts n processes with callers.
func (w *world) processes(n, callers int) (all []*process) {
	for range n {
		p := w.process()
		p.callers(callers)
		all = append(all, p)
	}
	return all
}

// seed is a client that follows the Spectacles specification.
type seed struct {
	world *world
	claim *shared.Script
}

// seed returns a client. A corrected client has `ttl <= 0` where the specification has `ttl < 0`.
func (w *world) seed(corrected bool) *seed {
	source := seedClaim
	if corrected {
		source = strings.Replace(source, "if ttl < 0 then", "if ttl <= 0 then", 1)
		require.NotEqual(w.t, seedClaim, source)
	}
	source = "return {(function()\n" + source + "\nend)()}"
	return &seed{world: w, claim: &shared.Script{Name: "seed-claim", Source: source}}
}

var (
	seedExpire = &shared.Script{Name: "seed-expire", Source: "redis.call('pexpire', KEYS[1], ARGV[1]) return {0}"}
	seedLimit  = &shared.Script{Name: "seed-limit", Source: "redis.call('set', KEYS[1], ARGV[1]) return {0}"}
)

// tryClaim returns 0 if a request may be sent, otherwise the wait.
func (s *seed) tryClaim() time.Duration {
	keys := []string{route + ":remaining", route + ":limit", "global"}
	reply, err := s.world.engine.Run(context.Background(), s.claim, keys, "1000")
	require.NoError(s.world.t, err)
	return time.Duration(reply[0]) * time.Millisecond
}

func (s *seed) run(script *shared.Script, key string, n int64) {
	_, err := s.world.engine.Run(context.Background(), script, []string{key}, strconv.FormatInt(n, 10))
	require.NoError(s.world.t, err)
}

func (s *seed) report(r ratelimits.Response) {
	wait := r.ResetAfter
	if r.Status == http.StatusTooManyRequests {
		wait = r.RetryAfter
	}
	if r.Limited {
		s.run(seedLimit, route+":limit", int64(r.Limit))
		s.expire(wait)
	}
}

// burst claims permits until the client would have to wait, n at most. It returns the number of permits.
func (s *seed) burst(n int) (granted int) {
	for granted < n && s.tryClaim() == 0 {
		granted++
	}
	return granted
}

// expire sets the expiry of the counter.
func (s *seed) expire(d time.Duration) { s.run(seedExpire, route+":remaining", d.Milliseconds()) }

func (s *seed) callers(n int) {
	for range n {
		s.world.work.Go(func() {
			for {
				if wait := s.tryClaim(); wait > 0 {
					select {
					case <-time.After(wait):
						continue
					case <-s.world.context.Done():
						return
					}
				}
				if s.world.context.Err() != nil {
					return
				}
				s.report(s.world.send())
			}
		})
	}
}

// spread returns a latency that is drawn between two bounds, separately for each direction.
func spread(from, to time.Duration) discordsim.Latency {
	return discordsim.Latency{Draw: func(r *rand.Rand) (in, out time.Duration) {
		draw := func() time.Duration { return from + time.Duration(r.Int64N(int64(to-from))) }
		return draw(), draw()
	}}
}
