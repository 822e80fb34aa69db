package load

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"runtime"
	"slices"
	"time"

	"github.com/ratelight/ratelight/bench/internal/report"
	"github.com/ratelight/ratelight/httpclient"
	"github.com/ratelight/ratelight/internal/discordsim"
)

const (
	// channelLife is the number of requests after which a long load uses other channels and guilds.
	channelLife = 2000
	// A long load draws random times. With the probability burstShare/burstSize, burstSize requests are made at such a
	// time instead of one.
	burstShare, burstSize = 0.2, 100
	// cancelledShare is the part of the requests of a disturbed load that are cancelled within cancelledWithin.
	cancelledShare, cancelledWithin = 0.05, 3 * time.Second
	// heapTolerated is how many bytes the heap may grow in the second half of a long load. The heap grows by the
	// measurements of the requests, and by what the garbage collector has not freed yet.
	heapTolerated = 8 << 20
)

// spread makes the requests at random times, about a sixth of them in bursts above the global limit.
func (s *Scenario) spread(length time.Duration, seed uint64) {
	random := rand.New(rand.NewPCG(seed, 5))
	times := make([]time.Duration, 0, len(s.offers))
	for len(times) < len(s.offers) {
		at, n := time.Duration(random.Float64()*float64(length)), 1
		if random.Float64()*burstSize < burstShare {
			n = min(burstSize, len(s.offers)-len(times))
		}
		times = append(times, slices.Repeat([]time.Duration{at}, n)...)
	}
	slices.Sort(times)
	for i := range s.offers {
		s.offers[i].due = times[i]
	}
	s.ideal, s.IdealBy = nil, "none: requests are made at random times"
}

// disturb adds faults that a client can survive.
func (s *Scenario) disturb(length time.Duration) {
	noHeaders, garbage := discordsim.NoHeaders(), discordsim.Garbage("NaN")
	noHeaders.Probability, garbage.Probability = 0.01, 0.005
	s.server.Faults = []discordsim.Fault{
		{Probability: 0.01, Status: http.StatusInternalServerError},
		{Probability: 0.01, Status: http.StatusBadGateway},
		{Probability: 0.01, Status: http.StatusForbidden},
		{Probability: 0.005, Connection: discordsim.ConnectionLostBefore},
		{Probability: 0.005, Connection: discordsim.ConnectionLostAfter},
		{Probability: 0.01, Delay: 2 * time.Second},
		{Probability: 0.002, Stall: discordsim.StallHalfway},
		noHeaders, garbage,
	}
	s.options = append(s.options, httpclient.WithAttempts(httpclient.Attempts{Timeout: 20 * time.Second}))
	for at := length / 4; at < length; at += length / 4 {
		s.server.Blocks = append(s.server.Blocks, discordsim.GlobalBlock{From: at, Until: at + min(5*time.Second, length/8)})
	}
}

// cancelsAfter returns after what time a disturbed load cancels request n. 0 means that it is not cancelled.
func (c *Config) cancelsAfter(n int) time.Duration {
	random := rand.New(rand.NewPCG(c.Seed, uint64(n)))
	if !c.Faults || random.Float64() >= cancelledShare {
		return 0
	}
	return 1 + time.Duration(random.Float64()*float64(cancelledWithin))
}

// Leaks says what a long load left behind. Heaps are in bytes, after a garbage collection.
type Leaks struct {
	HeapHalfway, HeapEnd uint64
	// Goroutines is how many more goroutines there are than before the load.
	Goroutines int
	// Waiting and InFlight count the requests that the client still has after all requests have ended. Buckets counts the
	// buckets that the client still knows.
	Waiting, InFlight, Buckets int
}

// heap returns the bytes in use after a garbage collection.
func heap() uint64 {
	runtime.GC()
	runtime.GC() // pools keep their objects through one collection
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	return memory.HeapAlloc
}

// measure records what the client still has.
func (l *Leaks) measure(client *inProcess) {
	stats := client.transport.Manager().Stats()
	l.HeapEnd, l.Waiting, l.InFlight, l.Buckets = heap(), stats.Waiting, stats.InFlight, stats.Buckets
}

// goroutinesAbove waits for goroutines that are about to end. It returns by how much the number of goroutines then
// exceeds before.
func goroutinesAbove(before int) int {
	for n := 0; runtime.NumGoroutine() > before && n < 20; n++ {
		_ = Pause(context.Background(), 100*time.Millisecond) // never ends early
	}
	return max(runtime.NumGoroutine()-before, 0)
}

// problems describes each leak.
func (l *Leaks) problems() (problems []string) {
	find := func(found bool, format string, values ...any) {
		if found {
			problems = append(problems, fmt.Sprintf(format, values...))
		}
	}
	find(l.Waiting > 0 || l.InFlight > 0,
		"the client still has %d requests waiting and %d in flight", l.Waiting, l.InFlight)
	find(l.Goroutines > 0, "%s more than before the load", report.Counted(l.Goroutines, "goroutine"))
	find(l.HeapEnd > l.HeapHalfway+heapTolerated, "the heap has grown from %s to %s in the second half",
		report.Bytes(l.HeapHalfway), report.Bytes(l.HeapEnd))
	return problems
}

func (l *Leaks) facts() []report.Fact {
	return []report.Fact{
		{Name: "heap, halfway", Key: "leaks.heap_halfway_bytes", Value: report.Bytes(l.HeapHalfway),
			Remark: "with the simulator"},
		{Name: "heap, at the end", Key: "leaks.heap_end_bytes", Value: report.Bytes(l.HeapEnd)},
		{Name: "goroutines left", Key: "leaks.goroutines", Value: report.Count(l.Goroutines)},
		{Name: "waiting, in flight", Value: report.Text(fmt.Sprintf("%d, %d", l.Waiting, l.InFlight)),
			Remark: "that the client still has"},
		{Name: "buckets known", Key: "leaks.buckets", Value: report.Count(l.Buckets),
			Remark: "buckets of channels that are no longer used are forgotten"},
	}
}
