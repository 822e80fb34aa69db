package limitertest_test

import (
	"log/slog"
	"testing"

	"go.uber.org/goleak"

	"github.com/ratelight/ratelight/httpclient"
	"github.com/ratelight/ratelight/httpclient/limitertest"
)

func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.DiscardHandler)) // the tests cause warnings on purpose
	goleak.VerifyTestMain(m)
}

func TestSequentialPassesCore(t *testing.T) {
	t.Parallel()
	limitertest.Core(t, func(*testing.T) httpclient.Limiter { return NewSequential() }, limitertest.WithGlobalLimit(0))
}
