package main

import (
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/ratelight/ratelight/bench/internal/share"
)

func TestMain(m *testing.M) {
	if os.Getenv(share.ChildVariable) != "" {
		os.Exit(child())
	}
	// The client sleeps for up to a second after it was closed.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*call).DelayDo.func1"))
}
