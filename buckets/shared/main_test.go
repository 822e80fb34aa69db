package shared_test

import (
	"log/slog"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.DiscardHandler)) // discard the warnings that tests cause
	goleak.VerifyTestMain(m)
}

// long skips a long test if the flag -short is set, as it is for the race detector.
func long(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("takes long")
	}
}
