package httpclient

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/internal/discordsim"
	"github.com/ratelight/ratelight/internal/lateclock"
	"github.com/ratelight/ratelight/ratelimits"
)

// play is one random schedule for the whole library: requests, a server, and faults. All values are drawn before the
// play starts, so that package rapid can shrink and repeat the play.
type play struct {
	seed      uint64
	requests  int
	channels  int
	spread    time.Duration // time over which the requests arrive
	quota     discordsim.Quota
	latency   time.Duration // round trip
	jitter    time.Duration
	global    int
	cancelled int // percent of the requests whose context ends at a random moment
	deadlines int // percent of the requests with a short deadline
	ordered   bool
	troubles  int // percent of the requests that end in a server error or without an answer
	world     string
	poll      time.Duration // poll period of the garbage collector
	closeAt   time.Duration // when the transport is closed; 0: at the end
	skew      time.Duration // offset of the server's clock
	late      time.Duration // the greatest delay of a timer
	extreme   string        // key of the option in extremes; "": none
}

var onlyWorld = flag.String("world", "", "run only plays in this world")

func drawPlay(t *rapid.T) play {
	ms := func(values ...int) time.Duration {
		return time.Duration(rapid.SampledFrom(values).Draw(t, "ms")) * time.Millisecond
	}
	limit := rapid.SampledFrom([]int{1, 2, 5, 5, 10}).Draw(t, "limit")
	period := ms(1000, 250, 2000)
	quota := []discordsim.Quota{
		discordsim.Fixed(limit, period), discordsim.Sliding(limit, period), discordsim.Leaky(limit, period),
	}[rapid.IntRange(0, 2).Draw(t, "kind")]
	percent := func(name string) int { return rapid.SampledFrom([]int{0, 0, 10, 50}).Draw(t, name) }
	worlds := worldNames
	if *onlyWorld != "" {
		worlds = []string{*onlyWorld}
	}
	return play{
		seed:     rapid.Uint64().Draw(t, "seed"),
		requests: rapid.IntRange(1, 60).Draw(t, "requests"),
		channels: rapid.SampledFrom([]int{1, 1, 3, 10}).Draw(t, "channels"),
		spread:   ms(0, 100, 3000),
		quota:    quota,
		latency:  ms(20, 1, 100, 400),
		// The jitter is never 0, because the order of two events at the same time does not show which of them the client knew
		// first.
		jitter:    ms(1, 10, 100),
		global:    rapid.SampledFrom([]int{50, 10, 3}).Draw(t, "global"),
		cancelled: percent("cancelled"),
		deadlines: percent("deadlines"),
		ordered:   rapid.IntRange(0, 5).Draw(t, "ordered") == 5,
		troubles:  percent("troubles"),
		world:     rapid.SampledFrom(worlds).Draw(t, "world"),
		poll:      ms(80000, 100),
		closeAt:   ms(0, 0, 0, 1500),
		skew:      ms(0, 0, -5000, 3600000),
		late:      ms(0, 0, 300),
		extreme:   rapid.SampledFrom(extremeNames).Draw(t, "extreme"),
	}
}

// outcomes counts the outcomes of requests.
type outcomes struct {
	started                                     atomic.Int64
	answered, refused, cancelled, closed, broke atomic.Int64

	mu      sync.Mutex
	problem string // the first problem that was noticed
}

func (o *outcomes) complain(format string, arguments ...any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.problem = cmp.Or(o.problem, fmt.Sprintf(format, arguments...))
}

// bodyPatience is how long the caller waits for the end of a body.
const bodyPatience = 10 * time.Second

