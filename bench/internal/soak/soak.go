// Package soak keeps one transport busy for a long time under all kinds of failures. It looks for leaks of memory and
// goroutines, and for requests without an outcome.
//
// A soak is a number of rounds. Each has its own simulated Discord, so that the server's memory is not taken for the
// client's, and a load of 1,000 requests a minute. The soak measures when all requests of a round have ended. Most
// rounds are disturbed by errors, lost connections, wrong headers, bans and cancelled requests; every fourth and the
// last are not.
//
// The simulator judges whether the client could have avoided a 429, as if the client had read every response. In
// disturbed rounds responses are lost, so avoidable 429s are only counted. In the others none is allowed.
//
// The soak speaks HTTP over connections in memory. The package's test runs it in a testing/synctest bubble, where a day
// takes minutes, and searches everything that is logged, returned or remembered for tokens.
package soak

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ratelight/ratelight/bench/internal/load"
	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/httpclient"
	"github.com/ratelight/ratelight/internal/discordsim"
	"github.com/ratelight/ratelight/ratelimits"
)

const (
	// Rate is the load, in requests a minute.
	Rate = 1000
	// maxWait is the transport's max rate limit.
	maxWait = time.Minute
	// patience is the time within which every request must have an outcome. It allows for several waits of maxWait,
	// because a request may be refused several times, and for retries.
	patience = 6 * time.Minute
	// mostUnexpected bounds the different unexpected outcomes that are kept. One is enough to fail a soak.
	mostUnexpected = 20
	// maxBufferedBody is in bytes. It is small, so that some uploads exceed it and can be sent only once.
	maxBufferedBody = 4 << 10
)

// Options are the flags of a soak.
type Options struct {
	Length time.Duration `range:"1s..744h" default:"10m" help:"How long there are requests, 1000 a minute; then it idles for some minutes."`
	Seed   uint64        `default:"1" help:"Seed of the random numbers."`
	// Done is called for every request that has an outcome, one call at a time. It may be nil.
	Done func() `kong:"-"`

	witness *witness // set in virtual time only
}

// witness lets a test configure and observe a soak in virtual time.
type witness struct {
	rounds       int                 // number of rounds, enough for a trend
	options      []httpclient.Option // of the transport
	above, below func(http.RoundTripper) http.RoundTripper
	rest         func(*httpclient.Transport) // called when all requests should have ended
}

// Requests returns about how many requests the soak will make.
func (o Options) Requests() int { return int(o.Length * Rate / time.Minute) }

// rounds returns the number of rounds; in real time it is one of each kind.
func (o Options) rounds() int {
	if o.witness != nil {
		return o.witness.rounds
	}
	return len(kinds)
}

// The kinds of rounds.
const (
	disturbed      = "disturbed"
	tokenRevoked   = "token revoked"   // and disturbed: the token of a bot becomes invalid, and is replaced later
	permissionLost = "permission lost" // and disturbed: for a while, more responses are 403 than the budget allows
	undisturbed    = "undisturbed"
)

var kinds = []string{disturbed, tokenRevoked, permissionLost, undisturbed}

func (o Options) round(number int) Round {
	kind := kinds[number%len(kinds)]
	if number == o.rounds()-1 {
		kind = undisturbed
	}
	return Round{number: number, length: o.Length / time.Duration(o.rounds()), Kind: kind}
}

func (r *Round) disturbed() bool { return r.Kind != undisturbed }

// part returns the time of a fraction of the round.
func (r *Round) part(fraction float64) time.Duration {
	return time.Duration(float64(r.length) * fraction)
}

// budgetPeriod returns the period of the invalid request budget: Discord's, or less in a soak that is too short for it.
func (o Options) budgetPeriod() time.Duration { return min(10*time.Minute, o.Length/5) }

// budget returns how many invalid responses are allowed in the period. Disturbed rounds would have more.
func (o Options) budget() int { return max(int(o.budgetPeriod()*60/time.Minute), 20) }

// soak is a soak in progress.
type soak struct {
	Options
	server    atomic.Pointer[discordsim.Server] // of the current round; nil between rounds
	base      *http.Transport
	transport *httpclient.Transport
	client    http.Client
	requests  sync.WaitGroup

	mu     sync.Mutex
	result Result
}

