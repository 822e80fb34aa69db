package httpclient_test

import (
	"log/slog"
	"testing"

	"go.uber.org/goleak"

	"github.com/ratelight/ratelight/internal/librarytest"
)

func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.DiscardHandler)) // the tests cause warnings on purpose
	goleak.VerifyTestMain(m)
}

// TestProgramOfTheREADMECompiles compiles the program in the README that uses no Discord library. The other program,
// which uses a library, is compiled in the module for that library.
func TestProgramOfTheREADMECompiles(t *testing.T) {
	librarytest.CompileREADME(t, "../README.md", "github.com/ratelight/ratelight/buckets")
}
