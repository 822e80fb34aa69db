package main

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/bwmarrin/discordgo"
	arikawa "github.com/diamondburned/arikawa/v3/api/rate"
	"github.com/disgoorg/disgo/rest"
	"github.com/stretchr/testify/require"
	"golang.org/x/time/rate"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/ratelimits"
	"github.com/ratelight/ratelight/routes"
)

// These benchmarks measure what a limiter itself costs for a request to a known bucket that has room: to acquire a
// permit, to read the headers of the response, and to release the permit. Nothing is sent.
//
// If the machine has other work, ns/op of two runs cannot be compared. So every benchmark runs in short slices, which
// alternate with slices of two fixed references. It reports the ratio of the times. The ratio is a median, so that
// slices that were interrupted do not count:
//
//	x/rate   golang.org/x/time/rate: Limiter.Wait, with many routes behind a map of limiters
//	x/floor  what nearly every limiter needs: a mutex without contention, one reading of the clock, two map look-ups
//
// ns/op is the median of the slices under test. B/op and allocs/op also belong to these slices, because neither
// reference allocates. The cost of collecting the garbage later is left out.
//
//	go test -run '^$' -bench Hotpath .

const (
	manyRoutes  = 100_000
	manyWorkers = 64
	// slice is how many operations run in one turn, which takes a fraction of a millisecond. If there are many workers,
	// each of them runs sliceOfMany operations in a turn.
	slice       = 256
	sliceOfMany = 64
	// stride is a prime, so that workers do not follow each other through the routes.
	stride = 7919
)

// manyLeft is the header of every response. It has the form of Discord's headers, for a bucket that is never used up.
var manyLeft = http.Header{
	"Date":                    {"Tue, 01 Jan 2030 00:00:00 GMT"},
	"Content-Type":            {"application/json"},
	"Via":                     {"1.1 google"},
	"X-Ratelimit-Bucket":      {"80c17d2f203122d936070c88c8d10f33"},
	"X-Ratelimit-Limit":       {"1000000000"},
	"X-Ratelimit-Remaining":   {"999999999"},
	"X-Ratelimit-Reset":       {"1893456001.000"},
	"X-Ratelimit-Reset-After": {"1.000"},
}

// cycle does all that a limiter does for a request to a route, but sends nothing.
type cycle func(route int) error

// limiterUnderTest makes the cycle of a limiter that knows the given number of routes.
type limiterUnderTest struct {
	name string
	racy bool // has a data race with several workers
	open func(tb testing.TB, routes int) cycle
}

func limitersUnderTest() []limiterUnderTest {
	return []limiterUnderTest{
		{"ratelight", false, ratelightCycle},
		{"discordgo", false, discordgoCycle},
		{"disgo", true, disgoCycle},
		{"arikawa", false, arikawaCycle},
		{"rate", false, rateCycle},
	}
}

func channelNumber(n int) uint64 { return firstChannel + uint64(n) }

// ratelightCycle has no global limit, because the benchmark would have to wait for such a limit.
func ratelightCycle(tb testing.TB, n int) cycle {
	manager, known := openRatelight(tb, n)
	return func(route int) error {
		return learn(manager.Acquire(context.Background(), known[route], "Bot benchmark"))
	}
}

func learn(lease buckets.Lease, err error) error {
	if err == nil {
		lease.Update(ratelimits.ParseResponse(http.StatusOK, manyLeft, nil))
		lease.Release()
	}
	return err
}

func openRatelight(tb testing.TB, n int) (*buckets.RESTBucketManager, []routes.CompiledRoute) {
	manager := buckets.NewRESTBucketManager(
		buckets.WithGlobalLimit(0), buckets.WithEviction(time.Hour, time.Hour))
	require.NoError(tb, manager.Start())
	tb.Cleanup(func() { require.NoError(tb, manager.Close()) })
	known := make([]routes.CompiledRoute, n)
	for i := range known {
		var err error
		known[i], err = routes.CreateMessage.Compile(text(channelNumber(i)))
		require.NoError(tb, err)
	}
	return manager, known
}

func discordgoCycle(_ testing.TB, n int) cycle {
	limiter := discordgo.NewRatelimiter()
	known := make([]string, n)
	for i := range known {
		known[i] = discordgo.EndpointChannelMessages(text(channelNumber(i)))
	}
	return func(route int) error { return limiter.LockBucket(known[route]).Release(manyLeft) }
}

func disgoCycle(tb testing.TB, n int) cycle {
	quiet := rest.WithRateLimiterLogger(slog.New(slog.DiscardHandler))
	limiter := rest.NewRateLimiter(quiet, rest.WithCleanupInterval(time.Hour))
	known := make([]*rest.CompiledEndpoint, n)
	for i := range known {
		known[i] = rest.CreateMessage.Compile(nil, channelNumber(i))
	}
	response := &http.Response{StatusCode: http.StatusOK, Header: manyLeft}
	return func(route int) error {
		if err := limiter.Wait(context.Background(), known[route]); err != nil {
			return err
		}
		return limiter.Unlock(known[route], response)
	}
}

func arikawaCycle(_ testing.TB, n int) cycle {
	limiter := arikawa.NewLimiter("/api/v9")
	known := make([]string, n)
	for i := range known {
		known[i] = fmt.Sprintf("/api/v9/channels/%d/messages", channelNumber(i))
	}
	return func(route int) error {
		if err := limiter.Acquire(context.Background(), known[route]); err != nil {
			return err
		}
		return limiter.Release(known[route], manyLeft)
	}
}

