package httpclient

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
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
	"github.com/ratelight/ratelight/ratelimits"
)

// play is one random schedule for the whole library: a load, a server and what goes wrong, all of it drawn beforehand so that
// it can be shrunk and repeated.
type play struct {
	seed      uint64
	requests  int
	channels  int
	spread    time.Duration // over which the requests arrive
	quota     discordsim.Quota
	latency   time.Duration // round trip
	jitter    time.Duration
	global    int
	cancelled int // percent of the requests whose context ends at a random moment
	deadlines int // percent of the requests with a short deadline
	ordered   bool
	troubles  int // percent of the requests that end in a server error or without an answer
	world     string
	poll      time.Duration // of the garbage collector
	closeAt   time.Duration // 0: at the end
	skew      time.Duration // of the server's clock
}

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
	return play{
		seed:      rapid.Uint64().Draw(t, "seed"),
		requests:  rapid.IntRange(1, 60).Draw(t, "requests"),
		channels:  rapid.SampledFrom([]int{1, 1, 3, 10}).Draw(t, "channels"),
		spread:    ms(0, 100, 3000),
		quota:     quota,
		latency:   ms(20, 1, 100, 400),
		jitter:    ms(1, 10, 100), // never none: at one and the same moment nobody can tell what was known before what
		global:    rapid.SampledFrom([]int{50, 10, 3}).Draw(t, "global"),
		cancelled: percent("cancelled"),
		deadlines: percent("deadlines"),
		ordered:   rapid.IntRange(0, 5).Draw(t, "ordered") == 5,
		troubles:  percent("troubles"),
		world: rapid.SampledFrom([]string{
			"plain", "plain", "one hash", "one name", "changing hash", "flipping hash", "new hash each time", "unlimited", "shared", "sub-limit",
			"global block", "edge", "edge without a word", "foreign",
		}).Draw(t, "world"),
		poll:    ms(80000, 100),
		closeAt: ms(0, 0, 0, 1500),
		skew:    ms(0, 0, -5000, 3600000),
	}
}

// config is the simulated Discord of the play.
func (p play) config() discordsim.Config {
	rule := discordsim.Rule{Path: "**", Quota: p.quota, Hash: "messages"}
	c := discordsim.Config{
		Seed: p.seed, ClockSkew: p.skew, Latency: discordsim.Latency{RoundTrip: p.latency, Jitter: min(p.jitter, p.latency/2)},
		Global: discordsim.Aligned(p.global, time.Second, time.Duration(p.seed%1000)*time.Millisecond),
	}
	switch p.world {
	case "changing hash":
		rule.Changes = []discordsim.Change{{At: time.Second, Hash: "other"}, {At: 3 * time.Second, Hash: "third"}}
	case "flipping hash":
		rule.Vary = discordsim.Alternate("messages", "other")
	case "new hash each time":
		rule.Vary = discordsim.EachTime("hash")
	case "unlimited":
		rule.Quota = discordsim.Unlimited()
	case "shared":
		rule.Shared = &discordsim.SharedLimit{Quota: discordsim.Fixed(7, 4*time.Second)}
	case "sub-limit":
		rule.SubLimits = []discordsim.SubLimit{{Fields: []string{"name"}, Quota: discordsim.Fixed(2, 4*time.Second)}}
	case "global block":
		c.Blocks = []discordsim.GlobalBlock{{From: 500 * time.Millisecond, Until: 3 * time.Second}}
	case "edge":
		c.Edge = []discordsim.EdgeBan{{From: 500 * time.Millisecond, Until: 4 * time.Second}}
	case "edge without a word":
		c.Edge = []discordsim.EdgeBan{{From: 500 * time.Millisecond, Until: 4 * time.Second, Silent: true}}
	case "foreign":
		c.Foreign = []discordsim.ForeignUse{{
			Request: discordsim.Request{Method: "POST", Path: "/channels/1/messages", Authorization: "Bot token"},
			Every:   max(300*time.Millisecond, 2*p.quota.Period/time.Duration(p.quota.Limit)),
		}}
		c.Global = discordsim.Unlimited()
	}
	if p.troubles > 0 {
		share := float64(p.troubles) / 400
		after := func(c discordsim.Call) bool { return c.N > 3*p.channels } // what is known before that is too little
		c.Faults = []discordsim.Fault{
			{Probability: share, When: after, Status: 502, Uncounted: true},
			{Probability: share, When: after, Connection: discordsim.ConnectionLostBefore},
			{Probability: share, When: after, Connection: discordsim.ConnectionLostAfter},
			{Probability: share, When: after, Delay: 2500 * time.Millisecond},
		}
	}
	c.Rules = []discordsim.Rule{rule}
	if p.world == "one name" {
		other := discordsim.Rule{Method: "GET", Path: "**", Hash: "other", Announce: "messages", Quota: p.quota}
		other.Quota.Limit *= 3
		c.Rules[0].Announce = "messages"
		c.Rules = append([]discordsim.Rule{other}, c.Rules...)
	}
	if p.world == "one hash" {
		get := rule
		get.Method = "GET"
		c.Rules = append([]discordsim.Rule{get}, c.Rules...)
	}
	return c
}

