package main

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/ratelimits"
	"github.com/ratelight/ratelight/routes"
)

// BenchmarkCollection measures how long requests take while the garbage collector goes over a million buckets, and
// while it does not; in known buckets, and in new ones, which have to be made and make the table grow. The collector
// lets them rest the first time, looks at them the second time, and removes them the third time.
//
// The largest values are those of a shared machine that does something else; the two columns have that in common.
func BenchmarkCollection(b *testing.B) {
	for range b.N {
		clock := clockwork.NewFakeClock()
		var collecting atomic.Bool
		manager := buckets.NewRESTBucketManager(buckets.WithGlobalLimit(0), buckets.WithClock(clock), buckets.WithLogger(nil),
			buckets.WithHooks(buckets.Hooks{Collected: func(buckets.Collected) { collecting.Store(false) }}))
		require.NoError(b, manager.Start())
		response := ratelimits.Response{Status: 200, Limited: true, Bucket: "h", Limit: hugeLimit, Remaining: hugeLimit - 1, ResetAfter: time.Hour}
		for channel := range million {
			cycle(b, manager, messageTo(b, channel), response)
		}
		quiet, during := newTail(), newTail()
		next := million
		sample := func(t *tail, n int) {
			known, fresh := make([]routes.CompiledRoute, n), make([]routes.CompiledRoute, n)
			for i := range known {
				known[i], fresh[i] = messageTo(b, (i*7919)%1000), messageTo(b, next)
				next++
			}
			for i := range known {
				t.known.time(func() { cycle(b, manager, known[i], response) })
				t.fresh.time(func() { cycle(b, manager, fresh[i], response) })
			}
		}
		for round := range 3 {
			sample(quiet, 100_000)
			brief := response
			brief.ResetAfter = time.Second // removed at once, so that the end is announced
			cycle(b, manager, messageTo(b, next), brief)
			next++
			collecting.Store(true)
			if round == 2 {
				clock.Advance(2 * time.Hour)
			} else {
				clock.Advance(buckets.DefaultPollPeriod)
			}
			for collecting.Load() {
				sample(during, 100)
			}
		}
		quiet.report(b, "quiet")
		during.report(b, "collecting")
		require.NoError(b, manager.Close())
	}
}

// tail is how long requests took.
type tail struct{ known, fresh histogram }

type histogram struct{ *hdrhistogram.Histogram }

func newTail() *tail {
	make := func() histogram { return histogram{hdrhistogram.New(1, int64(10*time.Second), 3)} }
	return &tail{make(), make()}
}

func (h histogram) time(do func()) {
	start := time.Now()
	do()
	_ = h.RecordValue(int64(time.Since(start))) // nothing takes that long
}

func (t *tail) report(b *testing.B, name string) {
	for kind, h := range map[string]histogram{"known": t.known, "fresh": t.fresh} {
		for _, percent := range []float64{99.9, 99.99} {
			b.ReportMetric(float64(h.ValueAtQuantile(percent))/1000, fmt.Sprintf("µs/%s-%s-p%v", kind, name, percent))
		}
		b.ReportMetric(float64(h.Max())/1000, fmt.Sprintf("µs/%s-%s-max", kind, name))
	}
}
