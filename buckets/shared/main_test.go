package shared_test

import (
	"log/slog"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.DiscardHandler)) // what the tests provoke is not worth a warning
	goleak.VerifyTestMain(m)
}

// long skips a test that takes long with the race detector, if -short is set.
func long(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("takes long")
	}
}
