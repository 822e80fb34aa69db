package proxy_test

import (
	"log/slog"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.DiscardHandler)) // what the tests provoke is not worth a warning
	goleak.VerifyTestMain(m)
}
