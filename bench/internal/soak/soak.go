package soak

import (
	"context"
	"math/rand/v2"
	"net/http"
	"runtime"
	"time"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/httpclient"
	"github.com/ratelight/ratelight/ratelimits"
)

const (
	// Rate is the load, in requests a minute.
	Rate = 1000
	// maxWait is the transport's max rate limit.
	maxWait = time.Minute
	// Patience is the time within which every request has to have an outcome: a few waits of maxWait, as a request may be
	// refused several times, and the time for retries.
	Patience = 6 * time.Minute
	// maxBufferedBody is small, so that there are uploads that can be sent only once.
	maxBufferedBody = 4 << 10
)

// Config is what a soak is to do.
type Config struct {
	// Length is how long there is load, without the lulls.
	Length time.Duration
	// Seed makes the load and the server's moods repeatable, as far as the scheduler lets them.
	Seed uint64
	// Virtual says that it runs in a testing/synctest bubble. Otherwise it uses sockets and the real clock.
	Virtual bool
	// Rest returns when nothing in the bubble moves any more: synctest.Wait. It is needed if Virtual is set.
	Rest func()
	// Done is called for every request that has an outcome, by several goroutines at once. It may be nil.
	Done func()
}

// Requests is about how many requests there will be.
func (c Config) Requests() int { return int(c.Length * Rate / time.Minute) }

// rounds is how many there are: in virtual time enough for a trend, in real time one of each sort.
func (c Config) rounds() int {
	if !c.Virtual {
		return 4
	}
	return min(max(int(c.Length/(30*time.Minute)), 12), 48)
}

// budgetPeriod is the period of the invalid request budget: Discord's, or shorter in a short soak so that it is met.
func (c Config) budgetPeriod() time.Duration { return min(10*time.Minute, c.Length/5) }

// budget is how many invalid responses there may be in the period. The storms have more than that to offer.
func (c Config) budget() int { return max(int(c.budgetPeriod()*60/time.Minute), 20) }

// soak is one under way.
type soak struct {
	Config
	length  time.Duration // of a round
	chance  *rand.Rand
	search  *searcher
	ledger  *ledger
	invalid *invalidCount
	wire    wire
	discord *discord

	transport *httpclient.Transport
	client    *http.Client
	made      uint64 // requests
	load      load
	result    Result
}

// Run does it and returns what it saw. It stops early when the context ends; Result.Interrupted then says so. The error is
// about a machine that does not let it work.
func Run(ctx context.Context, config Config) (Result, error) {
	s := newSoak(config)
	defer s.transport.Close()
	defer s.wire.close()
	began := time.Now()
	for round := range config.rounds() {
		if err := s.round(ctx, round); err != nil {
			return Result{}, err
		}
		if ctx.Err() != nil {
			s.result.Interrupted = true
			break
		}
	}
	s.end(ctx)
	s.result.Took = time.Since(began)
	s.result.judge()
	return s.result, nil
}

func newSoak(config Config) *soak {
	s := &soak{
		Config: config, length: config.Length / time.Duration(config.rounds()), chance: rand.New(rand.NewPCG(config.Seed, 1)),
		search: newSearcher(), ledger: &ledger{}, invalid: &invalidCount{period: config.budgetPeriod()},
	}
	s.result = Result{Config: config, Goroutines: [2]int{runtime.NumGoroutine(), 0}}
	s.discord = newDiscord(config, s.length, s.invalid.observe)
	s.wire = newWire(config.Virtual)
	s.load.init()
	s.transport = httpclient.NewTransport(
		httpclient.WithBase(s.ledger.below(s.wire)),
		httpclient.WithMaxRateLimit(maxWait), httpclient.WithMaxBufferedBody(maxBufferedBody),
		httpclient.WithLogger(s.search.logger()), httpclient.WithHooks(s.search.transportHooks()),
		httpclient.WithBuckets(
			buckets.WithHooks(s.search.managerHooks()),
			buckets.WithInvalidBudget(config.budget(), config.budgetPeriod(), config.budget()/20),
		),
	)
	s.client = &http.Client{Transport: s.transport}
	return s
}

// round is a load on a server of its own, a lull, and a look at what is left.
func (s *soak) round(ctx context.Context, number int) error {
	weather := weatherOf(number, s.rounds())
	server, err := s.discord.start(number, weather)
	if err != nil {
		return err
	}
	if err := s.wire.use(server); err != nil {
		_ = server.Close() // the reason is err
		return err
	}
	most := s.offer(ctx, weather)
	s.waitForOutcomes()
	if s.Virtual {
		time.Sleep(s.budgetPeriod() + 3*time.Minute) // until all holds are over and the budget is unused
	}
	s.result.observe(server.Report(), weather)
	s.wire.drop()
	_ = server.Close() // it only breaks connections off
	s.result.Checkpoints = append(s.result.Checkpoints, s.checkpoint(number, weather, most))
	return nil
}

// waitForOutcomes waits until every request has one, or should have had it long ago.
func (s *soak) waitForOutcomes() {
	patience := time.NewTimer(Patience)
	defer patience.Stop()
	select {
	case <-s.load.idle():
	case <-patience.C:
	}
}

// end lets everything be forgotten and looks for what is not.
func (s *soak) end(ctx context.Context) {
	if s.Virtual {
		time.Sleep(ratelimits.LongestTrust + 3*time.Hour) // until absurd holds are over, and routes forgotten that nobody used for an hour
	} else {
		s.waitForCollection(ctx)
	}
	s.look()
	s.result.Left, s.result.Held = s.transport.Manager().Stats(), s.held()
	_ = s.transport.Close() // there is never an error
	s.wire.close()
	s.rest()
	s.look()
	s.search.dump("transport, closed", s.transport)
	s.result.Outcomes, s.result.Longest, s.result.Open = s.load.outcomes(), s.load.longest(), s.ledger.open()
	s.result.Started, s.result.Ended = s.load.started.Load(), s.load.ended.Load()
	s.result.Late, s.result.Unexpected = s.load.late.Load(), s.load.surprises()
	s.result.LargestInvalid, s.result.Invalid = s.invalid.most(), s.invalid.total()
	s.result.Searched, s.result.SearchedBytes, s.result.Found = s.search.results()
	s.result.Goroutines[1] = s.goroutines(s.result.Goroutines[0])
}

// waitForCollection gives the garbage collector of a real run the time that the longest hold and its period take.
func (s *soak) waitForCollection(ctx context.Context) {
	for range 240 {
		if s.transport.Manager().Stats().Buckets <= s.held() || ctx.Err() != nil {
			return
		}
		time.Sleep(time.Second)
	}
}

// held is how many buckets are held back for longer than anything that the simulator means: by a 429 with an absurd number.
func (s *soak) held() (n int) {
	for bucket := range s.transport.Manager().Buckets() {
		if bucket.HoldAfter > time.Hour {
			n++
		}
	}
	return n
}