// Run runs a soak. When the context ends, it stops early with Result.Interrupted set. The error reports invalid
// Options.
func Run(ctx context.Context, o Options) (*Result, error) {
	s := &soak{Options: o, result: Result{
		Options: o, Outcomes: make(map[string]int), Unexpected: make(map[string]int), Goroutines: [2]int{runtime.NumGoroutine(), 0},
	}}
	s.base = &http.Transport{MaxIdleConnsPerHost: 100, DialContext: s.connect}
	options := []httpclient.Option{
		httpclient.WithMaxRateLimit(maxWait), httpclient.WithMaxBufferedBody(maxBufferedBody), httpclient.WithLogger(slog.New(slog.DiscardHandler)),
		httpclient.WithBuckets(buckets.WithInvalidBudget(o.budget(), o.budgetPeriod(), o.budget()/20)), httpclient.WithBase(s.base),
	}
	above := func(transport http.RoundTripper) http.RoundTripper { return transport }
	if w := o.witness; w != nil {
		options, above = append(append(options, w.options...), httpclient.WithBase(w.below(s.base))), w.above
	}
	s.transport = httpclient.NewTransport(options...)
	defer s.transport.Close()
	s.client.Transport = above(s.transport)
	began := time.Now()
	for number := 0; number < o.rounds() && !s.result.Interrupted; number++ {
		if err := s.run(ctx, o.round(number)); err != nil {
			return nil, err
		}
		s.result.Interrupted = ctx.Err() != nil
	}
	s.end(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.result.Took = time.Since(began)
	s.result.judge()
	return &s.result, nil
}

// connect connects to the server of the round.
func (s *soak) connect(ctx context.Context, network, address string) (net.Conn, error) {
	if server := s.server.Load(); server != nil {
		return server.DialContext(ctx, network, address)
	}
	return nil, errBetween
}

var errBetween = errors.New("no server between the rounds")

// run runs one round with its own server, waits until its requests have ended, and records the measurements.
func (s *soak) run(ctx context.Context, r Round) error {
	server, err := discordsim.New(s.discord(&r))
	if err != nil {
		return err
	}
	s.server.Store(server)
	s.offer(ctx, &r)
	rest, done := context.WithCancel(context.Background())
	go func() {
		s.requests.Wait()
		done()
	}()
	_ = load.Pause(rest, patience) // until every request has an outcome, for patience at most
	if s.witness != nil {
		time.Sleep(s.budgetPeriod() + 3*time.Minute) // until all holds are over and the budget is unused
		s.witness.rest(s.transport)
	}
	seen := server.Report()
	s.server.Store(nil)
	s.base.CloseIdleConnections()
	_ = server.Close() // so that the memory in use is without the server's; there is never an error
	var memory runtime.MemStats
	runtime.GC()
	runtime.GC() // pools keep their objects through one collection
	runtime.ReadMemStats(&memory)
	r.Refused, r.Avoidable, r.Invalid, r.Bans = seen.Refused, seen.Avoidable, seen.Invalid, seen.Bans
	r.Stats, r.Heap, r.Goroutines = s.transport.Manager().Stats(), memory.HeapAlloc, runtime.NumGoroutine()
	s.result.Rounds = append(s.result.Rounds, r)
	return nil
}

// end waits until the manager should have forgotten everything, and records what is left.
func (s *soak) end(ctx context.Context) {
	manager := s.transport.Manager()
	if s.witness != nil {
		time.Sleep(ratelimits.LongestTrust + 3*time.Hour) // until holds are over and unused routes are forgotten
	} else {
		// The longest hold and a collection take some minutes.
		for n := 0; n < 240 && manager.Stats().Buckets > 0 && load.Pause(ctx, time.Second) == nil; n++ {
		}
	}
	s.result.Left = manager.Stats()
	_ = s.transport.Close() // there is never an error
	if s.witness != nil {
		s.witness.rest(s.transport)
	}
	for range 50 { // goroutines that are about to end need a moment
		if s.result.Goroutines[1] = runtime.NumGoroutine(); s.result.Goroutines[1] <= s.result.Goroutines[0] {
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
}