// note records one outcome. If the outcome is a problem, such as an error instead of a required response, note also
// records the problem.
func (o *outcomes) note(r sent, response *http.Response, err error) {
	took := time.Since(r.at)
	if err == nil {
		giveUp := time.AfterFunc(bodyPatience, func() { response.Body.Close() })
		_, _ = io.Copy(io.Discard, response.Body)
		giveUp.Stop()
		response.Body.Close()
		o.answered.Add(1)
		switch {
		case r.wants != 0 && response.StatusCode != r.wants:
			o.complain("%s was answered %d instead of %d", r.URL, response.StatusCode, r.wants)
		case response.StatusCode == http.StatusTooManyRequests && response.Request.URL.Host == discordHost:
			o.complain("the caller got a 429 of Discord")
		case r.within > 0 && took > r.within:
			o.complain("%s was answered after %v", r.URL, took)
		}
		return
	}
	var tooLong *ratelimits.TooLongError
	var edge *ratelimits.EdgeError
	var budget *ratelimits.BudgetError
	var credential *CredentialError
	switch {
	case errors.As(err, &tooLong), errors.As(err, &edge), errors.As(err, &budget), errors.As(err, &credential):
		o.refused.Add(1)
	case errors.Is(err, buckets.ErrClosed):
		o.closed.Add(1)
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		o.cancelled.Add(1)
	case strings.Contains(err.Error(), "connection reset"):
		o.broke.Add(1)
	default:
		o.complain("unexpected: %v", err)
	}
	if r.required {
		o.complain("not answered after %v: %v", took, err)
	}
}

// patience is how long a play may last in virtual time. If a request has not ended after this time, it is assumed to
// wait for ever.
const patience = 2 * time.Hour

// run runs the play in virtual time. It returns the first problem, or "" if there is none.
func (p play) run(t *testing.T) (problem string) {
	synctest.Test(t, func(t *testing.T) {
		problem = p.inBubble(t)
	})
	return problem
}

func (p play) inBubble(t *testing.T) string {
	server, err := discordsim.New(p.config())
	require.NoError(t, err)
	defer server.Close()
	foreign, err := discordsim.New(p.foreignHost())
	require.NoError(t, err)
	defer foreign.Close()
	options := []buckets.Option{
		buckets.WithGlobalLimit(p.global), buckets.WithEviction(p.poll, 0),
		buckets.WithMaxRateLimit(p.maxWait()),
	}
	if p.ordered {
		options = append(options, buckets.WithOrdered())
	}
	if p.late > 0 {
		options = append(options, buckets.WithClock(lateclock.New(p.seed, p.late)))
	}
	options = append(options, extremes[p.extreme]...)
	base := discordsim.Hosts{discordHost: server.RoundTripper(), foreignHost: foreign.RoundTripper()}
	transport := NewTransport(WithBase(base), WithBuckets(options...))
	defer transport.Close()

	var o outcomes
	var stuck atomic.Bool
	watch := time.AfterFunc(patience, func() {
		stuck.Store(true)
		transport.Close()
	})
	p.send(transport, &o)
	watch.Stop()
	stats := transport.Manager().Stats()
	report := server.Report()
	ends := o.answered.Load() + o.refused.Load() + o.cancelled.Load() + o.closed.Load() + o.broke.Load()
	switch {
	case stuck.Load():
		return fmt.Sprintf("some requests still waited after %v: %d answered of %d, %+v, %d refusals, the last: %s", patience,
			o.answered.Load(),
			o.started.Load(), stats, report.Refused.Total(), last(server.Refusals(), 3))
	case stats.Waiting != 0 || stats.InFlight != 0:
		return fmt.Sprintf("not all was given back: %+v", stats)
	case p.blames() && report.Avoidable.Total() > 0:
		return fmt.Sprintf("avoidable refusals %+v of %+v, the last: %s", report.Avoidable, report.Refused,
			last(avoidable(server.Refusals()), 5))
	case p.promisesOrder() && report.Inversions > 0:
		return fmt.Sprintf("%d requests were overtaken", report.Inversions)
	case o.problem != "":
		return o.problem
	case ends != o.started.Load():
		return fmt.Sprintf("%d requests, %d outcomes", o.started.Load(), ends)
	}
	for b := range transport.Manager().Buckets() {
		if b.Waiting != 0 || b.InFlight != 0 {
			return fmt.Sprintf("a bucket is not empty: %+v", b)
		}
	}
	return ""
}

