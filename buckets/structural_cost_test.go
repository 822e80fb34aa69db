//go:build unix

package buckets_test

import (
	"math"
	"runtime"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/ratelimits"
	"github.com/ratelight/ratelight/routes"
)

// A time that is asserted fails by chance, so these are benchmarks. Each does the same beside few and beside many of
// something in one run. It reports how many times more processor time that took beside many ("x"), and how much
// ("cpu-ms"), each time the least of all rounds. What is wanted, and what it is today, is in the comments.

// cost compares what a manager takes for what act does, after prepare has let it know so many of something.
func cost(b *testing.B, few, many int, prepare func(m *buckets.RESTBucketManager, n int) (act func())) {
	structural(b)
	took := func(n int) time.Duration {
		m := patientManager(b)
		defer m.Close()
		act := prepare(m, n)
		runtime.GC()
		start := processorTime(b)
		act()
		return processorTime(b) - start
	}
	small, large := time.Duration(math.MaxInt64), time.Duration(math.MaxInt64)
	for range b.N {
		for range 5 { // it is short, so what else the process does would count for much
			small = min(small, took(few))
		}
		large = min(large, took(many))
	}
	b.ReportMetric(float64(large)/float64(small), "x")
	b.ReportMetric(large.Seconds()*1000, "cpu-ms")
	b.ReportMetric(0, "ns/op")
}