// outcomes counts what became of the requests.
type outcomes struct {
	started                                     int
	answered, refused, cancelled, closed, broke atomic.Int64
	unexpected                                  sync.Map
}

func (o *outcomes) note(response *http.Response, err error) {
	var tooLong *ratelimits.TooLongError
	var edge *ratelimits.EdgeError
	switch {
	case err == nil:
		_, _ = io.Copy(io.Discard, response.Body)
		response.Body.Close()
		o.answered.Add(1)
		if response.StatusCode == http.StatusTooManyRequests {
			o.unexpected.Store("a 429 came through", true)
		}
	case errors.As(err, &tooLong), errors.As(err, &edge):
		o.refused.Add(1)
	case errors.Is(err, buckets.ErrClosed):
		o.closed.Add(1)
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		o.cancelled.Add(1)
	case strings.Contains(err.Error(), "connection reset"):
		o.broke.Add(1)
	default:
		o.unexpected.Store(err.Error(), true)
	}
}

// run plays it in virtual time and returns what is wrong with the result, "" if nothing is.
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
	options := []buckets.Option{
		buckets.WithGlobalLimit(p.global), buckets.WithPollPeriod(p.poll), buckets.WithExpireAfter(0),
		buckets.WithMaxRateLimit(time.Hour),
	}
	if p.ordered {
		options = append(options, buckets.WithOrdered())
	}
	transport := NewTransport(WithBase(server.RoundTripper()), WithBuckets(options...))
	defer transport.Close()

	var o outcomes
	p.send(transport, &o)
	stats := transport.Manager().Stats()
	report := server.Report()
	switch {
	case stats.Waiting != 0 || stats.InFlight != 0:
		return fmt.Sprintf("something was not given back: %+v", stats)
	case p.blames() && report.Avoidable.Total() > 0:
		return fmt.Sprintf("avoidable refusals %+v: %+v", report.Avoidable, server.Refusals())
	case p.promisesOrder() && report.Inversions > 0:
		return fmt.Sprintf("%d requests were overtaken", report.Inversions)
	}
	for b := range transport.Manager().Buckets() {
		if b.Waiting != 0 || b.InFlight != 0 {
			return fmt.Sprintf("a bucket is not empty: %+v", b)
		}
	}
	o.unexpected.Range(func(key, _ any) bool {
		p.world = key.(string)
		return false
	})
	ends := o.answered.Load() + o.refused.Load() + o.cancelled.Load() + o.closed.Load() + o.broke.Load()
	if int(ends) != o.started {
		return fmt.Sprintf("%d requests, %d outcomes, unexpected: %s", o.started, ends, p.world)
	}
	return ""
}