// avoidable returns the refusals that the client could have avoided.
func avoidable(events []discordsim.Event) []discordsim.Event {
	return slices.DeleteFunc(events, func(e discordsim.Event) bool { return e.Verdict != discordsim.Avoidable })
}

// last describes the last n refusals.
func last(events []discordsim.Event, n int) string {
	var b strings.Builder
	for _, e := range events[max(len(events)-n, 0):] {
		fmt.Fprintf(&b, "\n\t%v processed %v: number %d, %s of %s in %q: %v by %v, %s", e.SentAt.Format(time.StampMicro),
			e.At.Format(time.StampMicro),
			e.Sequence, e.Operation, e.Major, e.Hash, e.Verdict, e.Class, e.Because)
	}
	return b.String()
}

// sent is one request of a play.
type sent struct {
	*http.Request
	at       time.Time
	wants    int           // the expected status of the response; 0: any
	within   time.Duration // the longest time until the response; 0: any
	required bool          // the request must get a response
}

// send sends the requests and waits for all outcomes.
func (p play) send(transport *Transport, o *outcomes) {
	chance := rand.New(rand.NewPCG(p.seed, 3))
	client := &http.Client{Transport: transport}
	var all sync.WaitGroup
	if p.closeAt > 0 {
		all.Go(func() {
			time.Sleep(p.closeAt)
			transport.Close()
		})
	}
	one := func(ctx context.Context, cancel context.CancelFunc, i int, required bool) {
		r := p.request(ctx, i, chance)
		r.at, r.required = time.Now(), r.required && required
		o.started.Add(1)
		all.Go(func() {
			defer cancel()
			response, err := client.Do(r.Request)
			o.note(r, response, err)
		})
		synctest.Wait() // so that requests arrive in the order of their numbers
	}
	if p.storms() {
		p.storm(transport, o, one)
		all.Wait()
		return
	}
	for i := range p.requests {
		ctx, cancel := context.WithCancel(context.Background())
		if chance.IntN(100) < p.cancelled {
			stop := time.AfterFunc(time.Duration(chance.Int64N(int64(4*time.Second))), cancel)
			defer stop.Stop()
		} else if chance.IntN(100) < p.deadlines {
			ctx, cancel = context.WithTimeout(ctx, time.Duration(chance.Int64N(int64(2*time.Second))))
		}
		one(ctx, cancel, i, p.answersAll())
		if p.spread > 0 {
			time.Sleep(time.Duration(chance.Int64N(int64(p.spread) / int64(p.requests) * 2)))
		}
	}
	all.Wait()
}

// storm sends all requests at once and cancels those that still wait. It does so several times. In the end it sends a
// few more requests, which must get responses.
func (p play) storm(transport *Transport, o *outcomes, one func(context.Context, context.CancelFunc, int, bool)) {
	chance := rand.New(rand.NewPCG(p.seed, 4))
	for range 3 {
		ctx, cancel := context.WithCancel(context.Background())
		for i := range p.requests {
			one(ctx, func() {}, i, false)
		}
		time.Sleep(time.Duration(chance.Int64N(int64(2 * time.Second))))
		cancel()
		synctest.Wait()
		if stats := transport.Manager().Stats(); stats.Waiting != 0 {
			o.complain("%d requests still wait after all have been cancelled", stats.Waiting)
		}
	}
	for i := range 3 {
		one(context.Background(), func() {}, p.requests+i, p.answersAll())
	}
}

// TestWhateverHappensNothingIsLostAndNothingAvoidable runs random plays through the whole library. Run more plays, or
// plays in one world only, with one of these commands:
//
//	go test ./httpclient -run Whatever -rapid.checks=100000
//	go test ./httpclient -run Whatever -rapid.checks=10000 -world "block that grows"
func TestWhateverHappensNothingIsLostAndNothingAvoidable(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		p := drawPlay(rt)
		if problem := p.run(t); problem != "" {
			rt.Fatalf("%s\n%+v", problem, p)
		}
	})
}

