package conformance_test

import (
	"flag"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/buckets/shared/redis"
	"github.com/ratelight/ratelight/httpclient"
	"github.com/ratelight/ratelight/httpclient/limitertest"
	"github.com/ratelight/ratelight/internal/conformance"
	"github.com/ratelight/ratelight/internal/redistest"
)

func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.DiscardHandler)) // discard the warnings that tests cause
	_ = flag.Set("test.parallel", "16")            // the tests mostly wait
	goleak.VerifyTestMain(m)
}

// conform runs a suite with managers that share limits on one server. Each case has its own keys.
func conform(
	t *testing.T, suite func(*testing.T, func(*testing.T) httpclient.Limiter, ...limitertest.Option),
	managers int, manager []buckets.Option, options ...limitertest.Option,
) {
	t.Parallel()
	engine := redistest.NewEngine(t)
	var applications atomic.Int32
	var opening sync.Mutex // lets only one case connect at a time
	suite(t, func(t *testing.T) httpclient.Limiter {
		opening.Lock()
		defer opening.Unlock()
		application := redis.WithApplication(fmt.Sprint("bot-", applications.Add(1)))
		var all []*buckets.RESTBucketManager
		for range managers {
			store, err := redis.Open(t.Context(), engine.URL(), application)
			require.NoError(t, err)
			t.Cleanup(store.Close)
			m := buckets.NewRESTBucketManager(append(manager, buckets.WithShared(store))...)
			require.NoError(t, m.Start())
			t.Cleanup(func() { m.Close() })
			all = append(all, m)
		}
		if managers == 1 {
			return all[0]
		}
		return conformance.NewSeveral(all...)
	}, append(options, limitertest.WithRealTime())...)
}

// precise skips a test that expects events to happen within 30 ms, unless the machine has nothing else to do.
func precise(t *testing.T) {
	t.Helper()
	if os.Getenv("RATELIGHT_REAL_TIME") == "" {
		t.Skip("needs a machine with nothing else to do; set RATELIGHT_REAL_TIME=1 to run it")
	}
}

func TestManagersOnARealServerConform(t *testing.T) {
	precise(t)
	conform(t, limitertest.Strict, 1, nil, limitertest.WithMaxWait(buckets.DefaultMaxRateLimit),
		limitertest.WithPause(30*time.Millisecond), limitertest.WithTolerance(400*time.Millisecond)) // a busy machine
}

// These cases do not need precise timing, so they run on every machine.
func TestManagersOnARealServerConformInWhatNeedsNoPreciseTime(t *testing.T) {
	for name, c := range map[string]struct {
		managers int
		options  []limitertest.Option
	}{"one": {1, nil}, "three": {3, []limitertest.Option{limitertest.Without(limitertest.OneMind)}}} {
		t.Run(name, func(t *testing.T) {
			conform(t, limitertest.Core, c.managers, []buckets.Option{buckets.WithGlobalLimit(0)}, append(c.options,
				limitertest.Only("arguments/", "lease/ending", "lease/Return", "cancel/refused bucket/all",
					"cancel/while in flight", "close/"), limitertest.WithGlobalLimit(0),
				limitertest.WithPause(100*time.Millisecond), limitertest.WithTolerance(5*time.Second))...)
		})
	}
}