// blames reports whether refusals in this world can be blamed on the client at all.
func (p play) blames() bool {
	switch p.world {
	case "flipping hash", "new hash each time", "changing hash", "one name": // no client can know which bucket a request will be counted in
		return false
	case "one hash": // nor, unless it reads all answers, that two routes will meet in a channel
		return p.channels == 1 && p.cancelled+p.deadlines+p.troubles == 0
	}
	// Whoever forgets a bucket at once knows nothing when the next answer is lost.
	return p.cancelled+p.deadlines+p.troubles == 0 || p.poll > time.Minute
}

// promisesOrder reports whether requests may not overtake each other: in the ordered mode, unless they wait in two places
// before it is known that they belong to one bucket, or for a limit of their own.
func (p play) promisesOrder() bool {
	switch p.world {
	case "one hash", "one name", "changing hash", "flipping hash", "new hash each time", "sub-limit":
		return false
	}
	return p.ordered && p.troubles == 0
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
	for i := range p.requests {
		ctx, cancel := context.WithCancel(context.Background())
		if chance.IntN(100) < p.cancelled {
			stop := time.AfterFunc(time.Duration(chance.Int64N(int64(4*time.Second))), cancel)
			defer stop.Stop()
		} else if chance.IntN(100) < p.deadlines {
			ctx, cancel = context.WithTimeout(ctx, time.Duration(chance.Int64N(int64(2*time.Second))))
		}
		request := p.request(ctx, i, chance)
		o.started++
		all.Go(func() {
			defer cancel()
			o.note(client.Do(request))
		})
		synctest.Wait() // so that requests arrive in the order of their numbers
		if p.spread > 0 {
			time.Sleep(time.Duration(chance.Int64N(int64(p.spread) / int64(p.requests) * 2)))
		}
	}
	all.Wait()
}

func (p play) request(ctx context.Context, i int, chance *rand.Rand) *http.Request {
	channel := 1 + chance.IntN(p.channels)
	method, path, body := "POST", "/messages", `{"content": "hello"}`
	switch {
	case strings.HasPrefix(p.world, "one ") && i%2 == 1:
		method, body = "GET", ""
	case p.world == "sub-limit":
		method, path = "PATCH", ""
		if i%3 == 0 {
			body = `{"name": "new"}`
		}
	}
	r, err := http.NewRequestWithContext(ctx, method, fmt.Sprintf("%s/channels/%d%s", discordsim.BaseURL, channel, path), strings.NewReader(body))
	if err != nil {
		panic(err)
	}
	r.Header.Set("Authorization", "Bot token")
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set(discordsim.SequenceHeader, strconv.Itoa(i+1))
	return r
}

// TestWhateverHappensNothingIsLostAndNothingAvoidable plays random schedules through the whole library. To play more of them:
// go test ./httpclient -run Whatever -rapid.checks=100000
func TestWhateverHappensNothingIsLostAndNothingAvoidable(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		p := drawPlay(rt)
		if problem := p.run(t); problem != "" {
			rt.Fatalf("%s\n%+v", problem, p)
		}
	})
}

// regressions are plays that went wrong once.
var regressions = map[string]play{
	"a request that was given up on its way was taken for processed": {
		seed: 64051, requests: 15, channels: 10, spread: 3 * time.Second, quota: discordsim.Fixed(1, 2*time.Second),
		latency: 400 * time.Millisecond, jitter: 10 * time.Millisecond, global: 3, cancelled: 50, troubles: 50, world: "plain",
		poll: 80 * time.Second,
	},
	"a bucket that was collected and made anew knew nothing of a request that is under way on a route of its hash": {
		seed: 27838, requests: 7, channels: 1, spread: 3 * time.Second, quota: discordsim.Fixed(1, 250*time.Millisecond),
		latency: 20 * time.Millisecond, jitter: 10 * time.Millisecond, global: 50, world: "one hash", poll: 100 * time.Millisecond,
	},
}

func TestWhatWentWrongOnceDoesNotAgain(t *testing.T) {
	for name, p := range regressions {
		t.Run(name, func(t *testing.T) {
			for range 20 { // the scheduler has a say, too
				require.Empty(t, p.run(t))
			}
		})
	}
}