// regressions are plays that failed once.
var regressions = map[string]play{
	"a 429 that named another bucket did not hold the request that it refused": {
		seed: 2540, requests: 23, channels: 1, spread: 100 * time.Millisecond,
		quota:   discordsim.Sliding(5, 250*time.Millisecond),
		latency: 20 * time.Millisecond, jitter: 100 * time.Millisecond, global: 3, world: "error bucket",
		poll: 100 * time.Millisecond, extreme: "no global limit",
	},
	"a 429 of a sub-limit forgot that lost requests are counted": {
		seed: 23882, requests: 60, channels: 3, spread: 100 * time.Millisecond, quota: discordsim.Leaky(5, time.Second),
		latency: 20 * time.Millisecond, jitter: 100 * time.Millisecond, global: 50, cancelled: 10, troubles: 50,
		world: "cancel storm at a sub-limit", poll: 80 * time.Second, skew: time.Hour,
	},
	"a channel stayed behind when the rest of its route moved": {
		seed: 527558302, requests: 50, channels: 10, spread: 100 * time.Millisecond,
		quota:   discordsim.Fixed(2, 2*time.Second),
		latency: time.Millisecond, jitter: time.Millisecond, global: 10, skew: time.Hour, world: "roll-out",
		poll: 80 * time.Second,
	},
	"at a low limit, the shortest of six round trips was taken for the shortest possible one": {
		seed: 1389935767046, requests: 10, channels: 1, quota: discordsim.Leaky(1, 250*time.Millisecond),
		latency: 20 * time.Millisecond, jitter: 10 * time.Millisecond, global: 3, world: "plain", poll: 80 * time.Second,
	},
	"it was forgotten that two routes share the bucket of a channel": {
		seed: 6507391, requests: 7, channels: 1, spread: 3 * time.Second, quota: discordsim.Fixed(1, time.Second),
		latency: 20 * time.Millisecond, jitter: time.Millisecond, global: 50, world: "hash by channel",
		poll: 100 * time.Millisecond,
	},
	"waits that had grown kept step with another client that uses the bucket": {
		seed: 0, requests: 1, channels: 1, quota: discordsim.Fixed(1, 250*time.Millisecond),
		latency: time.Millisecond, jitter: time.Millisecond, global: 50, world: "foreign", poll: 80 * time.Second,
		extreme: "global limit of 1",
	},
	"a request that was cancelled in flight was taken for processed": {
		seed: 64051, requests: 15, channels: 10, spread: 3 * time.Second, quota: discordsim.Fixed(1, 2*time.Second),
		latency: 400 * time.Millisecond, jitter: 10 * time.Millisecond, global: 3, cancelled: 50, troubles: 50,
		world: "plain",
		poll:  80 * time.Second,
	},
	"a bucket that was evicted and created again did not count a request in flight on a route of its hash": {
		seed: 27838, requests: 7, channels: 1, spread: 3 * time.Second, quota: discordsim.Fixed(1, 250*time.Millisecond),
		latency: 20 * time.Millisecond, jitter: 10 * time.Millisecond, global: 50, world: "one hash",
		poll: 100 * time.Millisecond,
	},
	"the data of a window was forgotten when the window was taken for a log that names its next place": {
		seed: 11, requests: 33, channels: 1, quota: discordsim.Leaky(2, 2*time.Second), latency: 20 * time.Millisecond,
		jitter: 10 * time.Millisecond,
		global: 3, cancelled: 50, deadlines: 10, world: "stale first answer", poll: 80 * time.Second,
		late: 300 * time.Millisecond,
	},
}

func TestWhatWentWrongOnceDoesNotAgain(t *testing.T) {
	for name, p := range regressions {
		t.Run(name, func(t *testing.T) {
			for range 20 { // repeated, because the result also depends on the order in which goroutines run
				require.Empty(t, p.run(t))
			}
		})
	}
}