// rateCycle is the cycle of the reference x/rate. It parses nothing, and its configured limits always have room.
func rateCycle(_ testing.TB, n int) cycle {
	unlimited := func() *rate.Limiter { return rate.NewLimiter(1e9, 1_000_000_000) } // rate.Inf would compute nothing
	if n == 1 {
		limiter := unlimited()
		return func(int) error { return limiter.Wait(context.Background()) }
	}
	known := make([]string, n)
	limiters := make(map[string]*rate.Limiter, n)
	for i := range known {
		known[i] = text(channelNumber(i))
		limiters[known[i]] = unlimited()
	}
	var mu sync.RWMutex
	return func(route int) error {
		mu.RLock()
		limiter := limiters[known[route]]
		mu.RUnlock()
		return limiter.Wait(context.Background())
	}
}

// floor is the reference x/floor. It has a mutex for each worker.
type floor struct {
	known  []string
	hashes map[string]string
	places map[string]*time.Time
}

func newFloor(n int) floor {
	f := floor{known: make([]string, n), hashes: make(map[string]string, n), places: make(map[string]*time.Time, n)}
	for i := range f.known {
		f.known[i] = text(channelNumber(i))
		f.hashes[f.known[i]] = f.known[i]
		f.places[f.known[i]] = new(time.Time)
	}
	return f
}

// cycle returns the earliest time that it has found, so that the compiler cannot remove any part of the work.
func (f floor) cycle(mu *sync.Mutex, route int) time.Time {
	mu.Lock()
	defer mu.Unlock()
	now := time.Now()
	if place := f.places[f.hashes[f.known[route]]]; place.After(now) {
		return *place
	}
	return now
}

func TestTheHotpathIsOneOfEachLimiter(t *testing.T) {
	for _, l := range limitersUnderTest() {
		once := l.open(t, 2)
		for i := range 6 {
			require.NoError(t, once(i%2), l.name)
		}
	}
}

func BenchmarkHotpath(b *testing.B) {
	for _, size := range []struct {
		name   string
		routes int
	}{{"one", 1}, {"many", manyRoutes}} {
		for _, workers := range []int{1, manyWorkers} {
			for _, l := range limitersUnderTest() {
				opened := sync.OnceValue(func() inTurn { return openInTurn(b, l, size.routes) }) // once for all values of b.N
				b.Run(fmt.Sprintf("%s/routes=%s/workers=%d", l.name, size.name, workers), func(b *testing.B) {
					if l.racy && raceDetector && workers > 1 {
						b.Skip("the limiter has a data race")
					}
					opened().measure(b, workers)
				})
			}
		}
	}
}

// inTurn has a limiter and the cycles with which it is compared.
type inTurn struct {
	routes            int
	tested, reference cycle
	lowest            floor
}

func openInTurn(tb testing.TB, l limiterUnderTest, routes int) inTurn {
	all := inTurn{routes, l.open(tb, routes), rateCycle(tb, routes), newFloor(routes)}
	for route := range routes { // all routes are known before the measurement
		require.NoError(tb, all.tested(route))
		require.NoError(tb, all.reference(route))
	}
	return all
}

// measure runs the cycles in short slices that take turns, and reports the ratios of their times.
func (all inTurn) measure(b *testing.B, workers int) {
	mutexes := make([]sync.Mutex, workers*64) // the used ones are so far apart that they share no cache line
	bottom := func(worker, route int) error {
		all.lowest.cycle(&mutexes[worker*64], route)
		return nil
	}
	size := slice
	if workers > 1 {
		size = sliceOfMany * workers
	}
	expected := b.N/size + 1
	took := make([]float64, 0, expected) // ns
	toReference, toFloor := make([]float64, 0, expected), make([]float64, 0, expected)
	b.ReportAllocs()
	b.ResetTimer()
	for done := 0; done < b.N; {
		count := min(size, b.N-done)
		d := together(b, workers, all.routes, done, count, func(_, route int) error { return all.tested(route) })
		dReference := together(b, workers, all.routes, done, count, func(_, route int) error { return all.reference(route) })
		dFloor := together(b, workers, all.routes, done, count, bottom)
		took = append(took, float64(d.Nanoseconds())/float64(count))
		toReference = append(toReference, d.Seconds()/dReference.Seconds())
		toFloor = append(toFloor, d.Seconds()/dFloor.Seconds())
		done += count
	}
	b.ReportMetric(median(took), "ns/op")
	b.ReportMetric(median(toReference), "x/rate")
	b.ReportMetric(median(toFloor), "x/floor")
}

func median(list []float64) float64 {
	slices.Sort(list)
	return list[len(list)/2]
}

// together divides count operations among the workers, and returns how long they take in all.
func together(b *testing.B, workers, n, first, count int, operation func(worker, route int) error) time.Duration {
	work := func(worker, operations int) {
		route := (first + worker*stride) % n
		for range operations {
			if err := operation(worker, route); err != nil {
				b.Error(err)
				return
			}
			if route++; route == n {
				route = 0
			}
		}
	}
	start := time.Now()
	if workers == 1 {
		work(0, count)
		return time.Since(start)
	}
	var group sync.WaitGroup
	for worker := range workers {
		share := count / workers
		if worker < count%workers {
			share++
		}
		group.Go(func() { work(worker, share) })
	}
	group.Wait()
	return time.Since(start)
}
