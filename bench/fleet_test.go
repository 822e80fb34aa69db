package main

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/buckets/shared"
	"github.com/ratelight/ratelight/buckets/shared/redis"
	"github.com/ratelight/ratelight/internal/memoryengine"
	"github.com/ratelight/ratelight/internal/redistest"
	"github.com/ratelight/ratelight/ratelimits"
	"github.com/ratelight/ratelight/routes"
)

// What a large fleet costs its engine: processes with buckets that are lent to them, and their calls for these buckets.

// recorder counts the calls that it passes on.
type recorder struct {
	shared.Engine
	shared.Subscriber
	calls *calls
}

// calls counts the calls of all recorders, by purpose.
type calls struct {
	mu        sync.Mutex
	byPurpose map[string]purposeCalls
}

type purposeCalls struct{ n, keys, bytes, failed int }

func (r recorder) Exchange(ctx context.Context, call *shared.Call) (*shared.Reply, error) {
	reply, err := r.Engine.Exchange(ctx, call)
	r.calls.mu.Lock()
	defer r.calls.mu.Unlock()
	c := r.calls.byPurpose[call.Purpose]
	c.n++
	c.keys += len(call.Steps)
	for _, step := range call.Steps {
		c.bytes += len(step.Key) + len(step.Version) + len(step.Value) + len(step.Message) + len(strings.Join(step.Channels, ""))
	}
	if err != nil {
		c.failed++
	}
	r.calls.byPurpose[call.Purpose] = c
	return reply, err
}

// take returns what was counted since it was last called.
func (c *calls) take() map[string]purposeCalls {
	c.mu.Lock()
	defer c.mu.Unlock()
	taken := c.byPurpose
	c.byPurpose = make(map[string]purposeCalls)
	return taken
}

// sticky is a fleet as bots are: the requests of a channel come from the process that has its guild.
type sticky struct {
	managers []*buckets.RESTBucketManager
	each     int // buckets of each
	calls    calls
}

// newSticky returns processes that have sent a request in each of their buckets. connect returns the recorder of one
// process. newSticky ends the test if the engine does not keep up: the context's time is over before all have sent.
func newSticky(ctx context.Context, t testing.TB, processes, each, global int, connect func(process int) recorder) *sticky {
	s := &sticky{each: each, calls: calls{byPurpose: make(map[string]purposeCalls)}}
	for process := range processes {
		r := connect(process)
		r.calls = &s.calls
		store, err := shared.New(r, shared.WithApplication("fleet"), shared.WithLogger(nil))
		require.NoError(t, err)
		manager := buckets.NewRESTBucketManager(buckets.WithShared(store), buckets.WithGlobalLimit(global), buckets.WithExpireAfter(time.Hour), buckets.WithLogger(nil))
		require.NoError(t, manager.Start())
		s.managers = append(s.managers, manager)
	}
	s.send(ctx, t, 0, 0) // finds out the bucket hash for all
	var group sync.WaitGroup
	var ready atomic.Int64
	for worker := range 16 { // a few at a time, as the engine would fall behind
		group.Go(func() {
			for process := worker; process < processes && ctx.Err() == nil; process += 16 {
				for bucket := range each {
					s.send(ctx, t, process, bucket)
				}
				ready.Add(1)
			}
		})
	}
	group.Wait()
	if ctx.Err() != nil {
		s.close(t)
		t.Fatalf("the engine does not keep up: in the time that there was %d of %d processes have got their %d buckets", ready.Load(), processes, each)
	}
	return s
}

// send makes a request of a process in one of its buckets.
func (s *sticky) send(ctx context.Context, t testing.TB, process, bucket int) {
	route, err := routes.CreateMessage.Compile(strconv.Itoa(900_000_000_000_000_000 + process*s.each + bucket))
	if !assert.NoError(t, err) {
		return
	}
	lease, err := s.managers[process].Acquire(ctx, route, "Bot fleet")
	if err != nil {
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		return
	}
	defer lease.Release()
	lease.Update(ratelimits.ParseResponse(http.StatusOK, http.Header{
		"X-Ratelimit-Limit": {"5"}, "X-Ratelimit-Remaining": {"4"}, "X-Ratelimit-Reset-After": {"1.000"}, "X-Ratelimit-Bucket": {"messages"},
	}, nil))
}

// play has each process make so many requests a second for a time, in its buckets in turn.
func (s *sticky) play(t testing.TB, requests int, length time.Duration) {
	if requests == 0 {
		time.Sleep(length)
		return
	}
	var group sync.WaitGroup
	for process := range s.managers {
		group.Go(func() {
			begin, period := time.Now(), time.Second/time.Duration(requests)
			phase := period * time.Duration(process) / time.Duration(len(s.managers))
			for n := 0; ; n++ {
				at := phase + period*time.Duration(n)
				if at >= length {
					break
				}
				time.Sleep(time.Until(begin.Add(at)))
				s.send(context.Background(), t, process, n%s.each)
			}
		})
	}
	group.Wait()
}

