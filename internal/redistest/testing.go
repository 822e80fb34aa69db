package redistest

import (
	"context"
	"errors"
	"os"
	"testing"
)

// NewEngine starts a server for a test, with additional arguments: see Options.Arguments. The server is killed when the
// test ends. If no server is installed, the test is skipped, or fails if RequireVariable is 1.
func NewEngine(t testing.TB, arguments ...string) *Engine {
	t.Helper()
	return NewEngineWith(t, Options{Arguments: arguments})
}

// NewEngineWith is like NewEngine, but takes all options.
func NewEngineWith(t testing.TB, options Options) *Engine {
	t.Helper()
	if options.Directory == "" {
		options.Directory = t.TempDir()
	}
	e, err := Start(context.Background(), options)
	if errors.Is(err, ErrNotInstalled) && os.Getenv(RequireVariable) != "1" {
		t.Skipf("needs a real engine: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	return e
}
