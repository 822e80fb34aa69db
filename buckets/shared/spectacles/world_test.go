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
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/require"

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

// key is the one route that the tests use, and route its name in the keys.
var key = shared.Key{Hash: "h", Major: "1", Route: "POST /channels/{channel_id}/messages"}

const route = "/channels/1/messages"

// world is a simulated Discord and an engine in memory, in the time of the bubble that it is made in.
type world struct {
	t       *testing.T
	discord *discordsim.Server
	engine  *redissim.Server
	work    sync.WaitGroup
	context context.Context
	cancel  context.CancelFunc
}

func newWorld(t *testing.T, config discordsim.Config) *world {
	if config.Global == (discordsim.Quota{}) {
		config.Global = discordsim.Unlimited()
	}
	discord, err := discordsim.New(config)
	require.NoError(t, err)
	w := &world{t: t, discord: discord, engine: redissim.New()}
	w.context, w.cancel = context.WithCancel(context.Background())
	return w
}

func (w *world) close() {
	w.cancel()
	w.work.Wait()
	w.engine.Close()
	w.discord.Close()
}

// send sends one request.
func (w *world) send() (ratelimits.Response, http.Header) {
	request, err := http.NewRequest("POST", discordsim.BaseURL+"/api/v10"+route, strings.NewReader("{}"))
	require.NoError(w.t, err)
	response, err := w.discord.RoundTripper().RoundTrip(request)
	if err != nil {
		return ratelimits.Response{}, nil
	}
	defer response.Body.Close()
	body, _ := io.ReadAll(response.Body)
	r := ratelimits.ParseResponse(response.StatusCode, response.Header, body)
	r.Stamp = ratelimits.ParseStamp(response.Header)
	return r, response.Header
}

// process uses one bucket as a manager does.
type process struct {
	world   *world
	origin  time.Time
	session shared.Session
	bucket  shared.Bucket

	mu      sync.Mutex
	window  ratelimits.Window
	waiting []*request
}

// request is a waiting request.
type request struct {
	arrived time.Duration
	granted chan shared.Permit
}

func (w *world) process(options ...spectacles.Option) *process {
	return w.processOn(w.engine, options...)
}

func (w *world) processOn(runner shared.Runner, options ...spectacles.Option) *process {
	p := &process{world: w, origin: time.Now()}
	p.session = spectacles.New(runner, options...).Join(clockwork.NewRealClock(), p.origin)
	p.bucket = p.session.Bucket(key, &p.window, p.changed)
	return p
}

func (p *process) now() time.Duration { return time.Since(p.origin) }

func (p *process) changed() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dispatch()
}

// dispatch grants waiting requests as long as permits are free. p.mu must be held.
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
		p.waiting[0].granted <- permit
		p.waiting = p.waiting[1:]
	}
	p.tell()
}

// tell reports the waiting requests. p.mu must be held.
func (p *process) tell() {
	p.bucket.Demand(p.now(), len(p.waiting), func(yield func(time.Duration) bool) {
		for _, r := range p.waiting {
			if !yield(r.arrived) {
				return
			}
		}
	})
}

// join queues.
func (p *process) join() *request {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := &request{p.now(), make(chan shared.Permit, 1)}
	p.waiting = append(p.waiting, r)
	p.tell()
	return r
}

// giveBack returns the permit of a request that was not sent.
func (p *process) giveBack(permit shared.Permit) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.bucket.Return(p.now(), permit)
	p.tell()
}

// report ends a permit with the response to its request.
func (p *process) report(permit shared.Permit, response ratelimits.Response) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.bucket.Report(p.now(), permit, response)
	p.dispatch()
}

// acquire waits for a permit until the context ends.
func (p *process) acquire(ctx context.Context) (shared.Permit, bool) {
	r := p.join()
	select {
	case permit := <-r.granted:
		return permit, true
	case <-ctx.Done():
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case permit := <-r.granted:
		p.bucket.Return(p.now(), permit)
	default:
		p.waiting = slices.DeleteFunc(p.waiting, func(other *request) bool { return other == r })
	}
	p.tell()
	return nil, false
}

// within waits for a permit that long.
func (p *process) within(d time.Duration) (shared.Permit, bool) {
	ctx, cancel := context.WithTimeout(p.world.context, d)
	defer cancel()
	return p.acquire(ctx)
}

// call acquires, sends, and reports.
func (p *process) call(ctx context.Context) bool {
	permit, ok := p.acquire(ctx)
	if ok {
		response, _ := p.world.send()
		p.report(permit, response)
	}
	return ok
}

// callers call all the time.
func (p *process) callers(n int) {
	for range n {
		p.world.work.Go(func() {
			for p.call(p.world.context) {
			}
		})
	}
}

// seed is a client that follows the Spectacles specification.
type seed struct {
	world *world
	claim *shared.Script
	dates bool // expiries are Reset - Date, as the document says; else Reset-After
}

// seed makes a client of the specification. If corrected is true, its script has `ttl <= 0` where the document has `ttl
// < 0`.
func (w *world) seed(corrected bool) *seed {
	source := seedClaim
	if corrected {
		source = strings.Replace(source, "if ttl < 0 then", "if ttl <= 0 then", 1)
		require.NotEqual(w.t, seedClaim, source)
	}
	return &seed{world: w, claim: &shared.Script{Name: "seed-claim", Source: "return {(function()\n" + source + "\nend)()}"}}
}

var (
	seedExpire = &shared.Script{Name: "seed-expire", Source: "redis.call('pexpire', KEYS[1], ARGV[1]) return {0}"}
	seedLimit  = &shared.Script{Name: "seed-limit", Source: "redis.call('set', KEYS[1], ARGV[1]) return {0}"}
)

// tryClaim returns 0 if a request may be sent, else for how long to wait.
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

func (s *seed) report(r ratelimits.Response, header http.Header) {
	wait := r.ResetAfter
	if date, err := http.ParseTime(header.Get("Date")); s.dates && err == nil && r.Stamp > 0 {
		wait = time.Duration(r.Stamp-date.UnixMilli()) * time.Millisecond
	}
	if r.Status == http.StatusTooManyRequests {
		wait = r.RetryAfter
	}
	if r.Limited {
		s.run(seedLimit, route+":limit", int64(r.Limit))
		s.run(seedExpire, route+":remaining", wait.Milliseconds())
	}
}

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

// spread draws the latency of each way.
func spread(from, to time.Duration) discordsim.Latency {
	return discordsim.Latency{Draw: func(r *rand.Rand) (in, out time.Duration) {
		draw := func() time.Duration { return from + time.Duration(r.Int64N(int64(to-from))) }
		return draw(), draw()
	}}
}