func (s *sticky) close(t testing.TB) {
	var group sync.WaitGroup
	for _, manager := range s.managers {
		group.Go(func() { assert.NoError(t, manager.Close()) })
	}
	group.Wait()
}

// BenchmarkFleet is how many cores an engine needs for processes with 100 lent buckets each: all that its process uses,
// and the time it spends in scripts, which is longer where it has to wait for a core. Each measures ten seconds; with
// -short, a tenth of the fleet.
func BenchmarkFleet(b *testing.B) {
	for _, processes := range []int{100, 1000} {
		for _, test := range []struct {
			name             string
			requests, global int // of each process in a second
		}{
			{"idle", 0, 0}, {"used", 10, 0}, {"global", 10, 20},
		} {
			b.Run(fmt.Sprintf("%d/%s", processes, test.name), func(b *testing.B) {
				if testing.Short() && processes > 100 {
					b.Skip("takes some minutes")
				}
				benchmarkFleet(b, processes, test.requests, processes*test.global)
			})
		}
	}
}

func benchmarkFleet(b *testing.B, processes, requests, global int) {
	engine := redistest.NewEngine(b)
	var clients []*redis.Client
	for range min(50, processes) {
		client, err := redis.Connect(b.Context(), engine.URL())
		require.NoError(b, err)
		defer client.Close()
		clients = append(clients, client)
	}
	ctx, cancel := context.WithTimeout(b.Context(), 2*time.Minute)
	defer cancel()
	s := newSticky(ctx, b, processes, 100, global, func(process int) recorder {
		client := clients[process%len(clients)]
		return recorder{Engine: shared.OnScripts(client), Subscriber: client}
	})
	defer s.close(b)
	time.Sleep(2 * time.Second) // what was begun ends
	for b.Loop() {
		s.measure(b, engine, requests)
	}
}

// measure reports what ten seconds cost the engine.
func (s *sticky) measure(b *testing.B, engine *redistest.Engine, requests int) {
	scripts, cpu := spent(b, engine)
	s.calls.take()
	begin := time.Now()
	s.play(b, requests, 10*time.Second)
	took := time.Since(begin).Seconds()
	all := s.calls.take()
	scriptsAfter, cpuAfter := spent(b, engine)
	calls := 0
	for _, name := range slices.Sorted(maps.Keys(all)) {
		c := all[name]
		calls += c.n
		b.Logf("%s: %.0f calls a second of %d bytes with %d keys; %d failed", name, float64(c.n)/took, c.bytes/c.n, c.keys/c.n, c.failed)
	}
	b.ReportMetric((scriptsAfter-scripts)/took, "cores-in-scripts")
	b.ReportMetric((cpuAfter-cpu)/took, "cores")
	b.ReportMetric(float64(calls)/took, "calls/s")
	b.ReportMetric(0, "ns/op") // ten seconds
}

// spent is how many seconds the engine has spent on scripts, and its process altogether.
func spent(t testing.TB, engine *redistest.Engine) (scripts, all float64) {
	for _, section := range []string{"commandstats", "cpu"} {
		text, err := engine.Do("INFO", section)
		require.NoError(t, err)
		for line := range strings.Lines(fmt.Sprint(text)) {
			name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
			switch name {
			case "cmdstat_eval", "cmdstat_evalsha":
				_, value, _ = strings.Cut(value, "usec=")
				value, _, _ = strings.Cut(value, ",")
				scripts += parse(t, value) / 1e6
			case "used_cpu_user", "used_cpu_sys":
				all += parse(t, value)
			}
		}
	}
	return scripts, all
}

func parse(t testing.TB, number string) float64 {
	x, err := strconv.ParseFloat(number, 64)
	require.NoError(t, err)
	return x
}

// What the benchmark measures is loans: each process makes a call or two a second, however many requests it makes.
func TestFleetMakesItsCallsForLoansAndNotForRequests(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		engine := memoryengine.New()
		defer engine.Close()
		s := newSticky(t.Context(), t, 3, 5, 0, func(int) recorder { return recorder{Engine: engine, Subscriber: engine} })
		defer s.close(t)
		time.Sleep(2 * time.Second)
		s.calls.take()
		s.play(t, 10, 10*time.Second)
		calls := 0
		for name, c := range s.calls.take() {
			assert.Zero(t, c.failed, name)
			calls += c.n
		}
		assert.GreaterOrEqual(t, calls, 3*9, "the processes say that they are alive")
		assert.Less(t, calls, 3*25, "300 requests were made")
	})
}
