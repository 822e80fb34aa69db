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
	"github.com/ratelight/ratelight/internal/redistest"
)

func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.DiscardHandler)) // what the tests provoke is not worth a warning
	_ = flag.Set("test.parallel", "16")            // almost all of the time they only wait
	goleak.VerifyTestMain(m)
}

func TestManagersOnARealServerConform(t *testing.T) {
	if os.Getenv("RATELIGHT_REAL_TIME") == "" {
		t.Skip("it takes what happens within 30 ms for what happens at once, so it needs a machine with nothing else to do: RATELIGHT_REAL_TIME=1")
	}
	t.Parallel()
	engine := redistest.NewEngine(t)
	var applications atomic.Int32
	var opening sync.Mutex // so that the first cases do not all wait for each other
	limitertest.Strict(t, func(t *testing.T) httpclient.Limiter {
		opening.Lock()
		defer opening.Unlock()
		store, err := redis.Open(t.Context(), engine.URL(), redis.WithApplication(fmt.Sprint("bot-", applications.Add(1))))
		require.NoError(t, err)
		t.Cleanup(store.Close)
		time.Sleep(50 * time.Millisecond)
		m := buckets.NewRESTBucketManager(buckets.WithShared(store))
		require.NoError(t, m.Start())
		t.Cleanup(func() { m.Close() })
		return m
	},
		limitertest.WithMaxWait(buckets.DefaultMaxRateLimit), limitertest.WithRealTime(),
		limitertest.WithPause(30*time.Millisecond), limitertest.WithTolerance(400*time.Millisecond)) // the machine has something else to do, too
}