// processorTime returns how much processor time the process has used.
func processorTime(b *testing.B) time.Duration {
	var usage syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// patientManager returns a manager that lets requests wait for a day, and has no global limit.
func patientManager(b *testing.B) *buckets.RESTBucketManager {
	m := buckets.NewRESTBucketManager(buckets.WithMaxRateLimit(24*time.Hour), buckets.WithGlobalLimit(0),
		buckets.WithInvalidBudget(0, 0, 0))
	require.NoError(b, m.Start())
	return m
}

// acquired returns n leases of a route, for which nothing waits.
func acquired(b *testing.B, m *buckets.RESTBucketManager, route routes.CompiledRoute, n int) (leases []buckets.Lease) {
	b.Helper()
	for range n {
		lease, err := m.Acquire(buckets.ContextWithMaxWait(background, 0), route, bot)
		require.NoError(b, err)
		leases = append(leases, lease)
	}
	return leases
}

// waiting lets n requests wait, which are ended at once when they are granted.
func waiting(m *buckets.RESTBucketManager, route func(i int) routes.CompiledRoute, n int) {
	for i := range n {
		buckets.AcquireFunc(background, m, request(route(i)), func(lease buckets.Lease, err error) {
			if err == nil {
				lease.Return()
			}
		})
	}
}

// endings are how many requests in flight end, and how.
var endings = map[string]struct {
	n      int
	global bool
	end    func(lease buckets.Lease)
}{
	"300 refused by the bucket": {300, false, func(l buckets.Lease) {
		l.Update(inBucket(refused(ratelimits.ClassUser, time.Minute), "messages", 301, 0, time.Minute))
	}},
	"300 refused by the resource": {300, false, func(l buckets.Lease) {
		l.Update(inBucket(refused(ratelimits.ClassShared, time.Hour), "messages", 301, 0, time.Minute))
	}},
	"49 refused by the global limit": {49, true, func(l buckets.Lease) {
		l.Update(refused(ratelimits.ClassGlobal, time.Hour))
	}},
	"300 lost": {300, false, buckets.Lease.Release},
}

// Wanted: x <= 10 in each.
//
// today: x = 1.6 to 3.2; less than half a millisecond. Where somebody may have to wait too long, all of a queue are
// looked at, a part at a time.
func BenchmarkStructuralOutcomesBesideWaiters(b *testing.B) {
	for name, e := range endings {
		b.Run(name, func(b *testing.B) {
			cost(b, 1_000, 100_000, func(m *buckets.RESTBucketManager, n int) func() {
				limit := e.n + 1
				if e.global {
					limit = 1_000_000
				}
				acquired(b, m, message(1), 1)[0].Update(limited("messages", limit, limit-1, time.Minute))
				leases := acquired(b, m, message(1), e.n)
				if e.global {
					m.Throttle(10 * time.Minute)
				}
				waiting(m, always(message(1)), n)
				require.Equal(b, n, m.Stats().Waiting)
				return func() {
					for _, lease := range leases {
						e.end(lease)
					}
				}
			})
		})
	}
}

// manyRoutes are routes with one major parameter.
func manyRoutes(b *testing.B, n int) (all []routes.CompiledRoute) {
	for i := range n {
		route, err := routes.New("POST", "/channels/{channel_id}/thing-"+strconv.Itoa(i))
		require.NoError(b, err)
		all = append(all, compile(route, "1"))
	}
	return all
}

// Fifty routes of one major parameter are used for the first time beside 50, and 2,000, known ones.
//
// Wanted: x <= 2.
//
// today: x = 1.5; .4 ms
func BenchmarkStructuralNewRoutesBesideKnownOnes(b *testing.B) {
	cost(b, 50, 2_000, func(m *buckets.RESTBucketManager, n int) func() {
		all := manyRoutes(b, n+50)
		use := func(routes []routes.CompiledRoute) {
			var leases []buckets.Lease
			for _, route := range routes {
				leases = append(leases, acquired(b, m, route, 1)...)
			}
			for i, lease := range leases {
				lease.Update(limited(routes[i].Route().String(), 5, 4, time.Hour))
			}
		}
		use(all[:n])
		return func() { use(all[n:]) }
	})
}

// A 429 of the shared class holds one resource; other credentials that never used it cost nothing.
//
// Wanted: x <= 2.
//
// today: x = 3 to 4; .09 ms
func BenchmarkStructuralSharedRefusalBesideCredentials(b *testing.B) {
	cost(b, 200, 20_000, func(m *buckets.RESTBucketManager, n int) func() {
		acquire := func(credential string, route routes.CompiledRoute) buckets.Lease {
			lease, err := m.Acquire(background, route, credential)
			require.NoError(b, err)
			return lease
		}
		for i := range n {
			acquire("Bot "+strconv.Itoa(i), message(i+2)).Update(limited("messages", 5, 4, time.Hour))
		}
		acquire(bot, message(1)).Update(limited("messages", 100, 99, time.Hour))
		lease := acquire(bot, message(1))
		return func() {
			lease.Update(inBucket(refused(ratelimits.ClassShared, time.Hour), "messages", 100, 90, time.Hour))
		}
	})
}

// The bucket of a route is learnt while many requests to it wait, in as many channels. Meanwhile other credentials send
// their first request.
//
// Wanted: worst-ms <= 10.
//
// today: the lock is held for 4 ms of processor time at most; see BenchmarkBesideLongWork
func BenchmarkStructuralFirstRequestsDuringADiscovery(b *testing.B) {
	for _, n := range []int{300, 30_000, 100_000} {
		b.Run(strconv.Itoa(n)+" waiting", func(b *testing.B) {
			reportLeastWorst(b, func() time.Duration { return firstRequests(b, n) })
		})
	}
}

// reportLeastWorst reports the least of the longest times that rounds return, as "worst-ms".
func reportLeastWorst(b *testing.B, round func() time.Duration) {
	structural(b)
	worst := time.Duration(math.MaxInt64)
	for range b.N {
		worst = min(worst, round())
	}
	b.ReportMetric(worst.Seconds()*1000, "worst-ms")
	b.ReportMetric(0, "ns/op")
}

// firstRequests returns the longest time that the first request of a credential takes while a route is discovered for
// which n requests wait.
func firstRequests(b *testing.B, n int) (worst time.Duration) {
	m := patientManager(b)
	defer m.Close()
	probe := acquired(b, m, message(1), 1)
	waiting(m, func(i int) routes.CompiledRoute { return message(i + 1) }, n)
	return longestFirstRequest(b, m, func() { probe[0].Update(limited("messages", 1, 0, time.Hour)) })
}

// longestFirstRequest returns the longest time that the first request of a credential takes during an act.
func longestFirstRequest(b *testing.B, m *buckets.RESTBucketManager, act func()) (worst time.Duration) {
	over := make(chan struct{})
	go func() {
		defer close(over)
		act()
	}()
	for i := 0; ; i++ {
		select {
		case <-over:
			return worst
		default:
		}
		start := time.Now()
		lease, err := m.Acquire(background, list(1), "Bot other "+strconv.Itoa(i))
		worst = max(worst, time.Since(start))
		require.NoError(b, err)
		lease.Update(limited("lists", 5, 4, time.Hour))
	}
}

// All who wait are listed, where very many tenants wait in one bucket. Meanwhile other credentials send their first
// request.
//
// Wanted: worst-ms <= 10.
func BenchmarkStructuralFirstRequestsBesideWaitingRequests(b *testing.B) {
	for _, tenants := range []int{1, 100, 20_000} {
		b.Run(strconv.Itoa(tenants)+" tenants", func(b *testing.B) {
			reportLeastWorst(b, func() time.Duration { return besideWaitingRequests(b, tenants) })
		})
	}
}

func besideWaitingRequests(b *testing.B, tenants int) time.Duration {
	const n = 20_000
	m := patientManager(b)
	defer m.Close()
	acquired(b, m, message(1), 1)[0].Update(limited("messages", 100, 0, time.Minute))
	for i := range n {
		r := &buckets.Request{Route: message(1), Authorization: bot, Group: strconv.Itoa(i % tenants)}
		buckets.AcquireFunc(background, m, r, func(lease buckets.Lease, _ error) { lease.Return() })
	}
	return longestFirstRequest(b, m, func() {
		listed := 0
		for range m.WaitingRequests() {
			listed++
		}
		require.Equal(b, n, listed)
	})
}
